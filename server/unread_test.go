package server_test

import (
	"bufio"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/access"
	"github.com/pawl-work/pawl/inbound"
	"github.com/pawl-work/pawl/internal/clock"
	"github.com/pawl-work/pawl/pawltest"
	"github.com/pawl-work/pawl/server"
)

// begin sends the header of a request and the first bytes of its body.
func begin(t *testing.T, srv *httptest.Server, head string, length, sent int) net.Conn {
	t.Helper()
	conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", strings.TrimPrefix(srv.URL, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	if length >= 0 {
		head += fmt.Sprintf("\r\nContent-Length: %d", length)
	} else {
		head += "\r\nTransfer-Encoding: chunked"
	}
	head += "\r\nHost: localhost\r\nContent-Type: application/json\r\n\r\n"
	body := `{"type":"a","payload":"` + strings.Repeat("x", max(0, sent))
	if length < 0 {
		body = fmt.Sprintf("%x\r\n%s", sent, body)
	}
	if _, err := io.WriteString(conn, head+body[:sent]); err != nil {
		t.Fatal(err)
	}
	return conn
}

// statusOf reads the status of the answer; 0 if none comes.
func statusOf(conn net.Conn) int {
	_ = conn.SetReadDeadline(clock.Now().Add(10 * time.Second))
	res, err := http.ReadResponse(bufio.NewReader(conn), nil) //nolint:bodyclose // closing it would wait for the connection to end
	if err != nil {
		return 0
	}
	if _, err := io.ReadAll(res.Body); err != nil {
		return 0
	}
	return res.StatusCode
}

// stalling is a server with keys, two webhooks and a body time that no test waits for.
func stalling(t *testing.T, p *pawltest.Pawl, bytes int64) *testServer {
	t.Helper()
	hook, err := inbound.New(inbound.Options{Form: "github", Secrets: []string{hookSecret}, Task: &inbound.Task{Type: "push"}})
	if err != nil {
		t.Fatal(err)
	}
	gate := access.New(access.Options{Keys: p.Engine, Required: true, Log: slog.New(slog.DiscardHandler)})
	return &testServer{t, p, serve(t, p.Service, server.Options{Gate: gate, BodyTime: time.Hour,
		Inbound: map[string]*inbound.Source{"code": hook}, Limits: server.Limits{BodiesInFlight: bytes},
		At: map[string]http.Handler{"/door": http.NotFoundHandler()}})}
}

// A call that is refused for what its header says is answered before its body arrives.
func TestCallsAreRefusedBeforeTheirBodyIsRead(t *testing.T) {
	h := stalling(t, pawltest.Open(t, pawltest.SQLite), 1<<20)
	_, reader := h.key(pawl.NewAPIKey{Roles: []string{"reader"}})
	_, all := h.key(pawl.NewAPIKey{Roles: pawl.KeyRoles})
	for _, c := range []struct {
		head   string
		key    string
		status int
	}{
		{"POST /v1/tasks HTTP/1.1", "", 401},
		{"POST /v1/blobs HTTP/1.1", "", 401},
		{"POST /door HTTP/1.1", "", 401},
		{"POST /v1/tasks HTTP/1.1", "Bearer no", 401},
		{"POST /v1/tasks HTTP/1.1", reader, 403},
		{"POST /v1/blobs HTTP/1.1", reader, 403},
		{"POST /v1/sweeps HTTP/1.1", reader, 403},
		{"POST /v1/nothing HTTP/1.1", all, 404},
		{"POST /nothing HTTP/1.1", "", 401},
		{"POST /v1/inbound/other HTTP/1.1", "", 404},
		{"POST /v1/inbound/other/more HTTP/1.1", "", 404},
		{"POST /v1/inbound/code HTTP/1.1", "", 401},
		{"PUT /v1/inbound/code HTTP/1.1", "", 405},
		{"POST /healthz HTTP/1.1", "", 405},
		{"PUT /readyz HTTP/1.1", "", 405},
		{"GET /healthz HTTP/1.1", "", 400},
		{"GET /v1/tasks HTTP/1.1", all, 400},
		{"DELETE /v1/tasks/x HTTP/1.1", all, 400},
		{"PUT /v1/tasks HTTP/1.1", all, 405},
		{"GET /v1/items:complete HTTP/1.1", all, 405},
		{"POST /v1/items/x:nothing HTTP/1.1", all, 405},
		{"POST /v1/tasks HTTP/1.1\r\nContent-Encoding: gzip", all, 415},
		{"POST /v1/blobs HTTP/1.1\r\nContent-Encoding: gzip", all, 415},
		{"POST /v1/tasks HTTP/1.1\r\nOrigin: http://elsewhere", all, 403},
	} {
		if c.key != "" {
			c.head += "\r\nAuthorization: " + c.key
		}
		for _, length := range []int{900 << 10, 8000, -1} {
			if got := statusOf(begin(t, h.srv, c.head, length, 100)); got != c.status {
				t.Errorf("%q with %d bytes: %d, not %d", c.head, length, got, c.status)
			}
		}
	}
}

// Bodies that are announced and do not come, or come in part, stop no other caller: neither
// those of another key, nor those of senders without one.
func TestStalledBodiesStopNoOtherCaller(t *testing.T) {
	t.Parallel()
	const mib = 1 << 20
	h := stalling(t, pawltest.Open(t, pawltest.SQLite), 32*mib)
	_, theirs := h.key(pawl.NewAPIKey{Roles: []string{"submitter"}})
	_, ours := h.key(pawl.NewAPIKey{Roles: []string{"submitter"}})
	signed := "POST /v1/inbound/code HTTP/1.1\r\nX-Hub-Signature-256: sha256=00"
	for _, c := range []struct {
		what, head string
		sent       int
	}{
		{"100 bytes of a webhook", signed, 100},
		{"most of a webhook", signed, 7 * mib},
		{"100 bytes", "POST /v1/tasks HTTP/1.1\r\nAuthorization: " + theirs, 100},
		{"half", "POST /v1/tasks HTTP/1.1\r\nAuthorization: " + theirs, 4 * mib},
		{"100 bytes of an upload", "POST /v1/blobs HTTP/1.1\r\nAuthorization: " + theirs, 100},
		{"half an upload", "POST /v1/blobs HTTP/1.1\r\nAuthorization: " + theirs, 4 * mib},
	} {
		for range 8 {
			conn := begin(t, h.srv, c.head, 8*mib-100, 100)
			go func() { _, _ = io.WriteString(conn, strings.Repeat("x", c.sent-100)) }() // until the connection is closed
		}
		body := `{"type":"a","payload":"` + strings.Repeat("x", 900<<10) + `"}`
		if r := h.ask(ours, "POST", "/v1/tasks", body); r.StatusCode != http.StatusCreated {
			t.Errorf("beside %s: %s %.200s", c.what, r.Status, r.text)
		}
		if r := h.ask(ours, "POST", "/v1/blobs", body); r.StatusCode != http.StatusCreated && r.StatusCode != http.StatusOK {
			t.Errorf("an upload beside %s: %s %.200s", c.what, r.Status, r.text)
		}
	}
}

// A webhook is parsed only if its signature is right.
func TestWebhooksAreVerifiedBeforeTheyAreParsed(t *testing.T) {
	h := stalling(t, pawltest.Open(t, pawltest.SQLite), 8<<20)
	for _, body := range []string{"{", `{"a":1,"a":2}`, strings.Repeat("[", 500), "\xff"} {
		if r := push(t, h.srv, "1", "other", body); r.StatusCode != 401 {
			t.Errorf("%.20q: %s %s", body, r.Status, r.text)
		}
		if r := push(t, h.srv, "1", hookSecret, body); r.StatusCode != 400 {
			t.Errorf("%.20q, signed: %s %s", body, r.Status, r.text)
		}
	}
}
