package suite

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/pawl-work/pawl"
)

// parent returns a task, and the lease of its only item.
func (w *fixture) parent() (pawl.Task, pawl.Lease) {
	w.Helper()
	t := w.create(pawl.NewTask{Type: "parent"})
	return t, w.claimOf("parent")
}

func (w *fixture) trySpawn(l pawl.Lease, key string) (pawl.Task, error) {
	task := pawl.NewTask{Type: "child", Payload: []byte(`"` + key + `"`)}
	return first(w.svc.Spawn(w.ctx, []pawl.SpawnCall{{Fence: l.Fence(), Key: key, Task: task}}))
}

// spawn spawns n children with the keys c0, c1 and so on, and returns their ids.
func (w *fixture) spawn(l pawl.Lease, n int) []string {
	w.Helper()
	ids := make([]string, n)
	for i := range ids {
		c, err := w.trySpawn(l, fmt.Sprint("c", i))
		w.ok(err, "spawn")
		ids[i] = c.ID
	}
	return ids
}

func (w *fixture) tryAwait(l pawl.Lease, c pawl.ChildWait) error {
	_, err := first(w.svc.Suspend(w.ctx, []pawl.SuspendCall{{Fence: l.Fence(), Children: &c}}))
	return err
}

func (w *fixture) await(l pawl.Lease, c pawl.ChildWait) {
	w.Helper()
	w.ok(w.tryAwait(l, c), "suspend")
}

// endChild claims the next child and completes it, or fails it for good.
func (w *fixture) endChild(completes bool) string {
	w.Helper()
	l := w.claimOf("child")
	if completes {
		w.complete(l, `{"of":"`+l.TaskID+`"}`)
	} else {
		w.failPermanently(l, "broken")
	}
	return l.TaskID
}

// isBlocked checks what an item waits for.
func (w *fixture) isBlocked(itemID, detail string) {
	w.Helper()
	b := w.item(itemID).BlockedBy
	if b == nil || b.Reason != pawl.BlockedByChildren || b.Detail != detail {
		w.Fatalf("blocked by %+v, not by children: %s", b, detail)
	}
}

// resumed returns the last wait of an item for children.
func (w *fixture) resumed(itemID string) pawl.ChildrenState {
	w.Helper()
	s, err := w.svc.Resume(w.ctx, itemID)
	w.ok(err, "resume")
	if s.Children == nil {
		w.Fatal("no wait for children")
	}
	return *s.Children
}

var children = noun{"children", []promise{
	{"a task is made a child of another one", func(w *fixture) {
		p := w.oneItem()
		c := w.create(pawl.NewTask{Type: "child", ParentID: p.ID})
		w.same([]any{c.ParentID, w.task(c.ID).ParentID, w.task(p.ID).Children}, []any{p.ID, p.ID, 1}, "parent, parent as read, children")
		w.create(pawl.NewTask{Type: "other"})
		l, err := w.svc.ListTasks(w.ctx, pawl.TaskFilter{ParentIDs: []string{p.ID}, Page: pawl.Page{Limit: 10}})
		w.ok(err, "list")
		w.same([]any{len(l.Items), l.Items[0].ID}, []any{1, c.ID}, "children of the parent")
		many := w.create(pawl.NewTask{Type: "child", ParentID: c.ID, Items: []pawl.NewItem{{Input: []byte(`1`)}, {Input: []byte(`2`)}}})
		w.same(w.task(many.ID).ParentID, c.ID, "parent of a child of a child")
		l, err = w.svc.ListTasks(w.ctx, pawl.TaskFilter{ParentIDs: []string{p.ID, c.ID}, Asc: true, Page: pawl.Page{Limit: 10}})
		w.ok(err, "list of the children of two tasks")
		w.same([]any{len(l.Items), l.Items[0].ID, l.Items[1].ID}, []any{2, c.ID, many.ID}, "children of two tasks")
	}},
	{"a parent exists, in the namespace, and has not ended", func(w *fixture) {
		try := func(w *fixture, parent string) error {
			_, err := pawl.Create(w.ctx, w.svc, pawl.NewTask{Type: "child", ParentID: parent})
			return err
		}
		w.refused(try(w, "tsk_01ARZ3NDEKTSV4RRFFQ69G5FAV"), pawl.CodeNotFound)
		w.refused(try(w, "nothing"), pawl.CodeNotFound)
		p := w.oneItem()
		w.refused(try(w.in("other"), p.ID), pawl.CodeNotFound)
		w.complete(w.claim("w"), `1`)
		w.conflict(try(w, p.ID), "completed")
		failed := w.oneItem()
		w.failPermanently(w.claim("w"), "broken")
		w.refused(try(w, failed.ID), pawl.CodeConflict)
		gone := w.oneItem()
		w.cancel(gone.ID)
		w.conflict(try(w, gone.ID), "cancelled")
		w.same(w.task(gone.ID).Children, 0, "children")
	}},
	{"a refused parent does not stop the other tasks of a call", func(w *fixture) {
		p := w.oneItem()
		rs, err := w.svc.CreateTasks(w.ctx, []pawl.NewTask{{Type: "a", ParentID: p.ID}, {Type: "a", ParentID: "tsk_01ARZ3NDEKTSV4RRFFQ69G5FAV"},
			{Type: "a"}, {Type: "a", ParentID: p.ID}})
		w.ok(err, "create")
		w.same([]any{rs[0].Err, rs[2].Err, rs[3].Err, w.task(p.ID).Children}, []any{nil, nil, nil, 2}, "the others")
		w.refused(rs[1].Err, pawl.CodeNotFound)
		w.same([]string{rs[0].Value.ParentID, rs[2].Value.ParentID, w.task(rs[2].Value.ID).ParentID}, []string{p.ID, "", ""}, "parents")
	}},
	{"an item spawns children, each key once, as long as it has its lease", func(w *fixture) {
		p, l := w.parent()
		child, err := w.trySpawn(l, "k")
		w.ok(err, "spawn")
		w.same([]any{child.ParentID, child.State, child.Deduplicated}, []any{p.ID, pawl.TaskQueued, false}, "child")
		again, err := w.trySpawn(l, "k")
		w.ok(err, "again")
		w.same([]any{again.ID, again.Deduplicated, w.task(p.ID).Children}, []any{child.ID, true, 1}, "again")
		w.release(l)
		_, err = w.trySpawn(l, "late")
		w.refused(err, pawl.CodeLeaseLost)
		next := w.claimOf("parent")
		again, err = w.trySpawn(next, "k")
		w.ok(err, "in the next attempt")
		w.same(again.ID, child.ID, "in the next attempt")
		_, err = w.trySpawn(l, "k")
		w.refused(err, pawl.CodeLeaseLost)
		_, err = w.trySpawn(next, "")
		w.invalid(err, "/key")
		l.ID = "itm_01ARZ3NDEKTSV4RRFFQ69G5FAV"
		_, err = w.trySpawn(l, "x")
		w.refused(err, pawl.CodeNotFound)
		w.same(w.task(p.ID).Children, 1, "children")
	}},
	{"an item waits without a lease until all of its children have ended", func(w *fixture) {
		p, l := w.parent()
		ids := w.spawn(l, 3)
		w.await(l, pawl.ChildWait{IDs: ids})
		w.same(w.item(l.ID).State, pawl.ItemWaiting, "state")
		w.isBlocked(l.ID, "0 of 3 ended")
		w.same(w.task(p.ID).BlockedBy.Reason, pawl.BlockedByChildren, "the task's reason")
		w.endChild(true)
		w.endChild(true)
		w.isBlocked(l.ID, "2 of 3 ended")
		w.endChild(true)
		s := w.resumed(l.ID)
		w.same([]any{s.Need, s.Total, s.Ended, s.Failed, s.Over, len(s.Items)}, []any{3, 3, 3, 0, true, 3},
			"need, total, ended, failed, over, items")
		slices.Sort(ids)
		for i, c := range s.Items {
			w.same([]any{c.ID, c.State, string(c.Result)}, []any{ids[i], pawl.TaskCompleted, `{"of":"` + ids[i] + `"}`}, "result")
		}
		w.same(s.Items[0].Key, "c0", "key")
		next := w.claimOf("parent")
		w.same([]int{next.Attempt, next.Failures}, []int{2, 0}, "attempt and failures")
		w.complete(next, `1`)
	}},
	{"the event of a suspension names the children", func(w *fixture) {
		type waited struct {
			Name      string   `json:"name"`
			Need      int      `json:"need"`
			OnFailure string   `json:"on_failure"`
			Count     int      `json:"count"`
			IDs       []string `json:"ids"`
		}
		for _, n := range []int{2, 25} {
			p, l := w.parent()
			ids := w.spawn(l, n)
			w.await(l, pawl.ChildWait{Name: "all parts", IDs: ids, Need: 1, OnFailure: pawl.OnFailureContinue})
			var data struct{ Children *waited }
			e := w.allEvents(pawl.EventFilter{TaskID: p.ID, Event: "suspended"})[0]
			w.ok(json.Unmarshal(e.Data, &data), "data")
			slices.Sort(ids)
			w.same(data.Children, &waited{"all parts", 1, pawl.OnFailureContinue, n, ids[:min(n, 20)]}, "children of the event")
			for range ids {
				w.endChild(true)
			}
			w.complete(w.claimOf("parent"), `1`)
		}
		p, l := w.parent()
		w.suspendFor(l, "approved", "k")
		e := w.allEvents(pawl.EventFilter{TaskID: p.ID, Event: "suspended"})[0]
		w.same(strings.Contains(string(e.Data), "children"), false, "children in the event of another suspension")
	}},
	{"any child, or a number of them, is enough", func(w *fixture) {
		for _, need := range []pawl.ChildNeed{pawl.NeedAny, 2} {
			_, l := w.parent()
			ids := w.spawn(l, 3)
			w.await(l, pawl.ChildWait{IDs: ids, Need: need})
			for range need {
				w.same(w.item(l.ID).State, pawl.ItemWaiting, "state")
				w.endChild(true)
			}
			w.same([]any{w.item(l.ID).State, w.resumed(l.ID).Ended}, []any{pawl.ItemQueued, int(need)}, "state and ended")
			for range 3 - need {
				w.endChild(true) // counts no more
			}
			w.complete(w.claimOf("parent"), `1`)
		}
	}},
	{"children that ended before the wait count", func(w *fixture) {
		_, l := w.parent()
		ids := w.spawn(l, 2)
		w.endChild(true)
		w.await(l, pawl.ChildWait{IDs: ids})
		w.isBlocked(l.ID, "1 of 2 ended")
		w.endChild(true)
		l = w.claimOf("parent")
		w.await(l, pawl.ChildWait{IDs: ids, Need: pawl.NeedAny})
		w.same(w.item(l.ID).State, pawl.ItemQueued, "state")
	}},
	{"the item fails as soon as a child that it needs has failed", func(w *fixture) {
		p, l := w.parent()
		w.await(l, pawl.ChildWait{IDs: w.spawn(l, 3)})
		w.endChild(true)
		w.endChild(false)
		it := w.item(l.ID)
		w.same([]any{it.State, it.Error.Code, w.task(p.ID).State}, []any{pawl.ItemFailed, pawl.FailedByChild, pawl.TaskFailed}, "item and task")
		w.endChild(true)
	}},
	{"a failed child is no loss while enough others are left", func(w *fixture) {
		_, l := w.parent()
		w.await(l, pawl.ChildWait{IDs: w.spawn(l, 3), Need: 2})
		w.endChild(false)
		w.isBlocked(l.ID, "1 of 3 ended")
		w.endChild(true)
		w.endChild(true)
		w.same(w.item(l.ID).State, pawl.ItemQueued, "state")
	}},
	{"with continue, failed children count as ended, with their errors", func(w *fixture) {
		_, l := w.parent()
		w.await(l, pawl.ChildWait{IDs: w.spawn(l, 2), OnFailure: pawl.OnFailureContinue})
		failed := w.endChild(false)
		w.endChild(true)
		s := w.resumed(l.ID)
		w.same([]any{w.item(l.ID).State, s.Ended, s.Failed}, []any{pawl.ItemQueued, 2, 1}, "state, ended and failed")
		at := slices.IndexFunc(s.Items, func(c pawl.ChildResult) bool { return c.ID == failed })
		w.same([]any{s.Items[at].State, s.Items[at].Error.Message, s.Items[at].Result},
			[]any{pawl.TaskFailed, "broken", json.RawMessage(nil)}, "error")
	}},
	{"with cancel, the other children are cancelled and the item goes on", func(w *fixture) {
		_, l := w.parent()
		ids := w.spawn(l, 3)
		w.await(l, pawl.ChildWait{IDs: ids, OnFailure: pawl.OnFailureCancel})
		done := w.endChild(true)
		failed := w.endChild(false)
		w.same(w.item(l.ID).State, pawl.ItemQueued, "state")
		for _, id := range ids {
			want := pawl.TaskCancelled
			switch id {
			case done:
				want = pawl.TaskCompleted
			case failed:
				want = pawl.TaskFailed
			}
			w.same(w.task(id).State, want, "child")
		}
	}},
	{"a wait that the item left by its deadline neither fails nor queues it", func(w *fixture) {
		for _, onFailure := range []string{pawl.OnFailureFail, pawl.OnFailureCancel, pawl.OnFailureContinue} {
			for _, leaves := range []func(l pawl.Lease){
				func(l pawl.Lease) {},
				func(l pawl.Lease) { w.suspendFor(l, "approved", "k") },
				func(l pawl.Lease) {
					at := w.now().Add(time.Hour)
					_, err := first(w.svc.Suspend(w.ctx, []pawl.SuspendCall{{Fence: l.Fence(), Until: &at}}))
					w.ok(err, "sleep")
				},
			} {
				at := w.now().Add(time.Minute)
				p := w.create(pawl.NewTask{Type: "parent", Deadline: &at})
				l := w.claimOf("parent")
				ids := w.spawn(l, 2)
				w.await(l, pawl.ChildWait{IDs: ids, OnFailure: onFailure, Need: 2})
				w.advance(time.Minute)
				w.sweep()
				w.failedBy(p, "deadline", 0)
				w.retry(p.ID)
				leaves(w.claimOf("parent"))
				was := w.item(l.ID)
				w.endChild(false)
				w.sweep()
				is := w.item(l.ID)
				w.same([]any{is.State, is.Attempt, is.BlockedBy}, []any{was.State, was.Attempt, was.BlockedBy}, "the item")
				w.endChild(true) // not cancelled
				w.cancel(p.ID)
			}
		}
	}},
	{"a failed child that is retried does not count twice", func(w *fixture) {
		_, l := w.parent()
		ids := w.spawn(l, 2)
		w.await(l, pawl.ChildWait{IDs: ids, OnFailure: pawl.OnFailureContinue})
		failed := w.endChild(false)
		w.retry(failed)
		w.isBlocked(l.ID, "1 of 2 ended")
		w.endChild(true)
		if w.item(l.ID).State == pawl.ItemWaiting { // the retried one was claimed first
			w.isBlocked(l.ID, "1 of 2 ended")
			w.endChild(true)
		}
		w.same(w.item(l.ID).State, pawl.ItemQueued, "state")
	}},
	{"children of many items, and cancelled ones, end too", func(w *fixture) {
		p, l := w.parent()
		many := w.create(pawl.NewTask{Type: "child", ParentID: p.ID, Items: []pawl.NewItem{{Input: []byte(`1`)}, {Input: []byte(`2`)}}})
		gone := w.create(pawl.NewTask{Type: "gone", ParentID: p.ID})
		w.await(l, pawl.ChildWait{IDs: []string{many.ID, gone.ID}, OnFailure: pawl.OnFailureContinue})
		w.complete(w.claimOf("child"), `1`)
		w.isBlocked(l.ID, "0 of 2 ended")
		w.complete(w.claimOf("child"), `2`)
		w.isBlocked(l.ID, "1 of 2 ended")
		w.cancel(gone.ID)
		s := w.resumed(l.ID)
		w.same([]any{w.item(l.ID).State, s.Failed}, []any{pawl.ItemQueued, 1}, "state and failed")
		at := slices.IndexFunc(s.Items, func(c pawl.ChildResult) bool { return c.ID == many.ID })
		w.same([]any{s.Items[at].Omitted, s.Items[at].Result},
			[]any{true, json.RawMessage(nil)}, "the result of many items is read from the child")
	}},
	{"only children of the item's task can be waited for", func(w *fixture) {
		p, l := w.parent()
		ids := w.spawn(l, 1)
		other := w.create(pawl.NewTask{Type: "other"})
		w.refused(w.tryAwait(l, pawl.ChildWait{IDs: []string{ids[0], other.ID}}), pawl.CodeNotFound)
		w.refused(w.tryAwait(l, pawl.ChildWait{IDs: []string{p.ID}}), pawl.CodeNotFound)
		w.invalid(w.tryAwait(l, pawl.ChildWait{}), "/children/ids")
		w.invalid(w.tryAwait(l, pawl.ChildWait{IDs: ids, Need: 2}), "/children/need")
		w.invalid(w.tryAwait(l, pawl.ChildWait{IDs: ids, OnFailure: "pray"}), "/children/on_failure")
		_, err := first(w.svc.Suspend(w.ctx, []pawl.SuspendCall{{Fence: l.Fence(), Signal: "s", Children: &pawl.ChildWait{IDs: ids}}}))
		w.invalid(err, "/children")
		stale := l
		stale.Attempt = 7
		w.refused(w.tryAwait(stale, pawl.ChildWait{IDs: ids}), pawl.CodeLeaseLost)
		w.same(w.item(l.ID).State, pawl.ItemLeased, "state")
	}},
	{"a cancel is passed on to the children that have not ended, and to theirs", func(w *fixture) {
		p, l := w.parent()
		w.spawn(l, 3)
		done, failed := w.endChild(true), w.endChild(false)
		live := w.claimOf("child")
		grand, err := w.trySpawn(live, "deep")
		w.ok(err, "spawn")
		w.await(live, pawl.ChildWait{IDs: []string{grand.ID}})
		w.cancel(p.ID)
		w.same([]pawl.TaskState{w.task(done).State, w.task(failed).State, w.task(live.TaskID).State, w.task(grand.ID).State},
			[]pawl.TaskState{pawl.TaskCompleted, pawl.TaskCancelled, pawl.TaskCancelled, pawl.TaskCancelled}, "children")
	}},
	{"a delete is passed on to the children that have not ended", func(w *fixture) {
		p, l := w.parent()
		ids := w.spawn(l, 2)
		done := w.endChild(true)
		live := ids[0]
		if live == done {
			live = ids[1]
		}
		grand := w.create(pawl.NewTask{Type: "grand", ParentID: live})
		w.complete(l, `1`)
		_, err := first(w.svc.DeleteTasks(w.ctx, []pawl.TaskCall{{TaskID: p.ID}}))
		w.refused(err, pawl.CodeConflict)
		w.remove(p.ID, true)
		for _, id := range []string{p.ID, live, grand.ID} {
			_, err := w.svc.GetTask(w.ctx, id)
			w.refused(err, pawl.CodeNotFound)
		}
		w.same([]any{w.task(done).State, w.task(done).ParentID}, []any{pawl.TaskCompleted, p.ID}, "the child that had ended")
	}},
	{"no more children than a depth of 100", func(w *fixture) {
		p := w.oneItem()
		for range pawl.MaxChildDepth {
			p = w.create(pawl.NewTask{Type: "child", ParentID: p.ID})
		}
		_, err := pawl.Create(w.ctx, w.svc, pawl.NewTask{Type: "child", ParentID: p.ID})
		w.refused(err, pawl.CodeLimit)
	}},
}}
