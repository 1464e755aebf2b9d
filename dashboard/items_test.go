package dashboard_test

import (
	"context"
	"fmt"
	"html"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/dashboard"
	"github.com/pawl-work/pawl/engine"
	"github.com/pawl-work/pawl/pawltest"
)

// Five failed items are retried with one confirmation, which counts first.
func TestChosenItemsAreRetriedAtOnce(t *testing.T) {
	pawltest.Each(t, func(t *testing.T, p *pawltest.Pawl) {
		h := open(t, p, false)
		form := url.Values{"verb": {"retry"}, "back": {"state=failed"}}
		for range 5 {
			form.Add("item", h.failed().ID)
		}
		queued := h.p.Create(pawl.NewTask{Type: "other"})
		items, err := p.Service.ListItems(t.Context(), pawl.ItemFilter{TaskID: queued.ID})
		if err != nil {
			t.Fatal(err)
		}
		list := h.get("/ui/items?state=failed&type=pdf")
		h.has(list, 200, `name="item" value="`+form["item"][0]+`"`, `name="verb" value="retry"`, "torn",
			`<tr id="row-`+form["item"][0]+`"`, `aria-label="mark read a book"`)
		if n := strings.Count(list.text, `name="item"`); n != 5 {
			t.Errorf("%d items of 5", n)
		}
		h.hasNot(list, items.Items[0].ID)
		form.Add("item", items.Items[0].ID)
		form.Add("item", "itm_01ARZ3NDEKTSV4RRFFQ69G5FAV")
		h.has(h.get("/ui/items/selected?"+form.Encode()), 200, "retry 5 items of 5 tasks?", "1 of the marked items are left",
			"Not found", "itm_01ARZ3NDEKTSV4RRFFQ69G5FAV", `href="/ui/items?state=failed"`)
		if it, err := p.Service.GetItem(t.Context(), form["item"][0]); err != nil || it.State != pawl.ItemFailed {
			t.Fatalf("the question changed it: %s, %v", it.State, err)
		}
		h.has(h.send("POST", "/ui/items/selected", form), 200, "retry: 5 items")
		for _, id := range form["item"][:5] {
			if it, err := p.Service.GetItem(t.Context(), id); err != nil || it.State != pawl.ItemQueued {
				t.Errorf("%s is %s, %v", id, it.State, err)
			}
		}
		h.has(h.send("POST", "/ui/items/selected", form), 200, "retry: 0 items", "allows claim, cancel")
	})
}

// The other verbs, and what is refused.
func TestChosenItemsAreCancelledBuriedAndMoved(t *testing.T) {
	pawltest.Each(t, func(t *testing.T, p *pawltest.Pawl) {
		h := open(t, p, true)
		id := h.failed().ID
		task := h.p.Create(pawl.NewTask{Type: "other", Items: make([]pawl.NewItem, 2)})
		items, err := p.Service.ListItems(t.Context(), pawl.ItemFilter{TaskID: task.ID})
		if err != nil {
			t.Fatal(err)
		}
		h.login(pawl.NewAPIKey{Roles: []string{"reader"}})
		h.hasNot(h.get("/ui/items"), `name="item"`, `name="verb"`)
		h.has(h.send("POST", "/ui/items/selected", url.Values{"verb": {"bury"}, "item": {id}}), 403, "this call needs the role operator")
		h.login(pawl.NewAPIKey{Roles: pawl.KeyRoles})
		h.has(h.send("POST", "/ui/items/selected", url.Values{"verb": {"bury"}, "item": {id}, "reason": {"hopeless"}}), 200, "bury: 1 item")
		h.has(h.get("/ui/items/"+id), 200, "dead_lettered", "hopeless")

		two := url.Values{"verb": {"set_priority"}, "item": {items.Items[0].ID, items.Items[1].ID}, "priority": {"7"}}
		h.has(h.get("/ui/items/selected?"+two.Encode()), 200, "set priority 2 items of 1 task?", "The priority of their tasks changes")
		h.has(h.send("POST", "/ui/items/selected", two), 200, "set priority: 2 items")
		if got, err := p.Service.GetTask(t.Context(), task.ID); err != nil || got.Priority != 7 {
			t.Errorf("priority %d, %v", got.Priority, err)
		}
		two.Set("priority", "high")
		h.has(h.send("POST", "/ui/items/selected", two), 400, "is not a number")
		two.Set("verb", "cancel")
		h.has(h.send("POST", "/ui/items/selected", two), 200, "cancel: 2 items")
		h.has(h.send("POST", "/ui/items/selected", url.Values{"verb": {"explode"}, "item": {id}}), 400, "is none of those")
		h.has(h.send("POST", "/ui/items/selected", url.Values{"verb": {"retry"}}), 400, "no item is chosen")
		h.has(h.send("POST", "/ui/items/selected", two, "Sec-Fetch-Site", "cross-site"), 403, "other origins")
		h.has(h.get("/ui/items?state=nonsense"), 400)
		h.has(h.get("/ui/items?worker=nobody"), 200, "No item matches")
	})
}

// Tasks that a filter selects are retried by a bulk call, whose count is shown first and whose
// task shows how far it is.
func TestTasksAreRetriedByFilter(t *testing.T) {
	pawltest.Each(t, func(t *testing.T, p *pawltest.Pawl) {
		h := open(t, p, true)
		var last pawl.Lease
		for range 3 {
			last = h.failed()
		}
		h.p.Create(pawl.NewTask{Type: "other", Metadata: []byte(`{"team":"a","n":3}`)})
		h.login(pawl.NewAPIKey{Roles: []string{"reader"}})
		h.hasNot(h.get("/ui/tasks?type=pdf"), `name="verb"`)
		h.has(h.get("/ui/tasks/bulk?type=pdf&verb=retry"), 403, "operator")
		h.login(pawl.NewAPIKey{Roles: pawl.KeyRoles})
		h.hasNot(h.get("/ui/tasks"), `name="verb"`)
		h.has(h.get("/ui/tasks?metadata=team%3Da"), 200, ">other<")
		h.has(h.get("/ui/tasks?metadata=n=3"), 200, ">other<", "pawl task list", "--metadata=n=3", "metadata%5Bn%5D=3")
		h.hasNot(h.get("/ui/tasks?metadata=team%3Db"), ">other<")
		h.has(h.get("/ui/tasks?metadata=team"), 400, "must be key=value")
		h.has(h.get("/ui/tasks?type=pdf&state=failed"), 200, `name="verb" value="retry"`, `<input type="hidden" name="state" value="failed">`)
		h.has(h.get("/ui/tasks/bulk?type=pdf&state=failed&verb=retry"), 200, "retry 3 tasks?", "state failed and type pdf")
		h.has(h.get("/ui/tasks/bulk?type=none&verb=retry"), 200, "there is nothing to do")
		h.has(h.get("/ui/tasks/bulk?verb=retry"), 400)
		h.has(h.get("/ui/tasks/bulk?type=pdf&verb=explode"), 400, "is none of those")
		got := h.post("/ui/tasks/bulk", "type", "pdf", "state", "failed", "verb", "retry", "reason", "the disk is back")
		h.has(got, 200, pawl.TypeBulk, "changed ·")
		ctx, cancel := context.WithTimeout(t.Context(), 60*time.Second)
		defer cancel()
		if err := p.Engine.RunBulks(ctx); err != nil {
			t.Fatal(err)
		}
		h.has(h.get(got.Request.URL.Path), 200, "<b>3</b> changed", "completed")
		h.has(h.get("/ui/tasks/"+last.TaskID), 200, "queued", "the disk is back")
		h.has(h.post("/ui/tasks/bulk", "type", "pdf", "verb", "set_priority", "priority", "x"), 400, "is not a number")
	})
}

// failsLater is a service whose second batch of retries fails as a whole.
type failsLater struct {
	*engine.Engine
	batches *int
}

func (f failsLater) RetryTasks(ctx context.Context, calls []pawl.TaskCall) ([]pawl.Result[pawl.Task], error) {
	if *f.batches++; *f.batches == 2 {
		return nil, &pawl.Error{Code: pawl.CodeUnavailable, Message: "the database is down"}
	}
	return f.Engine.RetryTasks(ctx, calls)
}

// When a part of what was marked fails as a whole, the page says what was done before.
func TestAnErrorDoesNotHideWhatWasDone(t *testing.T) {
	p := pawltest.Open(t, pawltest.SQLite)
	h := openOver(t, p, failsLater{p.Engine, new(int)}, false, dashboard.Options{})
	form := url.Values{"verb": {"retry"}}
	for range 20 { // more than two batches
		form.Add("item", h.failed().ID)
	}
	got := h.send("POST", "/ui/items/selected", form)
	h.has(got, 200, "the database is down")
	list, err := p.Service.ListItems(t.Context(), pawl.ItemFilter{States: []pawl.ItemState{pawl.ItemQueued}})
	if err != nil || len(list.Items) == 0 || len(list.Items) >= 20 {
		t.Fatal(len(list.Items), err)
	}
	h.has(got, 200, fmt.Sprintf("retry: %d items", len(list.Items)))
}

// What is done to all tasks of a filter is done to those that were counted, and a priority is not left out.
func TestABulkCallIsOfWhatWasCounted(t *testing.T) {
	pawltest.Each(t, func(t *testing.T, p *pawltest.Pawl) {
		h := open(t, p, false)
		counted := h.p.Create(pawl.NewTask{Type: "pdf"})
		asked := h.get("/ui/tasks/bulk?type=pdf&verb=set_priority")
		h.has(asked, 200, "set priority 1 task?", "left as they are")
		until := regexp.MustCompile(`name="until" value="([^"]+)"`).FindStringSubmatch(asked.text)
		if until == nil {
			t.Fatal("the form does not say until when tasks count")
		}
		h.p.Advance(time.Minute)
		later := h.p.Create(pawl.NewTask{Type: "pdf"})
		form := []string{"type", "pdf", "verb", "set_priority", "until", html.UnescapeString(until[1])}
		h.has(h.post("/ui/tasks/bulk", form...), 400, "is not a number")
		h.has(h.post("/ui/tasks/bulk", append(form, "priority", "7")...), 200, pawl.TypeBulk)
		if err := p.Engine.RunBulks(t.Context()); err != nil {
			t.Fatal(err)
		}
		for id, want := range map[string]int{counted.ID: 7, later.ID: 0} {
			if task, err := p.Service.GetTask(t.Context(), id); err != nil || task.Priority != want {
				t.Errorf("priority %d, want %d, %v", task.Priority, want, err)
			}
		}
		h.has(h.post("/ui/tasks/bulk", "verb", "cancel", "until", until[1]), 400) // no filter
		h.has(h.post("/ui/tasks/bulk", "verb", "cancel", "type", "pdf", "until", "soon"), 400, "is no time")
	})
}

// A list of many items has pages.
func TestTheListOfItemsHasPages(t *testing.T) {
	h := open(t, pawltest.Open(t, pawltest.SQLite), false)
	h.p.Create(pawl.NewTask{Type: "big", Items: make([]pawl.NewItem, 10_000)})
	got := h.get("/ui/items")
	if n := strings.Count(got.text, `name="item"`); n != 50 {
		t.Errorf("%d rows", n)
	}
	next := regexp.MustCompile(`rel="next" href="([^"]*)"`).FindStringSubmatch(got.text)
	if next == nil {
		t.Fatal("no second page")
	}
	h.has(h.get("/ui/items"+next[1]), 200, "First page", `value="itm_`)
}
