package server_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/access"
	"github.com/pawl-work/pawl/api"
	"github.com/pawl-work/pawl/engine"
	"github.com/pawl-work/pawl/pawltest"
	"github.com/pawl-work/pawl/server"
)

// gated is a server that requires API keys.
func gated(t *testing.T, p *pawltest.Pawl, o access.Options) *testServer {
	t.Helper()
	h, _ := withGate(t, p, o)
	return h
}

func (h *testServer) key(n pawl.NewAPIKey) (pawl.APIKey, string) {
	h.Helper()
	if n.Name == "" {
		n.Name = "a test"
	}
	k, token, err := h.p.Engine.CreateAPIKey(h.Context(), n)
	if err != nil {
		h.Fatal(err)
	}
	return k, "Bearer " + token
}

func (h *testServer) ask(token, method, path, body string, headers ...string) reply {
	h.Helper()
	return ask(h.T, h.srv, method, path, body, append(headers, "Authorization", token)...)
}

// everything returns all roles except those given.
func everything(but ...string) []string {
	return slices.DeleteFunc(slices.Clone(pawl.KeyRoles), func(r string) bool { return slices.Contains(but, r) })
}

func TestEveryRouteNeedsItsRole(t *testing.T) {
	h := gated(t, pawltest.Open(t, pawltest.SQLite), access.Options{})
	for _, r := range api.Routes {
		path := strings.ReplaceAll(r.Path, "{id}", "x")
		if r.Name == "receive_webhook" {
			continue // its signature is its credential: see TestWebhooks
		}
		if r.Role == api.Anyone {
			if got := ask(t, h.srv, r.Method, path, ""); got.StatusCode != r.Success {
				t.Errorf("%s without a key: %s", r.Name, got.Status)
			}
			continue
		}
		if got := ask(t, h.srv, r.Method, path, ""); got.StatusCode != 401 || got.str("code") != "unauthenticated" ||
			!strings.HasPrefix(got.Header.Get("WWW-Authenticate"), "Bearer") {
			t.Errorf("%s without a key: %s %v", r.Name, got.Status, got.Header)
		}
		role := string(r.Role)
		_, other := h.key(pawl.NewAPIKey{Roles: everything(role, string(r.Or)), Namespace: pawl.AnyNamespace})
		if got := h.ask(other, r.Method, path, ""); got.StatusCode != 403 || !strings.Contains(got.str("detail"), role) {
			t.Errorf("%s without its role: %s %s", r.Name, got.Status, got.text)
		}
		if r.Name == "sweep" || r.Name == "tick" || strings.Contains(r.Path, "stream") {
			continue // it does what it should
		}
		for _, role := range []api.Role{r.Role, r.Or} {
			if role == "" {
				continue
			}
			_, right := h.key(pawl.NewAPIKey{Roles: []string{string(role)}, Payloads: true, Namespace: pawl.AnyNamespace})
			if got := h.ask(right, r.Method, path, ""); got.StatusCode == 401 || got.StatusCode == 403 {
				t.Errorf("%s with the role %s: %s %s", r.Name, role, got.Status, got.text)
			}
		}
	}
}

func TestBadKeys(t *testing.T) {
	pawltest.Each(t, func(t *testing.T, p *pawltest.Pawl) {
		h := gated(t, p, access.Options{})
		reader := pawl.NewAPIKey{Roles: []string{"reader"}}
		revoked, token := h.key(reader)
		_, good := h.key(reader)
		if _, err := p.Engine.RevokeAPIKey(t.Context(), revoked.ID); err != nil {
			t.Fatal(err)
		}
		reader.Expires = time.Hour
		_, expired := h.key(reader)
		p.Advance(time.Hour)
		for what, header := range map[string]string{"a revoked one": token, "an expired one": expired,
			"another secret": good[:len(good)-1] + "!", "another scheme": "Basic eDp5",
			"nonsense": "Bearer x", "none": "Bearer ", "too long": "Bearer " + strings.Repeat("x", 1000), "an id alone": "Bearer " + revoked.ID} {
			if r := h.ask(header, "GET", "/v1/stats", ""); r.StatusCode != 401 || r.str("code") != "unauthenticated" {
				t.Errorf("%s: %s %s", what, r.Status, r.text)
			}
		}
		if r := h.ask(good, "GET", "/v1/stats", ""); r.StatusCode != 200 {
			t.Errorf("the good one: %s %s", r.Status, r.text)
		}
	})
}

// A key of one namespace finds nothing of another, by any call: for it, the things of the
// other namespace do not exist.
func TestWallsCallByCall(t *testing.T) {
	pawltest.Each(t, func(t *testing.T, p *pawltest.Pawl) {
		h := gated(t, p, access.Options{})
		_, ours := h.key(pawl.NewAPIKey{Roles: pawl.KeyRoles, Namespace: "ours"})
		theirs := pawl.As(t.Context(), pawl.Caller{Namespace: "theirs"})
		task, err := pawl.Create(theirs, p.Service, pawl.NewTask{Type: "a", Payload: []byte(`"secret"`)})
		if err != nil {
			t.Fatal(err)
		}
		ls, err := p.Service.Claim(theirs, pawl.ClaimRequest{WorkerID: "w"})
		if err != nil || len(ls) != 1 {
			t.Fatal(ls, err)
		}
		if _, err := p.Service.BeginKeys(theirs, []pawl.KeyBegin{{Key: "k", RequestHash: "h"}}); err != nil {
			t.Fatal(err)
		}
		before, err := p.Service.GetItem(theirs, ls[0].ID)
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range api.Routes {
			// which opens a key of its own; a queue is made by the call that pauses it, a budget or schedule by the one that puts it
			if r.Role == api.Anyone || !strings.Contains(r.Path, "{id}") || strings.Contains(r.Path, "/relays/") ||
				strings.Contains(r.Path, "/queues/") || r.Name == "begin_key" || r.Name == "put_budget" || r.Name == "put_schedule" ||
				strings.HasPrefix(r.Path, "/v1/streams/") { // see TestStreamsNeedTheirRoles: the names of streams are free
				continue
			}
			id := task.ID
			switch {
			case strings.Contains(r.Path, "/items/{id}"):
				id = ls[0].ID
			case strings.Contains(r.Path, "keys/{id}"):
				id = "k"
			}
			body := bodies[r.Name]
			if body == "" && r.Method != "GET" && r.Method != "DELETE" {
				body = `{"worker_id":"w","attempt":1}`
				if r.Role != api.Claimer {
					body = `{}`
				}
			}
			got := h.ask(ours, r.Method, strings.ReplaceAll(r.Path, "{id}", id), body)
			empty := got.StatusCode == 200 && r.Method == "GET" && len(got.items()) == 0 && got.json["items"] != nil
			if got.StatusCode != 404 && !empty && !strings.Contains(r.Path, "/types/") {
				t.Errorf("%s: %s %s", r.Name, got.Status, got.text)
			}
			if strings.Contains(got.text, "secret") {
				t.Errorf("%s lets out %s", r.Name, got.text)
			}
		}
		for _, path := range []string{"/v1/tasks", "/v1/items", "/v1/events", "/v1/checkpoints", "/v1/archives"} {
			if got := h.ask(ours, "GET", path, ""); got.StatusCode != 200 || len(got.items()) != 0 {
				t.Errorf("%s: %s %s", path, got.Status, got.text)
			}
		}
		for _, path := range []string{"/v1/tasks", "/v1/tasks/" + task.ID} {
			if got := h.ask(ours, "GET", path, "", api.NamespaceHeader, "theirs"); got.StatusCode != 404 {
				t.Errorf("%s in their namespace by name: %s %s", path, got.Status, got.text)
			}
		}
		if got := h.ask(ours, "POST", "/v1/claims", `{"worker_id":"w"}`); len(got.items()) != 0 {
			t.Errorf("claimed %s", got.text)
		}
		if got := h.ask(ours, "POST", "/v1/tasks:cancel",
			fmt.Sprintf(`{"items":[{"task_id":%q}]}`, task.ID)); !strings.Contains(got.text, "not_found") {
			t.Errorf("a batch: %s", got.text)
		}
		for _, path := range []string{"/metrics", "/v1/sweeps"} {
			if got := h.ask(ours, "GET", path, ""); got.StatusCode != 403 {
				t.Errorf("%s, of all namespaces: %s", path, got.Status)
			}
		}
		if after, err := p.Service.GetItem(theirs, ls[0].ID); err != nil || after.State != before.State {
			t.Errorf("the item is %+v, %v", after, err)
		}
	})
}

// bodies lists what calls about one thing must send to reach that thing.
var bodies = map[string]string{
	"add_items":             `{"items":[{"input":1}]}`,
	"start_message":         `{"worker_id":"w","attempt":1,"role":"tool","content":"x"}`,
	"open_message":          `{"role":"tool"}`,
	"append":                `{"worker_id":"w","attempt":1,"offset":0,"chunks":[{"type":"text","text":"x"}]}`,
	"checkpoint_task":       `{"type":"custom","snapshot":1}`,
	"append_task":           `{"checkpoints":[{"type":"custom","snapshot":1}]}`,
	"prune_task":            `{"rules":[{"prefix":"x","keep":1}]}`,
	"fork_task":             `{"checkpoint":0}`,
	"checkpoint":            `{"worker_id":"w","attempt":1,"type":"custom","snapshot":1}`,
	"fail":                  `{"worker_id":"w","attempt":1,"error":"x"}`,
	"suspend":               `{"worker_id":"w","attempt":1,"until":"2026-01-29T11:00:00Z"}`,
	"begin_key":             `{"request_hash":"h"}`,
	"renew_key":             `{"token":"t"}`,
	"complete_key":          `{"token":"t","response":1}`,
	"fail_key":              `{"token":"t","response":1}`,
	"update_task":           `{"title":"x"}`,
	"reject_task":           `{"errors":[{"code":"c","message":"m"}]}`,
	"reject":                `{"errors":[{"code":"c","message":"m"}]}`,
	"submit":                `{"worker_id":"w","attempt":1,"result":1}`,
	"spawn_child":           `{"worker_id":"w","attempt":1,"key":"k","task":{"type":"child"}}`,
	"reserve_budget":        `{"item_id":"itm_x","worker_id":"w","attempt":1,"amount":1,"key":"k"}`,
	"settle_budget":         `{"reservation":"rsv_x","item_id":"itm_x","worker_id":"w","attempt":1,"amount":1}`,
	"report_effect_done":    `{"item_id":"itm_x","worker_id":"w","attempt":1,"answer":1}`,
	"report_effect_failed":  `{"item_id":"itm_x","worker_id":"w","attempt":1,"error":"x"}`,
	"report_effect_unknown": `{"item_id":"itm_x","worker_id":"w","attempt":1}`,
	"keep_effect":           `{"item_id":"itm_x","worker_id":"w","attempt":1,"lease_seconds":15}`,
	"resolve_effect":        `{"outcome":"happened"}`,
	"submit_part":           `{"worker_id":"w","attempt":1,"key":"k","payload":1}`,
	"put_part":              `{"worker_id":"w","attempt":1,"key":"k","payload":1}`,
}

// Payloads are hidden from keys that only read or claim, except those of the items they claim.
func TestPayloadsAreHidden(t *testing.T) {
	pawltest.Each(t, func(t *testing.T, p *pawltest.Pawl) {
		h := gated(t, p, access.Options{})
		_, submitter := h.key(pawl.NewAPIKey{Roles: []string{"submitter"}})
		_, worker := h.key(pawl.NewAPIKey{Roles: []string{"claimer", "reader"}})
		_, auditor := h.key(pawl.NewAPIKey{Roles: []string{"reader"}, Payloads: true})
		created := h.ask(submitter, "POST", "/v1/tasks", `{"type":"a","payload":"secret","metadata":{"shown":"yes"}}`)
		if !strings.Contains(created.text, "secret") {
			t.Errorf("to its submitter: %s", created.text)
		}
		claimed := h.ask(worker, "POST", "/v1/claims", `{"worker_id":"w"}`)
		if !strings.Contains(claimed.text, "secret") || claimed.Header.Get("Pawl-Payloads") != "" {
			t.Errorf("to its worker: %s", claimed.text)
		}
		item := claimed.items()[0]["id"].(string)
		h.ask(worker, "POST", "/v1/items/"+item+":checkpoint", `{"worker_id":"w","attempt":1,"type":"manual_checkpoint","snapshot":"secret"}`)
		if r := h.ask(worker, "GET", "/v1/items/"+item+"/resume", ""); !strings.Contains(r.text, "secret") {
			t.Errorf("to go on with: %s", r.text)
		}
		h.ask(worker, "POST", "/v1/items/"+item+":fail",
			`{"worker_id":"w","attempt":1,"error":{"message":"shown","detail":"secret"},"retryable":false}`)
		task := created.str("id")
		for _, path := range []string{"/v1/tasks", "/v1/tasks/" + task, "/v1/tasks/" + task + "/items", "/v1/tasks/" + task + "/events",
			"/v1/tasks/" + task + "/checkpoints",
			"/v1/items/" + item, "/v1/items", "/v1/events", "/v1/checkpoints", "/tasks/" + task, "/tasks/" + task + "/events"} {
			if r := h.ask(worker, "GET", path, ""); r.StatusCode != 200 || strings.Contains(r.text, "secret") ||
				r.Header.Get("Pawl-Payloads") != "hidden" {
				t.Errorf("%s: %s %v %s", path, r.Status, r.Header, r.text)
			}
			if r := h.ask(auditor, "GET", path, ""); r.StatusCode != 200 || r.Header.Get("Pawl-Payloads") != "" {
				t.Errorf("%s to the auditor: %s %v", path, r.Status, r.Header)
			}
		}
		if r := h.ask(auditor, "GET", "/v1/tasks/"+task, ""); !strings.Contains(r.text, "secret") {
			t.Errorf("to the auditor: %s", r.text)
		}
		if r := h.ask(worker, "GET", "/v1/tasks/"+task+"/result", ""); r.StatusCode != 403 {
			t.Errorf("the result: %s %s", r.Status, r.text)
		}
		if r := h.ask(worker, "GET", "/v1/tasks/"+task, ""); !strings.Contains(r.text, `"shown":"yes"`) {
			t.Errorf("metadata: %s", r.text)
		}
	})
}

// A lease belongs to the key that claimed it, even if another key uses the same worker's name.
func TestALeaseBelongsToItsKey(t *testing.T) {
	pawltest.Each(t, func(t *testing.T, p *pawltest.Pawl) {
		h := gated(t, p, access.Options{})
		second := &testServer{t, p, serve(t, p.Another(engine.Options{}),
			server.Options{Gate: access.New(access.Options{Keys: p.Engine, Required: true, Log: slog.New(slog.DiscardHandler)})})}
		_, a := h.key(pawl.NewAPIKey{Roles: []string{"claimer"}})
		_, b := h.key(pawl.NewAPIKey{Roles: []string{"claimer"}})
		if _, err := pawl.Create(t.Context(), p.Service, pawl.NewTask{Type: "a"}); err != nil {
			t.Fatal(err)
		}
		item := h.ask(a, "POST", "/v1/claims", `{"worker_id":"w"}`).items()[0]["id"].(string)
		for _, at := range []*testServer{h, second} {
			for _, verb := range []string{"heartbeat", "progress", "complete", "release", "fail", "suspend", "checkpoint"} {
				body := bodies[verb]
				if body == "" {
					body = `{"worker_id":"w","attempt":1}`
				}
				if r := at.ask(b, "POST", "/v1/items/"+item+":"+verb, body); r.StatusCode != 409 || r.str("code") != "lease_lost" ||
					r.str("reason") != "taken" {
					t.Errorf("%s by another key: %s %s", verb, r.Status, r.text)
				}
			}
		}
		if r := second.ask(a, "POST", "/v1/items/"+item+":complete", `{"worker_id":"w","attempt":1}`); r.StatusCode != 200 {
			t.Errorf("complete by its key: %s %s", r.Status, r.text)
		}
	})
}

func TestRatesAreBounded(t *testing.T) {
	h := gated(t, pawltest.Open(t, pawltest.SQLite), access.Options{RatePerKey: 3, RatePerAgent: 2})
	_, token := h.key(pawl.NewAPIKey{Roles: pawl.KeyRoles})
	_, quick := h.key(pawl.NewAPIKey{Roles: pawl.KeyRoles, Rate: 1000})
	limited := func(token, body string) (n int) {
		for range 20 {
			r := h.ask(token, "POST", "/v1/claims", body)
			if r.StatusCode == 429 {
				n++
				if r.str("code") != "limit" || r.Header.Get("Retry-After") == "" {
					t.Errorf("%v %s", r.Header, r.text)
				}
			}
		}
		return n
	}
	if n := limited(token, `{"worker_id":"w1"}`); n == 0 {
		t.Error("a key of three calls a second made 20 at once")
	}
	if n := limited(quick, `{"worker_id":"w2"}`); n == 0 {
		t.Error("an agent of two calls a second made 20 at once")
	}
	if r := h.ask(quick, "POST", "/v1/claims", `{"worker_id":"w3"}`); r.StatusCode != 200 {
		t.Errorf("another agent: %s", r.Status)
	}
}

// The rate of an agent is that of the worker who makes the call, whatever else a body names.
func TestARateIsOfTheWorkerThatCalls(t *testing.T) {
	h := gated(t, pawltest.Open(t, pawltest.SQLite), access.Options{RatePerAgent: 2})
	_, token := h.key(pawl.NewAPIKey{Roles: pawl.KeyRoles, ActorID: "us"})
	for what, c := range map[string]struct{ path, body string }{
		"a payload": {"/v1/tasks", `{"payload":{"worker_id":"w%d"},"type":"a"}`},
		"a later entry": {"/v1/items:heartbeat", `{"items":[{"item_id":"x","worker_id":"%d","attempt":1},` +
			`{"item_id":"x","worker_id":"one","attempt":1}]}`},
		"before its own":   {"/v1/items/x:complete", `{"result":{"worker_id":"%d"},"attempt":1,"worker_id":"two"}`},
		"a metadata's":     {"/v1/tasks:batch", `{"items":[{"type":"a","metadata":{"worker_id":"w%d"}}]}`},
		"another spelling": {"/v1/claims", `{"types":["%d"],"worker_\u0069d":"three"}`},
	} {
		refused := 0
		for i := range 20 {
			if r := h.ask(token, "POST", c.path, fmt.Sprintf(c.body, i)); r.StatusCode == 429 {
				refused++
			}
		}
		if refused == 0 {
			t.Errorf("%s: an agent of two calls a second made 20 at once", what)
		}
	}
}

// Numbers that count all namespaces are not shown to a key of one namespace.
func TestStatsAreOfTheKeysNamespace(t *testing.T) {
	p := pawltest.Open(t, pawltest.SQLite)
	h := gated(t, p, access.Options{})
	if _, err := p.Engine.Sweep(t.Context()); err != nil {
		t.Fatal(err)
	}
	for ns, want := range map[string]bool{"": false, "others": false, pawl.AnyNamespace: true} {
		_, token := h.key(pawl.NewAPIKey{Roles: []string{"reader"}, Namespace: ns})
		var got pawl.Stats
		if err := json.Unmarshal([]byte(h.ask(token, "GET", "/v1/stats", "").text), &got); err != nil {
			t.Fatal(err)
		}
		if (got.Sweeps.LastScan != nil) != want || (got.Sweeps.TotalScans > 0) != want || !got.Sweeps.IsRunning {
			t.Errorf("namespace %q: %+v", ns, got.Sweeps)
		}
	}
}

// Events name the key's actor, whatever actor the call names. Events of a worker's verbs name
// the worker. Uses and refusals are recorded with the key, and refusals are logged.
func TestWhoIsOnTheRecord(t *testing.T) {
	p := pawltest.Open(t, pawltest.SQLite)
	var log strings.Builder
	gate := access.New(access.Options{Keys: p.Engine, Required: true, Log: slog.New(slog.NewTextHandler(&log, nil))})
	h := &testServer{t, p, serve(t, p.Service, server.Options{Gate: gate})}
	_, token := h.key(pawl.NewAPIKey{Name: "billing", Roles: []string{"submitter", "claimer"}, ActorType: "agent", ActorID: "biller"})
	_, trusted := h.key(pawl.NewAPIKey{Name: "front", Roles: []string{"submitter"}, Namespace: pawl.AnyNamespace})
	h.ask(token, "POST", "/v1/tasks", `{"type":"a"}`, api.ActorHeader, "user/boss")
	h.ask(token, "POST", "/v1/claims", `{"worker_id":"w"}`)
	h.ask(trusted, "POST", "/v1/tasks", `{"type":"a"}`, api.ActorHeader, "user/ann")
	list, err := p.Service.ListEvents(t.Context(), pawl.EventFilter{Asc: true})
	if err != nil {
		t.Fatal(err)
	}
	var who []string
	for _, e := range list.Items {
		who = append(who, e.Event+" "+e.ActorType+"/"+e.ActorID)
	}
	if got, want := strings.Join(who, ", "), "proposed agent/biller, leased worker/w, proposed user/ann"; got != want {
		t.Errorf("events: %s, want %s", got, want)
	}
	if r := h.ask(token, "GET", "/v1/stats", ""); r.StatusCode != 403 {
		t.Errorf("%s", r.Status)
	}
	gate.Flush(context.Background())
	keys, err := p.Engine.ListAPIKeys(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, k := range keys {
		if k.LastUsedAt == nil || k.Name == "billing" && k.Refusals != 1 {
			raw, _ := json.Marshal(k)
			t.Errorf("on record: %s", raw)
		}
	}
	if !strings.Contains(log.String(), "code=forbidden") || !strings.Contains(log.String(), "key_name=billing") ||
		strings.Contains(log.String(), strings.TrimPrefix(token, "Bearer ")) {
		t.Errorf("the log says %s", log.String())
	}
}
