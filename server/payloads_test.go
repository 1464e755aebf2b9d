package server_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/access"
	"github.com/pawl-work/pawl/api"
	"github.com/pawl-work/pawl/pawltest"
)

const marked = "s3cret"

// aboutSecrets fills every place that holds a payload with marked text. It returns what its
// paths name: an item that another key holds, with a message that the key writes.
func (h *testServer) aboutSecrets() (paths map[string]string) {
	h.Helper()
	_, boss := h.key(pawl.NewAPIKey{Roles: pawl.KeyRoles})
	do := func(method, path, body string) reply {
		h.Helper()
		r := h.ask(boss, method, path, strings.ReplaceAll(body, "$", `"`+marked+`"`))
		if r.StatusCode > 299 {
			h.Fatalf("%s %s: %s %s", method, path, r.Status, r.text)
		}
		return r
	}
	fence := `{"worker_id":"boss","attempt":1`
	item := func(task string) string {
		return "/v1/items/" + do("POST", "/v1/claims", `{"worker_id":"boss","task_id":"`+task+`"}`).items()[0]["id"].(string)
	}
	do("PUT", "/v1/types/kept", `{"approval":{"mode":"manual"},"parts":[{"key":"k","repeatable":true}]}`)
	submitted := do("POST", "/v1/tasks", `{"type":"kept","payload":$}`).str("id")
	at := item(submitted)
	do("POST", at+"/parts", fence+`,"key":"k","seq":1,"payload":$,"evidence":$,"notes":$}`)
	do("POST", at+":submit", fence+`,"result":$,"evidence":$,"notes":$}`)
	do("POST", "/v1/tasks/"+submitted+":reject", `{"errors":[{"code":"c","message":"m"}],"allow_rework":true}`)
	done := do("POST", "/v1/tasks", `{"type":"plain","payload":$}`).str("id")
	do("POST", item(done)+":complete", fence+`,"result":$}`)
	failed := do("POST", "/v1/tasks", `{"type":"plain","payload":$,"max_attempts":1}`).str("id")
	do("POST", item(failed)+":fail", fence+`,"error":{"message":"m","detail":$}}`)
	do("POST", "/v1/signals", `{"name":"go","key":"k","payload":$}`)
	token := do("POST", "/v1/idempotency-keys/k:begin", `{"request_hash":"h"}`).str("token")
	do("POST", "/v1/idempotency-keys/k:complete", `{"token":"`+token+`","response":$}`)
	task := do("POST", "/v1/tasks", `{"type":"talk","thread":"t","messages":[{"role":"user","content":$}],"reply":{"model":"m"}}`).str("id")
	at = item(task)
	do("POST", at+":checkpoint", fence+`,"type":"state_transition","name":"wait","snapshot":$,"metadata":{"signal":"go","key":"k"}}`)
	messages := h.ask(boss, "GET", "/v1/messages?task_id="+task, "").items()
	message := messages[len(messages)-1]["id"].(string)
	do("POST", "/v1/messages/"+message+":append", fence+`,"offset":0,"chunks":[{"type":"text","text":$}]}`)
	do("POST", "/v1/tasks/"+task+":checkpoint", `{"type":"custom","snapshot":$}`)
	do("PUT", "/v1/budgets/kept", `{"unit":"tokens","limit":1}`)
	do("PUT", "/v1/types/strict", `{"payload_schema":{"enum":["x","`+marked+`"]},"parts":[{"key":"k","schema":{"enum":["x"]}}]}`)
	strict := do("POST", "/v1/tasks", `{"type":"strict","payload":$}`).str("id")
	parts := item(strict) + "/parts"
	if r := h.ask(boss, "POST", parts, fence+`,"key":"k","payload":"`+marked+`"}`); r.StatusCode != 400 {
		h.Fatalf("a part that does not fit: %s %s", r.Status, r.text)
	}
	do("POST", "/v1/schedules", `{"name":"strict","cron":"* * * * *","task":{"type":"strict","payload":$}}`)
	do("PUT", "/v1/types/strict", `{"payload_schema":{"enum":["x"]}}`) // which the schedule's task does not fit any more
	do("POST", "/v1/schedules", `{"name":"s","cron":"@daily","task":{"type":"plain","payload":$}}`)
	held := strings.TrimPrefix(at, "/v1/items/")
	effect := do("POST", "/v1/effects:open", `{"item_id":"`+held+`","name":"e","request_hash":"h",`+
		strings.TrimPrefix(fence, "{")+`}`).str("id")
	do("POST", "/v1/effects/"+effect+":done", `{"item_id":"`+held+`",`+strings.TrimPrefix(fence, "{")+`,"answer":$}`)
	return map[string]string{"effects": effect, "budgets": "kept", "tasks": done, "items": held, "messages": message,
		"idempotency-keys": "k", "types": "kept", "queues": "kept", "schedules": "strict", "log": done, "parts": parts,
		"streams": do("GET", "/v1/messages", "").items()[0]["id"].(string),
		"blobs":   do("POST", "/v1/blobs", "bytes").str("address")} // not marked: who knows an address may read what it names
}

// No call shows a payload to a key that reads and claims, except those of the items it claimed
// itself.
func TestNoRouteShowsPayloads(t *testing.T) {
	pawltest.Each(t, func(t *testing.T, p *pawltest.Pawl) {
		h := gated(t, p, access.Options{})
		paths := h.aboutSecrets()
		p.Advance(time.Minute)
		if _, err := p.Engine.Sweep(t.Context()); err != nil {
			t.Fatal(err)
		}
		_, worker := h.key(pawl.NewAPIKey{Roles: []string{"claimer", "reader"}, Namespace: pawl.AnyNamespace})
		look := func(what, method, path string) reply {
			t.Helper()
			r := h.ask(worker, method, path, "")
			if strings.Contains(r.text, marked) {
				t.Errorf("%s shows a payload: %s", what, r.text)
			}
			return r
		}
		for _, r := range api.Routes {
			kind, _, _ := strings.Cut(strings.TrimPrefix(strings.TrimPrefix(r.Path, "/v1"), "/"), "/")
			path := strings.NewReplacer("{id}", paths[kind], "{type}", "talk", "{chat}", "t").Replace(r.Path)
			switch {
			case r.Role != api.Reader && r.Role != api.Claimer:
				continue
			case r.Method == "GET":
				if r.Name == "check_token" {
					continue // a token says nothing but whose it is, and needs one
				}
				got := look(r.Name, r.Method, path)
				if kind == "log" || r.Name == "effect_receipt" { // hashes, and no checkpoint without a key
					continue
				}
				payload := slices.Contains([]string{"task_result", "follow_message", "resume_chat", "read_stream"}, r.Name)
				if payload && got.StatusCode != 403 || !payload && got.StatusCode != 200 {
					t.Errorf("%s: %s %s", r.Name, got.Status, got.text)
				}
			}
		}
		if r := look("a refused part", "GET", paths["parts"]); !strings.Contains(r.text, "rejected") {
			t.Errorf("no part was refused: %s", r.text)
		}
		if r := h.ask(worker, "GET", "/v1/schedules/strict", ""); !strings.Contains(r.text, "/task/payload: does not fit") {
			t.Errorf("the schedule made its task: %s", r.text)
		}
		look("another task's events", "GET", "/v1/events?limit=1000")
		_, boss := h.key(pawl.NewAPIKey{Roles: []string{"operator", "reader"}})
		if r := h.ask(boss, "GET", "/v1/events?limit=1000", ""); !strings.Contains(r.text, marked) {
			t.Errorf("nothing is marked: %s", r.text)
		}
	})
}

// The answers of verbs have no payloads either, alone and in a batch. The worker's own item is
// shown whole when it is claimed and while it is leased.
func TestNoVerbShowsPayloads(t *testing.T) {
	h := gated(t, pawltest.Open(t, pawltest.SQLite), access.Options{})
	_, worker := h.key(pawl.NewAPIKey{Roles: []string{"claimer", "reader"}})
	_, other := h.key(pawl.NewAPIKey{Roles: []string{"claimer"}})
	_, boss := h.key(pawl.NewAPIKey{Roles: pawl.KeyRoles})
	h.ask(boss, "PUT", "/v1/types/kept", `{"parts":[{"key":"k"}]}`)
	for _, r := range api.Routes {
		if r.Role != api.Claimer || r.Method == "GET" || r.Name == "claim" || r.Name == "register_worker" ||
			strings.HasPrefix(r.Path, "/v1/budgets/") || // which answer with numbers
			r.Name == "append_stream" || // which answers with headers alone
			strings.HasPrefix(r.Path, "/v1/effects") { // the effect of a worker's own claim is asked above
			continue
		}
		kind := "plain"
		if slices.Contains([]string{"submit", "submit_items", "submit_part", "submit_parts", "finalize", "finalize_items"}, r.Name) {
			kind = "kept"
		}
		reply := ""
		opens := strings.HasPrefix(r.Name, "open_message")
		if strings.HasPrefix(r.Path, "/v1/messages") && r.Name != "start_messages" && !opens {
			reply = `,"reply":{"model":"m"}`
		}
		h.ask(boss, "POST", "/v1/tasks", `{"type":"`+kind+`","payload":"`+marked+`"`+reply+`}`)
		claimed := h.ask(worker, "POST", "/v1/claims", `{"worker_id":"w"}`)
		if !strings.Contains(claimed.text, marked) {
			t.Fatalf("%s: claimed %s", r.Name, claimed.text)
		}
		item := claimed.items()[0]
		id := item["id"].(string)
		h.ask(worker, "POST", "/v1/items/"+id+":checkpoint", `{"worker_id":"w","attempt":1,"type":"custom","snapshot":"`+marked+`"}`)
		if kind == "kept" {
			h.ask(worker, "POST", "/v1/items/"+id+"/parts", `{"worker_id":"w","attempt":1,"key":"k","payload":"`+marked+`","notes":"`+marked+`"}`)
		}
		if got := h.ask(worker, "GET", "/v1/items/"+id+"/resume", ""); !strings.Contains(got.text, marked) ||
			got.Header.Get("Pawl-Payloads") != "" {
			t.Errorf("to its holder: %v %s", got.Header, got.text)
		}
		if got := h.ask(other, "GET", "/v1/items/"+id+"/resume", ""); got.StatusCode != 200 || strings.Contains(got.text, marked) ||
			got.Header.Get("Pawl-Payloads") != "hidden" {
			t.Errorf("to another key: %s %v %s", got.Status, got.Header, got.text)
		}
		if reply != "" {
			id = item["open_message"].(map[string]any)["id"].(string)
			h.ask(worker, "POST", "/v1/messages/"+id+":append",
				`{"worker_id":"w","attempt":1,"offset":0,"chunks":[{"type":"text","text":"`+marked+`"}]}`)
		}
		single := strings.NewReplacer("_items", "", "submit_parts", "submit_part", "append_messages", "append", "_messages",
			"_message").Replace(r.Name)
		body := strings.Replace(bodies[single], `"offset":0`, `"offset":1`, 1)
		if body == "" {
			body = `{"worker_id":"w","attempt":1}`
		}
		if single == "spawn_children" {
			body = bodies["spawn_child"]
		}
		if single == "submit_part" {
			body = strings.Replace(body, `"payload":1`, `"payload":2`, 1)
		}
		subject := "id"
		if opens {
			id, subject = item["task_id"].(string), "task_id"
		}
		path := strings.ReplaceAll(r.Path, "{id}", id)
		if path == r.Path {
			body = `{"items":[` + strings.Replace(body, "{", `{"`+subject+`":"`+id+`",`, 1) + `]}`
		}
		got := h.ask(worker, r.Method, path, body)
		if got.StatusCode != r.Success || strings.Contains(got.text, `"code":`) || strings.Contains(got.text, marked) {
			t.Errorf("%s: %s %s", r.Name, got.Status, got.text)
		}
		h.ask(boss, "POST", "/v1/tasks/"+item["task_id"].(string)+":cancel", "{}")
		if got := h.ask(worker, "GET", "/v1/items/"+item["id"].(string)+"/resume", ""); strings.Contains(got.text, marked) {
			t.Errorf("%s: after the lease's end: %s", r.Name, got.text)
		}
	}
}
