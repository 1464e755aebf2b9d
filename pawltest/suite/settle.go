package suite

import (
	"fmt"
	"time"

	"github.com/pawl-work/pawl"
)

// moveTo moves one item into a final or parked state.
func (w *fixture) moveTo(taskID, itemID string, to pawl.ItemState) {
	w.Helper()
	switch to {
	case pawl.ItemCompleted:
		w.complete(w.claimItem("w1", itemID), `"done"`)
	case pawl.ItemFailed:
		w.failPermanently(w.claimItem("w1", itemID), "no")
	case pawl.ItemDeadLettered:
		w.failPermanently(w.claimItem("w1", itemID), "no")
		w.bury(taskID, itemID)
	case pawl.ItemCancelled:
		w.cancel(taskID, itemID)
	}
	w.same(w.item(itemID).State, to, "the item")
}

var settling = noun{"how a task ends", []promise{
	{"completed when every item is completed", func(w *fixture) {
		for _, t := range []pawl.Task{w.oneItem(), w.manyItems(3)} {
			w.advance(time.Minute)
			for _, i := range w.items(t.ID) {
				w.same(w.task(t.ID).CompletedAt, (*time.Time)(nil), "completed_at before the end")
				w.complete(w.claimItem("w1", i.ID), `1`)
			}
			got := w.task(t.ID)
			w.same([]any{got.State, got.Status, got.Progress, got.Version, got.ItemsOpen},
				[]any{pawl.TaskCompleted, pawl.StatusCompleted, 100, 1, 0}, "the task")
			w.timeIs(got.CompletedAt, w.now(), "completed_at")
			w.same(got.UpdatedAt, w.now(), "updated_at")
		}
	}},
	{"the last item that ends decides, whatever the states and the order", func(w *fixture) {
		const c, f, d, x = pawl.ItemCompleted, pawl.ItemFailed, pawl.ItemDeadLettered, pawl.ItemCancelled
		for _, mix := range []struct {
			items []pawl.ItemState
			want  pawl.TaskState
		}{
			{[]pawl.ItemState{c, f}, pawl.TaskFailed},
			{[]pawl.ItemState{f, c}, pawl.TaskFailed},
			{[]pawl.ItemState{c, x}, pawl.TaskCompleted},
			{[]pawl.ItemState{x, c}, pawl.TaskCompleted},
			{[]pawl.ItemState{x, x}, pawl.TaskCancelled},
			{[]pawl.ItemState{f, x}, pawl.TaskFailed},
			{[]pawl.ItemState{x, f}, pawl.TaskFailed},
			{[]pawl.ItemState{d, c}, pawl.TaskDeadLettered},
			{[]pawl.ItemState{d, x}, pawl.TaskDeadLettered},
			{[]pawl.ItemState{d, f}, pawl.TaskFailed},
			{[]pawl.ItemState{f, d, c}, pawl.TaskFailed},
			{[]pawl.ItemState{x, f, c, c}, pawl.TaskFailed},
			{[]pawl.ItemState{x, c, x}, pawl.TaskCompleted},
		} {
			t := w.manyItems(len(mix.items))
			for n, i := range w.items(t.ID) {
				if w.task(t.ID).State.Stored() != pawl.TaskOpen {
					w.Fatalf("%v: settled after %d items", mix.items, n)
				}
				w.moveTo(t.ID, i.ID, mix.items[n])
			}
			got := w.task(t.ID)
			w.same([]any{got.State, got.Version, got.ItemsOpen}, []any{mix.want, 1, 0}, fmt.Sprint(mix.items))
			w.timeIs(got.CompletedAt, w.now(), "completed_at")
		}
	}},
	{"a failed item leaves its siblings running", func(w *fixture) {
		t := w.manyItems(3)
		l := w.claim("w1")
		w.failPermanently(w.claim("w2"), "no")
		w.same(w.task(t.ID).State, pawl.TaskInProgress, "state")
		w.heartbeat(l)
		w.complete(l, `1`)
		w.complete(w.claim("w2"), `1`)
		w.same(w.task(t.ID).State, pawl.TaskFailed, "state")
	}},
	{"a failed task carries an error of its items and their failures", func(w *fixture) {
		for _, t := range []pawl.Task{w.oneItem(), w.manyItems(2)} {
			all := w.items(t.ID)
			w.failNow(w.claimItem("w1", all[0].ID), "first")
			w.failPermanently(w.claimItem("w1", all[0].ID), "the disk is full")
			if len(all) > 1 {
				w.complete(w.claimItem("w1", all[1].ID), `1`)
			}
			got := w.task(t.ID)
			w.same([]any{got.State, got.Status, got.RetryCount}, []any{pawl.TaskFailed, pawl.StatusFailed, 2}, "the task")
			if got.Error == nil || got.Error.Message != "the disk is full" {
				w.Errorf("error is %v", got.Error)
			}
		}
	}},
	{"a task that settles leaves one event of its own, by the system", func(w *fixture) {
		t := w.manyItems(2)
		w.complete(w.claim("w1"), `1`)
		w.complete(w.claim("w1"), `2`)
		var own []pawl.Event
		for _, e := range w.allEvents(pawl.EventFilter{TaskID: t.ID}) {
			if e.ItemID == "" {
				own = append(own, e)
			}
		}
		w.same(len(own), 2, "events of the task alone")
		e := own[1]
		w.same([]any{e.Event, e.FromState, e.ToState, e.TaskFrom, e.TaskTo, e.ActorType},
			[]any{"completed", "open", "completed", "", "", pawl.ActorSystem}, "the settling event")
	}},
	{"finishing both last items in one batch settles once", func(w *fixture) {
		t := w.manyItems(2)
		ls := w.claims(pawl.ClaimRequest{WorkerID: "w1", Limit: 2})
		rs, err := w.svc.Complete(w.ctx, []pawl.CompleteCall{{Fence: ls[0].Fence()}, {Fence: ls[1].Fence()}})
		w.ok(err, "complete")
		w.ok(rs[0].Err, "complete")
		w.ok(rs[1].Err, "complete")
		got := w.task(t.ID)
		w.same([]any{got.State, got.Version}, []any{pawl.TaskCompleted, 1}, "the task")
	}},
	{"one batch over several tasks settles each", func(w *fixture) {
		a, b, c := w.manyItems(2), w.manyItems(2), w.oneItem()
		ls := w.claims(pawl.ClaimRequest{WorkerID: "w1", Limit: 10})
		w.same(len(ls), 5, "claimed")
		calls := []pawl.CompleteCall{}
		for _, l := range ls {
			calls = append(calls, pawl.CompleteCall{Fence: l.Fence()})
		}
		_, err := w.svc.Complete(w.ctx, calls)
		w.ok(err, "complete")
		for _, t := range []pawl.Task{a, b, c} {
			w.same(w.task(t.ID).State, pawl.TaskCompleted, "state")
		}
	}},
}}

var results = noun{"results", []promise{
	{"a task of one item has its item's result", func(w *fixture) {
		t := w.oneItem()
		w.advance(time.Second)
		w.complete(w.claim("w1"), `{"pages": 42}`)
		got, err := w.svc.TaskResult(w.ctx, t.ID)
		w.ok(err, "result")
		w.same(got, pawl.TaskResult{TaskID: t.ID, Payload: raw(`{"pages": 42}`), CreatedAt: w.now()}, "result")
	}},
	{"no result is null", func(w *fixture) {
		t := w.oneItem()
		_, err := pawl.Complete(w.ctx, w.svc, w.claim("w1").Fence(), nil)
		w.ok(err, "complete")
		w.same(string(w.onlyItem(t.ID).Result), "null", "item's result")
		got, err := w.svc.TaskResult(w.ctx, t.ID)
		w.ok(err, "result")
		w.same(string(got.Payload), "null", "task's result")
	}},
	{"a task of many has the list of its items' results by position", func(w *fixture) {
		t := w.manyItems(3)
		ls := w.claims(pawl.ClaimRequest{WorkerID: "w1", Limit: 3})
		for _, n := range []int{2, 0, 1} {
			w.complete(ls[n], fmt.Sprint(n*10))
		}
		got, err := w.svc.TaskResult(w.ctx, t.ID)
		w.ok(err, "result")
		w.same(string(got.Payload), `[0,10,20]`, "result")
	}},
	{"a task whose items all have keys has an object by key", func(w *fixture) {
		t := w.create(pawl.NewTask{Type: "a", Items: []pawl.NewItem{{Input: raw(`1`), Key: "x"}, {Input: raw(`2`), Key: "y"}}})
		ls := w.claims(pawl.ClaimRequest{WorkerID: "w1", Limit: 2})
		w.complete(ls[1], `"Y"`)
		w.complete(ls[0], `"X"`)
		got, err := w.svc.TaskResult(w.ctx, t.ID)
		w.ok(err, "result")
		w.same(string(got.Payload), `{"x":"X","y":"Y"}`, "result")
	}},
	{"there is no result before the task has completed", func(w *fixture) {
		t := w.oneItem()
		_, err := w.svc.TaskResult(w.ctx, t.ID)
		w.conflict(err, "queued", "cancel")
		l := w.claim("w1")
		w.failPermanently(l, "no")
		_, err = w.svc.TaskResult(w.ctx, t.ID)
		w.conflict(err, "failed", "retry", "bury", "cancel")
		w.cancel(t.ID)
		_, err = w.svc.TaskResult(w.ctx, t.ID)
		w.conflict(err, "cancelled")
	}},
}}

var adding = noun{"adding items", []promise{
	{"items can be added to an open task, and they count", func(w *fixture) {
		t := w.manyItems(2)
		w.complete(w.claim("w1"), `0`)
		got, err := first(
			w.svc.AddItems(
				w.ctx,
				[]pawl.AddItems{{TaskID: t.ID, Items: []pawl.NewItem{{Input: raw(`"x"`)}, {Input: raw(`"y"`), Type: "b", Priority: ptr(9)}}}},
			),
		)
		w.ok(err, "add items")
		w.same([]any{got.Items, got.ItemsOpen}, []any{4, 3}, "the task")
		all := w.items(t.ID)
		w.same(
			[]any{string(all[2].Input), all[2].Type, string(all[3].Input), all[3].Type, all[3].Priority},
			[]any{`"x"`, "a", `"y"`, "b", 9},
			"the new items",
		)
		for range 3 {
			w.same(w.task(t.ID).State, pawl.TaskInProgress, "state")
			w.complete(w.claim("w1"), `1`)
		}
		w.same(w.task(t.ID).State, pawl.TaskCompleted, "state")
	}},
	{"each leaves an event planned", func(w *fixture) {
		t := w.manyItems(2)
		_, err := first(w.svc.AddItems(w.ctx, []pawl.AddItems{{TaskID: t.ID, Items: []pawl.NewItem{{Input: raw(`1`)}}}}))
		w.ok(err, "add items")
		got := w.allEvents(pawl.EventFilter{TaskID: t.ID, Event: "planned"})
		w.same(len(got), 3, "events")
		w.same([]any{got[2].FromState, got[2].ToState, got[2].ItemID}, []any{"", "queued", w.items(t.ID)[2].ID}, "the event")
	}},
	{"a task of one item can have more", func(w *fixture) {
		t := w.oneItem()
		l := w.claim("w1")
		got, err := first(w.svc.AddItems(w.ctx, []pawl.AddItems{{TaskID: t.ID, Items: []pawl.NewItem{{Input: raw(`"more"`)}}}}))
		w.ok(err, "add items")
		w.same([]any{got.Items, got.ItemsOpen}, []any{2, 2}, "the task")
		w.complete(l, `1`)
		w.same(w.task(t.ID).State, pawl.TaskInProgress, "state")
		w.complete(w.claim("w1"), `2`)
		w.same(w.task(t.ID).State, pawl.TaskCompleted, "state")
		r, err := w.svc.TaskResult(w.ctx, t.ID)
		w.ok(err, "result")
		w.same(string(r.Payload), `[1,2]`, "result")
	}},
	{"new items may come after old ones, done or not", func(w *fixture) {
		t := w.create(pawl.NewTask{Type: "a", Items: []pawl.NewItem{{Input: raw(`1`), Key: "done"}, {Input: raw(`2`), Key: "later"}}})
		w.complete(w.claim("w1"), `1`)
		_, err := first(w.svc.AddItems(w.ctx, []pawl.AddItems{{TaskID: t.ID, Items: []pawl.NewItem{
			{Input: raw(`3`), After: []string{"done"}}, {Input: raw(`4`), After: []string{"later"}},
		}}}))
		w.ok(err, "add items")
		all := w.items(t.ID)
		w.same([]any{all[2].State, all[3].State}, []any{pawl.ItemQueued, pawl.ItemWaiting}, "the new items")
	}},
	{"no items can be added to a task that is not open", func(w *fixture) {
		add := func(id string) error {
			_, err := first(w.svc.AddItems(w.ctx, []pawl.AddItems{{TaskID: id, Items: []pawl.NewItem{{Input: raw(`1`)}}}}))
			return err
		}
		done, failed := w.oneItem(), w.manyItems(2)
		w.complete(w.claimItem("w1", w.onlyItem(done.ID).ID), `1`)
		w.conflict(add(done.ID), "completed")
		for _, i := range w.items(failed.ID) {
			w.failPermanently(w.claimItem("w1", i.ID), "no")
		}
		w.conflict(add(failed.ID), "failed", "retry", "bury", "cancel")
		w.refused(add("tsk_01ARZ3NDEKTSV4RRFFQ69G5FAV"), pawl.CodeNotFound)
		w.same(len(w.items(done.ID))+len(w.items(failed.ID)), 3, "items")
	}},
	{"a key of the task is not given twice", func(w *fixture) {
		t := w.create(pawl.NewTask{Type: "a", Items: []pawl.NewItem{{Input: raw(`1`), Key: "x"}, {Input: raw(`2`)}}})
		_, err := first(
			w.svc.AddItems(w.ctx, []pawl.AddItems{{TaskID: t.ID, Items: []pawl.NewItem{{Input: raw(`3`), Key: "y"}, {Input: raw(`4`), Key: "x"}}}}),
		)
		w.invalid(err, "/items/1/key")
		w.same(len(w.items(t.ID)), 2, "items")
	}},
}}
