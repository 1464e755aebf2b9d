package suite

import (
	"fmt"
	"strings"
	"time"

	"github.com/pawl-work/pawl"
)

// keyedTask creates a task with n items of a type, each with its own key.
func (w *fixture) keyedTask(typ string, n int) (pawl.Task, []pawl.Item) {
	w.Helper()
	made := make([]pawl.NewItem, n)
	for i := range made {
		made[i] = pawl.NewItem{Key: string(rune('a' + i)), Input: raw("1")}
	}
	t := w.create(pawl.NewTask{Type: typ, Items: made})
	return t, w.items(t.ID)
}

var resettling = noun{"a task settles again", []promise{
	{"when the last item that failed is cancelled", func(w *fixture) {
		const c, f, d, x = pawl.ItemCompleted, pawl.ItemFailed, pawl.ItemDeadLettered, pawl.ItemCancelled
		for _, mix := range []struct {
			items  []pawl.ItemState
			cancel []int
			want   []pawl.TaskState // after each cancel
		}{
			{[]pawl.ItemState{c, f}, []int{1}, []pawl.TaskState{pawl.TaskCompleted}},
			{[]pawl.ItemState{f, c, f}, []int{0, 2}, []pawl.TaskState{pawl.TaskFailed, pawl.TaskCompleted}},
			{[]pawl.ItemState{f, f}, []int{1, 0}, []pawl.TaskState{pawl.TaskFailed, pawl.TaskCancelled}},
			{[]pawl.ItemState{x, f}, []int{1}, []pawl.TaskState{pawl.TaskCancelled}},
			{[]pawl.ItemState{c, d, f}, []int{2, 1}, []pawl.TaskState{pawl.TaskDeadLettered, pawl.TaskCompleted}},
			{[]pawl.ItemState{d, d, c}, []int{0, 1}, []pawl.TaskState{pawl.TaskDeadLettered, pawl.TaskCompleted}},
		} {
			t, its := w.keyedTask("batch", len(mix.items))
			for i, to := range mix.items {
				w.moveTo(t.ID, its[i].ID, to)
			}
			before := w.task(t.ID)
			for i, n := range mix.cancel {
				w.advance(time.Second)
				got := w.cancel(t.ID, its[n].ID)
				w.same(got.State, mix.want[i], "the state")
				if got.State != before.State {
					lines := w.lines(pawl.EventFilter{TaskID: t.ID})
					w.same([]any{got.Version, got.Error == nil, lines[len(lines)-1]}, []any{before.Version + 1, got.State != pawl.TaskDeadLettered,
						fmt.Sprintf("%s task %s>%s system", got.State, before.State, got.State)}, "the task")
					w.timeIs(got.CompletedAt, w.now(), "completed_at")
				}
				before = got
			}
		}
	}},
	{"when all that was submitted is cancelled, one by one", func(w *fixture) {
		t, ls := w.claimedTask(pawl.Type{Name: "order", Approval: pawl.Approval{Mode: pawl.ApprovalManual}}, 2)
		for _, l := range ls {
			w.submit(l, `1`)
		}
		w.same(w.task(t.ID).State, pawl.TaskSubmitted, "submitted")
		w.same(w.cancel(t.ID, ls[0].ID).State, pawl.TaskSubmitted, "after the first")
		w.same(w.cancel(t.ID, ls[1].ID).State, pawl.TaskCancelled, "after the last")
		w.conflict(w.tryApprove(t.ID), "cancelled")
	}},
	{"to submitted, and is ready to be approved, where what is left was submitted", func(w *fixture) {
		t, ls := w.claimedTask(pawl.Type{Name: "order", Approval: pawl.Approval{Mode: pawl.ApprovalManual}, MaxAttempts: 1}, 2)
		w.submit(ls[0], `1`)
		w.failPermanently(ls[1], "no")
		w.same(w.task(t.ID).State, pawl.TaskFailed, "failed")
		w.cancel(t.ID, ls[1].ID)
		got := w.task(t.ID)
		w.same([]any{got.State, got.ReadyForApproval, got.CompletedAt}, []any{pawl.TaskSubmitted, true, (*time.Time)(nil)}, "the task")
		w.ok(w.tryApprove(t.ID), "approve")
		w.same(w.task(t.ID).State, pawl.TaskCompleted, "approved")
	}},
	{"and holds its input again, unless another task does by then", func(w *fixture) {
		for _, taken := range []bool{false, true} {
			typ := map[bool]string{false: "free", true: "taken"}[taken]
			like := pawl.NewTask{
				Type:    typ,
				Payload: raw(`{"n":1}`),
				Dedupe:  pawl.Dedupe{All: true},
				Items:   []pawl.NewItem{{Input: raw("1")}, {Input: raw("2")}},
			}
			t := w.create(like)
			its := w.items(t.ID)
			w.moveTo(t.ID, its[0].ID, pawl.ItemCompleted)
			w.moveTo(t.ID, its[1].ID, pawl.ItemDeadLettered)
			holder := t.ID
			if taken {
				holder = w.create(like).ID
			}
			w.same(w.cancel(t.ID, its[1].ID).State, pawl.TaskCompleted, "the task")
			again := w.create(like)
			w.same([]any{again.ID, again.Deduplicated}, []any{holder, true}, "the same input again")
		}
	}},
	{"a type may have failed items not count", func(w *fixture) {
		w.putType(pawl.Type{Name: "best", OnItemFailure: pawl.FailureIgnore, MaxAttempts: 1})
		const c, f, d, x = pawl.ItemCompleted, pawl.ItemFailed, pawl.ItemDeadLettered, pawl.ItemCancelled
		for _, mix := range []struct {
			items []pawl.ItemState
			want  pawl.TaskState
		}{
			{[]pawl.ItemState{f, c}, pawl.TaskCompleted},
			{[]pawl.ItemState{c, f}, pawl.TaskCompleted},
			{[]pawl.ItemState{c, d, f}, pawl.TaskCompleted},
			{[]pawl.ItemState{f, x}, pawl.TaskFailed},
			{[]pawl.ItemState{f, f}, pawl.TaskFailed},
			{[]pawl.ItemState{f, c, x}, pawl.TaskCompleted},
		} {
			t, its := w.keyedTask("best", len(mix.items))
			for i, to := range mix.items {
				w.moveTo(t.ID, its[i].ID, to)
			}
			got := w.task(t.ID)
			w.same([]any{got.State, got.ItemsOpen, got.Version}, []any{mix.want, 0, 1}, "the task")
			if mix.want == pawl.TaskCompleted {
				w.same(got.Error, (*pawl.Failure)(nil), "error")
			}
		}
		t, its := w.keyedTask("best", 2)
		w.complete(w.claimItem("w1", its[0].ID), `1`)
		w.expire(w.claimItem("w1", its[1].ID))
		w.same(w.task(t.ID).State, pawl.TaskCompleted, "when the last one expires")
		_, err := first(w.svc.RetryTasks(w.ctx, []pawl.TaskCall{{TaskID: t.ID, ItemIDs: []string{its[1].ID}}}))
		w.conflict(err, "completed")
		w.same(w.item(its[1].ID).State, pawl.ItemFailed, "the item that failed")
	}},
	{"failed items that do not count leave the others to be approved", func(w *fixture) {
		for _, last := range []string{"fails", "expires"} {
			t, ls := w.claimedTask(
				pawl.Type{Name: "order-" + last, Approval: pawl.Approval{Mode: pawl.ApprovalManual}, OnItemFailure: pawl.FailureIgnore, MaxAttempts: 1},
				2,
			)
			w.submit(ls[0], `1`)
			if last == "fails" {
				w.failPermanently(ls[1], "no")
			} else {
				w.expire(ls[1])
			}
			got := w.task(t.ID)
			w.same([]any{got.State, got.CompletedAt}, []any{pawl.TaskSubmitted, (*time.Time)(nil)}, last)
			w.sweep()
			w.ok(w.tryApprove(t.ID), "approve")
			w.same(w.task(t.ID).State, pawl.TaskCompleted, "approved")
		}
	}},
	{"a failed task's results can be read in part", func(w *fixture) {
		t, its := w.keyedTask("batch", 3)
		w.complete(w.claimItem("w1", its[0].ID), `{"n":1}`)
		_, err := w.svc.PartialResult(w.ctx, t.ID)
		w.conflict(err, "in_progress", "cancel")
		w.moveTo(t.ID, its[1].ID, pawl.ItemFailed)
		w.complete(w.claimItem("w1", its[2].ID), `3`)
		_, err = w.svc.TaskResult(w.ctx, t.ID)
		w.conflict(err, "failed", "retry", "bury", "cancel")
		w.same(strings.Contains(err.Error(), "task "+t.ID+" is failed: it has no result"), true, "what is said: "+err.Error())
		got, err := w.svc.PartialResult(w.ctx, t.ID)
		w.ok(err, "partial")
		w.same(got, pawl.TaskResult{TaskID: t.ID, Payload: raw(`{"a":{"n":1},"c":3}`), CreatedAt: w.now(), Partial: true}, "the result")
		w.cancel(t.ID, its[1].ID)
		whole, err := w.svc.PartialResult(w.ctx, t.ID)
		w.ok(err, "whole")
		w.same([]any{string(whole.Payload), whole.Partial}, []any{`{"a":{"n":1},"c":3}`, false}, "of a completed task")
	}},
	{"the failed items of an open task run again by retry", func(w *fixture) {
		t, its := w.keyedTask("batch", 3)
		w.moveTo(t.ID, its[0].ID, pawl.ItemFailed)
		w.moveTo(t.ID, its[1].ID, pawl.ItemDeadLettered)
		version := w.task(t.ID).Version
		got := w.retry(t.ID)
		w.same([]any{got.State, got.Version, got.ItemsOpen}, []any{pawl.TaskQueued, version, 3}, "the task")
		for _, it := range w.items(t.ID) {
			w.same([]any{it.State, it.Failures}, []any{pawl.ItemQueued, 0}, "an item")
		}
		_, err := first(w.svc.RetryTasks(w.ctx, []pawl.TaskCall{{TaskID: t.ID}}))
		w.conflict(err, "queued", "cancel")
		for i := range its {
			w.moveTo(t.ID, its[i].ID, pawl.ItemCompleted)
		}
		w.same(w.task(t.ID).State, pawl.TaskCompleted, "at the end")
	}},
}}
