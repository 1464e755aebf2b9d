package suite

import (
	"errors"
	"time"

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
		for _, from := range []pawl.ItemState{pawl.ItemLeased, pawl.ItemInProgress} {
			t := w.oneItem()
			l := w.claim("w1")
			if from == pawl.ItemInProgress {
				w.heartbeat(l)
			}
			revoke := func(by *fixture, attempt int) (pawl.Moved, error) {
				return first(by.svc.RevokeLeases(by.ctx, []pawl.RevokeCall{{ItemID: l.ID, Attempt: attempt, Reason: "it hangs"}}))
			}
			boss := w.as("user", "boss")
			_, err := revoke(boss, 2)
			w.refused(err, pawl.CodeConflict)
			_, err = revoke(w.in("elsewhere"), 1)
			w.refused(err, pawl.CodeNotFound)
			m, err := revoke(boss, 1)
			w.ok(err, "revoke")
			it := w.item(l.ID)
			w.same([]any{m.State, it.State, it.Failures, it.Attempt, it.LastWorkerID},
				[]any{pawl.ItemQueued, pawl.ItemQueued, 0, 1, "w1"}, "the item")
			_, err = pawl.Complete(w.ctx, w.svc, l.Fence(), nil)
			w.refused(err, pawl.CodeLeaseLost)
			_, err = revoke(boss, 0)
			w.conflict(err, "queued", pawl.ItemQueued.Allowed()...)
			es := w.allEvents(pawl.EventFilter{TaskID: t.ID, Event: "lease_revoked"})
			w.same(len(es), 1, "events")
			w.same([]any{es[0].FromState, es[0].ToState, es[0].Attempt, es[0].ActorID, es[0].Message},
				[]any{string(from), "queued", 1, "boss", "it hangs"}, "the event")
			again := w.claim("w1")
			w.same([]any{again.Attempt, again.Failures}, []any{2, 0}, "attempt, failures")
			w.advance(time.Hour)
			_, err = revoke(boss, 2)
			w.refused(err, pawl.CodeConflict) // the lease has run out
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
			now := w.task(t.ID)
			w.same([]any{now.State, now.FailedIn, now.Error.Message}, []any{pawl.TaskFailed, "apply", "no"}, "after the failure")
			if buried {
				w.same(w.bury(t.ID).State, pawl.TaskDeadLettered, "buried")
			}
			w.same(w.retry(t.ID).State, pawl.TaskApproved, "after the retry")
		}
		w.same(w.cancel(t.ID).State, pawl.TaskCancelled, "cancelled")
	}},
}}
