package push

import (
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/pawltest"
	"github.com/pawl-work/pawl/server"
)

func TestMain(m *testing.M) { pawltest.Main(m) }

const (
	secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
	typ    = "report.render"
)

var quiet = slog.New(slog.NewTextHandler(io.Discard, nil))

// called is a pusher whose target is a handler.
func called(t *testing.T, p *pawltest.Pawl, h http.HandlerFunc) *Pusher {
	t.Helper()
	srv := httptest.NewServer(h)
	t.Cleanup(srv.Close)
	out, err := New(Options{Service: p.Service, Log: quiet,
		Targets: map[string]Target{typ: {URL: srv.URL, Secrets: []string{secret}, AllowPrivate: true, TimeoutSeconds: 1}}})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func once(t *testing.T, p *Pusher) int64 {
	t.Helper()
	n, _, err := p.Once(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func itemOf(t *testing.T, p *pawltest.Pawl, task string) pawl.Item {
	t.Helper()
	l, err := p.Service.ListItems(t.Context(), pawl.ItemFilter{TaskID: task})
	if err != nil || len(l.Items) != 1 {
		t.Fatalf("%v, %v", l, err)
	}
	return l.Items[0]
}

func make1(t *testing.T, p *pawltest.Pawl) string {
	t.Helper()
	task, err := pawl.Create(t.Context(), p.Service, pawl.NewTask{Type: typ, Payload: json.RawMessage(`{"page":7}`)})
	if err != nil {
		t.Fatal(err)
	}
	return task.ID
}

func TestWhatAnAnswerDoes(t *testing.T) {
	for name, c := range map[string]struct {
		status int
		header string // Retry-After
		body   string
		slow   bool
		state  pawl.ItemState
		result string
		code   string
	}{
		"a result":              {status: 200, body: `{"a":1}`, state: pawl.ItemCompleted, result: `{"a":1}`},
		"an empty result":       {status: 200, state: pawl.ItemCompleted, result: "null"},
		"no content":            {status: 204, state: pawl.ItemCompleted, result: "null"},
		"no JSON":               {status: 200, body: "done", state: pawl.ItemFailed, code: "invalid_result"},
		"it reports itself":     {status: 202, state: pawl.ItemInProgress},
		"refused":               {status: 422, body: "no such page", state: pawl.ItemFailed, code: "http_422"},
		"redirected":            {status: 302, state: pawl.ItemFailed, code: "http_302"},
		"not found":             {status: 404, state: pawl.ItemFailed, code: "http_404"},
		"refused, and U+0000":   {status: 404, body: "a\x00b", state: pawl.ItemFailed, code: "http_404"},
		"a time-out of its own": {status: 408, state: pawl.ItemScheduled, code: "http_408"},
		"too early":             {status: 425, state: pawl.ItemScheduled, code: "http_425"},
		"too many":              {status: 429, header: "90", state: pawl.ItemScheduled, code: "http_429"},
		"broken":                {status: 500, state: pawl.ItemScheduled, code: "http_500"},
		"unavailable":           {status: 503, header: "90", state: pawl.ItemScheduled, code: "http_503"},
		"it does not answer":    {slow: true, state: pawl.ItemScheduled, code: "timeout"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pawltest.Each(t, func(t *testing.T, p *pawltest.Pawl) {
				task := make1(t, p)
				pusher := called(t, p, func(w http.ResponseWriter, r *http.Request) {
					if _, _ = io.Copy(io.Discard, r.Body); c.slow {
						<-r.Context().Done()
						return
					}
					if c.header != "" {
						w.Header().Set("Retry-After", c.header)
					}
					w.WriteHeader(c.status)
					_, _ = io.WriteString(w, c.body)
				})
				if n := once(t, pusher); n != 1 {
					t.Fatalf("%d calls", n)
				}
				it := itemOf(t, p, task)
				if it.State != c.state || c.result != "" && string(it.Result) != c.result {
					t.Errorf("%s %s", it.State, it.Result)
				}
				if c.code != "" && (it.Error == nil || it.Error.Code != c.code) {
					t.Errorf("the error: %+v", it.Error)
				}
				if c.header != "" && (it.RunAt == nil || it.RunAt.Sub(p.Now()) != 90*time.Second) {
					t.Errorf("it runs again at %v, now %v", it.RunAt, p.Now())
				}
			})
		})
	}
}

// The call is signed, has the claimed item as its body, and the token of its lease.
func TestACallIsSignedAndHasTheToken(t *testing.T) {
	p := pawltest.Open(t, pawltest.SQLite)
	make1(t, p)
	hook, err := standardwebhooks.NewWebhook(secret)
	if err != nil {
		t.Fatal(err)
	}
	pusher := called(t, p, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if err := hook.Verify(body, r.Header); err != nil {
			t.Errorf("the signature: %v", err)
		}
		var item pawl.Lease
		if err := json.Unmarshal(body, &item); err != nil || item.Type != typ || item.Attempt != 1 || string(item.Input) != `{"page":7}` {
			t.Errorf("the body: %s, %v", body, err)
		}
		token, err := p.Service.CheckToken(r.Context(), strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer "))
		if err != nil || token.ItemID != item.ID {
			t.Errorf("the token: %+v, %v", token, err)
		}
		w.WriteHeader(204)
	})
	once(t, pusher)
}

// A callee reports itself with the token, over HTTP and without a key. The token is good for this item
// alone, and until the attempt ends. That it answers with a result too, late, changes nothing.
func TestACalleeReportsItself(t *testing.T) {
	p := pawltest.Open(t, pawltest.SQLite)
	api := httptest.NewServer(server.New(p.Service, server.Options{Log: quiet}))
	defer api.Close()
	task, other := make1(t, p), make1(t, p)
	var others atomic.Int64
	ask := func(token, path string, body any) int {
		b, _ := json.Marshal(body)
		r, _ := http.NewRequest("POST", api.URL+path, strings.NewReader(string(b)))
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("Authorization", "Bearer "+token)
		res, err := api.Client().Do(r)
		if err != nil {
			t.Error(err)
			return 0
		}
		defer res.Body.Close()
		return res.StatusCode
	}
	pusher := called(t, p, func(w http.ResponseWriter, r *http.Request) {
		var item pawl.Lease
		_ = json.NewDecoder(r.Body).Decode(&item)
		if item.TaskID == other {
			others.Add(1)
			w.WriteHeader(202)
			return
		}
		token := strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")
		held := map[string]any{"worker_id": item.WorkerID, "attempt": item.Attempt}
		if got := ask(token, "/v1/items/"+item.ID+":heartbeat", held); got != 200 {
			t.Errorf("a heartbeat: %d", got)
		}
		if got := ask(token, "/v1/items/"+itemOf(t, p, other).ID+":heartbeat", held); got != 403 {
			t.Errorf("a heartbeat of another item: %d", got)
		}
		if got := ask(token[:len(token)-1]+"x", "/v1/items/"+item.ID+":heartbeat", held); got != 401 {
			t.Errorf("a heartbeat with a wrong token: %d", got)
		}
		if got := ask(token, "/v1/tasks", map[string]any{"type": "a"}); got != 401 {
			t.Errorf("a create: %d", got)
		}
		held["result"] = "mine"
		if got := ask(token, "/v1/items/"+item.ID+":complete", held); got != 200 {
			t.Errorf("a result: %d", got)
		}
		if got := ask(token, "/v1/items/"+item.ID+":fail", map[string]any{"worker_id": item.WorkerID, "attempt": item.Attempt,
			"error": map[string]any{"message": "no"}}); got != 409 {
			t.Errorf("after the attempt: %d", got)
		}
		_, _ = io.WriteString(w, `"again"`)
	})
	if n := once(t, pusher); n != 2 || others.Load() != 1 {
		t.Errorf("%d calls, %d", n, others.Load())
	}
	if it := itemOf(t, p, task); it.State != pawl.ItemCompleted || string(it.Result) != `"mine"` {
		t.Errorf("%s %s", it.State, it.Result)
	}
}

// While a secret is rotated, a callee that has the old one or the new one takes the calls.
func TestACallIsSignedWithEachSecret(t *testing.T) {
	p := pawltest.Open(t, pawltest.SQLite)
	make1(t, p)
	const newer = "whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYX"
	srv := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		for _, s := range []string{secret, newer} {
			hook, err := standardwebhooks.NewWebhook(s)
			if err == nil {
				err = hook.Verify(body, r.Header)
			}
			if err != nil {
				t.Errorf("the signature of %s: %v", s, err)
			}
		}
	}))
	t.Cleanup(srv.Close)
	pusher, err := New(Options{Service: p.Service, Log: quiet,
		Targets: map[string]Target{typ: {URL: srv.URL, Secrets: []string{newer, secret}, AllowPrivate: true}}})
	if err != nil {
		t.Fatal(err)
	}
	if n := once(t, pusher); n != 1 {
		t.Errorf("%d calls", n)
	}
}

func TestPrivateAddressesAreRefused(t *testing.T) {
	p := pawltest.Open(t, pawltest.SQLite)
	task := make1(t, p)
	private := Target{URL: "http://127.0.0.1:1", Secrets: []string{secret}}
	pusher, err := New(Options{Service: p.Service, Log: quiet, Targets: map[string]Target{typ: private}})
	if err != nil {
		t.Fatal(err)
	}
	once(t, pusher)
	if it := itemOf(t, p, task); it.Error == nil || it.Error.Code != "unreachable" || !strings.Contains(it.Error.Message, "allow_private") {
		t.Errorf("%+v", it.Error)
	}
	for name, bad := range map[string]Target{
		"no secret":  {URL: "http://a"},
		"no URL":     {Secrets: []string{secret}},
		"one is bad": {URL: "http://a", Secrets: []string{secret, "whsec_short"}},
		"too long":   {URL: "http://a", Secrets: []string{secret}, TimeoutSeconds: 9999},
	} {
		if _, err := New(Options{Service: p.Service, Targets: map[string]Target{typ: bad}}); pawl.CodeOf(err) != pawl.CodeInvalid {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A URL that does not answer is left alone after some calls: the items keep their attempts.
func TestASilentTargetIsLeftAlone(t *testing.T) {
	p := pawltest.Open(t, pawltest.SQLite)
	for range 20 {
		make1(t, p)
	}
	var calls atomic.Int64
	pusher := called(t, p, func(w http.ResponseWriter, r *http.Request) {
		calls.Add(1)
		w.WriteHeader(502)
	})
	once(t, pusher)
	first := calls.Load()
	n, again, err := pusher.Once(t.Context())
	if n != 0 || err != nil || !again.After(time.Now()) || calls.Load() != first {
		t.Errorf("%d calls more, again at %v, %v", n, again, err)
	}
}

// running runs a pusher until the test ends, or stop is called.
func running(t *testing.T, p *Pusher) (stop func()) {
	ctx, cancel := context.WithCancel(t.Context())
	var done sync.WaitGroup
	done.Go(func() { p.Run(ctx) })
	stop = sync.OnceFunc(func() {
		cancel()
		done.Wait()
	})
	t.Cleanup(stop)
	return stop
}

// A pusher is registered with its types: a type that it does not push has no worker.
func TestAPusherIsRegistered(t *testing.T) {
	for name, begin := range map[string]func(t *testing.T, p *Pusher){
		"once": func(t *testing.T, p *Pusher) { once(t, p) },
		"run":  func(t *testing.T, p *Pusher) { running(t, p) },
	} {
		t.Run(name, func(t *testing.T) {
			p := pawltest.Open(t, pawltest.SQLite)
			begin(t, called(t, p, func(http.ResponseWriter, *http.Request) {}))
			for until := time.Now().Add(20 * time.Second); ; time.Sleep(10 * time.Millisecond) {
				l, err := p.Service.ListWorkers(t.Context(), pawl.WorkerFilter{})
				if err != nil {
					t.Fatal(err)
				}
				if len(l.Items) == 1 && slices.Equal(l.Items[0].Types, []string{typ}) {
					break
				}
				if time.Now().After(until) || name == "once" {
					t.Fatalf("the workers are %+v", l.Items)
				}
			}
			other, err := pawl.Create(t.Context(), p.Service, pawl.NewTask{Type: "other"})
			if err != nil {
				t.Fatal(err)
			}
			if got := itemOf(t, p, other.ID); got.BlockedBy == nil || got.BlockedBy.Reason != pawl.BlockedByNoWorker {
				t.Errorf("an item that no one takes is blocked by %+v", got.BlockedBy)
			}
		})
	}
}

func TestACallEndsWhenItsItemIsCancelled(t *testing.T) {
	p := pawltest.Open(t, pawltest.SQLite)
	task := make1(t, p)
	begun, ended := make(chan struct{}), make(chan struct{})
	pusher := called(t, p, func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		close(begun)
		<-r.Context().Done()
		close(ended)
	})
	pusher.beats = 10 * time.Millisecond
	pusher.lines[0].poster = longer(t, pusher)
	running(t, pusher)
	<-begun
	if _, err := p.Service.CancelTasks(t.Context(), []pawl.TaskCall{{TaskID: task}}); err != nil {
		t.Fatal(err)
	}
	select {
	case <-ended:
	case <-time.After(30 * time.Second):
		t.Fatal("the call goes on")
	}
	if it := itemOf(t, p, task); it.State != pawl.ItemCancelled {
		t.Errorf("%s", it.State)
	}
}

// A call counts as a start, also of an item that counts as not started so far, as one of a claim that has waited: when the
// server dies in the call, an item with one attempt is not queued again.
func TestACallIsAStart(t *testing.T) {
	pawltest.Each(t, func(t *testing.T, p *pawltest.Pawl) {
		task, err := pawl.Create(t.Context(), p.Service, pawl.NewTask{Type: typ, Payload: json.RawMessage("1"), MaxAttempts: 1})
		if err != nil {
			t.Fatal(err)
		}
		pusher := called(t, p, func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body)
			p.Advance(time.Hour) // no heartbeat comes in time, as if the server had died
			if _, err := p.Service.Sweep(context.WithoutCancel(r.Context())); err != nil {
				t.Error(err)
			}
			w.WriteHeader(202)
		})
		ask := pawl.ClaimRequest{WorkerID: pusher.worker, Types: []string{typ}, LeaseSeconds: 60, Prefetch: true}
		leases, err := p.Service.Claim(t.Context(), ask)
		if err != nil || len(leases) != 1 {
			t.Fatal(leases, err)
		}
		pusher.call(t.Context(), pusher.lines[0], leases[0])
		if it := itemOf(t, p, task.ID); it.State != pawl.ItemFailed {
			t.Errorf("%s", it.State)
		}
	})
}

// A result that comes while an effect of the attempt is open fails the attempt, which is repeated: it does not wait for the
// end of the lease.
func TestAResultWithAnOpenEffect(t *testing.T) {
	pawltest.Each(t, func(t *testing.T, p *pawltest.Pawl) {
		task := make1(t, p)
		pusher := called(t, p, func(w http.ResponseWriter, r *http.Request) {
			var item pawl.Lease
			_ = json.NewDecoder(r.Body).Decode(&item)
			open := pawl.OpenEffectCall{ItemID: item.ID, WorkerID: item.WorkerID, Attempt: item.Attempt, Name: "pay", Key: "k", RequestHash: "h"}
			if _, err := p.Service.OpenEffect(context.WithoutCancel(r.Context()), open); err != nil {
				t.Error(err)
			}
			_, _ = io.WriteString(w, `"done"`)
		})
		once(t, pusher)
		if it := itemOf(t, p, task); it.State != pawl.ItemScheduled || it.Error == nil || it.Error.Code != pawl.ReasonEffectOpen {
			t.Errorf("%s %+v", it.State, it.Error)
		}
	})
}

// An item that was cancelled between its claim and its call is not sent.
func TestACancelledItemIsNotSent(t *testing.T) {
	p := pawltest.Open(t, pawltest.SQLite)
	task := make1(t, p)
	pusher := called(t, p, func(http.ResponseWriter, *http.Request) { t.Error("it is called") })
	leases, err := pusher.claim(t.Context(), pusher.lines[0], 1, 0)
	if err != nil || len(leases) != 1 {
		t.Fatal(leases, err)
	}
	if _, err := p.Service.CancelTasks(t.Context(), []pawl.TaskCall{{TaskID: task}}); err != nil {
		t.Fatal(err)
	}
	pusher.call(t.Context(), pusher.lines[0], leases[0])
}

func TestAnItemIsReleasedWhenTheServerStops(t *testing.T) {
	p := pawltest.Open(t, pawltest.SQLite)
	task := make1(t, p)
	begun := make(chan struct{})
	pusher := called(t, p, func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		close(begun)
		<-r.Context().Done()
	})
	pusher.grace = time.Millisecond
	pusher.lines[0].poster = longer(t, pusher)
	stop := running(t, pusher)
	<-begun
	stop()
	if it := itemOf(t, p, task); it.State != pawl.ItemQueued || it.Failures != 0 {
		t.Errorf("%s, %d failures", it.State, it.Failures)
	}
}

// Two servers push the same type: each item is called once.
func TestTwoPushersShareTheItems(t *testing.T) {
	pawltest.Each(t, func(t *testing.T, p *pawltest.Pawl) {
		const items = 40
		var mu sync.Mutex
		calls := map[string]int{}
		h := func(w http.ResponseWriter, r *http.Request) {
			var item pawl.Lease
			_ = json.NewDecoder(r.Body).Decode(&item)
			mu.Lock()
			calls[item.ID]++
			mu.Unlock()
			w.WriteHeader(200)
		}
		one, two := called(t, p, h), called(t, p, h)
		two.worker += "b"
		running(t, one)
		running(t, two)
		for range items {
			make1(t, p)
		}
		for end := time.Now().Add(30 * time.Second); ; time.Sleep(20 * time.Millisecond) {
			l, err := p.Service.ListTasks(t.Context(), pawl.TaskFilter{Types: []string{typ}, States: []pawl.TaskState{pawl.TaskCompleted},
				Page: pawl.Page{Limit: 100}})
			if err != nil {
				t.Fatal(err)
			}
			if len(l.Items) == items {
				break
			}
			if time.Now().After(end) {
				t.Fatalf("%d of %d completed", len(l.Items), items)
			}
		}
		mu.Lock()
		defer mu.Unlock()
		for id, n := range calls {
			if n != 1 {
				t.Errorf("%s: %d calls", id, n)
			}
		}
	})
}

// A callee that answers 202 has the item, also if the rest of its answer does not come.
func TestAnAcceptedCallWhoseAnswerBreaksOff(t *testing.T) {
	p := pawltest.Open(t, pawltest.SQLite)
	task := pawltest.Must[pawl.Task](t)(pawl.Create(t.Context(), p.Service, pawl.NewTask{Type: typ})).ID
	pusher := called(t, p, func(w http.ResponseWriter, _ *http.Request) {
		conn, _, err := w.(http.Hijacker).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		_, _ = io.WriteString(conn, "HTTP/1.1 202 Accepted\r\nContent-Length: 100\r\n\r\nabc") // it is cut off
		_ = conn.Close()
	})
	once(t, pusher)
	if it := itemOf(t, p, task); it.State != pawl.ItemInProgress {
		t.Errorf("%s %+v", it.State, it.Error)
	}
}
