package suite

import (
	"strings"

	"github.com/pawl-work/pawl"
)

// chain creates a task whose items depend on each other by key.
func (w *fixture) chain(items ...pawl.NewItem) (pawl.Task, map[string]pawl.Item) {
	w.Helper()
	t := w.create(pawl.NewTask{Type: "a", Items: items})
	byKey := map[string]pawl.Item{}
	for _, i := range w.items(t.ID) {
		byKey[i.Key] = i
	}
	return t, byKey
}

func after(key string, keys ...string) pawl.NewItem {
	return pawl.NewItem{Key: key, Input: raw(`"` + key + `"`), After: keys}
}

var dependencies = noun{"dependencies", []promise{
	{"an item waits for what it comes after", func(w *fixture) {
		t, i := w.chain(after("b", "a"), after("a"))
		w.same(
			[]any{i["a"].State, i["b"].State, i["b"].Status, i["b"].After},
			[]any{pawl.ItemQueued, pawl.ItemWaiting, pawl.StatusPending, []string{"a"}},
			"items",
		)
		l := w.claim("w1")
		w.same(l.ID, i["a"].ID, "first")
		w.noneClaimable()
		w.complete(l, `1`)
		l = w.claim("w1")
		w.same([]any{l.ID, l.Key}, []any{i["b"].ID, "b"}, "second")
		w.complete(l, `1`)
		w.same(w.task(t.ID).State, pawl.TaskCompleted, "state")
	}},
	{"an item waits for all its dependencies", func(w *fixture) {
		_, i := w.chain(after("a"), after("b"), after("c"), after("last", "a", "b", "c"))
		ls := w.claims(pawl.ClaimRequest{WorkerID: "w1", Limit: 9})
		w.same(len(ls), 3, "claimed")
		for n, l := range ls {
			w.same(w.item(i["last"].ID).State, pawl.ItemWaiting, "the last")
			if n == 1 {
				w.failNow(l, "a failure with a retry left wakes nobody")
				w.same(w.item(i["last"].ID).State, pawl.ItemWaiting, "the last")
				l = w.claim("w1")
			}
			w.complete(l, `1`)
		}
		w.same(w.claim("w1").ID, i["last"].ID, "then the last")
	}},
	{"a diamond runs in its order, also finished in one batch", func(w *fixture) {
		t, i := w.chain(after("top"), after("left", "top"), after("right", "top"), after("bottom", "left", "right"))
		w.complete(w.claim("w1"), `1`)
		ls := w.claims(pawl.ClaimRequest{WorkerID: "w1", Limit: 9})
		w.same([]string{ls[0].Key, ls[1].Key}, []string{"left", "right"}, "the middle")
		rs, err := w.svc.Complete(w.ctx, []pawl.CompleteCall{{Fence: ls[0].Fence()}, {Fence: ls[1].Fence()}})
		w.ok(err, "complete")
		w.ok(rs[0].Err, "complete")
		w.ok(rs[1].Err, "complete")
		l := w.claim("w1")
		w.same(l.ID, i["bottom"].ID, "the bottom")
		w.complete(l, `1`)
		w.same(w.task(t.ID).State, pawl.TaskCompleted, "state")
	}},
	{"becoming ready leaves an event", func(w *fixture) {
		_, i := w.chain(after("a"), after("b", "a"))
		w.complete(w.claim("w1"), `1`)
		w.claim("w1")
		got := w.allEvents(pawl.EventFilter{ItemID: i["b"].ID})
		w.same(len(got), 3, "events")
		w.same([]any{got[0].Event, got[0].ToState, got[1].Event, got[1].FromState, got[1].ToState, got[1].ActorType},
			[]any{"planned", "waiting", "ready", "waiting", "queued", "system"}, "events")
	}},
	{"dependents of a failed item are given up without a counted failure, and their dependents too", func(w *fixture) {
		t, i := w.chain(after("a"), after("b", "a"), after("c", "b"), after("free"))
		w.failPermanently(w.claim("w1"), "no")
		w.sweep()
		for _, key := range []string{"b", "c"} {
			got := w.item(i[key].ID)
			if got.State != pawl.ItemFailed && got.State != pawl.ItemCancelled {
				w.Errorf("%s is %s", key, got.State)
			}
			w.same([]any{got.Failures, got.Attempt}, []any{0, 0}, "failures, attempt")
			e := w.allEvents(pawl.EventFilter{ItemID: got.ID})
			w.same(
				[]any{len(e), e[1].Event, e[1].FromState, e[1].ToState, e[1].ActorType},
				[]any{2, string(got.State), "waiting", string(got.State), "system"},
				"its event",
			)
		}
		w.same(w.task(t.ID).State, pawl.TaskInProgress, "what is free goes on")
		w.complete(w.claim("w1"), `1`)
		w.same(w.task(t.ID).State, pawl.TaskFailed, "state")
	}},
	{"a dependent that is added after the failure is given up too, and continues with its dependency", func(w *fixture) {
		for _, end := range []func(taskID, itemID string){func(string, string) {}, func(taskID, itemID string) { w.bury(taskID, itemID) }} {
			t, i := w.chain(after("a"), after("free"))
			w.failPermanently(w.claimItem("w1", i["a"].ID), "no")
			end(t.ID, i["a"].ID)
			got, err := first(w.svc.AddItems(w.ctx, []pawl.AddItems{{TaskID: t.ID, Items: []pawl.NewItem{after("b", "a"), after("c", "b")}}}))
			w.ok(err, "add items")
			w.sweep()
			w.same([]any{got.Items, w.task(t.ID).ItemsOpen}, []any{4, 1}, "items, open")
			all := w.items(t.ID)
			for _, it := range all[2:] {
				w.same([]any{it.State, it.Failures, it.Error.Code}, []any{pawl.ItemFailed, 0, "dependency_failed"}, it.Key)
			}
			w.retry(t.ID, i["a"].ID)
			for _, id := range []string{i["a"].ID, all[2].ID, all[3].ID, i["free"].ID} {
				w.complete(w.claimItem("w1", id), `1`)
			}
			w.same(w.task(t.ID).State, pawl.TaskCompleted, "state")
		}
	}},
	{"an item that failed with its dependency is not retried alone", func(w *fixture) {
		t, i := w.chain(after("a"), after("b", "a"))
		w.failPermanently(w.claim("w1"), "no")
		w.sweep()
		_, err := first(w.svc.RetryTasks(w.ctx, []pawl.TaskCall{{TaskID: t.ID, ItemIDs: []string{i["b"].ID}}}))
		w.conflict(err, "failed", "retry", "bury", "cancel")
		if why := err.Error(); !strings.Contains(why, "failed with others") {
			w.Errorf("it says %s", why)
		}
	}},
	{"dependents of a cancelled item are given up", func(w *fixture) {
		t, i := w.chain(after("a"), after("b", "a"))
		w.cancel(t.ID, i["a"].ID)
		w.sweep()
		if got := w.item(i["b"].ID); got.State == pawl.ItemWaiting {
			w.Errorf("it is %s", got.State)
		}
		if got := w.task(t.ID); got.State.Stored() == pawl.TaskOpen {
			w.Errorf("the task is %s", got.State)
		}
	}},
	{"items that failed with a dependency are cancelled with it", func(w *fixture) {
		t, i := w.chain(after("a"), after("b", "a"), after("c", "b", "free"), after("free"))
		w.failPermanently(w.claimItem("w1", i["a"].ID), "no")
		w.sweep()
		w.cancel(t.ID, i["a"].ID)
		w.sweep()
		for _, key := range []string{"b", "c"} {
			got := w.item(i[key].ID)
			w.same([]any{got.State, got.Error.Code}, []any{pawl.ItemCancelled, "dependency_failed"}, key)
			e := w.allEvents(pawl.EventFilter{ItemID: got.ID})
			w.same([]any{len(e), e[2].Event, e[2].FromState, e[2].ActorType}, []any{3, "cancelled", "failed", "system"}, "its event")
		}
		w.complete(w.claim("w1"), `1`)
		w.same(w.task(t.ID).State, pawl.TaskCompleted, "state")
	}},
	{"a dead-lettered dependent can be retried after its dependencies have completed", func(w *fixture) {
		t, i := w.chain(after("a"), after("b", "a"))
		w.failPermanently(w.claim("w1"), "no")
		w.sweep()
		w.bury(t.ID)
		w.retry(t.ID)
		w.complete(w.claimItem("w1", i["a"].ID), `1`)
		w.same(w.task(t.ID).State, pawl.TaskDeadLettered, "state")
		w.retry(t.ID)
		w.complete(w.claimItem("w1", i["b"].ID), `1`)
		w.same(w.task(t.ID).State, pawl.TaskCompleted, "state")
	}},
	{"an unknown key, a key given twice and a dependency on itself are invalid", func(w *fixture) {
		for pointer, items := range map[string][]pawl.NewItem{
			"/items/1/after/0": {after("a"), after("b", "nope")},
			"/items/1/after/1": {after("a"), after("b", "a", "nope")},
			"/items/1/key":     {after("a"), after("a")},
			"/items/0/after":   {after("a", "a")},
			"/items/0/after/0": {{Input: raw(`1`), After: []string{""}}},
		} {
			_, err := pawl.Create(w.ctx, w.svc, pawl.NewTask{Type: "a", Items: items})
			w.invalid(err, pointer)
		}
	}},
	{"a cycle is invalid", func(w *fixture) {
		for _, items := range [][]pawl.NewItem{
			{after("a", "b"), after("b", "a")},
			{after("x"), after("a", "c"), after("b", "a"), after("c", "b", "x")},
		} {
			_, err := pawl.Create(w.ctx, w.svc, pawl.NewTask{Type: "a", Items: items})
			w.refused(err, pawl.CodeInvalid)
		}
	}},
}}
