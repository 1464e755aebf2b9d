package server

import (
	"crypto/tls"
	"os"
	"sync"
	"time"

	"github.com/pawl-work/pawl"
)

// certificates returns the TLS settings for a certificate and key in files; nil without files.
// Files without a valid pair are refused at the start. Later they are ignored, and the pair
// that was read last stays in use.
func certificates(certFile, keyFile string) (*tls.Config, error) {
	if certFile == "" && keyFile == "" {
		return nil, nil
	}
	p := &pair{certFile: certFile, keyFile: keyFile}
	if err := p.read(); err != nil {
		return nil, &pawl.Error{Code: pawl.CodeInvalid, Op: "serve",
			Message: "TLS needs a certificate and its key, both in PEM: " + err.Error(), Err: err}
	}
	return &tls.Config{MinVersion: tls.VersionTLS12, GetCertificate: p.current}, nil
}

// pair is a certificate as its files were last read.
type pair struct {
	certFile, keyFile string

	mu   sync.Mutex
	cert tls.Certificate
	at   [2]time.Time // when the files were last written
}

func (p *pair) stamps() (at [2]time.Time, err error) {
	for i, name := range []string{p.certFile, p.keyFile} {
		info, err := os.Stat(name)
		if err != nil {
			return at, err
		}
		at[i] = info.ModTime()
	}
	return at, nil
}

func (p *pair) read() error {
	at, err := p.stamps()
	if err != nil {
		return err
	}
	cert, err := tls.LoadX509KeyPair(p.certFile, p.keyFile)
	if err == nil {
		p.cert, p.at = cert, at
	}
	return err
}

// current checks for changed files at each handshake. One file may be replaced before the
// other: then the old pair stays in use until both fit.
func (p *pair) current(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if at, err := p.stamps(); err == nil && at != p.at {
		_ = p.read()
	}
	cert := p.cert
	return &cert, nil
}
