package server_test

import (
	"context"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/access"
	"github.com/pawl-work/pawl/engine"
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

// The running calls of a key end with it. A waiting claim, with an Idempotency-Key or without, is refused
// within a second and gets no work, and a stream ends with a frame that says why.
func TestRevocationEndsWaitsAndStreams(t *testing.T) {
	pawltest.Each(t, func(t *testing.T, p *pawltest.Pawl) {
		h, gate := withGate(t, p, access.Options{})
		key, token := h.key(pawl.NewAPIKey{Roles: []string{"claimer", "reader"}})
		claims, stream := make(chan reply, 2), make(chan reply, 1)
		for _, header := range [][]string{nil, {"Idempotency-Key", "a"}} {
			go func() { claims <- h.ask(token, "POST", "/v1/claims", `{"worker_id":"w","wait_seconds":30}`, header...) }()
		}
		go func() { stream <- h.ask(token, "GET", "/v1/events", "", "Accept", "text/event-stream") }()
		for gate.LongCalls(key.ID) < 3 { // all calls are running
			if len(claims) > 0 {
				t.Fatalf("a claim did not wait as a long call: %s", (<-claims).text)
			}
			time.Sleep(5 * time.Millisecond)
		}
		if _, err := p.Engine.RevokeAPIKey(t.Context(), key.ID); err != nil {
			t.Fatal(err)
		}
		at := time.Now()
		got, other, frames := <-claims, <-claims, <-stream
		if took := time.Since(at); took > 10*time.Second { // a third of a second, on a busy machine
			t.Errorf("they ended after %s", took)
		}
		for _, got := range []reply{got, other} {
			if got.StatusCode != 401 || got.str("code") != "unauthenticated" {
				t.Errorf("a waiting claim: %s %s", got.Status, got.text)
			}
		}
		if frames.StatusCode != 401 && !strings.Contains(frames.text, "event: refused") { // 401: it had not begun
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

// An effect that is open elsewhere is waited for as a long call: until the key is revoked, or the server stops.
func TestWaitsForEffectsEnd(t *testing.T) {
	pawltest.Each(t, func(t *testing.T, p *pawltest.Pawl) {
		for how, code := range map[string]string{"revoked": "unauthenticated", "stopping": "unavailable"} {
			ctx, stop := context.WithCancel(t.Context())
			gate := access.New(access.Options{Keys: p.Engine, Required: true, Log: slog.New(slog.DiscardHandler)})
			h := &testServer{t, p, serve(t, p.Service, server.Options{Gate: gate, Stopping: ctx})}
			key, token := h.key(pawl.NewAPIKey{Roles: []string{"claimer"}})
			calls := make(chan reply, 2)
			for i := range 2 {
				if _, err := pawl.Create(t.Context(), p.Service, pawl.NewTask{Type: how}); err != nil {
					t.Fatal(err)
				}
				ls, err := p.Service.Claim(t.Context(), pawl.ClaimRequest{WorkerID: "w", Types: []string{how}})
				if err != nil || len(ls) != 1 {
					t.Fatal(ls, err)
				}
				body := `{"item_id":"` + ls[0].ID + `","worker_id":"w","attempt":1,"name":"pay","request_hash":"h","approve":true,"wait_seconds":60}`
				var header []string
				if i == 1 {
					open := strings.Replace(body, `,"wait_seconds":60`, "", 1)
					if r := h.ask(token, "POST", "/v1/effects:open", open); r.str("state") != "waiting" {
						t.Fatalf("%s %s", r.Status, r.text)
					}
					header = []string{"Idempotency-Key", how}
				}
				go func() { calls <- h.ask(token, "POST", "/v1/effects:open", body, header...) }()
			}
			for ; gate.LongCalls(key.ID) < 2; time.Sleep(5 * time.Millisecond) {
				if len(calls) > 0 {
					t.Fatalf("%s: it did not wait as a long call: %s", how, (<-calls).text)
				}
			}
			if how == "stopping" {
				stop()
			} else if _, err := p.Engine.RevokeAPIKey(t.Context(), key.ID); err != nil {
				t.Fatal(err)
			}
			for range 2 {
				if r := <-calls; r.str("code") != code && !(how == "stopping" && r.str("state") == "waiting") {
					t.Errorf("%s: %s %s", how, r.Status, r.text)
				}
			}
			stop()
		}
	})
}

// stopsBetween lets the server stop after a try of a call that found nothing, before the look at its key, or before an effect
// is opened.
type stopsBetween struct {
	*engine.Engine
	stop func()
}

func (s *stopsBetween) Idempotent(ctx context.Context, k pawl.KeyBegin,
	run func(context.Context, pawl.Service) (*pawl.Answer, error)) (pawl.Answer, bool, error) {
	return s.Engine.Idempotent(ctx, k, func(within context.Context, svc pawl.Service) (*pawl.Answer, error) {
		a, err := run(within, svc)
		if s.stop != nil && a == nil {
			s.stop()
			<-ctx.Done()
			s.stop = nil
		}
		return a, err
	})
}

func (s *stopsBetween) OpenEffect(ctx context.Context, call pawl.OpenEffectCall) (pawl.OpenedEffect, error) {
	s.stop()
	select {
	case <-ctx.Done():
	case <-time.After(100 * time.Millisecond): // it goes on, as it is to
	}
	return s.Engine.OpenEffect(ctx, call)
}

// A stop hides no stored answer from a claim under a key, and cuts no opening of an effect.
func TestAStopCutsNoAnswer(t *testing.T) {
	pawltest.Each(t, func(t *testing.T, p *pawltest.Pawl) {
		stopping, stop := context.WithCancel(t.Context())
		svc := &stopsBetween{Engine: p.Engine}
		h := &testServer{t, p, serve(t, svc, server.Options{Stopping: stopping})}
		p.Create(pawl.NewTask{Type: "a"})
		claim := func() reply {
			return h.ask("", "POST", "/v1/claims", `{"worker_id":"w","wait_seconds":10}`, "Idempotency-Key", "k")
		}
		first := claim()
		svc.stop = stop
		if again := claim(); again.text != first.text || !strings.Contains(first.text, "attempt") {
			t.Errorf("the claim was answered with %s, its repetition with %s", first.text, again.text)
		}
		stopping, stop = context.WithCancel(t.Context())
		svc.stop = stop
		h.srv = serve(t, svc, server.Options{Stopping: stopping})
		item, _ := first.items()[0]["id"].(string)
		r := h.ask("", "POST", "/v1/effects:open", `{"item_id":"`+item+
			`","worker_id":"w","attempt":1,"name":"pay","request_hash":"h","wait_seconds":60}`)
		if r.StatusCode != 200 || r.json["send"] != true {
			t.Errorf("the effect: %s", r.text)
		}
	})
}

// The number of a key's long calls is limited. The next one is asked to come again later.
func TestWaitsAndStreamsOfAKeyAreBounded(t *testing.T) {
	for _, header := range [][]string{nil, {"Idempotency-Key", "a"}} {
		longCallsAreBounded(t, header...)
	}
}

func longCallsAreBounded(t *testing.T, header ...string) {
	t.Helper()
	h, gate := withGate(t, pawltest.Open(t, pawltest.SQLite), access.Options{LongCallsPerKey: 1})
	key, token := h.key(pawl.NewAPIKey{Roles: []string{"claimer"}})
	_, other := h.key(pawl.NewAPIKey{Roles: []string{"claimer"}})
	done := make(chan reply, 1)
	go func() { done <- h.ask(token, "POST", "/v1/claims", `{"worker_id":"w","wait_seconds":20}`, header...) }()
	for gate.LongCalls(key.ID) < 1 {
		if len(done) > 0 {
			t.Fatalf("it did not wait as a long call: %s", (<-done).text)
		}
		time.Sleep(5 * time.Millisecond)
	}
	if len(header) > 0 {
		header = []string{header[0], "b"}
	}
	if r := h.ask(token, "POST", "/v1/claims", `{"worker_id":"w","wait_seconds":20}`, header...); r.StatusCode != 429 ||
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
