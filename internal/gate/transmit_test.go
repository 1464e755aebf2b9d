package gate

import (
	"crypto/x509"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// A service that prefers HTTP/2 gets effects over HTTP/1.1, on a connection that is kept.
func TestEffectsAreSentToServicesWithHTTP2(t *testing.T) {
	from := map[string]bool{}
	service := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		from[r.RemoteAddr] = true
		_, _ = io.WriteString(w, r.Proto)
	}))
	service.EnableHTTP2 = true
	service.StartTLS()
	defer service.Close()
	roots := x509.NewCertPool()
	roots.AddCert(service.Certificate())
	c := client(keepShortly)
	transport := c.Transport.(*http.Transport)
	transport.TLSClientConfig.RootCAs = roots
	for range 2 {
		res, err := c.Post(service.URL, "application/json", strings.NewReader(`{}`))
		if err != nil {
			t.Fatal(err)
		}
		proto, err := io.ReadAll(res.Body)
		_ = res.Body.Close()
		if err != nil || string(proto) != "HTTP/1.1" {
			t.Errorf("%q, %v", proto, err)
		}
	}
	if len(from) != 1 {
		t.Errorf("%d connections", len(from))
	}
}
