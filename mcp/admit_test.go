package mcp_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/access"
	"github.com/pawl-work/pawl/api"
	"github.com/pawl-work/pawl/mcp"
	"github.com/pawl-work/pawl/pawltest"
	"github.com/pawl-work/pawl/server"
)

// guarded is a server that takes calls with API keys only.
type guarded struct {
	*testing.T
	p    *pawltest.Pawl
	url  string
	gate *access.Gate
	log  *strings.Builder
}

func guard(t *testing.T, p *pawltest.Pawl, o access.Options) guarded {
	t.Helper()
	return guardUntil(t.Context(), t, p, o)
}

// guardUntil is guard of a server that begins to stop when stopping ends.
func guardUntil(stopping context.Context, t *testing.T, p *pawltest.Pawl, o access.Options) guarded {
	t.Helper()
	log := &strings.Builder{}
	o.Keys, o.Required, o.Log = p.Engine, true, slog.New(slog.NewTextHandler(log, nil))
	gate := access.New(o)
	srv := httptest.NewServer(server.New(p.Service, server.Options{Log: quiet, Gate: gate,
		At: map[string]http.Handler{"/mcp": mcp.New(p.Service, mcp.Options{Log: quiet, Gate: gate, Stopping: stopping}).HTTP()}}))
	t.Cleanup(srv.Close)
	return guarded{t, p, srv.URL, gate, log}
}

// as is a client with a key of its own.
func (g guarded) as(k pawl.NewAPIKey) rpc {
	g.Helper()
	k.Name = strings.Join(k.Roles, "+")
	_, token, err := g.p.Engine.CreateAPIKey(g.Context(), k)
	if err != nil {
		g.Fatal(err)
	}
	return rpc{T: g.T, url: g.url, token: token}
}

func (g guarded) holds(roles ...string) rpc { return g.as(pawl.NewAPIKey{Roles: roles}) }

func (c rpc) call(tool string, in args) reply {
	return c.send("tools/call", tool, args{"name": tool, "arguments": in})
}

func (c rpc) tools() (names []string) {
	for _, t := range c.send("tools/list", "", args{}).Result.Tools {
		names = append(names, t.Name)
	}
	slices.Sort(names)
	return names
}

// must wants an answer that is no refusal.
func (c rpc) must(tool string, in args) reply {
	c.Helper()
	r := c.call(tool, in)
	if r.Error.Code != 0 || r.Result.IsError {
		c.Fatalf("%s: %+v", tool, r)
	}
	return r
}

// Each tool needs the role of its verb and no other: a key that holds it alone
// gets as far as its arguments, one that holds all others is refused, and the
// list of tools says no more than that.
func TestEveryToolNeedsItsRole(t *testing.T) {
	pawltest.Each(t, func(t *testing.T, p *pawltest.Pawl) {
		g := guard(t, p, access.Options{})
		everywhere := func(roles ...string) rpc { return g.as(pawl.NewAPIKey{Namespace: pawl.AnyNamespace, Roles: roles}) }
		need := mcp.ToolRoles()
		refused := 0
		for _, role := range pawl.KeyRoles {
			only := everywhere(role)
			others := everywhere(slices.DeleteFunc(slices.Clone(pawl.KeyRoles), func(r string) bool { return r == role })...)
			var good []string
			for tool, needed := range need {
				if string(needed) == role {
					good = append(good, tool)
				}
				for c, may := range map[*rpc]bool{&only: string(needed) == role, &others: string(needed) != role} {
					r := c.call(tool, args{"nonsense": true})
					if code := r.Result.StructuredContent.Problem.Code; may && code != pawl.CodeInvalid ||
						!may && (code != pawl.CodeForbidden || !r.Result.IsError || !strings.Contains(r.Result.Content[0].Text, "role "+string(needed))) {
						t.Errorf("%s with %s, may: %v; %+v", tool, c.token, may, r)
					}
					if !may {
						refused++
					}
				}
			}
			slices.Sort(good)
			if got := only.tools(); !slices.Equal(got, good) {
				t.Errorf("%s is shown %v\nwant %v", role, got, good)
			}
		}
		all := everywhere(pawl.KeyRoles...)
		if got := all.tools(); len(got) != len(need)+1 || !slices.Contains(got, "work_run") {
			t.Errorf("a key of every role is shown %v", got)
		}
		counted := int64(0)
		for of, n := range g.gate.Refusals() {
			if of.Code == pawl.CodeForbidden {
				counted += n
			}
		}
		if counted != int64(refused) || strings.Count(g.log.String(), "code=forbidden") < 100 { // the log has fewer lines after those
			t.Errorf("%d refusals, of which %d are counted", refused, counted)
		}
		if n := g.gate.Refusals()[access.Refusal{Route: "work_approve", Code: pawl.CodeForbidden}]; n != int64(len(pawl.KeyRoles)) {
			t.Errorf("work_approve is refused %d times in the metrics", n)
		}
	})
}

// What is no tool has its roles too, and so has each step of what needs several.
func TestMethodsNeedTheirRoles(t *testing.T) {
	pawltest.Each(t, func(t *testing.T, p *pawltest.Pawl) {
		g := guard(t, p, access.Options{})
		if rs, err := p.Service.PutTypes(t.Context(), []pawl.Type{{Name: "letter",
			Approval: pawl.Approval{Mode: pawl.ApprovalManual}}}); err != nil || rs[0].Err != nil {
			t.Fatal(err, rs)
		}
		maker, worker := g.holds("submitter", "reader"), g.holds("claimer")
		for _, c := range []rpc{g.holds("submitter"), g.holds("reader", "claimer", "approver", "operator")} {
			if r := c.run(args{"type": "letter"}); r.Result.StructuredContent.Problem.Code != pawl.CodeForbidden {
				t.Errorf("work_run: %+v", r)
			}
			if slices.Contains(c.tools(), "work_run") {
				t.Error("it is shown work_run")
			}
		}
		id := maker.run(args{"type": "letter"}).Result.TaskID
		lease := worker.must("work_checkout", args{"worker_id": "w"}).Result.StructuredContent.Items[0]
		worker.must("work_submit", args{"item_id": lease["id"], "worker_id": "w", "attempt": 1, "result": "Dear Ann"})
		yes := args{"action": "accept", "content": args{"decision": "approve"}}
		read := func(uri string) func(rpc) reply {
			return func(c rpc) reply { return c.send("resources/read", uri, args{"uri": uri}) }
		}
		for what, c := range map[string]struct {
			need []string
			do   func(rpc) reply
		}{
			"tasks/get":          {[]string{"reader"}, func(c rpc) reply { return c.get(id) }},
			"a task as resource": {[]string{"reader"}, read("pawl://tasks/" + id)},
			"a type as resource": {[]string{"reader"}, read("pawl://types/letter")},
			"deciding":           {[]string{"reader", "approver"}, func(c rpc) reply { return c.update(id, "approval", yes) }},
			"tasks/cancel":       {[]string{"submitter"}, func(c rpc) reply { return c.send("tasks/cancel", id, args{"taskId": id}) }},
		} {
			for _, lacks := range c.need {
				others := g.holds(slices.DeleteFunc(slices.Clone(pawl.KeyRoles), func(r string) bool { return r == lacks })...)
				if r := c.do(others); r.Error.Code != -32602 || r.Error.Data.Code != pawl.CodeForbidden {
					t.Errorf("%s without %s: %+v", what, lacks, r)
				}
			}
			if what == "tasks/cancel" {
				continue // deciding may still come
			}
			if r := c.do(g.holds(c.need...)); r.Error.Code != 0 {
				t.Errorf("%s with %v: %+v", what, c.need, r)
			}
		}
		if r := maker.get(id).Result; r.Status != "completed" || r.Result.Content[0].Text != "Dear Ann" {
			t.Errorf("decided, it is %+v", r)
		}
		if r := g.holds("reader").get(id).Result; r.Status != "completed" || strings.Contains(r.Result.Content[0].Text, "Ann") {
			t.Errorf("to who reads no payloads it is %+v", r)
		}
	})
}

// A key of one namespace finds nothing of another, by whatever tool.
func TestWallsToolByTool(t *testing.T) {
	pawltest.Each(t, func(t *testing.T, p *pawltest.Pawl) {
		g := guard(t, p, access.Options{})
		ours := g.as(pawl.NewAPIKey{Roles: pawl.KeyRoles, Namespace: "ours"})
		theirs := pawl.As(t.Context(), pawl.Caller{Namespace: "theirs"})
		task, err := pawl.Create(theirs, p.Service, pawl.NewTask{Type: "a", Payload: json.RawMessage(`"secret"`)})
		if err != nil {
			t.Fatal(err)
		}
		ls, err := p.Service.Claim(theirs, pawl.ClaimRequest{WorkerID: "w"})
		if err != nil || len(ls) != 1 {
			t.Fatal(ls, err)
		}
		held := args{"item_id": ls[0].ID, "worker_id": "w", "attempt": 1}
		effect, err := p.Service.OpenEffect(theirs, pawl.OpenEffectCall{ItemID: ls[0].ID, WorkerID: "w", Attempt: 1, Name: "e", RequestHash: "h"})
		if err != nil {
			t.Fatal(err)
		}
		about := map[string]args{
			"work_get": {"task_id": task.ID}, "work_wait": {"task_id": task.ID, "wait_seconds": 0},
			"work_approve": {"task_id": task.ID, "version": 1}, "work_cancel": {"task_id": task.ID},
			"work_reject": {"task_id": task.ID, "version": 1, "errors": []args{{"code": "c", "message": "m"}}}, "work_heartbeat": held,
			"work_progress": held, "work_release": held, "work_complete": held,
			"work_checkpoint": with(held, "snapshot", 1), "work_submit": with(held, "result", 1),
			"work_submit_part": with(held, "key", "k", "payload", 1), "work_finalize": held,
			"work_fail": with(held, "error", "x"), "work_resume": {"item_id": ls[0].ID}, "work_list_parts": {"item_id": ls[0].ID},
			"work_logs": {"task_id": task.ID}, "work_read": {"tool": "work_get", "arguments": args{"task_id": task.ID}, "path": "/task"},
			"work_why": {"id": ls[0].ID}, "work_fork": {"task_id": task.ID, "checkpoint": 0},
			"work_spawn":   with(held, "key", "k", "type", "a"),
			"work_effects": {}, "work_effect_open": with(held, "name", "e", "request_hash", "h"),
			"work_effect_report":  with(held, "effect_id", effect.ID, "state", "done"),
			"work_effect_resolve": {"effect_id": effect.ID, "decision": "happened"},
			"work_list":           {}, "work_types": {}, "work_checkout": {"worker_id": "w"},
		}
		for tool := range mcp.ToolRoles() {
			in, ok := about[tool]
			if !ok && tool != "work_propose" && tool != "work_namespaces" { // the last needs a key of all namespaces
				t.Errorf("%s has no row here", tool)
			}
			if !ok {
				continue
			}
			r := ours.call(tool, in)
			nothing := !r.Result.IsError && r.Result.StructuredContent.Items != nil && len(r.Result.StructuredContent.Items) == 0
			if r.Result.StructuredContent.Problem.Code != pawl.CodeNotFound && !nothing || strings.Contains(fmt.Sprint(r), "secret") {
				t.Errorf("%s: %+v", tool, r)
			}
		}
		if r := ours.get(task.ID); r.Error.Data.Code != pawl.CodeNotFound {
			t.Errorf("tasks/get: %+v", r)
		}
		if status, body := post(t, g.url, proposing(`{"type":"a"}`), "Authorization", "Bearer "+ours.token, api.NamespaceHeader,
			"theirs"); status != 404 {
			t.Errorf("their namespace by name: %d %s", status, body)
		}
		it, err := p.Service.GetItem(theirs, ls[0].ID)
		if err != nil || it.State != pawl.ItemLeased {
			t.Errorf("the item is %+v, %v", it, err)
		}
	})
}

// No tool shows a payload to a key that reads and claims; an item's holder alone
// sees where to go on with it.
func TestNoToolShowsPayloads(t *testing.T) {
	g := guard(t, pawltest.Open(t, pawltest.SQLite), access.Options{})
	worker, other := g.holds("claimer", "reader"), g.holds("claimer", "reader")
	maker := g.holds(pawl.KeyRoles...)
	s := "s3cret"
	maker.must("work_propose", args{"type": "a", "payload": s})
	item := maker.must("work_checkout", args{"worker_id": "m"}).Result.StructuredContent.Items[0]
	held := args{"item_id": item["id"], "worker_id": "m", "attempt": 1}
	maker.must("work_checkpoint", with(held, "snapshot", s, "name", "n"))
	maker.must("work_complete", with(held, "result", s))
	maker.must("work_propose", args{"type": "b", "payload": s})
	mine := worker.must("work_checkout", args{"worker_id": "w", "types": []string{"b"}}).Result.StructuredContent.Items[0]
	own := args{"item_id": mine["id"], "worker_id": "w", "attempt": 1}
	worker.must("work_checkpoint", with(own, "snapshot", s, "name", "n"))
	shows := func(c rpc, tool string, in args) bool {
		t.Helper()
		r := c.call(tool, in)
		if r.Error.Code != 0 || r.Result.IsError {
			t.Errorf("%s: %+v", tool, r)
		}
		return strings.Contains(r.Result.Content[0].Text, s)
	}
	if !shows(worker, "work_resume", args{"item_id": mine["id"]}) {
		t.Error("the holder does not see where to go on")
	}
	for _, c := range []struct {
		tool string
		in   args
	}{
		{"work_resume", args{"item_id": mine["id"]}}, {"work_resume", args{"item_id": item["id"]}}, {"work_get", args{"item_id": mine["id"]}},
		{"work_get", args{"task_id": item["task_id"]}},
		{"work_list", args{}}, {"work_logs", args{"task_id": item["task_id"]}}, {"work_wait", args{"task_id": item["task_id"]}},
		{"work_list_parts", args{"item_id": item["id"]}},
	} {
		if shows(other, c.tool, c.in) {
			t.Errorf("%s %v shows a payload", c.tool, c.in)
		}
	}
	for _, c := range []struct {
		tool string
		in   args
	}{{"work_heartbeat", own}, {"work_progress", own}, {"work_complete", own}, {"work_resume", args{"item_id": mine["id"]}}} {
		if shows(worker, c.tool, c.in) {
			t.Errorf("%s %v shows a payload", c.tool, c.in)
		}
	}
}

// Payloads are hidden from keys that only read or claim, but for what they check
// out; the answer says so.
func TestPayloadsAreHiddenFromTools(t *testing.T) {
	pawltest.Each(t, func(t *testing.T, p *pawltest.Pawl) {
		g := guard(t, p, access.Options{})
		maker, worker, auditor := g.holds("submitter"), g.holds("claimer", "reader"),
			g.as(pawl.NewAPIKey{Roles: []string{"reader"}, Payloads: true})
		task := maker.must("work_propose", args{"type": "a", "payload": "secret", "title": "shown"}).Result.StructuredContent.Task["id"]
		sees := func(c rpc, tool string, in args, secret bool) reply {
			t.Helper()
			r := c.must(tool, in)
			if got := strings.Contains(r.Result.Content[0].Text, "secret"); got != secret ||
				(r.Result.Meta[mcp.PayloadsMeta] == "hidden") == secret {
				t.Errorf("%s: %+v", tool, r.Result)
			}
			return r
		}
		lease := sees(worker, "work_checkout", args{"worker_id": "w"}, true).Result.StructuredContent.Items[0]
		held := args{"item_id": lease["id"], "worker_id": "w", "attempt": 1}
		worker.must("work_checkpoint", with(held, "name", "s", "snapshot", "secret"))
		sees(worker, "work_resume", args{"item_id": lease["id"]}, true)
		sees(worker, "work_complete", with(held, "result", "secret"), false)
		for tool, in := range map[string]args{"work_get": {"task_id": task}, "work_list": {}, "work_wait": {"task_id": task}} {
			if r := sees(worker, tool, in, false); !strings.Contains(r.Result.Content[0].Text, "shown") {
				t.Errorf("%s hides too much: %+v", tool, r.Result)
			}
			sees(auditor, tool, in, true)
		}
		if r := worker.send("resources/read", "pawl://tasks/"+task.(string),
			args{"uri": "pawl://tasks/" + task.(string)}); len(r.Result.Contents) != 1 || strings.Contains(r.Result.Contents[0].Text, "secret") {
			t.Errorf("as a resource: %+v", r)
		}
	})
}

// A batch is as many calls as it has, for the rate of its key, and has a bound.
func TestBatchesAreCounted(t *testing.T) {
	g := guard(t, pawltest.Open(t, pawltest.SQLite), access.Options{RatePerKey: 5})
	send := func(calls int) (int, string) {
		c := g.holds("submitter")
		body := strings.TrimSuffix(strings.Repeat(proposing(`{"type":"a"}`)+",", calls), ",")
		for i := range calls { // each with an id of its own
			body = strings.Replace(body, `"id":1,`, fmt.Sprintf(`"id":"%d",`, i), 1)
		}
		return post(t, g.url, "["+body+"]", "Mcp-Protocol-Version", "2025-03-26", "Authorization", c.bearer())
	}
	for _, c := range []struct{ calls, status, made int }{{5, 200, 5}, {6, 429, 0}, {pawl.MaxMCPBatch + 1, 400, 0}} {
		before, err := g.p.Service.ListTasks(t.Context(), pawl.TaskFilter{})
		status, body := send(c.calls)
		after, err2 := g.p.Service.ListTasks(t.Context(), pawl.TaskFilter{})
		if made := len(after.Items) - len(before.Items); status != c.status || made != c.made || err != nil || err2 != nil {
			t.Errorf("%d calls at once: %d %.200s, %d tasks, %v %v", c.calls, status, body, made, err, err2)
		}
	}
}

func TestAgentsRatesAreBounded(t *testing.T) {
	g := guard(t, pawltest.Open(t, pawltest.SQLite), access.Options{RatePerAgent: 2})
	c := g.holds("claimer")
	limited := 0
	for range 20 {
		if c.call("work_checkout", args{"worker_id": "eager"}).Result.StructuredContent.Problem.Code == pawl.CodeLimit {
			limited++
		}
	}
	if limited == 0 {
		t.Error("an agent of two calls a second made 20 at once")
	}
	c.must("work_checkout", args{"worker_id": "other"})
}

// Without an API key an agent is offered the set of tools that the server was
// started with: by default none that decides, neither as a tool nor as an answer
// to a task's question.
func TestSetsOfTools(t *testing.T) {
	p := pawltest.Open(t, pawltest.SQLite)
	if rs, err := p.Service.PutTypes(t.Context(), []pawl.Type{{Name: "letter",
		Approval: pawl.Approval{Mode: pawl.ApprovalManual}}}); err != nil || rs[0].Err != nil {
		t.Fatal(err, rs)
	}
	task, err := pawl.Create(t.Context(), p.Service, pawl.NewTask{Type: "letter"})
	if err != nil {
		t.Fatal(err)
	}
	ls, err := p.Service.Claim(t.Context(), pawl.ClaimRequest{WorkerID: "w"})
	if err != nil || len(ls) != 1 {
		t.Fatal(ls, err)
	}
	if rs, err := p.Service.Submit(t.Context(), []pawl.SubmitCall{{Fence: ls[0].Fence(), Result: []byte("1")}}); err != nil ||
		rs[0].Err != nil {
		t.Fatal(err, rs)
	}
	for _, c := range []struct {
		set             string
		works, approves bool
	}{{"", true, false}, {mcp.ToolsWorker, true, false}, {mcp.ToolsApprover, false, true}, {mcp.ToolsAll, true, true}} {
		srv := httptest.NewServer(mcp.New(p.Service, mcp.Options{Log: quiet, Tools: c.set}).HTTP())
		client := rpc{T: t, url: srv.URL}
		names := client.tools()
		for tool, offered := range map[string]bool{"work_checkout": c.works, "work_submit": c.works, "work_propose": c.works, "work_run": c.works,
			"work_approve": c.approves, "work_reject": c.approves, "work_get": true, "work_list": true} {
			if slices.Contains(names, tool) != offered {
				t.Errorf("%q offers %s: %v, want %v", c.set, tool, !offered, offered)
			}
			if tool == "work_run" {
				continue
			}
			if code := client.call(tool, args{"nonsense": true}).Result.StructuredContent.Problem.Code; (code != pawl.CodeForbidden) != offered {
				t.Errorf("%q, %s called: %s", c.set, tool, code)
			}
		}
		r := client.update(task.ID, "approval", args{"action": "accept", "content": args{"decision": "perhaps"}})
		if want := map[bool]pawl.Code{true: pawl.CodeInvalid, false: pawl.CodeForbidden}[c.approves]; r.Error.Data.Code != want {
			t.Errorf("%q, an answer to the question: %+v, want %s", c.set, r, want)
		}
		srv.Close()
	}
}

// A connection may ask for fewer tools than its caller has, by the query of its URL. It gets
// no tool that the caller does not have.
func TestAConnectionAsksForASet(t *testing.T) {
	p := pawltest.Open(t, pawltest.SQLite)
	g := guard(t, p, access.Options{})
	open := httptest.NewServer(mcp.New(p.Service, mcp.Options{Log: quiet}).HTTP())
	defer open.Close()
	every := g.holds(pawl.KeyRoles...)
	for _, c := range []struct {
		what            string
		client          rpc
		set             string
		works, approves bool
	}{
		{"a key of every role", every, "worker", true, false},
		{"a key of every role", every, "approver", false, true},
		{"a key of every role", every, "all", true, true},
		{"a key that works", g.holds("claimer", "reader"), "all", true, false},
		{"a key that works", g.holds("claimer", "reader"), "approver", false, false},
		{"no key", rpc{T: t, url: open.URL}, "worker", true, false},
		{"no key", rpc{T: t, url: open.URL}, "approver", false, false},
		{"no key", rpc{T: t, url: open.URL}, "all", true, false},
	} {
		c.client.url += "?tools=" + c.set
		names := c.client.tools()
		for tool, offered := range map[string]bool{"work_checkout": c.works, "work_approve": c.approves, "work_get": true} {
			code := c.client.call(tool, args{"nonsense": true}).Result.StructuredContent.Problem.Code
			if slices.Contains(names, tool) != offered || (code != pawl.CodeForbidden) != offered {
				t.Errorf("%s asks for %s: %s is offered: %v, called: %s", c.what, c.set, tool, slices.Contains(names, tool), code)
			}
		}
	}
	for _, query := range []string{"tools=boss", "tools=", "tools=all&tools=worker"} {
		status, body := post(t, open.URL+"?"+query, `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`)
		if status != http.StatusBadRequest || !strings.Contains(body, "worker, approver, all") {
			t.Errorf("%s: %d %s", query, status, body)
		}
	}
}

// slowLists answers a list of tasks after a while, and counts how many run at once.
type slowLists struct {
	pawl.Service
	inside, most atomic.Int64
}

func (s *slowLists) ListTasks(context.Context, pawl.TaskFilter) (pawl.List[pawl.Task], error) {
	n := s.inside.Add(1)
	defer s.inside.Add(-1)
	for most := s.most.Load(); n > most && !s.most.CompareAndSwap(most, n); most = s.most.Load() {
	}
	time.Sleep(100 * time.Millisecond)
	return pawl.List[pawl.Task]{}, nil
}

// The reading tools of a key are bounded with its other reads.
func TestReadingToolsOfAKeyAreBounded(t *testing.T) {
	p := pawltest.Open(t, pawltest.SQLite)
	s := &slowLists{Service: p.Service}
	gate := access.New(access.Options{Keys: p.Engine, Required: true, Log: quiet})
	srv := httptest.NewServer(server.New(s, server.Options{Log: quiet, Gate: gate, Limits: server.Limits{ReadsPerKey: 1},
		At: map[string]http.Handler{"/mcp": mcp.New(s, mcp.Options{Log: quiet, Gate: gate}).HTTP()}}))
	t.Cleanup(srv.Close)
	c := guarded{t, p, srv.URL, gate, nil}.holds("reader")
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() { c.call("work_list", args{}) })
	}
	all.Wait()
	if s.most.Load() != 1 {
		t.Errorf("%d at once", s.most.Load())
	}
}
