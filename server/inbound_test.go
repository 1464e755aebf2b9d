package server_test

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"log/slog"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/access"
	"github.com/pawl-work/pawl/api"
	"github.com/pawl-work/pawl/engine"
	"github.com/pawl-work/pawl/inbound"
	"github.com/pawl-work/pawl/internal/clock"
	"github.com/pawl-work/pawl/pawltest"
	"github.com/pawl-work/pawl/server"
)

const hookSecret = "s3cret of the sender"

// hookServer serves three sources: code, of GitHub, makes tasks in the namespace git, chat, of
// Slack, sends signals, and orders, of Stripe, takes identifiers from a header.
func hookServer(t *testing.T, p *pawltest.Pawl) *httptest.Server {
	t.Helper()
	return hookServerOf(t, p, p.Service)
}

// A source may take the identifier of a delivery from a header: what else differs does not count.
func TestAWebhookIsKnownByItsHeader(t *testing.T) {
	pawltest.Each(t, func(t *testing.T, p *pawltest.Pawl) {
		srv := hookServer(t, p)
		deliver := func(id, body string) reply {
			stamp := fmt.Sprint(clock.Now().Unix())
			return ask(t, srv, "POST", "/v1/inbound/orders", body, "x-delivery", id,
				"Stripe-Signature", "t="+stamp+",v1="+hmacOf(hookSecret, stamp+"."+body))
		}
		first, again, other := deliver("d1", `{"id":"evt_1"}`), deliver("d1", `{"id":"evt_2"}`), deliver("d2", `{"id":"evt_1"}`)
		if first.StatusCode != 202 || again.text != first.text || again.Header.Get(api.ReplayedHeader) != "true" {
			t.Errorf("%s, again %s", first.text, again.text)
		}
		if other.StatusCode != 202 || other.str("task_id") == first.str("task_id") {
			t.Errorf("another delivery: %s %s", other.Status, other.text)
		}
	})
}

func hookServerOf(t *testing.T, p *pawltest.Pawl, svc pawl.Service) *httptest.Server {
	t.Helper()
	sources := map[string]*inbound.Source{}
	for name, o := range map[string]inbound.Options{
		"code":   {Form: "github", Secrets: []string{"new", hookSecret}, Namespace: "git", Task: &inbound.Task{Type: "push", Priority: 3}},
		"chat":   {Form: "slack", Secrets: []string{hookSecret}, Signal: &inbound.Signal{Name: "said", Key: "/event/thread"}},
		"orders": {Form: "stripe", Secrets: []string{hookSecret}, ID: "header:X-Delivery", Task: &inbound.Task{Type: "order"}},
	} {
		s, err := inbound.New(o)
		if err != nil {
			t.Fatal(err)
		}
		sources[name] = s
	}
	gate := access.New(access.Options{Keys: p.Engine, Required: true, Log: slog.New(slog.DiscardHandler)})
	return serve(t, svc, server.Options{Inbound: sources, Gate: gate})
}

func hmacOf(secret, text string) string {
	mac := hmac.New(sha256.New, []byte(secret))
	mac.Write([]byte(text))
	return hex.EncodeToString(mac.Sum(nil))
}

func push(t *testing.T, srv *httptest.Server, delivery, secret, body string) reply {
	t.Helper()
	return ask(t, srv, "POST", "/v1/inbound/code", body, "X-GitHub-Event", "push", "X-GitHub-Delivery", delivery,
		"X-Hub-Signature-256", "sha256="+hmacOf(secret, body))
}

// say is a delivery of Slack.
func say(t *testing.T, srv *httptest.Server, at int64, body string) reply {
	t.Helper()
	stamp := fmt.Sprint(at)
	return ask(t, srv, "POST", "/v1/inbound/chat", body, "X-Slack-Request-Timestamp", stamp,
		"X-Slack-Signature", "v0="+hmacOf(hookSecret, "v0:"+stamp+":"+body))
}

func TestWebhooks(t *testing.T) {
	pawltest.Each(t, func(t *testing.T, p *pawltest.Pawl) {
		srv := hookServer(t, p)
		git := pawl.As(t.Context(), pawl.Caller{Namespace: "git"})
		tasks := func() []pawl.Task {
			t.Helper()
			l, err := p.Service.ListTasks(git, pawl.TaskFilter{})
			if err != nil {
				t.Fatal(err)
			}
			return l.Items
		}
		for what, r := range map[string]struct {
			reply
			status int
			code   string
		}{
			"wrong secret": {push(t, srv, "1", "other", `{}`), 401, "unauthenticated"},
			"no signature": {ask(t, srv, "POST", "/v1/inbound/code", `{}`), 401, "unauthenticated"},
			"no body":      {ask(t, srv, "POST", "/v1/inbound/code", ""), 401, "unauthenticated"},
			"unknown":      {ask(t, srv, "POST", "/v1/inbound/other", `{}`), 404, "not_found"},
			"no JSON":      {push(t, srv, "1", hookSecret, `{`), 400, "invalid"},
			"a form": {ask(t, srv, "POST", "/v1/inbound/code", `a=b`, "Content-Type", "application/x-www-form-urlencoded",
				"X-Hub-Signature-256", "sha256="+hmacOf(hookSecret, "a=b")), 415, "media_type"},
			"too large": {push(t, srv, "1", hookSecret, `"`+strings.Repeat("x", pawl.MaxBodyBytes)+`"`), 413, "too_large"},
			"method":    {ask(t, srv, "GET", "/v1/inbound/code", ""), 405, "method"},
		} {
			if r.StatusCode != r.status || !strings.HasPrefix(r.str("code"), r.code) || strings.Contains(r.text, hookSecret) {
				t.Errorf("%s: %s %s", what, r.Status, r.text)
			}
		}
		if got := tasks(); len(got) != 0 {
			t.Fatalf("refused webhooks made %+v", got)
		}

		r := push(t, srv, "72d3", hookSecret, `{"ref": "main"}`)
		description(t, srv).check(t, api.RouteOf("receive_webhook"), r)
		made := tasks()
		if r.StatusCode != 202 || len(made) != 1 || r.str("task_id") != made[0].ID || made[0].Type != "push" || made[0].Priority != 3 ||
			string(made[0].Payload) != `{"ref": "main"}` {
			t.Fatalf("%s %s made %+v", r.Status, r.text, made)
		}
		var metadata = string(made[0].Metadata)
		if metadata != `{"delivery":"72d3","github_event":"push","inbound":"code"}` {
			t.Errorf("its metadata: %s", metadata)
		}
		events, err := p.Service.ListEvents(git, pawl.EventFilter{TaskID: made[0].ID})
		if err != nil || len(events.Items) == 0 {
			t.Fatal(err, events)
		}
		if e := events.Items[len(events.Items)-1]; e.ActorType != pawl.ActorAPI || e.ActorID != "inbound/code" {
			t.Errorf("its first event: %+v", e)
		}
		again := push(t, srv, "72d3", "new", `{"ref": "main"}`)
		if again.StatusCode != 202 || again.text != r.text || again.Header.Get(api.ReplayedHeader) != "true" || len(tasks()) != 1 {
			t.Errorf("again: %s %v %s", again.Status, again.Header, again.text)
		}

		now := clock.Now().Unix()
		if r := say(t, srv, now-400, `{"event_id":"E1"}`); r.StatusCode != 401 {
			t.Errorf("old: %s %s", r.Status, r.text)
		}
		if r := say(t, srv, now, `{"type":"url_verification","challenge":"3eZb"}`); r.StatusCode != 200 || r.str("challenge") != "3eZb" {
			t.Errorf("challenge: %s %s", r.Status, r.text)
		}
		if r := say(t, srv, now, `{"event_id":"E1","event":{"thread":"T1"}}`); r.StatusCode != 202 ||
			r.str("signal") != "said" || r.str("key") != "T1" {
			t.Errorf("signal: %s %s", r.Status, r.text)
		}
		if r := say(t, srv, now, `{"event_id":"E2"}`); r.StatusCode != 202 || r.json["key"] != "" {
			t.Errorf("a pointer into nothing: %s %s", r.Status, r.text)
		}
		if r := say(t, srv, now-1, `{"event_id":"E1"}`); r.Header.Get(api.ReplayedHeader) != "true" || r.str("key") != "T1" {
			t.Errorf("the event again: %s %v %s", r.Status, r.Header, r.text)
		}
	})
}

// A delivery that arrives at two servers at the same moment, several times, has one effect: one
// answer is not a replay.
func TestADeliveryHasOneEffect(t *testing.T) {
	pawltest.Each(t, func(t *testing.T, p *pawltest.Pawl) {
		servers := []*httptest.Server{hookServer(t, p), hookServerOf(t, p, p.Another(engine.Options{}))}
		for what, send := range map[string]func(srv *httptest.Server, id string) reply{
			"task": func(srv *httptest.Server, id string) reply { return push(t, srv, id, hookSecret, `{}`) },
			"signal": func(srv *httptest.Server, id string) reply {
				return say(t, srv, clock.Now().Unix(), `{"event_id":"`+id+`"}`)
			},
		} {
			for i := range 5 {
				id := fmt.Sprint("delivery", i)
				var all sync.WaitGroup
				var effects atomic.Int64
				for n := range 8 {
					all.Go(func() {
						r := send(servers[n%2], id)
						if r.StatusCode != 202 && r.str("code") != "key_in_flight" {
							t.Errorf("%s: %s %s", what, r.Status, r.text)
						}
						if r.StatusCode == 202 && r.Header.Get(api.ReplayedHeader) == "" {
							effects.Add(1)
						}
					})
				}
				all.Wait()
				if n := effects.Load(); n != 1 {
					t.Errorf("%s: the delivery had %d effects", what, n)
				}
				if r := send(servers[0], id); r.StatusCode != 202 || r.Header.Get(api.ReplayedHeader) != "true" {
					t.Errorf("%s, afterwards: %s %s", what, r.Status, r.text)
				}
			}
		}
		l, err := p.Service.ListTasks(pawl.As(t.Context(), pawl.Caller{Namespace: "git"}), pawl.TaskFilter{})
		if err != nil || len(l.Items) != 5 {
			t.Errorf("%d tasks, %v", len(l.Items), err)
		}
	})
}

// No caller can begin the key of a delivery before it comes.
func TestKeysOfDeliveriesAreReserved(t *testing.T) {
	pawltest.Each(t, func(t *testing.T, p *pawltest.Pawl) {
		git := pawl.As(t.Context(), pawl.Caller{Namespace: "git"})
		for scope, taken := range map[string]bool{"pawl.inbound/code": false, "inbound/code": true} {
			r, err := p.Service.BeginKeys(git, []pawl.KeyBegin{{Scope: scope, Key: "72d3", RequestHash: "delivery"}})
			if err != nil || (r[0].Err == nil) != taken || !taken && pawl.CodeOf(r[0].Err) != pawl.CodeInvalid {
				t.Errorf("scope %s: %v, %v", scope, r, err)
			}
		}
		if r := push(t, hookServer(t, p), "72d3", hookSecret, `{}`); r.StatusCode != 202 || r.Header.Get(api.ReplayedHeader) != "" {
			t.Errorf("%s %v %s", r.Status, r.Header, r.text)
		}
	})
}

// An address that sends many wrong signatures is told to wait. Right ones are still received.
func TestWrongSignaturesAreBounded(t *testing.T) {
	p := pawltest.Open(t, pawltest.SQLite)
	srv := hookServer(t, p)
	var last reply
	for range 30 {
		last = push(t, srv, "x", "wrong", `{}`)
	}
	if last.StatusCode != 429 || last.Header.Get("Retry-After") == "" {
		t.Errorf("the last one: %s %s", last.Status, last.text)
	}
	if r := push(t, srv, "x", hookSecret, `{}`); r.StatusCode != 202 {
		t.Errorf("a right one: %s %s", r.Status, r.text)
	}
}

// A delivery that is nested deeper than allowed is refused, though its signature is right.
func TestADeepDelivery(t *testing.T) {
	srv := hookServer(t, pawltest.Open(t, pawltest.SQLite))
	deep := strings.Repeat("[", pawl.MaxDepth+1) + strings.Repeat("]", pawl.MaxDepth+1)
	got := push(t, srv, "deep", hookSecret, deep)
	says := fmt.Sprintf("nested more than %d levels", pawl.MaxDepth)
	if got.StatusCode != 400 && got.StatusCode != 422 || !strings.Contains(got.text, says) {
		t.Errorf("%s %.400s", got.Status, got.text)
	}
}
