package server_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/pawltest"
	"github.com/pawl-work/pawl/server"
)

// These are the routes of the plain shape through the lives of tasks: created, worked on in
// steps, failed and retried, completed, cancelled.
func TestTheOlderShapeThroughALife(t *testing.T) {
	list := func(r reply) (out []map[string]any) {
		t.Helper()
		if err := json.Unmarshal([]byte(r.text), &out); err != nil {
			t.Fatal(err, r.text)
		}
		return out
	}
	pawltest.Each(t, func(t *testing.T, p *pawltest.Pawl) {
		h := &testServer{t, p, serve(t, p.Service, server.Options{})}
		task := h.do(201, "POST", "/v1/tasks",
			`{"type":"repo.analyze","payload":{"repo":"x"},"metadata":{"tenant":"t1"},"dedupe":true,"max_attempts":1}`).str("id")
		reads := func(id, status, state string, progress, retries float64, failure any) {
			t.Helper()
			r := h.do(200, "GET", "/tasks/"+id, "")
			if r.str("status") != status || r.str("state") != state || r.json["progress"] != progress ||
				r.json["retry_count"] != retries || r.json["error"] != failure {
				t.Errorf("it reads %s", r.text)
			}
		}
		events := func(id string) (out []string) {
			t.Helper()
			for _, e := range list(h.do(200, "GET", "/tasks/"+id+"/events", "")) {
				out = append(out, fmt.Sprint(e["status"], " ", e["state"], " by ", e["actor"]))
			}
			return out
		}
		item := func(id string) string {
			t.Helper()
			return "/v1/items/" + h.do(200, "POST", "/v1/claims", `{"worker_id":"w","task_id":"`+id+`"}`).items()[0]["id"].(string)
		}
		reads(task, "PENDING", "Queued", 0, 0, nil)
		if r := h.do(200, "GET", "/tasks/"+task, ""); len(r.str("input_hash")) != 64 || r.json["version"] != 0.0 ||
			!strings.Contains(r.text, `"metadata":{"tenant":"t1"}`) {
			t.Errorf("created: %s", r.text)
		}
		if got := events(task); len(got) != 1 || got[0] != "PENDING Queued by API" ||
			list(h.do(200, "GET", "/tasks/"+task+"/events", ""))[0]["detail"] == nil {
			t.Errorf("created: %v", got)
		}
		at := item(task)
		h.do(200, "POST", at+":progress", `{"worker_id":"w","attempt":1,"progress":40,"stage":"Cloning"}`)
		h.do(200, "POST", at+":progress", `{"worker_id":"w","attempt":1,"progress":60,"stage":"Analyzing"}`)
		reads(task, "IN_PROGRESS", "Analyzing", 60, 0, nil)
		if got := events(task)[0]; got != "IN_PROGRESS Analyzing by WORKER" {
			t.Errorf("a step: %s", got)
		}
		h.do(200, "POST", at+":fail", `{"worker_id":"w","attempt":1,"error":"no space left"}`)
		reads(task, "FAILED", "Analyzing", 0, 1, "no space left")
		if r := h.do(200, "POST", "/tasks/"+task+":retry", ""); r.str("status") != "PENDING" || r.json["retry_count"] != 0.0 {
			t.Errorf("retried: %s", r.text)
		}
		at = item(task)
		h.do(200, "POST", at+":complete", `{"worker_id":"w","attempt":2,"result":{"uri":"s3://bucket/report"}}`)
		reads(task, "COMPLETED", "Completed", 100, 0, nil)
		if got := events(task); got[0] != "COMPLETED Completed by WORKER" || got[len(got)-1] != "PENDING Queued by API" {
			t.Errorf("newest first: %v", got)
		}
		h.do(409, "POST", "/tasks/"+task+":retry", "")

		other := h.do(201, "POST", "/v1/tasks", `{"type":"b"}`).str("id")
		at = item(other)
		for n := range 120 {
			h.do(200, "POST", at+":progress", fmt.Sprintf(`{"worker_id":"w","attempt":1,"stage":"step %d"}`, n))
		}
		h.do(200, "POST", "/v1/tasks/"+other+":cancel", "")
		reads(other, "CANCELLED", "Cancelled by user", 0, 0, nil)
		if got := events(other); len(got) != 100 || got[0] != "CANCELLED Cancelled by user by USER" ||
			got[1] != "IN_PROGRESS step 119 by WORKER" {
			t.Errorf("%d events: %v", len(got), got)
		}
		if r := h.do(409, "POST", at+":progress", `{"worker_id":"w","attempt":1,"progress":1}`); r.str("state") != string(pawl.ItemCancelled) {
			t.Errorf("a step of what was cancelled: %s", r.text)
		}
	})
}

// A task that is created in the plain shape is found again by the hash of its input, worked on
// like any other, and cancelled in the plain shape.
func TestTheOlderShapeCreatesAndCancels(t *testing.T) {
	pawltest.Each(t, func(t *testing.T, p *pawltest.Pawl) {
		h := &testServer{t, p, serve(t, p.Service, server.Options{})}
		const body = `{"type":"repo.analyze","payload":{"repo": "x"},"metadata":{"tenant":"t1"},"dedupe":true}`
		made := h.do(201, "POST", "/tasks", body)
		id := made.str("id")
		if loc := made.Header.Get("Location"); loc != "/tasks/"+id || made.str("status") != "PENDING" || made.str("state") != "Queued" ||
			made.json["priority"] != 1.0 || len(made.str("input_hash")) != 64 || !strings.Contains(made.text, `"metadata":{"tenant":"t1"}`) {
			t.Errorf("created: Location %q, %s", loc, made.text)
		}
		if again := h.do(200, "POST", "/tasks", body); again.str("id") != id || again.Header.Get("Location") != "/tasks/"+id {
			t.Errorf("created again: %s", again.text)
		}
		own := h.do(201, "POST", "/tasks", `{"type":"repo.analyze","priority":0,"input_hash":"mine"}`)
		if own.json["priority"] != 0.0 || own.str("input_hash") != "mine" {
			t.Errorf("with a hash of one's own: %s", own.text)
		}
		if r := h.do(200, "GET", "/v1/tasks/"+id, ""); !strings.Contains(r.text, `"payload":{"repo": "x"}`) {
			t.Errorf("in Pawl's own shape: %s", r.text)
		}
		h.do(400, "POST", "/tasks", `{"type":"","payload":1}`)
		h.do(400, "POST", "/tasks", `{"type":"a","status":"PENDING"}`)

		item := h.do(200, "POST", "/v1/claims", `{"worker_id":"w","task_id":"`+id+`"}`).items()[0]["id"].(string)
		if r := h.do(200, "POST", "/tasks/"+id+":cancel", ""); r.str("status") != "CANCELLED" || r.str("state") != "Cancelled by user" {
			t.Errorf("cancelled: %s", r.text)
		}
		h.do(409, "POST", "/v1/items/"+item+":progress", `{"worker_id":"w","attempt":1,"progress":1}`)
		h.do(409, "POST", "/tasks/"+id+":cancel", "")
		h.do(404, "POST", "/tasks/tsk_nope:cancel", "")
		if r := h.do(201, "POST", "/tasks", body); r.str("id") == id {
			t.Error("a cancelled task holds its input")
		}
	})
}
