package server

import (
	"crypto/tls"
	"os"
	"sync"
	"time"

	"github.com/pawl-work/pawl"
)

// certificates is how to speak TLS with a certificate and key of files; nil
// without them. Files that hold none are refused now, and later left out of
// account: what was read last goes on.
func certificates(certFile, keyFile string) (*tls.Config, error) {
	if certFile == "" && keyFile == "" {
		return nil, nil
	}
	p := &pair{certFile: certFile, keyFile: keyFile}
	if err := p.read(); err != nil {
		return nil, &pawl.Error{Code: pawl.CodeInvalid, Op: "serve", Message: "TLS needs a certificate and its key, both in PEM: " + err.Error(), Err: err}
	}
	return &tls.Config{MinVersion: tls.VersionTLS12, GetCertificate: p.current}, nil
}

// pair is a certificate as its files were last read.
type pair struct {
	certFile, keyFile string

	mu   sync.Mutex
	cert tls.Certificate
	at   [2]time.Time // when the files were written
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

// current looks for newer files at each handshake. One file may be there before
// the other: then the old pair serves on until both fit.
func (p *pair) current(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if at, err := p.stamps(); err == nil && at != p.at {
		_ = p.read()
	}
	cert := p.cert
	return &cert, nil
}
