package suite

import (
	"time"

	"github.com/pawl-work/pawl"
)

var cancels = noun{"cancel", []promise{
	{"cancels a task and all its items that have not ended", func(w *fixture) {
		at := w.now().Add(time.Hour)
		t := w.create(pawl.NewTask{Type: "a", Items: []pawl.NewItem{
			{Input: raw(`"done"`), Key: "done"}, {Input: raw(`"failed"`), Key: "failed"}, {Input: raw(`"leased"`)}, {Input: raw(`"working"`)},
			{Input: raw(`"queued"`), Key: "queued"}, {Input: raw(`"scheduled"`), RunAt: &at}, {Input: raw(`"waiting"`), After: []string{"queued"}},
		}})
		w.complete(w.claim("w1"), `1`)
		w.failPermanently(w.claim("w1"), "no")
		w.claim("w1")
		working := w.claim("w1")
		w.heartbeat(working)
		w.advance(time.Second)
		got := w.cancel(t.ID)
		w.same([]any{got.State, got.Status, got.Version, got.ItemsOpen}, []any{pawl.TaskCancelled, pawl.StatusCancelled, 1, 0}, "the task")
		w.timeIs(got.CompletedAt, w.now(), "completed_at")
		for n, i := range w.items(t.ID) {
			want := pawl.ItemCancelled
			if n == 0 {
				want = pawl.ItemCompleted
			} else {
				w.timeIs(i.CompletedAt, w.now(), "completed_at")
			}
			w.same(i.State, want, string(i.Input))
		}
		w.noneClaimable()
		w.same(w.heartbeat(working).Cancelled, true, "the worker's heartbeat")
	}},
	{"is allowed in every state that is not final", func(w *fixture) {
		for name, bring := range map[string]func(t pawl.Task){
			"queued":      func(pawl.Task) {},
			"checked_out": func(t pawl.Task) { w.claimItem("w1", w.onlyItem(t.ID).ID) },
			"in_progress": func(t pawl.Task) { w.heartbeat(w.claimItem("w1", w.onlyItem(t.ID).ID)) },
			"failed":      func(t pawl.Task) { w.failPermanently(w.claimItem("w1", w.onlyItem(t.ID).ID), "no") },
			"dead_lettered": func(t pawl.Task) {
				w.failPermanently(w.claimItem("w1", w.onlyItem(t.ID).ID), "no")
				w.bury(t.ID)
			},
			"retried": func(t pawl.Task) {
				w.failPermanently(w.claimItem("w1", w.onlyItem(t.ID).ID), "no")
				w.retry(t.ID)
			},
		} {
			t := w.oneItem()
			bring(t)
			before := w.task(t.ID).Version
			got := w.cancel(t.ID)
			w.same([]any{got.State, got.Version}, []any{pawl.TaskCancelled, before + 1}, "cancelled when "+name)
			w.same(w.onlyItem(t.ID).State, pawl.ItemCancelled, "its item")
			w.same(w.task(t.ID), got, "the answer is the task")
		}
	}},
	{"an ended task cannot be cancelled, nor a cancelled one", func(w *fixture) {
		call := func(id string) error {
			_, err := pawl.Cancel(w.ctx, w.svc, id, "")
			return err
		}
		t := w.oneItem()
		w.complete(w.claim("w1"), `1`)
		w.conflict(call(t.ID), "completed")
		t = w.oneItem()
		w.cancel(t.ID)
		w.conflict(call(t.ID), "cancelled")
		w.refused(call("tsk_01ARZ3NDEKTSV4RRFFQ69G5FAV"), pawl.CodeNotFound)
	}},
	{"an empty list of items is all of them", func(w *fixture) {
		t := w.manyItems(2)
		got, err := first(w.svc.CancelTasks(w.ctx, []pawl.TaskCall{{TaskID: t.ID, ItemIDs: []string{}}}))
		w.ok(err, "cancel")
		w.same(got.State, pawl.TaskCancelled, "state")
	}},
	{"cancels some items; the others decide how the task ends", func(w *fixture) {
		t := w.manyItems(3)
		all := w.items(t.ID)
		got := w.cancel(t.ID, all[0].ID, all[2].ID)
		w.same([]any{got.ItemsOpen, got.Version}, []any{1, 0}, "the task")
		w.complete(w.claim("w1"), `1`)
		w.same(w.task(t.ID).State, pawl.TaskCompleted, "state")
	}},
	{"when the last items are cancelled the task settles at once", func(w *fixture) {
		t := w.manyItems(2)
		w.complete(w.claim("w1"), `1`)
		w.same(w.cancel(t.ID, w.items(t.ID)[1].ID).State, pawl.TaskCompleted, "state")
		t = w.manyItems(2)
		got := w.cancel(t.ID, w.items(t.ID)[0].ID, w.items(t.ID)[1].ID)
		w.same([]any{got.State, got.Version}, []any{pawl.TaskCancelled, 1}, "the task")
		t = w.oneItem()
		w.same(w.cancel(t.ID, w.onlyItem(t.ID).ID).State, pawl.TaskCancelled, "state")
	}},
	{"an ended item, or one of another task, cannot be cancelled", func(w *fixture) {
		t, other := w.manyItems(2), w.oneItem()
		w.complete(w.claim("w1"), `1`)
		all := w.items(t.ID)
		call := func(ids ...string) error {
			_, err := first(w.svc.CancelTasks(w.ctx, []pawl.TaskCall{{TaskID: t.ID, ItemIDs: ids}}))
			return err
		}
		w.conflict(call(all[0].ID), "completed")
		w.conflict(call(all[1].ID, all[0].ID), "completed")
		w.refused(call(w.onlyItem(other.ID).ID), pawl.CodeNotFound)
		w.refused(call("itm_nope"), pawl.CodeNotFound)
		w.same(w.item(all[1].ID).State, pawl.ItemQueued, "nothing was cancelled")
	}},
	{"its events have the name cancelled, the actor user and the reason", func(w *fixture) {
		one, two := w.oneItem(), w.manyItems(2)
		for _, t := range []pawl.Task{one, two} {
			_, err := pawl.Cancel(w.ctx, w.svc, t.ID, "not needed any more")
			w.ok(err, "cancel")
			got := w.allEvents(pawl.EventFilter{TaskID: t.ID, Event: "cancelled"})
			var about []string
			for _, e := range got {
				w.same([]any{e.ActorType, e.Message}, []any{pawl.ActorUser, "not needed any more"}, "the event")
				about = append(about, e.FromState+">"+e.ToState+" "+e.TaskFrom+">"+e.TaskTo)
			}
			want := []string{"queued>cancelled open>cancelled"}
			if t.Items == 2 {
				want = []string{"queued>cancelled >", "queued>cancelled >", "open>cancelled >"}
			}
			w.same(about, want, "events")
		}
	}},
	{"the worker cannot complete a cancelled item", func(w *fixture) {
		t := w.oneItem()
		l := w.claim("w1")
		w.heartbeat(l)
		w.cancel(t.ID)
		_, err := pawl.Complete(w.ctx, w.svc, l.Fence(), raw(`1`))
		w.conflict(err, "cancelled")
		w.same(len(w.onlyItem(t.ID).Result), 0, "result")
	}},
}}

var deletes = noun{"delete", []promise{
	{"an ended task is deleted with all its rows", func(w *fixture) {
		t, stays := w.manyItems(2), w.oneItem()
		w.complete(w.claim("w1"), `1`)
		l := w.claim("w1")
		w.checkpoint(l, pawl.ManualCheckpoint, `1`)
		w.complete(l, `1`)
		w.remove(t.ID, false)
		_, err := w.svc.GetTask(w.ctx, t.ID)
		w.refused(err, pawl.CodeNotFound)
		_, err = w.svc.GetItem(w.ctx, l.ID)
		w.refused(err, pawl.CodeNotFound)
		_, err = w.svc.TaskResult(w.ctx, t.ID)
		w.refused(err, pawl.CodeNotFound)
		_, err = w.svc.Resume(w.ctx, l.ID)
		w.refused(err, pawl.CodeNotFound)
		cs, err := w.svc.ListCheckpoints(w.ctx, pawl.CheckpointFilter{ItemID: l.ID})
		if err == nil {
			w.same(len(cs.Items), 0, "checkpoints")
		}
		list, err := w.svc.ListTasks(w.ctx, pawl.TaskFilter{})
		w.ok(err, "list tasks")
		w.same(len(list.Items), 1, "tasks left")
		w.same(list.Items[0].ID, stays.ID, "the task left")
		_, err = first(w.svc.DeleteTasks(w.ctx, []pawl.TaskCall{{TaskID: t.ID}}))
		w.refused(err, pawl.CodeNotFound)
	}},
	{"a task that has not ended is deleted only with force", func(w *fixture) {
		t := w.manyItems(2)
		l := w.claim("w1")
		_, err := first(w.svc.DeleteTasks(w.ctx, []pawl.TaskCall{{TaskID: t.ID}}))
		w.conflict(err, "checked_out", "cancel")
		w.failPermanently(l, "no")
		l = w.claim("w1")
		w.failPermanently(l, "no")
		_, err = first(w.svc.DeleteTasks(w.ctx, []pawl.TaskCall{{TaskID: t.ID}}))
		w.conflict(err, "failed", "retry", "bury", "cancel")
		w.remove(t.ID, true)
		running := w.oneItem()
		l = w.claim("w1")
		w.remove(running.ID, true)
		for _, v := range verbs {
			w.refused(v.call(w, l.Fence()), pawl.CodeNotFound)
		}
		w.noneClaimable()
	}},
	{"each call of a batch has its own result", func(w *fixture) {
		a, b := w.oneItem(), w.oneItem()
		w.cancel(a.ID)
		rs, err := w.svc.DeleteTasks(w.ctx, []pawl.TaskCall{{TaskID: "tsk_nope"}, {TaskID: b.ID}, {TaskID: a.ID}})
		w.ok(err, "delete")
		w.refused(rs[0].Err, pawl.CodeNotFound)
		w.conflict(rs[1].Err, "queued", "cancel")
		w.ok(rs[2].Err, "the ended one")
	}},
	{"an idempotency key stays when its task is deleted", func(w *fixture) {
		t := w.oneItem()
		begun := w.begin(pawl.KeyBegin{Scope: "s", Key: "k", RequestHash: "h", TaskID: t.ID, ItemID: w.onlyItem(t.ID).ID})
		w.finishKey(pawl.KeyDone{Scope: "s", Key: "k", Token: begun.Token, Response: raw(`{"a":1}`)})
		w.complete(w.claim("w1"), `1`)
		w.remove(t.ID, false)
		k, err := first(w.svc.GetKeys(w.ctx, []pawl.KeyName{{Scope: "s", Key: "k"}}))
		w.ok(err, "get key")
		w.same([]any{k.TaskID, k.ItemID, string(k.Response)}, []any{"", "", `{"a":1}`}, "the key")
	}},
}}

func (w *fixture) remove(taskID string, force bool) {
	w.Helper()
	_, err := first(w.svc.DeleteTasks(w.ctx, []pawl.TaskCall{{TaskID: taskID, Force: force}}))
	w.ok(err, "delete")
}
