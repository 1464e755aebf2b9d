package server_test

import (
	"fmt"
)

// acceptanceAnswers calls the routes that hand in results and those that decide about tasks.
func (h *testServer) acceptanceAnswers(call caller, results reader) {
	h.Helper()
	h.do(201, "PUT", "/v1/types/report", `{"parts":[{"key":"head"}],"approval":{"mode":"manual"}}`)
	held := func() (task, item string) {
		h.Helper()
		task = h.do(201, "POST", "/v1/tasks", `{"type":"report"}`).str("id")
		return task, h.do(200, "POST", "/v1/claims", `{"worker_id":"w1","task_id":"`+task+`"}`).items()[0]["id"].(string)
	}
	fence := `"worker_id":"w1","attempt":1`
	no := `"errors":[{"code":"thin","message":"too thin"}]`

	task, item := held()
	if r := call("submit", item, "{"+fence+`,"result":{"a": 1},"evidence":["x"],"notes":"n"}`); r.str("state") != "submitted" {
		h.Errorf("submit answers %s", r.text)
	}
	if r := call("approve_task", task, `{"comment":"fine"}`); r.str("state") != "completed" {
		h.Errorf("approve answers %s", r.text)
	}
	if r := h.do(409, "POST", "/v1/tasks/"+task+":reject", "{"+no+"}"); r.json["allowed"] == nil || r.str("holder") != "user" {
		h.Errorf("reject of what was approved answers %s", r.text)
	}
	task, item = held()
	call("submit_part", item, "{"+fence+`,"key":"head","payload":"h"}`)
	if r := call("item_parts", item, ""); len(r.items()) != 1 {
		h.Errorf("parts: %s", r.text)
	}
	if r := call("finalize", item, "{"+fence+`,"mode":"best_effort"}`); r.str("state") != "submitted" {
		h.Errorf("finalize answers %s", r.text)
	}
	if r := call("reject_task", task, "{"+no+`,"allow_rework":true,"items":["`+item+`"]}`); r.str("state") != "queued" {
		h.Errorf("reject answers %s", r.text)
	}
	for _, b := range []struct{ name, verb string }{{"approve_tasks", ""}, {"reject_tasks", "," + no}} {
		task, item = held()
		results(call("submit_parts", "",
			fmt.Sprintf(`{"items":[{"id":%q,%s,"key":"head","payload":1},{"id":%[1]q,%s,"key":"tail","payload":1}]}`, item, fence, fence)),
			201, 400)
		results(call("finalize_items", "", fmt.Sprintf(`{"items":[{"id":%q,%s}]}`, item, fence)), 200)
		results(call("submit_items", "", fmt.Sprintf(`{"items":[{"id":%q,%s}]}`, item, fence)), 409)
		results(call(b.name, "", fmt.Sprintf(`{"items":[{"task_id":%q%s},{"task_id":"tsk_nope"%s}]}`, task, b.verb, b.verb)), 200, 404)
	}
}
