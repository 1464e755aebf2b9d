package dashboard_test

import (
	"encoding/json"
	"fmt"
	"html"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/pawltest"
)

// saved saves a step under a lease.
func (h *fixture) saved(l pawl.Lease, name, snapshot string) pawl.CheckpointRef {
	h.Helper()
	call := pawl.CheckpointCall{Fence: l.Fence(), NewCheckpoint: pawl.NewCheckpoint{
		Type: pawl.ToolExecuted, Name: name, ArgsHash: "abcdef", Snapshot: json.RawMessage(snapshot)}}
	return only[pawl.CheckpointRef](h.T)(h.p.Service.Checkpoint(h.Context(), []pawl.CheckpointCall{call}))
}

// The timeline shows what each item did: a crash, the retry after it, a failure with a back-off, a
// suspension, steps and the result.
func TestTheTimelineShowsWhatItemsDid(t *testing.T) {
	pawltest.Each(t, func(t *testing.T, p *pawltest.Pawl) {
		h := open(t, p, false)
		task := h.p.Create(pawl.NewTask{Type: "work", MaxAttempts: 5, Items: []pawl.NewItem{{Key: "first"}, {Key: "second"}}})
		crash, fail := h.claim("work"), h.claim("work")
		h.saved(crash, "download", `{"bytes":1}`)
		p.Advance(10 * time.Second)
		wait := int64(30_000)
		only[pawl.Moved](t)(p.Service.Fail(t.Context(), []pawl.FailCall{
			{Fence: fail.Fence(), RetryAfterMS: &wait, Error: pawl.Failure{Code: "busy", Message: "the model is busy"}}}))
		p.Advance(51 * time.Second) // the lease of the other is over
		if _, err := p.Service.Sweep(t.Context()); err != nil {
			t.Fatal(err)
		}
		again := h.claim("work")
		until := p.Now().Add(time.Minute)
		only[pawl.Moved](t)(p.Service.Suspend(t.Context(), []pawl.SuspendCall{{Fence: again.Fence(), Until: &until}}))
		last := h.claim("work")
		p.Advance(time.Second)
		only[pawl.Moved](t)(p.Service.Complete(t.Context(), []pawl.CompleteCall{{Fence: last.Fence()}}))

		got := h.get("/ui/tasks/" + task.ID)
		h.has(got, 200, `<svg role="img"`, "Timeline of 2 items", "first · ", "second · ",
			`<rect class="span attempt lease_expired"`, `<rect class="span attempt failed"`, `<rect class="span attempt suspended"`,
			`<rect class="span attempt completed"`, `<rect class="span scheduled `, "for 51 s", "for 1 min 1 s, ended by lease_expired",
			`<circle class="mark checkpoint"`, "<title>checkpoint download, ", "The timeline as a table", "the model is busy")
		h.hasNot(got, "style=")
		places := regexp.MustCompile(`<rect class="span [^>]*x="([0-9.]+)%" width="([0-9.]+)%"`).FindAllStringSubmatch(got.text, -1)
		if len(places) < 8 {
			t.Errorf("%d spans have places: %s", len(places), got.text)
		}
		for _, m := range places {
			var x, width float64
			if _, err := fmt.Sscan(m[1], &x); err != nil {
				t.Error(err)
			}
			if _, err := fmt.Sscan(m[2], &width); err != nil || x < 0 || width <= 0 || x+width > 100.5 {
				t.Errorf("%s is outside of the picture: %v", m[0], err)
			}
		}
		h.has(h.get("/ui/items/"+last.ID), 200, `<svg role="img"`, `<rect class="span attempt completed"`)
	})
}

// A task with more items than a page shows counts and a page of its items.
func TestATaskOfManyItemsIsShownInPages(t *testing.T) {
	pawltest.Each(t, func(t *testing.T, p *pawltest.Pawl) {
		h := open(t, p, false)
		task := h.p.Create(pawl.NewTask{Type: "big", Items: make([]pawl.NewItem, 10_000)})
		l := h.claim("big")
		only[pawl.Moved](t)(p.Service.Complete(t.Context(), []pawl.CompleteCall{{Fence: l.Fence()}}))
		h.claim("big")
		got := h.get("/ui/tasks/" + task.ID)
		h.has(got, 200, `class="why`, "25 of 10,000 items: 1 have ended, 9,998 queued, 0 scheduled, 0 waiting, 1 with workers.", "More items")
		if n := strings.Count(got.text, `<text class="label"`); n != 25 {
			t.Errorf("%d rows", n)
		}
		if len(got.text) > 200<<10 {
			t.Errorf("the page has %d bytes", len(got.text))
		}
		next := regexp.MustCompile(`href="(\?items=[^"#]*)`).FindStringSubmatch(got.text)
		if next == nil {
			t.Fatal("no second page")
		}
		h.has(h.get("/ui/tasks/"+task.ID+html.UnescapeString(next[1])), 200, "First items", "Timeline of 25 items")
	})
}

// Two checkpoints of a task are compared, and a task goes on from one as a fork.
func TestCheckpointsAreComparedAndForked(t *testing.T) {
	pawltest.Each(t, func(t *testing.T, p *pawltest.Pawl) {
		h := open(t, p, true)
		h.p.Create(pawl.NewTask{Type: "agent", Title: "look for a book"})
		l := h.claim("agent")
		h.saved(l, "search", `{"query":"sea","hits":3}`)
		h.saved(l, "read", `{"query":"sea","hits":4}`)
		reader := pawl.NewAPIKey{Roles: []string{"reader"}, Payloads: true}
		submitter := pawl.NewAPIKey{Roles: []string{"reader", "submitter"}}
		page := "/ui/tasks/" + l.TaskID

		h.login(reader)
		got := h.get(page)
		h.has(got, 200, "<b>search</b>", "abcdef", `name="from" value="1" aria-label="compare from checkpoint 1"`, "Compare")
		h.hasNot(got, "/fork?checkpoint=")
		got = h.get(page + "?from=1&to=2")
		h.has(got, 200, "From checkpoint 1 to 2", `<code>/hits</code>`, `before: </span>3</pre>`, `after: </span>4</pre>`)
		h.has(h.get(page+"?from=1&to=9"), 404, "the task has no checkpoint 9")
		h.has(h.get(page+"?from=x&to=2"), 400, "must be the number of a checkpoint")
		h.has(h.post(page+"/fork", "checkpoint", "1"), 403, "submitter")

		h.login(pawl.NewAPIKey{Roles: []string{"reader"}})
		got = h.get(page + "?from=1&to=2")
		h.has(got, 200, "From checkpoint 1 to 2")
		h.hasNot(got, "hits")

		h.login(submitter)
		h.has(h.get(page), 200, `href="`+page+`/fork?checkpoint=2"`)
		h.has(h.get(page+"/fork?checkpoint=9"), 404, "the task has no checkpoint 9")
		h.has(h.get(page+"/fork?checkpoint=1"), 200, "From checkpoint 1", "A new task is created")
		got = h.post(page+"/fork", "checkpoint", "1")
		h.has(got, 200, "look for a book", "fork of", l.TaskID)
		if got.Request.URL.Path == page {
			t.Error("the fork is not shown")
		}
		h.has(h.post(page+"/fork", "checkpoint", "1e3"), 400, "is not the number of a checkpoint")
	})
}

// The children of a task are a tree, with a bounded depth and breadth.
func TestChildrenAreATree(t *testing.T) {
	pawltest.Each(t, func(t *testing.T, p *pawltest.Pawl) {
		h := open(t, p, false)
		root := h.p.Create(pawl.NewTask{Type: "root"})
		parent := root
		for depth := range 6 {
			parent = h.p.Create(pawl.NewTask{Type: "child", Title: fmt.Sprintf("at depth %d", depth+1), ParentID: parent.ID})
		}
		h.p.Create(pawl.NewTask{Type: "child", Title: "second child", ParentID: root.ID})
		got := h.get("/ui/tasks/" + root.ID)
		h.has(got, 200, `depth1"`, "at depth 1", `depth2"`, "at depth 4", "second child", "There are more")
		h.hasNot(got, "at depth 5")
		_, tree, _ := strings.Cut(got.text, "<h2>Children</h2>")
		if strings.Index(tree, "at depth 4") > strings.Index(tree, "second child") {
			t.Error("a grandchild is not under its parent")
		}
		h.has(h.get("/ui/tasks/"+parent.ID), 200, "child of")
		h.has(h.get("/ui/tasks/"+root.ID+"/cancel"), 200, "It has 2 children. Those that have not ended are cancelled too")
		h.hasNot(h.get("/ui/tasks/"+parent.ID+"/cancel"), "children")
		h.has(h.get("/ui/tasks/bulk?type=root&verb=cancel"), 200, "with their children")
		wide := h.p.Create(pawl.NewTask{Type: "wide"})
		for range 60 {
			h.p.Create(pawl.NewTask{Type: "leaf", ParentID: wide.ID})
		}
		got = h.get("/ui/tasks/" + wide.ID)
		h.has(got, 200, "There are more")
		if n := strings.Count(got.text, `depth1"`); n != 50 {
			t.Errorf("%d children are shown", n)
		}
	})
}

// A task shows what it spent, its provenance and how its record is proved.
func TestATaskShowsSpendingAndRecord(t *testing.T) {
	pawltest.Each(t, func(t *testing.T, p *pawltest.Pawl) {
		h := open(t, p, false)
		if _, err := p.Service.PutBudget(t.Context(), "llm", pawl.NewBudget{Unit: "tokens", Limit: 1000}); err != nil {
			t.Fatal(err)
		}
		h.p.Create(pawl.NewTask{Type: "agent", Provenance: &pawl.Provenance{AgentName: "planner", Model: "m-1"}})
		l := h.claim("agent")
		h.has(h.get("/ui/tasks/"+l.TaskID), 200, "no checkpoint of it has been signed yet", "pawl verify "+l.TaskID, "planner", "m-1")
		for i, amount := range []int64{70, 50} {
			r, err := p.Service.ReserveBudget(t.Context(), "llm", pawl.ReserveCall{
				ItemID: l.ID, WorkerID: l.WorkerID, Attempt: l.Attempt, Amount: amount, Key: fmt.Sprint(i)})
			if err != nil {
				t.Fatal(err)
			}
			if i > 0 {
				break
			}
			_, err = p.Service.SettleBudget(t.Context(), "llm", pawl.SettleCall{
				Reservation: r.Reservation, Amount: 61, ItemID: l.ID, WorkerID: l.WorkerID, Attempt: l.Attempt})
			if err != nil {
				t.Fatal(err)
			}
		}
		h.has(h.get("/ui/tasks/"+l.TaskID), 200,
			`data-label="spent">61</td><td class="num" data-label="reserved">50</td><td data-label="unit">tokens</td>`)
	})
}

// What a task or item waits for is said at the top, with the command that changes it.
func TestWhyIsSaidFirst(t *testing.T) {
	pawltest.Each(t, func(t *testing.T, p *pawltest.Pawl) {
		h := open(t, p, false)
		task := h.p.Create(pawl.NewTask{Type: "nobody"})
		got := h.get("/ui/tasks/" + task.ID)
		h.has(got, 200, `<div class="why no_worker">`, "nobody")
		if strings.Index(got.text, `class="why`) > strings.Index(got.text, `<dl class="facts">`) {
			t.Error("the reason is not first")
		}
		l := h.failed()
		for _, path := range []string{"/ui/tasks/" + l.TaskID, "/ui/items/" + l.ID} {
			w, err := p.Service.Why(t.Context(), l.ID)
			if err != nil {
				t.Fatal(err)
			}
			h.has(h.get(path), 200, `<div class="why failed">`, w.Detail, w.Command)
		}
		only[pawl.Task](t)(p.Service.CancelTasks(t.Context(), []pawl.TaskCall{{TaskID: task.ID}}))
		h.hasNot(h.get("/ui/tasks/"+task.ID), `class="why`)
	})
}

// Ids of another namespace are not found, on pages and by actions.
func TestTasksOfOtherNamespacesAreNotFound(t *testing.T) {
	h := open(t, pawltest.Open(t, pawltest.SQLite), false)
	l := h.failed()
	h.post("/ui/namespace", "namespace", "other")
	for _, path := range []string{"/ui/tasks/" + l.TaskID, "/ui/items/" + l.ID, "/ui/tasks/" + l.TaskID + "?from=1&to=2",
		"/ui/tasks/" + l.TaskID + "/fork?checkpoint=1"} {
		h.has(h.get(path), 404)
	}
	for _, path := range []string{"/ui/tasks/" + l.TaskID + "/retry", "/ui/tasks/" + l.TaskID + "/fork", "/ui/items/" + l.ID + "/cancel"} {
		h.has(h.send("POST", path, url.Values{"checkpoint": {"1"}}), 404)
	}
}
