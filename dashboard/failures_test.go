package dashboard_test

import (
	"context"
	"errors"
	"fmt"
	"html"
	"regexp"
	"testing"
	"time"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/engine"
	"github.com/pawl-work/pawl/pawltest"
)

// refusedBy creates a task whose only attempt fails with a message.
func (h *fixture) refusedBy(message string) pawl.Lease {
	h.Helper()
	h.p.Create(pawl.NewTask{Type: "fetch", Title: "fetch a feed", MaxAttempts: 1})
	l := h.claim("fetch")
	only[pawl.Moved](h.T)(h.p.Service.Fail(h.Context(), []pawl.FailCall{
		{Fence: l.Fence(), Error: pawl.Failure{Code: "net", Message: message}}}))
	return l
}

// Failures are grouped by what their errors have in common, and a group is retried at once.
func TestAGroupOfFailuresIsRetried(t *testing.T) {
	pawltest.Each(t, func(t *testing.T, p *pawltest.Pawl) {
		h := open(t, p, true)
		h.login(pawl.NewAPIKey{Roles: pawl.KeyRoles})
		h.has(h.get("/ui/failures"), 200, "Nothing has failed")
		h.has(h.get("/ui/dead-letters"), 200, "There are no dead letters")
		var last pawl.Lease
		for i := range 3 {
			last = h.refusedBy(fmt.Sprintf("refused after %d ms", 100+i))
		}
		other := h.refusedBy("the feed has a <script>alert(1)</script>")
		if _, err := p.Service.Sweep(t.Context()); err != nil {
			t.Fatal(err)
		}
		got := h.get("/ui/failures")
		h.has(got, 200, "refused after <n> ms", "retry 3…", "retry 1…", "bury 3…", last.ID, "refused after 102 ms", "<script>alert")
		h.hasNot(got, "<script>alert")
		h.hasNot(h.get("/ui/failures?type=none"), "refused")
		groups, err := p.Service.ListFailures(t.Context(), pawl.FailureFilter{})
		if err != nil || len(groups.Items) != 2 {
			t.Fatal(groups.Items, err)
		}
		name := groups.Items[0].Failure
		h.has(h.get("/ui/items?failure="+name), 200, last.ID)
		h.hasNot(h.get("/ui/items?failure="+name), other.ID)
		h.has(h.get("/ui/tasks/bulk?verb=retry&failure="+name), 200, "retry 3 tasks?", "failure "+name)
		got = h.post("/ui/tasks/bulk", "verb", "retry", "failure", name)
		h.has(got, 200, pawl.TypeBulk)
		ctx, cancel := context.WithTimeout(t.Context(), 60*time.Second)
		defer cancel()
		if err := p.Engine.RunBulks(ctx); err != nil {
			t.Fatal(err)
		}
		h.has(h.get(got.Request.URL.Path), 200, "<b>3</b> changed")
		got = h.get("/ui/failures")
		h.has(got, 200, "the feed has a")
		h.hasNot(got, "refused after")
		only[pawl.Task](t)(p.Service.BuryTasks(t.Context(), []pawl.TaskCall{{TaskID: other.TaskID}}))
		h.has(h.get("/ui/dead-letters"), 200, "the feed has a", "retry 1…", "delete tasks 1…", other.ID)
		h.has(h.get("/ui/failures"), 200, "Nothing has failed")

		h.login(pawl.NewAPIKey{Roles: []string{"reader"}})
		got = h.get("/ui/dead-letters")
		h.has(got, 200, "the feed has a")
		h.hasNot(got, "verb=retry")
		h.has(h.post("/ui/tasks/bulk", "verb", "retry", "failure", name), 403, "operator")
	})
}

// The tasks of a group of dead letters are deleted, and no others that have an item of the group.
func TestAGroupOfDeadLettersIsDeleted(t *testing.T) {
	pawltest.Each(t, func(t *testing.T, p *pawltest.Pawl) {
		h := open(t, p, false)
		l := h.refusedBy("the feed is gone")
		only[pawl.Task](t)(p.Service.BuryTasks(t.Context(), []pawl.TaskCall{{TaskID: l.TaskID}}))
		only[pawl.TypeRef](t)(p.Service.PutTypes(t.Context(), []pawl.Type{{Name: "fetch", OnItemFailure: pawl.FailureIgnore}}))
		kept := h.p.Create(pawl.NewTask{Type: "fetch", MaxAttempts: 1, Items: make([]pawl.NewItem, 2)})
		bad, good := h.claim("fetch"), h.claim("fetch")
		only[pawl.Moved](t)(p.Service.Fail(t.Context(), []pawl.FailCall{
			{Fence: bad.Fence(), Error: pawl.Failure{Code: "net", Message: "the feed is gone"}}}))
		only[pawl.Moved](t)(p.Service.Complete(t.Context(), []pawl.CompleteCall{{Fence: good.Fence()}}))
		if task, err := p.Service.GetTask(t.Context(), kept.ID); err != nil || task.State != pawl.TaskCompleted {
			t.Fatal(task.State, err)
		}
		if _, err := p.Service.Sweep(t.Context()); err != nil {
			t.Fatal(err)
		}
		link := regexp.MustCompile(`href="(/ui/tasks/bulk\?[^"]*verb=delete[^"]*)"`).FindStringSubmatch(h.get("/ui/dead-letters").text)
		if link == nil {
			t.Fatal("no link to delete the group")
		}
		asked := h.get(html.UnescapeString(link[1]))
		h.has(asked, 200, "delete 1 task?", "This cannot be undone")
		var fields []string
		for _, m := range regexp.MustCompile(`<input type="hidden" name="([^"]*)" value="([^"]*)">`).FindAllStringSubmatch(asked.text, -1) {
			fields = append(fields, m[1], html.UnescapeString(m[2]))
		}
		h.has(h.post("/ui/tasks/bulk", fields...), 200, pawl.TypeBulk)
		if err := p.Engine.RunBulks(t.Context()); err != nil {
			t.Fatal(err)
		}
		if _, err := p.Service.GetTask(t.Context(), l.TaskID); !errors.Is(err, pawl.ErrNotFound) {
			t.Errorf("the dead-lettered task: %v", err)
		}
		if _, err := p.Service.GetTask(t.Context(), kept.ID); err != nil {
			t.Errorf("the completed task: %v", err)
		}
	})
}

// Tasks are found by the beginning of an id, type or title, and by the text of an error.
func TestTasksAreSearched(t *testing.T) {
	pawltest.Each(t, func(t *testing.T, p *pawltest.Pawl) {
		h := open(t, p, false)
		l := h.refusedBy("connection refused")
		other := h.p.Create(pawl.NewTask{Type: "other", Title: "Another thing"})
		for _, query := range []string{"q=fet", "q=" + l.TaskID[:20], "q=" + l.ID, "q=FETCH+a", "error=connection+REF", "title=fetch"} {
			got := h.get("/ui/tasks?" + query)
			h.has(got, 200, `href="/ui/tasks/`+l.TaskID+`"`)
			if query != "q="+l.TaskID[:20] {
				h.hasNot(got, other.ID)
			}
		}
		h.has(h.get("/ui/items?q=fetch"), 200, l.ID)
		h.has(h.get("/ui/items?error=refused"), 200, l.ID)
		h.has(h.get("/ui/tasks?q=nothing"), 200, "No task matches")
	})
}

// Tasks that failed without an item are a group that leads to tasks.
func TestTasksThatAHookFailedAreShown(t *testing.T) {
	pawltest.Each(t, func(t *testing.T, p *pawltest.Pawl) {
		h := open(t, p, true)
		h.login(pawl.NewAPIKey{Roles: pawl.KeyRoles})
		app := p.Another(engine.Options{Hooks: map[string]pawl.Hooks{"report": {
			Apply: func(context.Context, pawl.Application) (pawl.Applied, error) {
				return pawl.Applied{}, errors.New("the port is closed")
			}}},
			Types: []pawl.Type{{Name: "report", Approval: pawl.Approval{Mode: pawl.ApprovalAuto}, Apply: pawl.Apply{Mode: pawl.ApplyGo}}}})
		task := h.p.Create(pawl.NewTask{Type: "report"})
		only[pawl.Moved](t)(app.Submit(t.Context(), []pawl.SubmitCall{{Fence: h.claim("report").Fence()}}))
		for _, page := range []string{"/ui/failures", "/ui/"} {
			h.has(h.get(page), 200, "the port is closed", "/ui/tasks/"+task.ID, "/ui/tasks?failure=report%3a")
		}
	})
}
