package gate_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pawl-work/pawl/internal/gate"
	"github.com/pawl-work/pawl/pawltest"
)

// deadlined is a writer of a server whose deadline for an answer is set when the request comes.
type deadlined struct {
	*httptest.ResponseRecorder
	mu  sync.Mutex
	cut bool // the deadline would pass while nothing is written
	bad int  // writes without a deadline
}

func (d *deadlined) SetWriteDeadline(at time.Time) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.cut = !at.IsZero()
	return nil
}

func (d *deadlined) Write(b []byte) (int, error) {
	if !d.cuts() {
		d.bad++
	}
	return d.ResponseRecorder.Write(b)
}

func (d *deadlined) cuts() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.cut
}

// The server's deadline for an answer, which is shorter than an upstream may take, cuts no effect, read or stream. Each
// write has one of its own.
func TestTheServersDeadlineCutsNoAnswer(t *testing.T) {
	p := pawltest.Open(t, pawltest.SQLite)
	w, more := &deadlined{}, make(chan struct{}, 1)
	stub := httptest.NewServer(http.HandlerFunc(func(out http.ResponseWriter, r *http.Request) {
		if w.cuts() {
			t.Errorf("%s: the deadline passes while the upstream works", r.URL.Path)
		}
		if strings.HasPrefix(r.URL.Path, "/stream") {
			out.Header().Set("Content-Type", "text/event-stream")
			_, _ = io.WriteString(out, "data: 1\n\n")
			_ = http.NewResponseController(out).Flush()
			<-more // the first piece has been passed on
			if w.cuts() {
				t.Errorf("%s: the deadline passes while the stream waits", r.URL.Path)
			}
		}
		_, _ = io.WriteString(out, "data: 2\n\n")
	}))
	t.Cleanup(stub.Close)
	pay := map[string]gate.Upstream{"pay": {URL: stub.URL, KeyHeader: "Idempotency-Key"}}
	g, err := gate.New(gate.Options{Ledger: p.Engine, Upstreams: pay})
	if err != nil {
		t.Fatal(err)
	}
	l := (&door{t, p, nil, ""}).lease("w1")
	for _, call := range []string{"POST /charge", "GET /charge", "POST /stream", "GET /stream"} {
		method, path, _ := strings.Cut(call, " ")
		r := httptest.NewRequestWithContext(t.Context(), method, "/gate/pay"+path, strings.NewReader("{}"))
		r.Header.Set("Authorization", "Bearer "+l.Token)
		w.ResponseRecorder, w.cut = httptest.NewRecorder(), true
		g.ServeHTTP(flushes{w, more}, r)
		if w.Code != http.StatusOK || !strings.HasSuffix(w.Body.String(), "data: 2\n\n") || w.bad > 0 {
			t.Errorf("%s: %d %s, %d writes without a deadline", call, w.Code, w.Body, w.bad)
		}
	}
}

// flushes says when the first piece of a stream has been sent.
type flushes struct {
	*deadlined
	sent chan<- struct{}
}

// FlushError implements the interface of http.ResponseController.
func (f flushes) FlushError() error {
	if f.Body.String() == "data: 1\n\n" {
		defer func() { f.sent <- struct{}{} }()
	}
	f.Flush()
	return nil
}
