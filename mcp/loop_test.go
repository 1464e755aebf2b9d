package mcp_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/mcp"
	"github.com/pawl-work/pawl/pawltest"
)

const report = `{"name":"report","result_schema":{"type":"object","required":["title","pages"],"properties":{"title":{"type":"string"},` +
	`"pages":{"type":"array"}}},
	"parts":[{"key":"title","required":true,"schema":{"type":"string","maxLength":20}},{"key":"pages","required":true,"repeatable":true,` +
	`"schema":{"type":"object","required":["n"]}}],
	"approval":{"mode":"manual","not_by_requester":false,"not_by_worker":false},"apply":{"mode":"go"}}`

// report registers the type, and makes a task of it.
func (a agent) report() string {
	a.Helper()
	var typ pawl.Type
	a.must(json.Unmarshal([]byte(report), &typ))
	rs, err := a.p.Service.PutTypes(a.Context(), []pawl.Type{typ})
	if err != nil || rs[0].Err != nil {
		a.Fatal(err, rs[0].Err)
	}
	task := a.ok("work_propose", args{"type": "report", "payload": args{"about": "pawls", "big": json.Number("12345678901234567890")},
		"title": "On pawls"}).Task
	return task.ID
}

func (a agent) must(err error) {
	a.Helper()
	if err != nil {
		a.Fatal(err)
	}
}

// The whole loop: propose, check out, part, refusal, part, finalize, reject with
// rework, submit, approve, applied.
func TestTheLoop(t *testing.T) {
	applied := pawl.Hooks{Apply: func(_ context.Context, x pawl.Application) (pawl.Applied, error) {
		return pawl.Applied{Result: x.Items[0].Result, Diff: &pawl.Diff{Summary: "published"}}, nil
	}}
	each(t, applied, func(a agent) {
		task := a.report()
		if got := a.ok("work_get", args{"task_id": task}); !strings.Contains(string(got.Rules), `"maxLength":20`) {
			a.Errorf("the rules are %s", got.Rules)
		}
		l, lease := a.checkout("ann", task)
		if string(l.Input) != `{"about":"pawls","big":12345678901234567890}` {
			a.Errorf("the input is %s", l.Input)
		}
		a.ok("work_heartbeat", lease)
		a.ok("work_progress", with(lease, "progress", 10, "stage", "reading"))
		if c := a.ok("work_checkpoint", with(lease, "name", "outline", "snapshot", args{"chapters": 2})); c.Sequence != 1 {
			a.Errorf("the checkpoint's number is %d", c.Sequence)
		}

		a.ok("work_submit_part", with(lease, "key", "pages", "seq", 0, "payload", args{"n": 1}))
		no := a.no(pawl.CodeInvalid, "/payload", "work_submit_part", with(lease, "key", "title", "payload", strings.Repeat("long ", 10)))
		if len(no.Problem.Errors) != 1 || no.Problem.Errors[0].Pointer != "/payload" {
			a.Errorf("the part's problem is %+v", no.Problem)
		}
		a.no(pawl.CodeInvalid, "title", "work_finalize", lease)
		if p := a.ok("work_submit_part", with(lease, "key", "title", "payload", "Pawls")).Part; p.Status != pawl.PartValidated {
			a.Errorf("the part is %s", p.Status)
		}
		if n := len(a.ok("work_list_parts", args{"item_id": l.ID, "all": true}).Items); n != 3 {
			a.Errorf("%d parts are on record", n)
		}
		if it := a.ok("work_finalize", lease).Item; it.State != pawl.ItemSubmitted {
			a.Errorf("finalized, the item is %s", it.State)
		}

		seen := a.ok("work_wait", args{"task_id": task, "wait_seconds": 10})
		if seen.TimedOut || seen.Task.State != pawl.TaskSubmitted {
			a.Fatalf("waited for, the task is %s (timed out: %v)", seen.Task.State, seen.TimedOut)
		}
		a.no(pawl.CodeInvalid, "/errors", "work_reject", args{"task_id": task, "version": seen.Task.Version, "errors": []args{}})
		a.ok("work_reject", args{"task_id": task, "version": seen.Task.Version, "allow_rework": true,
			"errors": []args{{"code": "short", "message": "one page is too few", "field": "/pages"}}})

		_, lease = a.checkout("bob", task)
		r := a.ok("work_resume", args{"item_id": l.ID})
		if r.Error == nil || !strings.Contains(r.Error.Message+string(r.Error.Detail), "one page is too few") {
			a.Errorf("the next worker is told %+v", r.Error)
		}
		if string(r.Steps["outline"].Snapshot) != `{"chapters":2}` {
			a.Errorf("the next worker finds %v", r.Steps)
		}
		a.no(pawl.CodeInvalid, "/result/pages", "work_submit", with(lease, "result", args{"title": "Pawls"}))
		a.ok("work_submit", with(lease, "result", args{"title": "Pawls", "pages": []int{1, 2}}))
		a.no(pawl.CodePrecondition, "changed since you looked", "work_approve", args{"task_id": task, "version": seen.Task.Version})
		a.no(pawl.CodeInvalid, "", "work_approve", args{"task_id": task})
		seen = a.ok("work_get", args{"task_id": task})
		if s := a.ok("work_approve", args{"task_id": task, "version": seen.Task.Version, "comment": "good"}).Task.State; s != pawl.TaskCompleted {
			a.Errorf("approved, the task is %s", s)
		}
		got := a.ok("work_get", args{"task_id": task})
		a.no(pawl.CodeConflict, "completed", "work_approve", args{"task_id": task, "version": got.Task.Version})
		if string(got.Result) != `{"title":"Pawls","pages":[1,2]}` && string(got.Result) != `{"pages":[1,2],"title":"Pawls"}` {
			a.Errorf("the result is %s", got.Result)
		}
		if names := a.events(task); names != "proposed leased in_progress progressed part_submitted part_rejected part_submitted submitted "+
			"ready_for_approval rejected rejected leased submitted ready_for_approval approved accepted applied completed completed" {
			a.Error(names)
		}
		a.asResource(task)
	})
}

func (a agent) asResource(task string) {
	a.Helper()
	res, err := a.session.ReadResource(a.Context(), &sdk.ReadResourceParams{URI: "pawl://tasks/" + task})
	if err != nil || len(res.Contents) != 1 || !strings.Contains(res.Contents[0].Text, `"state":"completed"`) {
		a.Errorf("the task as a resource: %v, %v", res, err)
	}
	res, err = a.session.ReadResource(a.Context(), &sdk.ReadResourceParams{URI: "pawl://types/report"})
	if err != nil || len(res.Contents) != 1 || !strings.Contains(res.Contents[0].Text, `"result_schema"`) {
		a.Errorf("the type as a resource: %v, %v", res, err)
	}
	for _, uri := range []string{"pawl://tasks/tsk_none", "pawl://types/none", "pawl://tasks/"} {
		if _, err := a.session.ReadResource(a.Context(), &sdk.ReadResourceParams{URI: uri}); err == nil {
			a.Errorf("%s was read", uri)
		}
	}
}

func TestWorkWithoutAcceptance(t *testing.T) {
	each(t, pawl.Hooks{}, func(a agent) {
		task := a.ok("work_propose", args{"type": "plain", "items": []args{{"input": 1, "key": "a"}, {"input": 2, "key": "b"}}}).Task
		if got := a.ok("work_list", args{"types": []string{"plain"}, "available": true}); len(got.Items) != 1 {
			a.Fatalf("listed %d tasks", len(got.Items))
		}
		_, lease := a.checkout("ann", task.ID)
		a.ok("work_release", lease)
		a.no(pawl.CodeLeaseLost, "given back", "work_complete", lease)
		_, lease = a.checkout("ann", task.ID)
		a.ok("work_fail", with(lease, "error", "the disk is full", "retry_after_ms", 0))
		for range 2 {
			_, lease = a.checkout("ann", task.ID)
			a.ok("work_complete", with(lease, "result", "done"))
		}
		if got := a.ok("work_checkout", args{"worker_id": "ann"}); len(got.Items) != 0 {
			a.Errorf("there is more: %s", got.Items)
		}
		if got := a.ok("work_get", args{"task_id": task.ID}); got.Task.State != pawl.TaskCompleted ||
			string(got.Result) != `{"a":"done","b":"done"}` {
			a.Errorf("%s, %s", got.Task.State, got.Result)
		}
		other := a.ok("work_propose", args{"type": "plain"}).Task
		if got := a.ok("work_wait", args{"task_id": other.ID, "wait_seconds": 0}); !got.TimedOut {
			a.Error("there was nothing to wait for")
		}
		if got := a.ok("work_cancel", args{"task_id": other.ID, "reason": "not wanted"}); got.Task.State != pawl.TaskCancelled {
			a.Errorf("cancelled, it is %s", got.Task.State)
		}
	})
}

// The error for a lease that another worker holds now tells a model what to do.
func TestALostLeaseSaysToWhom(t *testing.T) {
	each(t, pawl.Hooks{}, func(a agent) {
		task := a.ok("work_propose", args{"type": "plain"}).Task
		_, old := a.checkout("ann", task.ID)
		a.p.Advance(301 * time.Second)
		a.no(pawl.CodeLeaseLost, "ran out", "work_heartbeat", old)
		if _, err := a.p.Service.Sweep(a.Context()); err != nil {
			a.Fatal(err)
		}
		a.checkout("bob", task.ID)
		no := a.no(pawl.CodeLeaseLost, "The lease was lost to bob, attempt 2. Stop working on this item; check out again. (lease_lost)",
			"work_complete", old)
		if p := no.Problem; p.Holder != "bob" || p.Attempt != 2 || p.Reason != pawl.ReasonTaken || p.Retryable {
			a.Errorf("%+v", p)
		}
	})
}

// The same call under the same key has one effect, whatever the door.
func TestKeys(t *testing.T) {
	each(t, pawl.Hooks{}, func(a agent) {
		key := func(k string) string { return k + " of " + a.Name() } // one database for all tests, and its locks know no schemas
		first := a.ok("work_propose", args{"type": "plain", "payload": 1}, key("k1"))
		again := a.ok("work_propose", args{"payload": 1, "type": "plain"}, key("k1"))
		if first.Task.ID != again.Task.ID {
			a.Errorf("two tasks: %s and %s", first.Task.ID, again.Task.ID)
		}
		a.no(pawl.CodeKeyReused, "new key", "work_propose", args{"type": "plain", "payload": 2}, key("k1"))
		a.no(pawl.CodeInvalid, "/type", "work_propose", args{"payload": 2}, key("k2"))
		a.ok("work_propose", args{"type": "plain", "payload": 2}, key("k2")) // the refusal is not kept
		l, lease := a.checkout("ann", first.Task.ID)
		for range 2 {
			if it := a.ok("work_complete", with(lease, "result", 7), key("k3")).Item; it.ID != l.ID {
				a.Errorf("completed %s", it.ID)
			}
		}
		a.no(pawl.CodeInvalid, "/_meta/", "work_propose", args{"type": "plain"}, strings.Repeat("k", 256))
	})
}

// Two agents may use the same key: each has its own effect and its own answer.
func TestKeysAreTheCallers(t *testing.T) {
	each(t, pawl.Hooks{}, func(a agent) {
		key := "k1 of " + a.Name()
		for range 2 {
			a.ok("work_propose", args{"type": "shared"})
		}
		taken := map[string]bool{}
		for _, worker := range []string{"ann", "bob", "ann", "bob"} {
			taken[string(a.ok("work_checkout", args{"worker_id": worker, "types": []string{"shared"}}, key).Items[0])] = true
		}
		if len(taken) != 2 {
			a.Errorf("two agents took %v", taken)
		}
	})
}

// What an agent says it is tells it from others with its key and client.
func TestAgentsOfOneClientHaveTheirKeys(t *testing.T) {
	p := pawltest.Open(t, pawltest.SQLite)
	url := serve(t, p.Service)
	propose := func(agent, payload string) string {
		t.Helper()
		status, body := post(t, url,
			`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"work_propose","arguments":{"type":"a","payload":`+payload+`},`+
				`"_meta":{"`+
				mcp.KeyMeta+`":"k","`+mcp.ProvenanceMeta+`":{"agent_id":"`+agent+`"}}}}`)
		if status != 200 || strings.Contains(body, "key_reused") {
			t.Fatalf("%s: %d %s", agent, status, body)
		}
		return body
	}
	for range 2 { // the second time each has its first answer
		if propose("one", "1") == propose("two", "2") {
			t.Error("two agents got one answer")
		}
	}
	if l, err := p.Service.ListTasks(t.Context(), pawl.TaskFilter{}); err != nil || len(l.Items) != 2 {
		t.Errorf("%d tasks, %v", len(l.Items), err)
	}
}

func TestBadInput(t *testing.T) {
	each(t, pawl.Hooks{}, func(a agent) {
		for _, c := range []struct {
			tool    string
			in      args
			pointer string
		}{
			{"work_propose", args{}, "/type"},
			{"work_propose", args{"type": 7}, "/type"},
			{"work_propose", args{"type": "a", "colour": "red"}, "/colour"},
			{"work_propose", args{"Type": "a", "type": "a"}, "/Type"},
			{"work_propose", args{"type": "a\x00b"}, "/type"},
			{"work_propose", args{"type": "a", "priority": 1.5}, "/priority"},
			{"work_propose", args{"type": "a", "priority": 40000}, "/priority"},
			{"work_propose", args{"type": "a", "payload": "a\x00b"}, "/payload"},
			{"work_propose", args{"type": "a", "run_at": "tomorrow"}, "/run_at"},
			{"work_propose", args{"type": "a", "dedupe": "yes"}, "/dedupe"},
			{"work_list", args{"states": []string{"open"}}, "/states/0"},
			{"work_list", args{"limit": 5000}, "/limit"},
			{"work_get", args{}, ""},
			{"work_checkout", args{"worker_id": ""}, "/worker_id"},
			{"work_checkout", args{"worker_id": "w", "wait_seconds": -1}, "/wait_seconds"},
			{"work_heartbeat", args{"item_id": "itm_none", "worker_id": "w"}, "/attempt"},
			{"work_wait", args{"task_id": "tsk_none", "wait_seconds": -1}, "/wait_seconds"},
			{"work_logs", args{}, ""},
		} {
			no := a.no(pawl.CodeInvalid, "", c.tool, c.in)
			if c.pointer != "" && (len(no.Problem.Errors) == 0 || no.Problem.Errors[0].Pointer != c.pointer) {
				a.Errorf("%s %v: %+v; want %s", c.tool, c.in, no.Problem.Errors, c.pointer)
			}
		}
		a.no(pawl.CodeNotFound, "No item itm_none", "work_heartbeat", args{"item_id": "itm_none", "worker_id": "w", "attempt": 1})
		a.no(pawl.CodeNotFound, "", "work_approve", args{"task_id": "tsk_none", "version": 1})
		if _, err := a.session.CallTool(a.Context(), &sdk.CallToolParams{Name: "work_nope"}); err == nil {
			a.Error("a tool that is not there was called")
		}
	})
}
