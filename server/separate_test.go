package server_test

import (
	"strings"
	"testing"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/access"
	"github.com/pawl-work/pawl/pawltest"
	"github.com/pawl-work/pawl/server"
)

// A key that claimed an item of a task cannot approve it, whatever actor it names. The events
// show which key did what.
func TestOneKeyDoesNotWorkAndApprove(t *testing.T) {
	pawltest.Each(t, func(t *testing.T, p *pawltest.Pawl) {
		h := gated(t, p, access.Options{})
		both, token := h.key(pawl.NewAPIKey{Roles: pawl.KeyRoles, Namespace: pawl.AnyNamespace})
		other, boss := h.key(pawl.NewAPIKey{Roles: []string{"approver"}, Name: "boss"})
		must := func(want int, r reply) reply {
			t.Helper()
			if r.StatusCode != want {
				t.Fatalf("%s, want %d: %s", r.Status, want, r.text)
			}
			return r
		}
		must(201, h.ask(token, "PUT", "/v1/types/report", `{"approval":{"mode":"manual","not_by_requester":false}}`))
		task := must(201, h.ask(token, "POST", "/v1/tasks", `{"type":"report","payload":1}`, "Pawl-Actor", "user/app")).str("id")
		item := "itm_" + task[len("tsk_"):]
		must(200, h.ask(token, "POST", "/v1/claims", `{"worker_id":"w"}`))
		must(200, h.ask(token, "POST", "/v1/items/"+item+":submit", `{"worker_id":"w","attempt":1,"result":1}`))
		for _, actor := range []string{"user/ana", "agent/reviewer"} {
			if r := must(403, h.ask(token, "POST", "/v1/tasks/"+task+":approve", `{}`, "Pawl-Actor", actor)); r.str("code") != "forbidden" {
				t.Errorf("as %s: %s", actor, r.text)
			}
		}
		must(200, h.ask(boss, "POST", "/v1/tasks/"+task+":approve", `{}`))
		events := must(200, h.ask(token, "GET", "/v1/tasks/"+task+"/events", "")).items()
		seen := map[string]any{}
		for _, e := range events {
			seen[e["event"].(string)] = e["key_id"]
		}
		for event, key := range map[string]any{"proposed": both.ID, "leased": both.ID, "submitted": both.ID, "approved": other.ID,
			"completed": nil} {
			if seen[event] != key {
				t.Errorf("%s with key %v, want %v", event, seen[event], key)
			}
		}
	})
}

// A decision that names a version is accepted for that version only.
func TestADecisionNamesItsVersion(t *testing.T) {
	pawltest.Each(t, func(t *testing.T, p *pawltest.Pawl) {
		h := &testServer{t, p, serve(t, p.Service, server.Options{})}
		h.do(201, "PUT", "/v1/types/report", `{"approval":{"mode":"manual"}}`)
		for _, decide := range []struct{ verb, more string }{{"approve", ``}, {"reject", `,"errors":[{"code":"c","message":"m"}]`}} {
			task := h.do(201, "POST", "/v1/tasks", `{"type":"report","payload":1}`).str("id")
			item := "/v1/items/itm_" + task[len("tsk_"):]
			body := func(version string) string { return `{"comment":"x"` + decide.more + version + `}` }
			h.do(200, "POST", "/v1/claims", `{"worker_id":"w"}`)
			h.do(200, "POST", item+":submit", `{"worker_id":"w","attempt":1,"result":"what was seen"}`)
			h.do(200, "POST", "/v1/tasks/"+task+":reject", `{"allow_rework":true,"errors":[{"code":"c","message":"m"}]}`, "If-Match", `"1"`)
			h.do(200, "POST", "/v1/claims", `{"worker_id":"w"}`)
			h.do(200, "POST", item+":submit", `{"worker_id":"w","attempt":2,"result":"what was not seen"}`)
			at := "/v1/tasks/" + task + ":" + decide.verb
			if r := h.do(412, "POST", at, body(`,"version":1`)); r.str("code") != "precondition" {
				t.Error(r.text)
			}
			h.do(412, "POST", at, body(""), "If-Match", `"1"`)
			h.do(400, "POST", at, body(`,"version":3`), "If-Match", `"1"`)
			h.do(400, "POST", at, body(""), "If-Match", `3`)
			if r := h.do(200, "POST", "/v1/tasks:"+decide.verb,
				`{"items":[{"task_id":"`+task+`"`+decide.more+`,"version":1}]}`); !strings.Contains(r.text, `"precondition"`) {
				t.Error(r.text)
			}
			if r := h.do(200, "POST", at, body(`,"version":3`), "If-Match", `"3"`); r.Header.Get("ETag") == "" {
				t.Errorf("no ETag: %v", r.Header)
			}
			h.do(412, "POST", at, body(`,"version":3`))
			h.do(409, "POST", at, body(""))
		}
	})
}
