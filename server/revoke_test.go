package server_test

import (
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/access"
	"github.com/pawl-work/pawl/pawltest"
	"github.com/pawl-work/pawl/server"
)

// withGate returns gated, and its gate.
func withGate(t *testing.T, p *pawltest.Pawl, o access.Options) (*testServer, *access.Gate) {
	t.Helper()
	o.Keys, o.Required, o.Log = p.Engine, true, slog.New(slog.DiscardHandler)
	gate := access.New(o)
	return &testServer{t, p, serve(t, p.Service, server.Options{Gate: gate})}, gate
}

// The running calls of a key end with it. A waiting claim is refused within a second and gets
// no work, and a stream ends with a frame that says why.
func TestRevocationEndsWaitsAndStreams(t *testing.T) {
	pawltest.Each(t, func(t *testing.T, p *pawltest.Pawl) {
		h, gate := withGate(t, p, access.Options{})
		key, token := h.key(pawl.NewAPIKey{Roles: []string{"claimer", "reader"}})
		began := make(chan struct{}, 2)
		claim, stream := make(chan reply, 1), make(chan reply, 1)
		go func() {
			began <- struct{}{}
			claim <- h.ask(token, "POST", "/v1/claims", `{"worker_id":"w","wait_seconds":30}`)
		}()
		go func() {
			began <- struct{}{}
			stream <- h.ask(token, "GET", "/v1/events", "", "Accept", "text/event-stream")
		}()
		<-began
		<-began
		for gate.LongCalls(key.ID) < 2 { // both calls are running
			time.Sleep(5 * time.Millisecond)
		}
		if _, err := p.Engine.RevokeAPIKey(t.Context(), key.ID); err != nil {
			t.Fatal(err)
		}
		at := time.Now()
		got, frames := <-claim, <-stream
		if took := time.Since(at); took > 10*time.Second { // a third of a second, on a busy machine
			t.Errorf("they ended after %s", took)
		}
		if got.StatusCode != 401 || got.str("code") != "unauthenticated" {
			t.Errorf("the waiting claim: %s %s", got.Status, got.text)
		}
		if !strings.Contains(frames.text, "event: refused") {
			t.Errorf("the stream: %s", frames.text)
		}
		task, err := pawl.Create(t.Context(), p.Service, pawl.NewTask{Type: "a"})
		if err != nil {
			t.Fatal(err)
		}
		if it, err := p.Service.GetItem(t.Context(), "itm_"+task.ID[len("tsk_"):]); err != nil || it.State != pawl.ItemQueued {
			t.Errorf("work made later: %+v %v", it, err)
		}
	})
}

// The number of a key's long calls is limited. The next one is asked to come again later.
func TestWaitsAndStreamsOfAKeyAreBounded(t *testing.T) {
	h, gate := withGate(t, pawltest.Open(t, pawltest.SQLite), access.Options{LongCallsPerKey: 1})
	key, token := h.key(pawl.NewAPIKey{Roles: []string{"claimer"}})
	_, other := h.key(pawl.NewAPIKey{Roles: []string{"claimer"}})
	done := make(chan reply, 1)
	go func() { done <- h.ask(token, "POST", "/v1/claims", `{"worker_id":"w","wait_seconds":20}`) }()
	for gate.LongCalls(key.ID) < 1 {
		time.Sleep(5 * time.Millisecond)
	}
	if r := h.ask(token, "POST", "/v1/claims", `{"worker_id":"w","wait_seconds":20}`); r.StatusCode != 429 ||
		r.str("code") != "limit" || r.Header.Get("Retry-After") == "" {
		t.Errorf("one more: %s %s", r.Status, r.text)
	}
	if r := h.ask(other, "POST", "/v1/claims", `{"worker_id":"w","wait_seconds":1}`); r.StatusCode != 200 {
		t.Errorf("another key: %s %s", r.Status, r.text)
	}
	if _, err := pawl.Create(t.Context(), h.p.Service, pawl.NewTask{Type: "a"}); err != nil {
		t.Fatal(err)
	}
	if r := <-done; r.StatusCode != 200 || gate.LongCalls(key.ID) != 0 {
		t.Errorf("the first: %s, %d left", r.Status, gate.LongCalls(key.ID))
	}
}

// Only an operator can end another key's lease over HTTP.
func TestRevokeLeaseOverHTTP(t *testing.T) {
	pawltest.Each(t, func(t *testing.T, p *pawltest.Pawl) {
		h := gated(t, p, access.Options{})
		_, worker := h.key(pawl.NewAPIKey{Roles: everything("operator")})
		_, boss := h.key(pawl.NewAPIKey{Roles: []string{"operator"}})
		item := "itm_" + h.ask(worker, "POST", "/v1/tasks", `{"type":"a","payload":1}`).str("id")[len("tsk_"):]
		h.ask(worker, "POST", "/v1/claims", `{"worker_id":"w"}`)
		for _, c := range []struct {
			token, path, body string
			status            int
			says              string
		}{
			{worker, item + ":revoke_lease", ``, 403, "operator"},
			{boss, item + ":revoke_lease", `{"attempt":2}`, 409, `"conflict"`},
			{boss, item + ":revoke_lease", `{"attempt":1,"reason":"it hangs"}`, 200, `"queued"`},
			{boss, item + ":revoke_lease", ``, 409, `"conflict"`},
			{worker, item + ":heartbeat", `{"worker_id":"w","attempt":1}`, 409, `"lease_lost"`},
		} {
			if r := h.ask(c.token, "POST", "/v1/items/"+c.path, c.body); r.StatusCode != c.status || !strings.Contains(r.text, c.says) {
				t.Errorf("%s %s: %s %s", c.path, c.body, r.Status, r.text)
			}
		}
		if r := h.ask(boss, "POST", "/v1/items:revoke_lease", `{"items":[{"id":"`+item+`"},{"id":"itm_x"}]}`); r.StatusCode != 200 ||
			!strings.Contains(r.text, `"not_found"`) {
			t.Errorf("a batch: %s %s", r.Status, r.text)
		}
	})
}
