package server_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/internal/clock"
	"github.com/pawl-work/pawl/server"
)

// certify writes a certificate for 127.0.0.1 of this number, and its key.
func certify(t *testing.T, certFile, keyFile string, number int64) *x509.CertPool {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	now := clock.Now()
	c := &x509.Certificate{SerialNumber: big.NewInt(number), Subject: pkix.Name{CommonName: "pawl"}, NotBefore: now.Add(-time.Hour),
		NotAfter:    now.Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true}
	der, err := x509.CreateCertificate(rand.Reader, c, c, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	keyDER, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	certPEM := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	for name, b := range map[string][]byte{certFile: certPEM, keyFile: pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: keyDER})} {
		if err := os.WriteFile(name, b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(certPEM)
	return pool
}

// With certificate files the server uses TLS, and reads new files without a restart.
func TestTLS(t *testing.T) {
	dir := t.TempDir()
	certFile, keyFile := filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	pool := certify(t, certFile, keyFile, 1)
	base, stop, ended := running(t, unreachable{}, server.ServeOptions{CertFile: certFile, KeyFile: keyFile})
	base = strings.Replace(base, "http://", "https://", 1)
	serial := func() string {
		t.Helper()
		c := http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}, ForceAttemptHTTP2: true}}
		defer c.CloseIdleConnections()
		res, err := c.Get(base + "/healthz")
		if err != nil {
			t.Fatal(err)
		}
		_ = res.Body.Close()
		if res.StatusCode != 200 || res.TLS.Version < tls.VersionTLS12 {
			t.Errorf("%s, TLS %x", res.Status, res.TLS.Version)
		}
		return res.TLS.PeerCertificates[0].SerialNumber.String()
	}
	if n := serial(); n != "1" {
		t.Errorf("certificate %s", n)
	}
	if err := os.WriteFile(certFile, []byte("half"), 0o600); err != nil {
		t.Fatal(err)
	}
	if n := serial(); n != "1" {
		t.Errorf("while the files do not fit: certificate %s", n)
	}
	pool = certify(t, certFile, keyFile, 2)
	if err := os.Chtimes(certFile, time.Time{}, clock.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	if n := serial(); n != "2" {
		t.Errorf("after new files: certificate %s", n)
	}
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

func TestTLSWithoutCertificate(t *testing.T) {
	for _, o := range []server.ServeOptions{{CertFile: "nope.pem", KeyFile: "nope.pem"}, {CertFile: "tls.go", KeyFile: "tls.go"},
		{KeyFile: "tls.go"}} {
		if err := server.Serve(t.Context(), "127.0.0.1:0", http.NotFoundHandler(), o); !errors.Is(err, pawl.ErrInvalid) {
			t.Errorf("%+v: %v", o, err)
		}
	}
}
