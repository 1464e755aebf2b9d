package suite

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/pawl-work/pawl"
)

// line returns an event in one line.
func line(e pawl.Event) string {
	about := "task"
	if e.ItemID != "" {
		about = "item"
	}
	s := fmt.Sprintf("%s %s %s>%s", e.Event, about, e.FromState, e.ToState)
	if e.TaskTo != "" {
		s += fmt.Sprintf(" %s>%s", e.TaskFrom, e.TaskTo)
	}
	if e.Attempt > 0 && e.ActorType == pawl.ActorWorker {
		s += fmt.Sprintf(" #%d", e.Attempt)
	}
	return s + " " + strings.TrimSuffix(e.ActorType+":"+e.ActorID, ":")
}

func (w *fixture) lines(f pawl.EventFilter) []string {
	w.Helper()
	var out []string
	for _, e := range w.allEvents(f) {
		out = append(out, line(e))
	}
	return out
}

var events = noun{"events", []promise{
	{"the life of a task of one item", func(w *fixture) {
		t := w.oneItem()
		l := w.claim("w1")
		w.heartbeat(l)
		w.complete(l, `1`)
		w.same(w.lines(pawl.EventFilter{TaskID: t.ID}), []string{
			"proposed item >queued >open api",
			"leased item queued>leased #1 worker:w1",
			"in_progress item leased>in_progress #1 worker:w1",
			"completed item in_progress>completed open>completed #1 worker:w1",
		}, "events")
	}},
	{"the life of a task of many", func(w *fixture) {
		t := w.manyItems(2)
		l := w.claim("w1")
		w.complete(l, `1`)
		l = w.claim("w2")
		w.failNow(l, "no")
		l = w.claim("w2")
		w.failPermanently(l, "no")
		w.retry(t.ID)
		w.complete(w.claim("w3"), `1`)
		w.same(w.lines(pawl.EventFilter{TaskID: t.ID}), []string{
			"proposed task >open api",
			"planned item >queued api",
			"planned item >queued api",
			"leased item queued>leased #1 worker:w1",
			"completed item leased>completed #1 worker:w1",
			"leased item queued>leased #1 worker:w2",
			"failed item leased>queued #1 worker:w2",
			"leased item queued>leased #2 worker:w2",
			"failed item leased>failed #2 worker:w2",
			"failed task open>failed system",
			"retried item failed>queued user",
			"retried task failed>open user",
			"leased item queued>leased #3 worker:w3",
			"completed item leased>completed #3 worker:w3",
			"completed task open>completed system",
		}, "events")
	}},
	{"an event has a time, a subject and a message", func(w *fixture) {
		t := w.oneItem()
		w.advance(time.Minute)
		l := w.claim("w1")
		e := w.allEvents(pawl.EventFilter{TaskID: t.ID})[1]
		w.same([]any{e.CreatedAt, e.TaskID, e.ItemID, e.Namespace, e.Attempt}, []any{w.now(), t.ID, l.ID, pawl.DefaultNamespace, 1}, "the event")
		if e.Message == "" {
			w.Error("it has no message")
		}
	}},
	{"ids rise in the order of a task's events", func(w *fixture) {
		t := w.manyItems(3)
		for range 3 {
			w.complete(w.claim("w1"), `1`)
		}
		last := int64(0)
		for _, e := range w.allEvents(pawl.EventFilter{TaskID: t.ID}) {
			n, err := strconv.ParseInt(strings.TrimPrefix(e.ID, "evt_"), 10, 64)
			if err != nil || n <= last {
				w.Fatalf("event %s comes after evt_%d", e.ID, last)
			}
			last = n
		}
	}},
	{"events name the caller", func(w *fixture) {
		ann := w.as(pawl.ActorUser, "ann")
		t := ann.oneItem()
		bob := w.as(pawl.ActorAgent, "bob")
		bob.cancel(t.ID)
		w.same(w.lines(pawl.EventFilter{TaskID: t.ID}), []string{
			"proposed item >queued >open user:ann",
			"cancelled item queued>cancelled open>cancelled agent:bob",
		}, "events")
	}},
	{"the first event summarizes the request", func(w *fixture) {
		t := w.oneItem()
		if e := w.allEvents(pawl.EventFilter{TaskID: t.ID})[0]; len(e.Data) == 0 {
			w.Error("it has no data")
		}
	}},
	{"a refused call leaves no event", func(w *fixture) {
		t := w.oneItem()
		_, err := pawl.Complete(w.ctx, w.svc, pawl.Fence{ItemID: w.onlyItem(t.ID).ID, WorkerID: "w1", Attempt: 1}, nil)
		w.refused(err, pawl.CodeLeaseLost)
		_, err = first(w.svc.RetryTasks(w.ctx, []pawl.TaskCall{{TaskID: t.ID}}))
		w.refused(err, pawl.CodeConflict)
		w.eventCount(t.ID, 1)
	}},
}}

func (w *fixture) eventCount(taskID string, events int) {
	w.Helper()
	w.same(len(w.allEvents(pawl.EventFilter{TaskID: taskID})), events, "events")
}

var eventFilters = noun{"lists of events", []promise{
	{"newest first by default, a hundred of them", func(w *fixture) {
		t := w.manyItems(150)
		page, err := w.svc.ListEvents(w.ctx, pawl.EventFilter{TaskID: t.ID})
		w.ok(err, "list events")
		w.same(len(page.Items), pawl.DefaultPage, "events")
		all := w.allEvents(pawl.EventFilter{TaskID: t.ID})
		w.same(len(all), 151, "all events")
		slices.Reverse(all)
		w.same(page.Items, all[:100], "newest first")
		page, err = w.svc.ListEvents(w.ctx, pawl.EventFilter{TaskID: t.ID, Page: pawl.Page{Cursor: page.Next}})
		w.ok(err, "list events")
		w.same(page.Items, all[100:], "the rest")
		w.same(page.Next, "", "next")
	}},
	{"by task, item, name and time", func(w *fixture) {
		t := w.manyItems(2)
		w.oneItem()
		begin := w.now()
		w.advance(time.Minute)
		ls := w.claims(pawl.ClaimRequest{WorkerID: "w1", TaskID: t.ID, Limit: 2})
		w.advance(time.Minute)
		w.complete(ls[1], `1`)
		for want, f := range map[string]pawl.EventFilter{
			"proposed planned planned leased leased completed": {TaskID: t.ID},
			"planned leased completed":                         {ItemID: ls[1].ID},
			"leased leased":                                    {Event: "leased"},
			"planned planned":                                  {TaskID: t.ID, Event: "planned"},
			"leased leased completed":                          {Since: begin.Add(time.Minute)},
			"proposed planned planned proposed":                {Until: begin.Add(time.Minute)},
			"completed":                                        {Since: begin.Add(time.Minute + time.Microsecond)},
			"proposed proposed":                                {Until: begin.Add(time.Microsecond), Event: "proposed"},
			"":                                                 {Until: begin},
		} {
			var got []string
			for _, e := range w.allEvents(f) {
				got = append(got, e.Event)
			}
			w.same(strings.Join(got, " "), want, fmt.Sprintf("events of %+v", f))
		}
	}},
	{"pages have no gap, also while events are added", func(w *fixture) {
		t := w.manyItems(25)
		f := pawl.EventFilter{TaskID: t.ID, Page: pawl.Page{Limit: 7}}
		seen := map[string]bool{}
		for n := 0; ; n++ {
			page, err := w.svc.ListEvents(w.ctx, f)
			w.ok(err, "list events")
			for _, e := range page.Items {
				if seen[e.ID] {
					w.Fatalf("event %s came twice", e.ID)
				}
				seen[e.ID] = true
			}
			if page.Next == "" {
				break
			}
			w.claim("w1")
			f.Cursor = page.Next
		}
		w.same(len(seen), 26, "events seen")
	}},
	{"a malformed cursor is invalid", func(w *fixture) {
		t := w.manyItems(20)
		for _, cursor := range []string{"x", "../..", "\x00", "é", "\xff", "AAAA", strings.Repeat("A", 5000)} {
			_, err := w.svc.ListEvents(w.ctx, pawl.EventFilter{TaskID: t.ID, Page: pawl.Page{Cursor: cursor}})
			w.invalid(err, "/cursor")
			_, err = w.svc.ListTasks(w.ctx, pawl.TaskFilter{Page: pawl.Page{Cursor: cursor}})
			w.invalid(err, "/cursor")
			_, err = w.svc.ListItems(w.ctx, pawl.ItemFilter{Page: pawl.Page{Cursor: cursor}})
			w.invalid(err, "/cursor")
		}
	}},
	{"an unknown task has none, or is not found", func(w *fixture) {
		page, err := w.svc.ListEvents(w.ctx, pawl.EventFilter{TaskID: "tsk_nope"})
		if err != nil && !errors.Is(err, pawl.ErrNotFound) {
			w.Errorf("error is %v", err)
		}
		w.same(len(page.Items), 0, "events")
	}},
}}
