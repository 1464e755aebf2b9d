package suite

import (
	"errors"

	"github.com/pawl-work/pawl"
)

// moving tests the moves that no other test makes.
var moving = noun{"a move that is rare", []promise{
	{"an attempt that was at work fails and is scheduled", func(w *fixture) {
		w.oneItem()
		l := w.claim("w1")
		w.heartbeat(l)
		m, err := pawl.Fail(w.ctx, w.svc, l.Fence(), errors.New("no"))
		w.ok(err, "fail")
		w.same(m.State, pawl.ItemScheduled, "the item")
	}},
	{"an operator ends a lease, whether its worker has begun or not", func(w *fixture) {
		for _, begun := range []bool{false, true} {
			t := w.oneItem()
			l := w.claim("w1")
			if begun {
				w.heartbeat(l)
			}
			m, err := first(w.svc.RevokeLeases(w.ctx, []pawl.RevokeCall{{ItemID: l.ID, Attempt: l.Attempt}}))
			w.ok(err, "revoke")
			w.same(m.State, pawl.ItemQueued, "the item")
			w.cancel(t.ID)
		}
	}},
	{"failed items that did not count decide when the submitted one is cancelled", func(w *fixture) {
		for _, to := range []pawl.TaskState{pawl.TaskFailed, pawl.TaskDeadLettered} {
			t, ls := w.claimedTask(pawl.Type{
				Name:     "order-" + string(to),
				Approval: pawl.Approval{Mode: pawl.ApprovalManual}, OnItemFailure: pawl.FailureIgnore, MaxAttempts: 1,
			}, 2)
			w.failPermanently(ls[1], "no")
			if to == pawl.TaskDeadLettered {
				w.bury(t.ID, ls[1].ID)
			}
			w.submit(ls[0], `1`)
			w.same(w.task(t.ID).State, pawl.TaskSubmitted, "before")
			w.same(w.cancel(t.ID, ls[0].ID).State, to, "after")
		}
	}},
	{"the submitted items decide when the dead-lettered one is cancelled", func(w *fixture) {
		t, ls := w.claimedTask(pawl.Type{Name: "order", Approval: pawl.Approval{Mode: pawl.ApprovalManual}, MaxAttempts: 1}, 2)
		w.submit(ls[0], `1`)
		w.failPermanently(ls[1], "no")
		w.same(w.bury(t.ID, ls[1].ID).State, pawl.TaskDeadLettered, "before")
		w.same(w.cancel(t.ID, ls[1].ID).State, pawl.TaskSubmitted, "after")
	}},
	{"a task whose apply failed is approved again by a retry, and can be cancelled", func(w *fixture) {
		apply := pawl.Apply{Mode: pawl.ApplyItem, MaxAttempts: 1}
		t, ls := w.claimedTask(pawl.Type{Name: "order", Acceptance: true, Apply: apply}, 1)
		w.submit(ls[0], `1`)
		for _, buried := range []bool{false, true} {
			l := w.claims(pawl.ClaimRequest{WorkerID: "w2", Types: []string{"order.apply"}})[0]
			w.failPermanently(l, "no")
			w.same(w.task(t.ID).State, pawl.TaskFailed, "after the failure")
			if buried {
				w.same(w.bury(t.ID).State, pawl.TaskDeadLettered, "buried")
			}
			w.same(w.retry(t.ID).State, pawl.TaskApproved, "after the retry")
		}
		w.same(w.cancel(t.ID).State, pawl.TaskCancelled, "cancelled")
	}},
}}
