package server_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/pawl-work/pawl/pawltest"
	"github.com/pawl-work/pawl/server"
)

// A limit or a time that is zero, negative or absurd is refused with its place, unless 0 has a
// meaning of its own.
func TestLimitsThatLimitNothing(t *testing.T) {
	const task, unit, reserve = `{"type":"a",`, `"unit":"tokens"`, `"item_id":"itm_1","worker_id":"w","attempt":1,`
	srv := serve(t, pawltest.Open(t, pawltest.SQLite).Service, server.Options{})
	for _, c := range []struct{ method, path, before, pointer, after string }{
		{"POST", "/v1/tasks", task + `"start_to_close_seconds":`, "/start_to_close_seconds", `}`},
		{"POST", "/v1/tasks", task + `"schedule_to_start_seconds":`, "/schedule_to_start_seconds", `}`},
		{"POST", "/v1/tasks", task + `"debounce":{"key":"k","seconds":`, "/debounce/seconds", `}}`},
		{"POST", "/v1/tasks", task + `"debounce":{"key":"k","seconds":1,"max_seconds":`, "/debounce/max_seconds", `}}`},
		{"POST", "/v1/schedules", `{"name":"s","task":{"type":"a"},"every_seconds":`, "/every_seconds", `}`},
		{"POST", "/v1/schedules", `{"name":"s","cron":"@daily","task":{"type":"a"},"every_seconds":`, "/every_seconds", `}`},
		{"POST", "/v1/schedules", `{"name":"s","cron":"@daily","task":` + task + `"start_to_close_seconds":`,
			"/task/start_to_close_seconds", `}}`},
		{"PUT", "/v1/queues/a", `{"concurrency":`, "/concurrency", `}`},
		{"PUT", "/v1/queues/a", `{"per_worker":`, "/per_worker", `}`},
		{"PUT", "/v1/queues/a", `{"rate":{"seconds":1,"limit":`, "/rate/limit", `}}`},
		{"PUT", "/v1/queues/a", `{"rate":{"limit":1,"seconds":`, "/rate/seconds", `}}`},
		{"PUT", "/v1/queues/a", `{"rate":{"limit":1,"seconds":1,"burst":`, "/rate/burst", `}}`},
		{"PUT", "/v1/queues/a", `{"per_key":{"pointer":"/t","concurrency":`, "/per_key/concurrency", `}}`},
		{"PUT", "/v1/queues/a", `{"per_key":{"pointer":"/t","weights":{"x/y":`, "/per_key/weights/x~1y", `}}}`},
		{"PUT", "/v1/queues/a", `{"per_key":{"pointer":"/t","rate":{"limit":1,"seconds":`, "/per_key/rate/seconds", `}}}`},
		{"PUT", "/v1/budgets/b", `{` + unit + `,"limit":`, "/limit", `}`},
		{"POST", "/v1/budgets/b:reserve", `{` + reserve + `"key":"k","amount":`, "/amount", `}`},
	} {
		for _, n := range []string{"0", "-1", "9000000000000000000"} {
			r := ask(t, srv, c.method, c.path, c.before+n+c.after)
			if r.StatusCode != 400 || r.str("code") != "invalid" || !slices.Contains(r.pointers(), c.pointer) {
				t.Errorf("%s %s %s: %s %s", c.method, c.path, c.before+n+c.after, r.Status, r.text)
			}
		}
	}
	r := ask(t, srv, "POST", "/v1/tasks:batch", `{"items":[{"type":"a"},`+task+`"start_to_close_seconds":0}]}`)
	if r.StatusCode != 200 || !strings.Contains(r.text, `"pointer":"/start_to_close_seconds"`) {
		t.Errorf("in a batch: %s %s", r.Status, r.text)
	}
	for path, body := range map[string]string{
		"/v1/tasks":     task + `"payload":{"max_seconds":0,"every_seconds":0},"unique":{"by":"key","key":"k","window_seconds":0}}`,
		"/v1/schedules": `{"name":"z","cron":"@daily","jitter_seconds":0,"task":{"type":"a"}}`,
	} {
		if r := ask(t, srv, "POST", path, body); r.StatusCode != 201 {
			t.Errorf("%s: %s %s", path, r.Status, r.text)
		}
	}
}
