package server_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/engine"
	"github.com/pawl-work/pawl/internal/clock"
	"github.com/pawl-work/pawl/pawltest"
	"github.com/pawl-work/pawl/server"
)

// slow is a service whose calls wait until they are released.
type slow struct {
	pawl.Service
	entered chan struct{}
	leave   chan struct{}
}

func (s slow) Stats(context.Context) (pawl.Stats, error) {
	s.entered <- struct{}{}
	<-s.leave
	return pawl.Stats{}, nil
}

func (s slow) ListSweeps(context.Context, pawl.Page) (pawl.List[pawl.SweepStats], error) {
	return pawl.List[pawl.SweepStats]{}, nil
}

// running is a server under Serve: its address, a function that ends it, and its result.
func running(t *testing.T, svc pawl.Service, o server.ServeOptions) (base string, stop func(), ended chan error) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(cancel)
	at := make(chan net.Addr, 1)
	o.Listening = func(a net.Addr) { at <- a }
	o.Log = slog.New(slog.DiscardHandler)
	ended = make(chan error, 1)
	h := server.New(svc, server.Options{Stopping: ctx, Log: o.Log})
	go func() { ended <- server.Serve(ctx, "127.0.0.1:0", h, o) }()
	select {
	case a := <-at:
		return "http://" + a.String(), cancel, ended
	case err := <-ended:
		t.Fatal(err)
		return "", nil, nil
	}
}

func get(t *testing.T, url string) (int, string) {
	t.Helper()
	res, err := http.Get(url)
	if err != nil {
		t.Errorf("GET %s: %v", url, err)
		return 0, ""
	}
	defer res.Body.Close()
	b, _ := io.ReadAll(res.Body)
	return res.StatusCode, string(b)
}

func TestRequestsUnderWayFinish(t *testing.T) {
	svc := slow{entered: make(chan struct{}), leave: make(chan struct{})}
	base, stop, ended := running(t, svc, server.ServeOptions{})
	if status, text := get(t, base+"/readyz"); status != 200 {
		t.Fatalf("readyz: %d %s", status, text)
	}
	done := make(chan int)
	go func() {
		status, _ := get(t, base+"/v1/stats")
		done <- status
	}()
	<-svc.entered
	stop()
	select {
	case err := <-ended:
		t.Fatalf("ended with a request under way: %v", err)
	case <-time.After(50 * time.Millisecond): // in this time it would end
	}
	svc.leave <- struct{}{}
	if status := <-done; status != 200 {
		t.Errorf("the request under way got %d", status)
	}
	if err := <-ended; err != nil {
		t.Errorf("the end: %v", err)
	}
}

func TestRequestsThatDoNotFinishAreCut(t *testing.T) {
	svc := slow{entered: make(chan struct{}), leave: make(chan struct{})}
	base, stop, ended := running(t, svc, server.ServeOptions{Grace: 50 * time.Millisecond})
	go func() {
		res, err := http.Get(base + "/v1/stats")
		if err == nil {
			res.Body.Close()
		}
	}()
	<-svc.entered
	stop()
	if err := <-ended; !errors.Is(err, pawl.ErrUnavailable) {
		t.Errorf("the end: %v", err)
	}
	close(svc.leave)
}

func TestNotReadyWhileStopping(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	srv := serve(t, slow{}, server.Options{Stopping: ctx})
	if r := ask(t, srv, "GET", "/readyz", ""); r.StatusCode != 200 || r.str("status") != "ready" {
		t.Errorf("before: %s %s", r.Status, r.text)
	}
	stop()
	if r := ask(t, srv, "GET", "/readyz", ""); r.StatusCode != 503 || r.str("code") != "unavailable" {
		t.Errorf("while stopping: %s %s", r.Status, r.text)
	}
	if r := ask(t, srv, "GET", "/healthz", ""); r.StatusCode != 200 {
		t.Errorf("alive: %s", r.Status)
	}
}

// With Notice, readyz fails first while calls are still accepted. A claim that would wait is
// asked to come again later; it is not answered at once again and again.
func TestReadinessIsOffFirst(t *testing.T) {
	for notice := 300 * time.Millisecond; ; notice *= 4 { // a busy machine may be late for a short one
		base, stop, ended := running(t, &late{}, server.ServeOptions{Notice: notice})
		ask := func(method, path, body string) string {
			req, _ := http.NewRequest(method, base+path, strings.NewReader(body))
			req.Header.Set("Content-Type", "application/json")
			res, err := http.DefaultClient.Do(req)
			if err != nil {
				return err.Error()
			}
			_ = res.Body.Close()
			return res.Status + " " + res.Header.Get("Retry-After")
		}
		end := clock.Now().Add(notice)
		stop()
		ready := ""
		for !strings.HasPrefix(ready, "503 ") && clock.Now().Before(end) {
			ready = ask("GET", "/readyz", "")
		}
		alive := ask("GET", "/healthz", "")
		claim := ask("POST", "/v1/claims", `{"worker_id":"w1","wait_seconds":30}`)
		inTime := clock.Now().Before(end)
		if err := <-ended; err != nil {
			t.Errorf("the end: %v", err)
		}
		if _, err := net.Dial("tcp", strings.TrimPrefix(base, "http://")); err == nil {
			t.Error("it listens after its end")
		}
		if !inTime && notice < time.Minute {
			continue
		}
		if !strings.HasPrefix(ready, "503 ") || alive != "200 OK " || !regexp.MustCompile(`^503 .* \d+$`).MatchString(claim) {
			t.Errorf("within the notice: readyz says %s, healthz %s, and a claim that waits %s", ready, alive, claim)
		}
		return
	}
}

func TestNotReadyWithoutDatabase(t *testing.T) {
	srv := serve(t, unreachable{}, server.Options{Ready: func(context.Context) error {
		return &pawl.Error{Code: pawl.CodeUnavailable, RetryAfter: 1500 * time.Millisecond}
	}})
	r := ask(t, srv, "GET", "/readyz", "")
	if r.StatusCode != 503 || r.Header.Get("Retry-After") != "2" {
		t.Errorf("%s, Retry-After %q: %s", r.Status, r.Header.Get("Retry-After"), r.text)
	}
}

// A waiting claim is answered when there is work, when its time is over, and when the server
// stops.
func TestClaimsThatWait(t *testing.T) {
	p := pawltest.OpenReal(t, pawltest.SQLite, engine.Options{})
	svc := &waited{p.Service, make(chan bool, 3)}
	base, stop, ended := running(t, svc, server.ServeOptions{})
	claim := func(wait int) (int, time.Duration, string) {
		began := clock.Now()
		res, err := http.Post(base+"/v1/claims", "application/json",
			strings.NewReader(fmt.Sprintf(`{"worker_id":"w1","types":["a"],"wait_seconds":%d}`, wait)))
		if err != nil {
			t.Errorf("claim: %v", err)
			return 0, 0, ""
		}
		defer res.Body.Close()
		b, _ := io.ReadAll(res.Body)
		return res.StatusCode, clock.Now().Sub(began), string(b)
	}
	if status, took, text := claim(1); status != 200 || took < time.Second || took > time.Minute || text != "{\"items\":[]}\n" {
		t.Errorf("nothing to claim: %d after %s: %s", status, took, text)
	}
	<-svc.begun
	go func() {
		<-svc.begun
		if _, err := pawl.Create(context.Background(), p.Service, pawl.NewTask{Type: "a"}); err != nil {
			t.Error(err)
		}
	}()
	if status, took, text := claim(60); status != 200 || took > 50*time.Second || !strings.Contains(text, `"attempt":1`) {
		t.Errorf("work arrives: %d after %s: %s", status, took, text)
	}
	go func() {
		<-svc.begun
		stop()
	}()
	if status, took, text := claim(60); status != 200 || took > 50*time.Second || text != "{\"items\":[]}\n" {
		t.Errorf("the server ends: %d after %s: %s", status, took, text)
	}
	if err := <-ended; err != nil {
		t.Errorf("the end: %v", err)
	}
}

// waited reports claims that wait.
type waited struct {
	pawl.Service
	begun chan bool
}

func (w *waited) Claim(ctx context.Context, req pawl.ClaimRequest) ([]pawl.Lease, error) {
	if req.WaitSeconds > 0 {
		w.begun <- true
	}
	return w.Service.Claim(ctx, req)
}

// late answers a claim only after its caller has gone, and reports what is released.
type late struct {
	pawl.Service
	claims   atomic.Int32
	waits    func() // called at the second claim
	released chan []pawl.ReleaseCall
}

func (l *late) Claim(ctx context.Context, _ pawl.ClaimRequest) ([]pawl.Lease, error) {
	if l.claims.Add(1) == 1 {
		return nil, nil
	}
	l.waits()
	<-ctx.Done()
	return []pawl.Lease{{ID: "itm_1", WorkerID: "w1", Attempt: 3}}, nil
}

func (l *late) Release(_ context.Context, calls []pawl.ReleaseCall) ([]pawl.Result[pawl.Moved], error) {
	l.released <- calls
	return make([]pawl.Result[pawl.Moved], len(calls)), nil
}

func TestClaimsOfACallerWhoHasGoneAreGivenBack(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	svc := &late{waits: cancel, released: make(chan []pawl.ReleaseCall, 1)}
	srv := serve(t, svc, server.Options{})
	req, _ := http.NewRequestWithContext(ctx, "POST", srv.URL+"/v1/claims", strings.NewReader(`{"worker_id":"w1","wait_seconds":30}`))
	if res, err := http.DefaultClient.Do(req); err == nil {
		res.Body.Close()
		t.Fatal("the caller has not gone")
	}
	calls := <-svc.released
	if want := (pawl.Fence{ItemID: "itm_1", WorkerID: "w1", Attempt: 3}); len(calls) != 1 || calls[0].Fence != want {
		t.Errorf("released %v", calls)
	}
}

func TestOnlyLoopbackIsServed(t *testing.T) {
	for _, addr := range []string{"0.0.0.0:0", ":0", "[::]:0", "10.1.2.3:0", "example.com:80", "7033", "localhost", "", "unix:",
		"unix:@abstract", "unix:/tmp/" + strings.Repeat("x", 200)} {
		err := server.Serve(t.Context(), addr, http.NotFoundHandler(), server.ServeOptions{})
		if !errors.Is(err, pawl.ErrInvalid) {
			t.Errorf("%q: %v", addr, err)
		}
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	err = server.Serve(t.Context(), ln.Addr().String(), http.NotFoundHandler(), server.ServeOptions{})
	if !errors.Is(err, pawl.ErrUnavailable) {
		t.Errorf("an address that is taken: %v", err)
	}
}

// Serve warns if keys and payloads travel unencrypted.
func TestServingInPublicWithoutTLSIsWarnedOf(t *testing.T) {
	for addr, want := range map[string]bool{"0.0.0.0:0": true, "127.0.0.1:0": false} {
		ctx, stop := context.WithCancel(t.Context())
		var log strings.Builder
		err := server.Serve(ctx, addr, http.NotFoundHandler(),
			server.ServeOptions{Guarded: true, Log: slog.New(slog.NewTextHandler(&log, nil)), Listening: func(net.Addr) { stop() }})
		if err != nil || strings.Contains(log.String(), "serving without TLS") != want {
			t.Errorf("%s: %v, the log is %q", addr, err, log.String())
		}
	}
}
