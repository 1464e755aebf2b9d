package server_test

import (
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/api"
	"github.com/pawl-work/pawl/server"
)

// Every route is called once with valid input and answers with its success.
func TestEveryRouteAnswers(t *testing.T) {
	h := open(t)
	asked := map[string]bool{}
	said := description(t, h.srv)
	call := func(name, id, body string, headers ...string) reply {
		t.Helper()
		r := api.RouteOf(name)
		asked[name] = true
		out := h.do(r.Success, r.Method, strings.Replace(r.Path, "{id}", id, 1), body, headers...)
		said.check(t, r, out)
		return out
	}
	results := func(r reply, want ...int) []map[string]any {
		t.Helper()
		var out []map[string]any
		var got []int
		for _, e := range r.json["results"].([]any) {
			m := e.(map[string]any)
			out = append(out, m)
			got = append(got, int(m["status"].(float64)))
		}
		if !slices.Equal(got, want) {
			t.Fatalf("statuses %v, want %v: %s", got, want, r.text)
		}
		return out
	}

	h.typesAnswer(call, results)
	h.tasksAnswer(call, results)
	h.itemsAnswer(call, results)
	h.acceptanceAnswers(call, results)
	h.messagesAnswer(call, results)
	h.keysAnswer(call, results)
	h.signalsAnswer(call, results)

	for _, name := range []string{"list_tasks", "list_items", "list_events", "list_checkpoints", "list_workers", "list_namespaces",
		"list_sweeps",
		"list_archives", "list_relays", "list_queues", "list_budgets", "list_schedules", "list_keys", "list_failures"} {
		if r := call(name, "", ""); r.json["items"] == nil {
			t.Errorf("%s has no items: %s", name, r.text)
		}
	}
	for _, cursor := range []string{"x", "tsk_x", "%00", "eyJ"} {
		if r := h.do(400, "GET", "/v1/archives?cursor="+cursor, ""); r.json["code"] != "invalid" {
			t.Errorf("the cursor %s: %s", cursor, r.text)
		}
	}
	h.relaysAnswer(call)
	h.queuesAnswer(call)
	h.budgetsAnswer(call)
	h.effectsAnswer(call)
	h.childrenAnswer(call)
	h.schedulesAnswer(call)
	h.bulkAnswers(call)
	call("register_worker", "", `{"worker_id":"host:1/a","version":"1"}`)
	if r := call("sweep", "", ""); r.json["expired_found"] == nil {
		t.Errorf("sweep: %s", r.text)
	}
	put := call("put_blob", "", "bytes")
	if r := call("get_blob", put.str("address"), ""); r.text != "bytes" {
		t.Errorf("get_blob: %s", r.text)
	}
	h.streamsAnswer(call)
	if r := call("log_checkpoint", "", ""); r.json["size"] == nil { // sweep has signed it
		t.Errorf("log_checkpoint: %s", r.text)
	}
	done := h.do(200, "GET", "/v1/effects?state=done&limit=1", "").items()[0]["id"].(string)
	if r := call("effect_receipt", done, ""); r.json["checkpoint"] == nil {
		t.Errorf("effect_receipt: %s", r.text)
	}
	task := h.do(201, "POST", "/v1/tasks", `{"type":"logged"}`).json["id"].(string)
	if r := call("log_task", task, ""); r.json["proofs"] == nil {
		t.Errorf("log_task: %s", r.text)
	}
	asked["log_consistency"] = true
	said.check(t, api.RouteOf("log_consistency"), h.do(200, "GET", "/v1/log/consistency?from=1", ""))
	if r := call("doctor", "", `{"events":10}`); r.json["clean"] != true || r.json["breaches"] == nil || r.json["warnings"] == nil {
		t.Errorf("doctor: %s", r.text)
	}
	if r := call("tick", "", ""); r.json["did"].(map[string]any)["fired"] == nil {
		t.Errorf("tick: %s", r.text)
	}
	if r := call("prunable", "", ""); r.json["task_ids"] == nil {
		t.Errorf("prunable: %s", r.text)
	}
	for _, name := range []string{"stats", "series", "suggest_leases", "health", "ready", "metrics", "reference", "description"} {
		call(name, "", "")
	}
	for _, r := range api.Routes {
		if !asked[r.Name] && r.Name != "chat" && r.Name != "resume_chat" && r.Name != "receive_webhook" { // which TestChat and TestWebhooks ask
			t.Errorf("%s was not asked", r.Name)
		}
	}
}

func (h *testServer) childrenAnswer(call caller) {
	h.Helper()
	parent := h.do(201, "POST", "/v1/tasks", `{"type":"parent"}`).str("id")
	item := h.do(200, "POST", "/v1/claims", `{"worker_id":"w","types":["parent"]}`).items()[0]["id"].(string)
	fence := `"worker_id":"w","attempt":1`
	spawn := "{" + fence + `,"key":"k","task":{"type":"child","payload":7}}`
	child := call("spawn_child", item, spawn)
	if child.str("parent_id") != parent || child.json["payload"] != 7.0 {
		h.Errorf("spawn_child: %s", child.text)
	}
	if r := h.do(200, "POST", "/v1/items/"+item+":spawn", spawn); r.json["deduplicated"] != true || r.str("id") != child.str("id") {
		h.Errorf("spawn_child again: %s", r.text)
	}
	batch := call("spawn_children", "", `{"items":[{"id":"`+item+`",`+fence+`,"key":"l","task":{"type":"child"}}]}`)
	if !strings.Contains(batch.text, `"status":201`) {
		h.Errorf("spawn_children: %s", batch.text)
	}
	if r := h.do(200, "GET", "/v1/tasks?parent_id="+parent, ""); len(r.items()) != 2 {
		h.Errorf("the children: %s", r.text)
	}
	wait := func(need string) string {
		return "{" + fence + `,"children":{"ids":["` + child.str("id") + `"],"need":` + need + `,"on_failure":"continue"}}`
	}
	h.do(400, "POST", "/v1/items/"+item+":suspend", wait(`"some"`))
	h.do(400, "POST", "/v1/items/"+item+":suspend", wait(`2`))
	waits := h.do(200, "POST", "/v1/items/"+item+":suspend", wait(`"all"`))
	if b, _ := waits.json["blocked_by"].(map[string]any); b["reason"] != "children" || b["detail"] != "0 of 1 ended" {
		h.Errorf("suspended: %s", waits.text)
	}
	h.do(200, "POST", "/v1/tasks/"+child.str("id")+":cancel", "")
	resume := h.do(200, "GET", "/v1/items/"+item+"/resume", "")
	if s, _ := resume.json["children"].(map[string]any); s["ended"] != 1.0 || s["failed"] != 1.0 || s["over"] != true {
		h.Errorf("resume: %s", resume.text)
	}
}

func (h *testServer) budgetsAnswer(call caller) {
	h.Helper()
	if r := call("put_budget", "llm", `{"unit":"tokens","limit":100}`); r.json["created"] != true || r.json["remaining"] != 100.0 {
		h.Errorf("put_budget: %s", r.text)
	}
	if r := h.do(200, "PUT", "/v1/budgets/llm", `{"unit":"tokens","limit":50,"period":"day","on_exhausted":"ask"}`); r.json["created"] != nil {
		h.Errorf("put_budget again: %s", r.text)
	}
	h.do(201, "POST", "/v1/tasks", `{"type":"spends"}`)
	item := h.do(200, "POST", "/v1/claims", `{"worker_id":"w","types":["spends"]}`).items()[0]["id"]
	reserve := func(amount int) string {
		return fmt.Sprintf(`{"item_id":%q,"worker_id":"w","attempt":1,"amount":%d,"key":"k%d"}`, item, amount, amount)
	}
	reserved := call("reserve_budget", "llm", reserve(30))
	if reserved.json["remaining"] != 20.0 {
		h.Errorf("reserve_budget: %s", reserved.text)
	}
	refused := h.do(429, "POST", "/v1/budgets/llm:reserve", reserve(21))
	for name, want := range map[string]any{"code": "budget_exhausted", "on_exhausted": "ask", "remaining": 20.0,
		"reserved": 30.0, "limit": 50.0} {
		if refused.json[name] != want {
			h.Errorf("refused: %s is %v: %s", name, refused.json[name], refused.text)
		}
	}
	if refused.json["period_end"] == nil {
		h.Errorf("refused: %s", refused.text)
	}
	settle := fmt.Sprintf(`{"reservation":%q,"amount":7,"item_id":%q,"worker_id":"w","attempt":1}`, reserved.str("reservation"), item)
	if r := call("settle_budget", "llm", settle); r.json["spent"] != 7.0 || r.json["remaining"] != 43.0 {
		h.Errorf("settle_budget: %s", r.text)
	}
	h.do(404, "POST", "/v1/budgets/llm:settle", strings.Replace(settle, reserved.str("reservation"), "rsv_x", 1))
	if r := call("get_budget", "llm", ""); r.json["spent"] != 7.0 || r.json["period_end"] == nil {
		h.Errorf("get_budget: %s", r.text)
	}
	if r := call("budget_spending", "llm", ""); len(r.items()) != 1 {
		h.Errorf("budget_spending: %s", r.text)
	}
	call("delete_budget", "llm", "")
}

func (h *testServer) effectsAnswer(call caller) {
	h.Helper()
	h.do(201, "POST", "/v1/tasks", `{"type":"pays"}`)
	item := h.do(200, "POST", "/v1/claims", `{"worker_id":"w","types":["pays"]}`).items()[0]["id"]
	claim := fmt.Sprintf(`"item_id":%q,"worker_id":"w","attempt":1`, item)
	open := func(name, more string, headers ...string) reply {
		return call("open_effect", "", `{`+claim+`,"name":"`+name+`","request_hash":"h"`+more+`}`, headers...)
	}
	done := open("a", "", "Idempotency-Key", "k1")
	if again := open("a", "", "Idempotency-Key", "k1"); again.json["send"] != true || again.text != done.text {
		h.Errorf("open_effect again: %s", again.text)
	}
	if r := open("a", `,"wait_seconds":1`, "Idempotency-Key", "k2"); r.json["send"] != false || r.json["state"] != "open" {
		h.Errorf("open_effect by another call: %s", r.text)
	}
	refused := h.do(409, "POST", fmt.Sprintf("/v1/items/%s:complete", item), `{"worker_id":"w","attempt":1,"result":1}`)
	if refused.json["reason"] != "effect_open" || refused.json["effect_id"] != done.json["id"] {
		h.Errorf("complete: %s", refused.text)
	}
	if r := call("report_effect_done", done.str("id"), `{`+claim+`,"answer":{"x":1}}`); r.json["state"] != "done" {
		h.Errorf("done: %s", r.text)
	}
	call("report_effect_failed", open("b", "").str("id"), `{`+claim+`,"error":"no"}`)
	unknown := open("c", "").str("id")
	call("report_effect_unknown", unknown, `{`+claim+`}`)
	if r := h.do(409, "POST", "/v1/effects:open", `{`+claim+`,"name":"c","request_hash":"h"}`); r.json["code"] != "effect_unknown" ||
		r.json["effect_id"] != unknown {
		h.Errorf("unknown: %s", r.text)
	}
	call("keep_effect", open("g", `,"lease_seconds":15`).str("id"), `{`+claim+`,"lease_seconds":60}`)
	h.do(422, "POST", "/v1/effects:open", `{`+claim+`,"name":"a","request_hash":"other"}`)
	if r := call("resolve_effect", unknown, `{"outcome":"happened","answer":7}`); r.json["answer"] != 7.0 || r.json["outcome"] != "happened" {
		h.Errorf("resolve: %s", r.text)
	}
	call("approve_effect", open("d", `,"approve":true`).str("id"), `{}`)
	if r := call("reject_effect", open("e", `,"approve":true`).str("id"), `{"comment":"no"}`); r.json["state"] != "failed" {
		h.Errorf("reject: %s", r.text)
	}
	if r := call("get_effect", done.str("id"), ""); r.json["state"] != "done" {
		h.Errorf("get_effect: %s", r.text)
	}
	if list := call("list_effects", "", ""); len(list.items()) != 6 {
		h.Errorf("list_effects: %s", list.text)
	}
}

type (
	caller func(name, id, body string, headers ...string) reply
	reader func(r reply, want ...int) []map[string]any
)

func (h *testServer) tasksAnswer(call caller, results reader) {
	h.Helper()
	created := call("create_task", "", `{"type":"a","payload":{"n": 1},"title":"first"}`)
	task := created.str("id")
	if loc := created.Header.Get("Location"); loc != "/v1/tasks/"+task {
		h.Errorf("Location is %q", loc)
	}
	h.do(201, "POST", "/v1/tasks", `{"type":"a","payload":7,"dedupe":true}`)
	if again := h.do(200, "POST", "/v1/tasks", `{"type":"a","payload":7,"dedupe":true}`); again.json["deduplicated"] != true {
		h.Errorf("deduplicated: %s", again.text)
	}
	rs := results(call("create_tasks", "", `{"items":[{"type":"b"},{"type":""},{"type":"b","items":[{"input":1},{"input":2}]}]}`),
		201, 400, 201)
	if problem := rs[1]["error"].(map[string]any); problem["code"] != "invalid" ||
		problem["errors"].([]any)[0].(map[string]any)["pointer"] != "/type" {
		h.Errorf("the refused one: %v", problem)
	}
	many := rs[2]["value"].(map[string]any)["id"].(string)
	if r := call("get_task", task, ""); !strings.Contains(r.text, `"payload":{"n": 1}`) {
		h.Errorf("the payload is not what was sent: %s", r.text)
	}
	if r := call("update_task", task, `{"title":"second","metadata":{"k":1}}`); r.str("title") != "second" || r.Header.Get("ETag") != `"1"` {
		h.Errorf("updated, ETag %s: %s", r.Header.Get("ETag"), r.text)
	}
	results(call("update_tasks", "",
		fmt.Sprintf(`{"items":[{"task_id":%q,"version":0,"priority":1},{"task_id":%q,"version":1,"priority":1}]}`, task, task)), 412, 200)
	clone := call("clone_task", many, `{"title":"copy"}`)
	if loc := clone.Header.Get("Location"); loc != "/v1/tasks/"+clone.str("id") || clone.str("id") == many {
		h.Errorf("Location is %q: %s", loc, clone.text)
	}
	results(call("clone_tasks", "", fmt.Sprintf(`{"items":[{"task_id":%q}]}`, many)), 201)
	fork := call("fork_task", many, `{"checkpoint":0}`)
	if fork.str("forked_from") != many || !strings.Contains(fork.text, `"forked_at":0`) {
		h.Errorf("forked: %s", fork.text)
	}
	results(call("fork_tasks", "",
		fmt.Sprintf(`{"items":[{"task_id":%q,"checkpoint":0},{"task_id":%q,"checkpoint":7}]}`, many, many)), 201, 404)
	call("add_items", many, `{"items":[{"input":3}]}`)
	results(call("add_items_batch", "", fmt.Sprintf(`{"items":[{"task_id":%q,"items":[{"input":4}]}]}`, many)), 200)
	if r := call("task_items", many, ""); len(r.items()) != 4 {
		h.Errorf("items: %s", r.text)
	}
	h.do(404, "GET", "/v1/tasks/tsk_nope/items", "")
	call("task_events", task, "")
	call("checkpoint_task", task, `{"type":"manual_checkpoint","snapshot":{}}`)
	results(call("checkpoint_tasks", "", fmt.Sprintf(`{"items":[{"task_id":%q,"type":"custom","snapshot":1}]}`, task)), 201)
	const named = `"checkpoints":[{"type":"custom","name":"n","snapshot":1,"on_conflict":`
	if r := call("append_task", task, `{"expected":2,`+named+`"refuse"}]}`); r.json["newest"] != 3.0 {
		h.Errorf("append: %s", r.text)
	}
	two := `{"items":[{"task_id":%q,` + named + `"replace"}]},{"task_id":%q,"expected":1,` + named + `"keep"}]}]}`
	results(call("append_tasks", "", fmt.Sprintf(two, task, task)), 201, 409)
	if r := call("prune_task", task, `{"rules":[{"prefix":"n","keep":1}]}`); r.json["pruned"] != 0.0 {
		h.Errorf("prune: %s", r.text)
	}
	results(call("prune_tasks", "", fmt.Sprintf(`{"items":[{"task_id":%q,"rules":[{"prefix":"n","keep":1}]}]}`, task)), 200)
	if r := h.do(200, "GET", "/v1/tasks/"+task+"/checkpoints?own=true&name=n&sequence=4&brief=true&refs=true", ""); len(r.items()) != 1 {
		h.Errorf("checkpoints: %s", r.text)
	}
	call("task_checkpoints", task, "")
	call("task_provenance", task, "")
	if r := call("count_checkpoints", task, ""); r.json["counts"].(map[string]any)["custom"] != 2.0 {
		h.Errorf("counts: %s", r.text)
	}
	h.fail(task)
	call("retry_task", task, "")
	h.fail(task)
	call("bury_task", task, `{"reason":"enough"}`)
	results(call("retry_tasks", "", fmt.Sprintf(`{"items":[{"task_id":%q}]}`, task)), 200)
	h.fail(task)
	results(call("bury_tasks", "", fmt.Sprintf(`{"items":[{"task_id":%q}]}`, task)), 200)
	plain := call("plain_create_task", "", `{"type":"older","payload":1}`)
	if loc := plain.Header.Get("Location"); loc != "/tasks/"+plain.str("id") || plain.str("status") != "PENDING" {
		h.Errorf("created in the older shape: Location %q, %s", loc, plain.text)
	}
	if r := call("plain_task_cancel", plain.str("id"), ""); r.str("status") != "CANCELLED" {
		h.Errorf("cancelled in the older shape: %s", r.text)
	}
	if r := call("plain_task_retry", task, ""); r.str("status") != "PENDING" {
		h.Errorf("the older shape after retry: %s", r.text)
	}
	call("cancel_task", task, `{"reason":"no more"}`)
	results(call("cancel_tasks", "", fmt.Sprintf(`{"items":[{"task_id":%q},{"task_id":%q}]}`, task, many)), 409, 200)
	if r := call("plain_task", task, ""); r.str("status") != "CANCELLED" || r.str("state") != "Cancelled by user" {
		h.Errorf("the older shape: %s", r.text)
	}
	if r := call("plain_task_events", task, ""); !strings.HasPrefix(r.text, `[{"id":"evt_`) || !strings.Contains(r.text, `"actor":"API"`) {
		h.Errorf("events in the older shape: %s", r.text)
	}
	call("delete_task", task, "")
	results(call("delete_tasks", "", fmt.Sprintf(`{"items":[{"task_id":%q},{"task_id":%q}]}`, many, task)), 200, 404)
}

func (h *testServer) typesAnswer(call caller, results reader) {
	h.Helper()
	if r := call("put_type", "mail", `{"max_attempts":5}`); r.text != `{"name":"mail","version":1}`+"\n" {
		h.Errorf("put: %s", r.text)
	}
	if r := h.do(200, "PUT", "/v1/types/mail", `{"name":"mail","max_attempts":5}`); r.json["unchanged"] != true {
		h.Errorf("put again: %s", r.text)
	}
	if r := h.do(400, "PUT", "/v1/types/mail", `{"name":"post","result_schema":{}}`); !strings.Contains(r.text, `"pointer":"/name"`) {
		h.Errorf("another name: %s", r.text)
	}
	wrong := h.do(400, "PUT", "/v1/types/mail", `{"result_schema":{"type":"objekt"}}`)
	if !strings.Contains(wrong.text, `"pointer":"/result_schema/type"`) {
		h.Errorf("no schema: %s", wrong.text)
	}
	h.do(400, "PUT", "/v1/types/mail", `{"max_attemps":5}`)
	rs := results(call("put_types", "", `{"items":[{"name":"mail","max_attempts":5},{"name":"post"},{"name":"x.apply"}]}`), 200, 201, 400)
	if problem := rs[2]["error"].(map[string]any); problem["errors"].([]any)[0].(map[string]any)["pointer"] != "/name" {
		h.Errorf("the refused one: %v", problem)
	}
	if r := call("list_types", "", ""); len(r.items()) != 2 {
		h.Errorf("types: %s", r.text)
	}
	if r := call("get_type", "mail", ""); r.json["max_attempts"] != 5.0 || r.json["version"] != 1.0 {
		h.Errorf("type: %s", r.text)
	}
	h.do(404, "GET", "/v1/types/mail?version=2", "")
	call("remove_type", "mail", "")
	results(call("remove_types", "", `{"items":["mail","post"]}`), 404, 200)
}

// claim claims an item of a type made for it.
func (h *testServer) claim(typ, more string) map[string]any {
	h.Helper()
	h.do(201, "POST", "/v1/tasks", fmt.Sprintf(`{"type":%q}`, typ))
	r := h.do(200, "POST", "/v1/claims", fmt.Sprintf(`{"worker_id":"w1","types":[%q]%s}`, typ, more))
	if len(r.items()) != 1 {
		h.Fatalf("claim: %s", r.text)
	}
	return r.items()[0]
}

// fail fails a task's only item permanently.
func (h *testServer) fail(task string) {
	h.Helper()
	r := h.do(200, "POST", "/v1/claims", fmt.Sprintf(`{"worker_id":"w1","task_id":%q}`, task))
	item := r.items()[0]
	h.do(200, "POST", "/v1/items/"+item["id"].(string)+":fail",
		fmt.Sprintf(`{"worker_id":"w1","attempt":%v,"error":"broken","retryable":false}`, item["attempt"]))
}

func (h *testServer) itemsAnswer(call caller, results reader) {
	h.Helper()
	fence := `"worker_id":"w1","attempt":1`
	verbs := []struct{ name, members, state string }{
		{"progress", `,"progress":40,"stage":"reading"`, "in_progress"},
		{"complete", `,"result":{"ok": true}`, "completed"},
		{"fail", `,"error":{"code":"E1","message":"broken"}`, "scheduled"},
		{"release", ``, "queued"},
		{"suspend", `,"until":"2026-02-01T00:00:00Z"`, "waiting"},
	}
	for i, v := range verbs {
		id := h.claim(fmt.Sprint("single", i), "")["id"].(string)
		if r := call(v.name, id, "{"+fence+v.members+"}"); r.str("state") != v.state || r.str("id") != id {
			h.Errorf("%s answers %s", v.name, r.text)
		}
		id = h.claim(fmt.Sprint("batch", i), "")["id"].(string)
		rs := results(call(v.name+"_items", "",
			fmt.Sprintf(`{"items":[{"id":%q,%s%s},{"id":"itm_nope",%s%s}]}`, id, fence, v.members, fence, v.members)), 200, 404)
		if rs[0]["value"].(map[string]any)["state"] != v.state {
			h.Errorf("%s_items answers %v", v.name, rs)
		}
	}
	if r := call("revoke_lease", h.claim("revoked", "")["id"].(string), `{"attempt":1}`); r.str("state") != "queued" {
		h.Errorf("revoke_lease answers %s", r.text)
	}
	id := h.claim("revoked too", "")["id"].(string)
	results(call("revoke_leases", "", fmt.Sprintf(`{"items":[{"id":%q},{"id":"itm_nope"}]}`, id)), 200, 404)
	h.do(201, "POST", "/v1/tasks", `{"type":"c"}`)
	lease := call("claim", "", `{"worker_id":"w1","types":["c"],"lease_seconds":60}`).items()[0]
	id = lease["id"].(string)
	if r := call("check_token", "", "", api.TaskTokenHeader, lease["token"].(string)); r.str("item_id") != id || r.str("worker_id") != "w1" {
		h.Errorf("the token: %s", r.text)
	}
	call("resume_item", id, "")
	call("heartbeat", id, "{"+fence+"}")
	results(call("heartbeat_items", "", fmt.Sprintf(`{"items":[{"id":%q,%s}]}`, id, fence)), 200)
	call("checkpoint", id, "{"+fence+`,"type":"tool_executed","name":"fetch","snapshot":{"a": 1}}`)
	results(call("checkpoint_items", "", fmt.Sprintf(`{"items":[{"id":%q,%s,"type":"custom","snapshot":null}]}`, id, fence)), 201)
	call("get_item", id, "")
	if r := call("why_item", id, ""); r.str("reason") != "running" || r.str("command") == "" {
		h.Errorf("why: %s", r.text)
	}
	call("item_events", id, "")
	call("item_provenance", id, "")
	if r := call("resume_item", id, ""); r.json["steps"].(map[string]any)["fetch"] == nil || !strings.Contains(r.text, `"snapshot":{"a": 1}`) {
		h.Errorf("resume: %s", r.text)
	}
	h.do(200, "POST", "/v1/items/"+id+":complete", "{"+fence+`,"result":[1,  2]}`)
	task := lease["task_id"].(string)
	if r := call("task_result", task, ""); !strings.Contains(r.text, `"payload":[1,  2]`) {
		h.Errorf("result: %s", r.text)
	}
	h.p.Advance(pawl.DefaultRetainTasks + time.Hour)
	h.do(200, "POST", "/v1/sweeps", "{}")
	if r := call("restore_archive", task, ""); r.str("id") != task {
		h.Errorf("restored: %s", r.text)
	}
	h.do(409, "DELETE", "/v1/archives/"+task, "")
	h.do(204, "DELETE", "/v1/tasks/"+task, "")
	call("delete_archive", task, "")
	h.do(404, "DELETE", "/v1/archives/"+task, "")
}

// relaysAnswer takes the place of a relay that is disabled.
func (h *testServer) relaysAnswer(call caller) {
	h.Helper()
	r, _, err := h.p.Engine.TakeRelay(h.Context(), "bus", "shelf", "me", time.Minute)
	now := h.p.Now()
	r.DisabledAt = &now
	if err == nil {
		_, err = h.p.Engine.KeepRelay(h.Context(), r, 0)
	}
	if err != nil {
		h.Fatal(err)
	}
	if r := call("resume_relay", "bus", ""); r.str("sink") != "bus" || r.json["disabled_at"] != nil {
		h.Errorf("resume: %s", r.text)
	}
	h.do(409, "POST", "/v1/relays/bus:resume", "")
	call("forget_relay", "bus", "")
}

func (h *testServer) queuesAnswer(call caller) {
	h.Helper()
	if r := call("pause_queue", "early", ""); r.str("type") != "early" || r.json["paused"] != true || r.json["queued"] != 0.0 {
		h.Errorf("pause: %s", r.text)
	}
	if r := call("resume_queue", "early", ""); r.json["paused"] != false || r.json["paused_at"] != nil {
		h.Errorf("resume: %s", r.text)
	}
	if r := call("put_queue", "early", `{"concurrency":2,"rate":{"limit":1,"seconds":60}}`); r.json["concurrency"] != 2.0 {
		h.Errorf("set limits: %s", r.text)
	}
	h.do(201, "POST", "/v1/tasks", `{"type":"early"}`)
	h.do(201, "POST", "/v1/tasks", `{"type":"early"}`)
	h.do(200, "POST", "/v1/claims", `{"worker_id":"w","types":["early"]}`)
	if r := h.do(200, "POST", "/v1/claims", `{"worker_id":"w","types":["early"]}`); r.json["next_at"] == nil {
		h.Errorf("a claim that a rate keeps back: %s", r.text)
	}
	call("pause_namespace", "", "")
	if r := call("get_queue", "early", ""); r.json["paused"] != true || r.json["namespace_paused_at"] == nil {
		h.Errorf("a queue of a paused namespace: %s", r.text)
	}
	call("resume_namespace", "", "")
}

func (h *testServer) schedulesAnswer(call caller) {
	h.Helper()
	daily := `{"name":"daily:report","cron":"0 9 * * *","zone":"Europe/Berlin","task":{"type":"report","payload":{"n":1}}}`
	r := call("create_schedule", "", daily)
	if r.StatusCode != 201 || r.str("name") != "daily:report" || len(r.json["next"].([]any)) != 10 || r.json["error"] != nil {
		h.Errorf("create: %s %s", r.Status, r.text)
	}
	if last, shown := call("get_schedule", "daily:report", "").json["last_task_id"]; last != nil || !shown {
		h.Errorf("last_task_id is %v before the first task, want null", last)
	}
	if r := h.do(200, "POST", "/v1/schedules", daily); r.json["unchanged"] != true {
		h.Errorf("create again: %s", r.text)
	}
	h.do(409, "POST", "/v1/schedules", `{"name":"daily:report","cron":"0 8 * * *","task":{"type":"report"}}`)
	if r := h.do(200, "PUT", "/v1/schedules/daily:report", daily); r.json["unchanged"] != true {
		h.Errorf("put the same: %s", r.text)
	}
	if r := h.do(200, "PUT", "/v1/schedules/daily:report", strings.Replace(daily, `"n":1`, `"n":2`, 1)); r.json["unchanged"] != nil ||
		!strings.Contains(r.text, `"payload":{"n":2}`) {
		h.Errorf("put another: %s", r.text)
	}
	if r := call("put_schedule", "new", `{"every_seconds":60,"task":{"type":"t"}}`); r.json["created"] != true || r.str("name") != "new" {
		h.Errorf("put a new one: %s", r.text)
	}
	h.do(204, "DELETE", "/v1/schedules/new", "")
	for _, body := range []string{`{"name":"other","cron":"0 9 * * *","task":{"type":"report"}}`, `{"task":{"type":"report"}}`,
		`{"cron":"x","task":{"type":"report"}}`, `{"cron":"0 9 * * *","task":{}}`} {
		if r := h.do(400, "PUT", "/v1/schedules/daily:report", body); r.str("code") != "invalid" {
			h.Errorf("put %s: %s", body, r.text)
		}
	}
	if r := call("run_schedule", "daily:report", ""); !strings.HasPrefix(r.str("last_task_id"), "tsk_") {
		h.Errorf("run: %s", r.text)
	}
	if r := call("schedule_firings", "daily:report", ""); len(r.items()) != 1 || r.items()[0]["manual"] != true {
		h.Errorf("firings: %s", r.text)
	}
	if r := call("pause_schedule", "daily:report", ""); r.json["paused_at"] == nil || len(r.json["next"].([]any)) != 0 {
		h.Errorf("pause: %s", r.text)
	}
	if r := call("resume_schedule", "daily:report", ""); r.json["paused_at"] != nil {
		h.Errorf("resume: %s", r.text)
	}
	if r := call("get_schedule", "daily:report", ""); r.json["zone"] != "Europe/Berlin" || r.json["overlap"] != "skip" {
		h.Errorf("get: %s", r.text)
	}
	call("delete_schedule", "daily:report", "")
	h.do(404, "GET", "/v1/schedules/daily%3Areport", "")
}

func (h *testServer) bulkAnswers(call caller) {
	h.Helper()
	h.do(201, "POST", "/v1/tasks", `{"type":"many","metadata":{"n":1}}`)
	h.do(201, "POST", "/v1/tasks", `{"type":"many"}`)
	r := call("bulk", "", `{"verb":"cancel","filter":{"type":"many"}}`)
	if r.StatusCode != 202 || r.str("type") != "pawl.bulk" || r.json["count"] != nil {
		h.Errorf("bulk: %s %s", r.Status, r.text)
	}
	id := r.str("id")
	for body, n := range map[string]float64{
		`{"verb":"cancel","filter":{"type":["many"]},"dry_run":true}`:                             2,
		`{"verb":"cancel","filter":{"type":"many","metadata":{"n":1}},"dry_run":true}`:            1,
		`{"verb":"cancel","filter":{"type":"many","status":"completed"},"dry_run":true}`:          0,
		`{"verb":"retry","filter":{"type":"many","state":["queued","failed"]},"dry_run":true}`:    2,
		`{"verb":"retry","filter":{"type":"many","since":"2126-01-29T10:00:00Z"},"dry_run":true}`: 0,
	} {
		if r := h.do(200, "POST", "/v1/bulk", body); r.json["count"] != n || len(r.json) != 1 {
			h.Errorf("%s: %s", body, r.text)
		}
	}
	call("sweep", "", "")
	if r := h.do(200, "GET", "/v1/tasks/"+id+"/result", ""); !strings.Contains(r.text, `"matched":2,"changed":2`) {
		h.Errorf("result: %s", r.text)
	}
	for _, bad := range []string{`{"verb":"cancel","filter":{}}`, `{"verb":"cancel"}`, `{"verb":"cancel","filter":{"kind":"many"}}`,
		`{"verb":"finish","filter":{"type":"many"}}`, `{"verb":"cancel","filter":{"type":7}}`,
		`{"verb":"cancel","filter":{"metadata":{"n":[1]}}}`} {
		h.do(400, "POST", "/v1/bulk", bad)
	}
	h.do(400, "POST", "/v1/tasks", `{"type":"pawl.bulk"}`)
	h.do(400, "PUT", "/v1/queues/pawl.bulk", `{"concurrency":1}`)
	h.do(400, "PUT", "/v1/types/pawl.mine", `{}`)
}

func (h *testServer) keysAnswer(call caller, results reader) {
	h.Helper()
	begun := call("begin_key", "order:42:send", `{"scope":"mail","request_hash":"h"}`)
	token := begun.str("token")
	if begun.json["run"] != true || token == "" {
		h.Fatalf("begin: %s", begun.text)
	}
	r := h.do(409, "POST", "/v1/idempotency-keys/order:42:send:begin", `{"scope":"mail","request_hash":"h"}`)
	if r.str("code") != "key_in_flight" || r.Header.Get("Retry-After") == "" {
		h.Errorf("in flight: %s, Retry-After %q", r.text, r.Header.Get("Retry-After"))
	}
	h.p.Advance(50 * time.Second)
	call("renew_key", "order:42:send", fmt.Sprintf(`{"scope":"mail","token":%q}`, token))
	h.p.Advance(50 * time.Second)
	h.do(409, "POST", "/v1/idempotency-keys/order:42:send:begin", `{"scope":"mail","request_hash":"h"}`)
	call("complete_key", "order:42:send", fmt.Sprintf(`{"scope":"mail","token":%q,"response":{"sent": 1}}`, token))
	if r := call("get_key", "order:42:send?scope=mail", ""); r.str("status") != "completed" || !strings.Contains(r.text, `{"sent": 1}`) {
		h.Errorf("the key: %s", r.text)
	}
	if r := h.do(422, "POST", "/v1/idempotency-keys/order:42:send:begin",
		`{"scope":"mail","request_hash":"other"}`); r.str("code") != "key_reused" {
		h.Errorf("reused: %s", r.text)
	}
	token = call("begin_key", "a%2Fb", `{"request_hash":"h"}`).str("token")
	call("fail_key", "a%2Fb", fmt.Sprintf(`{"token":%q,"response":"no"}`, token))
	results(call("get_keys", "", `{"items":[{"scope":"mail","key":"order:42:send"},{"key":"nope"}]}`), 200, 404)
	rs := results(call("begin_keys", "", `{"items":[{"key":"x","request_hash":"h"},{"key":"y","request_hash":"h"}]}`), 200, 200)
	of := func(i int) string { return rs[i]["value"].(map[string]any)["token"].(string) }
	results(call("renew_keys", "",
		fmt.Sprintf(`{"items":[{"key":"x","token":%q},{"key":"y","token":"run_not"},{"key":"z","token":"t"}]}`, of(0))), 200, 409, 404)
	results(call("complete_keys", "", fmt.Sprintf(`{"items":[{"key":"x","token":%q,"response":1}]}`, of(0))), 200)
	results(call("fail_keys", "", fmt.Sprintf(`{"items":[{"key":"y","token":%q,"response":"no"}]}`, of(1))), 200)
}

func (h *testServer) signalsAnswer(call caller, results reader) {
	h.Helper()
	id := h.claim("signalled", "")["id"].(string)
	fence := `"worker_id":"w1","attempt":1`
	h.do(201, "POST", "/v1/items/"+id+":checkpoint",
		"{"+fence+`,"type":"state_transition","name":"ok","snapshot":null,"metadata":{"signal":"approved","key":"42"}}`)
	if r := h.do(200, "POST", "/v1/items/"+id+":suspend", "{"+fence+`,"signal":"approved","key":"42"}`); r.str("state") != "waiting" {
		h.Errorf("suspended: %s", r.text)
	}
	if r := call("send_signal", "", `{"name":"approved","key":"42","payload":{"by": "ana"}}`); r.json["woken"] != 1.0 ||
		r.json["replaced"] != false {
		h.Errorf("sent: %s", r.text)
	}
	if r := call("resume_item", id, ""); !strings.Contains(r.text, `"payload":{"by": "ana"}`) {
		h.Errorf("resume: %s", r.text)
	}
	rs := results(call("send_signals", "", `{"items":[{"name":"approved","key":"42"},{"name":""}]}`), 200, 400)
	if rs[0]["value"].(map[string]any)["replaced"] != true {
		h.Errorf("sent again: %v", rs[0])
	}
}

func TestListsFilterAndPage(t *testing.T) {
	h := open(t)
	for i, typ := range []string{"a", "b", "a", "c"} {
		h.do(201, "POST", "/v1/tasks", fmt.Sprintf(`{"type":%q,"priority":%d}`, typ, i))
		h.p.Advance(time.Second)
	}
	task := h.do(200, "GET", "/v1/tasks?order=asc&limit=1", "").items()[0]["id"].(string)
	for _, c := range []struct {
		path string
		want int
	}{
		{"/v1/tasks", 4},
		{"/v1/tasks?type=a", 2},
		{"/v1/tasks?type=a,b", 3},
		{"/v1/tasks?type=a&type=b", 3},
		{"/v1/tasks?state=queued&status=pending", 4},
		{"/v1/tasks?state=completed", 0},
		{"/v1/tasks?min_priority=1&max_priority=2", 2},
		{"/v1/tasks?max_priority=0", 1},
		{"/v1/tasks?since=2026-01-29T10:00:02Z", 2},
		{"/v1/tasks?until=2026-01-29T10:00:02Z", 2},
		{"/v1/tasks?id=" + task, 1},
		{"/v1/items?task=" + task, 1},
		{"/v1/items?task_id=" + task, 1},
		{"/v1/items?worker_id=w1", 0},
		{"/v1/items?type=c&state=queued", 1},
		{"/v1/events?task=" + task, 1},
		{"/v1/events?event=proposed&limit=3", 3},
		{"/v1/checkpoints?task=" + task, 0},
	} {
		if r := h.do(200, "GET", c.path, ""); len(r.items()) != c.want || r.json["items"] == nil {
			t.Errorf("%s: %d rows, want %d\n%s", c.path, len(r.items()), c.want, r.text)
		}
	}
	var ids []string
	for path := "/v1/tasks?limit=3"; path != ""; {
		r := h.do(200, "GET", path, "")
		for _, e := range r.items() {
			ids = append(ids, e["id"].(string))
		}
		path = ""
		if next := r.str("next"); next != "" {
			path = "/v1/tasks?limit=3&cursor=" + next
		}
	}
	if len(ids) != 4 || ids[3] != task {
		t.Errorf("pages hold %v; the oldest is %s", ids, task)
	}
}

func TestVerbsThatAreNone(t *testing.T) {
	srv := serve(t, unreachable{}, server.Options{})
	for _, c := range []struct {
		method, path string
		status       int
		allow        string
	}{
		{"GET", "/v1/nope", 404, ""},
		{"GET", "/", 404, ""},
		{"GET", "/v1/tasks/", 404, ""},
		{"POST", "/v1/nope/x:y", 404, ""},
		{"GET", "/v1/tasks/a%00b", 404, ""},
		{"GET", "/v1/tasks/a%ffb", 404, ""},
		{"POST", "/v1/tasks/tsk_1:nope", 405, "GET, HEAD, PATCH, DELETE"},
		{"POST", "/v1/tasks/a:b:nope", 405, "GET, HEAD, PATCH, DELETE"},
		{"POST", "/v1/items:nope", 405, "GET, HEAD"},
		{"POST", "/v1/items/itm_1", 405, "GET, HEAD"},
		{"GET", "/v1/claims", 405, "POST"},
		{"PUT", "/v1/tasks/tsk_1", 405, "GET, HEAD, PATCH, DELETE"},
		{"HEAD", "/v1/claims", 405, "POST"},
		{"GET", "/v1/tasks/tsk_1:cancel", 405, "POST"},
		{"HEAD", "/v1/items/a:b:heartbeat", 405, "POST"},
		{"DELETE", "/v1/idempotency-keys/a:begin", 405, "POST"},
		{"PATCH", "/v1/tasks/tsk_1:clone", 405, "POST"},
		{"GET", "/tasks/tsk_1:retry", 405, "POST"},
		{"GET", "/tasks", 405, "POST"},
		{"PUT", "/v1/items:complete", 405, "POST"},
	} {
		r := ask(t, srv, c.method, c.path, "")
		if r.StatusCode != c.status || r.Header.Get("Allow") != c.allow || r.Header.Get("Content-Type") != api.ProblemType {
			t.Errorf("%s %s: %s, Allow %q, %s", c.method, c.path, r.Status, r.Header.Get("Allow"), r.Header.Get("Content-Type"))
		}
	}
	if r := ask(t, srv, "HEAD", "/healthz", ""); r.StatusCode != http.StatusOK {
		t.Errorf("HEAD /healthz: %s", r.Status)
	}
}

var lastID = regexp.MustCompile(`^req_[A-Z2-7]{26}$`)

func TestRequestsAreNamed(t *testing.T) {
	srv := serve(t, unreachable{}, server.Options{})
	if id := ask(t, srv, "GET", "/healthz", "").Header.Get("X-Request-Id"); !lastID.MatchString(id) {
		t.Errorf("our own: %q", id)
	}
	if id := ask(t, srv, "GET", "/healthz", "", "X-Request-Id", "mine-1").Header.Get("X-Request-Id"); id != "mine-1" {
		t.Errorf("the caller's: %q", id)
	}
	if id := ask(t, srv, "GET", "/healthz", "", "X-Request-Id", "a b").Header.Get("X-Request-Id"); !lastID.MatchString(id) {
		t.Errorf("the caller's that is none: %q", id)
	}
}

func (h *testServer) messagesAnswer(call caller, results reader) {
	h.Helper()
	made := h.do(201, "POST", "/v1/tasks", `{"type":"chat","thread":"t","messages":[{"role":"user","content":"Hi"}],"reply":{"model":"m"}}`)
	claim := func(task string) (item, fence string) {
		r := h.do(200, "POST", "/v1/claims", fmt.Sprintf(`{"worker_id":"w","task_id":%q}`, task))
		return r.items()[0]["id"].(string), `"worker_id":"w","attempt":1`
	}
	item, fence := claim(made.str("id"))
	list := call("item_messages", item, "")
	id := list.items()[1]["id"].(string)
	if r := call("append", id,
		"{"+fence+`,"offset":0,"chunks":[{"type":"text","text":"a\ud83d"},{"type":"text","text":"\ude00b"}]}`); r.json["offset"] != 2.0 {
		h.Errorf("append: %s", r.text)
	}
	if r := h.do(409, "POST", "/v1/messages/"+id+":append",
		"{"+fence+`,"offset":7,"chunks":[{"type":"text","text":"x"}]}`); r.json["expected"] != 2.0 || r.str("state") != "streaming" {
		h.Errorf("a gap: %s", r.text)
	}
	h.do(400, "POST", "/v1/messages/"+id+":append", "{"+fence+`,"offset":2,"chunks":[{"type":"text","text":"`+"\xff"+`"}]}`)
	results(call("append_messages", "",
		fmt.Sprintf(`{"items":[{"id":%q,%s,"offset":2,"chunks":[{"type":"text","text":"c"}]}]}`, id, fence)), 200)
	if r := call("step_message", id, "{"+fence+`,"snapshot":{"n":1}}`); r.json["sequence"] != 1.0 {
		h.Errorf("step: %s", r.text)
	}
	results(call("step_messages", "", fmt.Sprintf(`{"items":[{"id":%q,%s}]}`, id, fence)), 201)
	if r := call("finish_message", id, "{"+fence+"}"); r.str("status") != "complete" {
		h.Errorf("finish: %s", r.text)
	}
	if r := call("get_message", id, ""); !strings.Contains(r.text, `"content":[{"type":"text","text":"a😀bc"}]`) {
		h.Errorf("content: %s", r.text)
	}
	want := ":\n\nid: 1\ndata: {\"offset\":0,\"chunks\":[{\"type\":\"text\",\"text\":\"a\"},{\"type\":\"text\",\"text\":\"😀b\"}]}\n\n" +
		"id: 2\ndata: {\"offset\":2,\"chunks\":[{\"type\":\"text\",\"text\":\"c\"}]}\n\nevent: end\ndata: " +
		"{\"status\":\"complete\",\"offset\":3}\n\n"
	if r := call("follow_message", id, ""); r.text != strings.TrimSpace(want) && r.text != want {
		h.Errorf("the stream: %q", r.text)
	}
	results(call("finish_messages", "", fmt.Sprintf(`{"items":[{"id":%q,%s}]}`, id, fence)), 409)
	if r := call("start_message", item, "{"+fence+`,"role":"assistant"}`); r.str("status") != "streaming" ||
		!strings.HasPrefix(r.str("id"), "msg_") {
		h.Errorf("start: %s", r.text)
	} else if r := call("stop_message", r.str("id"), `{"reason":"enough"}`); r.str("status") != "stopped" {
		h.Errorf("stop: %s", r.text)
	}
	task := made.str("id")
	own := call("open_message", task, `{"role":"tool","thread":"own"}`)
	by := fmt.Sprintf(`"writer":%q`, own.str("writer"))
	chunks := `,"offset":0,"chunks":[{"type":"text","text":"a"},{"type":"text","text":"b"}]}`
	if r := call("append", own.str("id"), "{"+by+chunks); r.json["offset"] != 2.0 {
		h.Errorf("append by a writer: %s", r.text)
	}
	if r := call("finish_message", own.str("id"), "{"+by+"}"); r.str("status") != "complete" {
		h.Errorf("finish by a writer: %s", r.text)
	}
	wantLast := "id: 0\n\nid: 1\ndata: {\"offset\":1,\"chunks\":[{\"type\":\"text\",\"text\":\"b\"}]}\n\nevent: end\ndata: " +
		"{\"status\":\"complete\",\"offset\":2}\n\n"
	if r := h.do(200, "GET", "/v1/messages/"+own.str("id")+"/stream?last=1", ""); r.text != strings.TrimSpace(wantLast) && r.text != wantLast {
		h.Errorf("the last chunk: %q", r.text)
	}
	results(call("open_messages", "",
		fmt.Sprintf(`{"items":[{"task_id":%q,"role":"tool","thread":"own","on_conflict":"return"}]}`, task)), 201)
	results(call("start_messages", "", fmt.Sprintf(`{"items":[{"id":%q,%s,"role":"tool","content":"x"}]}`, item, fence)), 201)
	results(call("stop_messages", "", fmt.Sprintf(`{"items":[{"id":%q}]}`, id)), 409)
	if r := call("list_messages", "", ""); len(r.items()) != 5 {
		h.Errorf("messages: %s", r.text)
	}
}
