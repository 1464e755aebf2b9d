package suite

import (
	"time"

	"github.com/pawl-work/pawl"
)

var effectSenders = noun{"senders of effects", []promise{
	{"what an earlier sender did not do says nothing about the present sending", func(w *fixture) {
		w.oneItem()
		first := w.claim("w1")
		opened := w.openEffect(first, "charge")
		w.release(first)
		w.resolve(opened.ID, pawl.DidNotHappen)
		second := w.claim("w2")
		w.openEffect(second, "charge")
		w.effectFailed(first, opened.ID) // late, and about its own sending
		f := w.effect(opened.ID, pawl.EffectOpen)
		w.same([]any{f.Late, f.Contradicts, f.LateReport.State}, []any{true, false, pawl.EffectFailed}, "late, contradicts, the report")
		_, err := w.svc.EffectUnknown(w.ctx, opened.ID, pawl.EffectUnknownCall{ItemID: first.ID, WorkerID: first.WorkerID,
			Attempt: first.Attempt})
		w.ok(err, "unknown")
		w.effect(opened.ID, pawl.EffectOpen)
		w.release(second)
		w.effectFailed(first, opened.ID)
		w.effect(opened.ID, pawl.EffectUnknown)
		_, err = w.svc.OpenEffect(w.ctx, openCall(w.claim("w3"), "charge"))
		w.refused(err, pawl.CodeEffectUnknown)
		w.effectFailed(second, opened.ID) // the present sender knows
		w.effect(opened.ID, pawl.EffectFailed)
	}},
	{"what an earlier sending of the same attempt did not do says nothing about the present one", func(w *fixture) {
		w.oneItem()
		l := w.claim("w1")
		opened := w.openEffect(l, "charge")
		failed := pawl.EffectFailedCall{ItemID: l.ID, WorkerID: l.WorkerID, Attempt: l.Attempt, Sending: opened.Sending,
			Error: pawl.Failure{Message: "refused"}}
		report := func() {
			w.Helper()
			_, err := w.svc.EffectFailed(w.ctx, opened.ID, failed)
			w.ok(err, "failed")
		}
		report()
		w.same(w.openEffect(l, "charge").Sending, 2, "sending")
		report() // again: its answer was lost
		w.effect(opened.ID, pawl.EffectOpen)
		again, err := w.svc.OpenEffect(w.ctx, openCall(l, "charge"))
		w.ok(err, "open")
		w.same([]any{again.State, again.Send}, []any{pawl.EffectOpen, false}, "state, send")
		failed.Sending = 2
		report()
		w.effect(opened.ID, pawl.EffectFailed)
		failed.Sending = -1
		_, err = w.svc.EffectFailed(w.ctx, opened.ID, failed)
		w.invalid(err, "/sending")
	}},
	{"a gate sends under a lease of its own, which it extends, whatever becomes of the attempt", func(w *fixture) {
		w.oneItem()
		l := w.claim("w1")
		call := openCall(l, "charge")
		call.LeaseSeconds = 15
		opened, err := w.svc.OpenEffect(w.ctx, call)
		w.ok(err, "open")
		keep := pawl.KeepEffectCall{ItemID: l.ID, WorkerID: l.WorkerID, Attempt: l.Attempt, LeaseSeconds: 15}
		for _, other := range []func(*pawl.KeepEffectCall){func(c *pawl.KeepEffectCall) { c.Attempt++ },
			func(c *pawl.KeepEffectCall) { c.WorkerID = "w2" }} {
			theirs := keep
			other(&theirs)
			_, err = w.svc.KeepEffect(w.ctx, opened.ID, theirs)
			w.refused(err, pawl.CodeLeaseLost)
		}
		_, err = w.svc.KeepEffect(w.ctx, "eff_0", keep)
		w.refused(err, pawl.CodeNotFound)
		kept, err := w.svc.KeepEffect(w.ctx, opened.ID, keep)
		w.ok(err, "keep")
		w.same([]any{kept.State, kept.Sender, kept.SentUntil != nil}, []any{pawl.EffectOpen, pawl.SentByGate, true}, "state, sender, until")
		w.release(l)
		_, err = w.svc.KeepEffect(w.ctx, opened.ID, keep)
		w.ok(err, "keep after the attempt")
		w.effectDone(l, opened.ID, `"ch_1"`)
		_, err = w.svc.KeepEffect(w.ctx, opened.ID, keep)
		w.refused(err, pawl.CodeLeaseLost)
		keep.LeaseSeconds = 0
		_, err = w.svc.KeepEffect(w.ctx, opened.ID, keep)
		w.invalid(err, "/lease_seconds")
	}},
	{"a late report that decides wakes the item that waits", func(w *fixture) {
		w.oneItem()
		first := w.claim("w1")
		opened := w.openEffect(first, "charge")
		w.release(first)
		next := w.claim("w2")
		_, err := w.svc.OpenEffect(w.ctx, openCall(next, "charge"))
		w.refused(err, pawl.CodeEffectUnknown)
		w.suspendFor(next, pawl.EffectSignal, opened.ID)
		_, err = w.svc.EffectUnknown(w.ctx, opened.ID, pawl.EffectUnknownCall{ItemID: first.ID, WorkerID: first.WorkerID,
			Attempt: first.Attempt})
		w.ok(err, "unknown")
		w.same(w.item(next.ID).State, pawl.ItemWaiting, "state: it is not known yet")
		w.effectDone(first, opened.ID, `"ch_1"`)
		w.same(w.item(next.ID).State, pawl.ItemQueued, "state")
		out, err := w.svc.OpenEffect(w.ctx, openCall(w.claim("w3"), "charge"))
		w.ok(err, "open")
		w.same(string(out.Answer), `"ch_1"`, "the answer")
	}},
	{"what an earlier sending has reserved is not spent if it did not happen", func(w *fixture) {
		w.putBudget(pawl.NewBudget{Limit: 1000})
		w.oneItem()
		open := func(l pawl.Lease) pawl.OpenedEffect {
			w.Helper()
			call := openCall(l, "charge")
			call.Repeatable, call.Budget, call.Amount = true, "b", 60
			out, err := w.svc.OpenEffect(w.ctx, call)
			w.ok(err, "open")
			w.same(out.Send, true, "send")
			return out
		}
		first := w.claim("w1")
		opened := open(first)
		w.release(first)
		second := w.claim("w2")
		open(second)
		_, err := w.svc.EffectFailed(w.ctx, opened.ID, pawl.EffectFailedCall{ItemID: second.ID, WorkerID: second.WorkerID,
			Attempt: second.Attempt, Sending: 1, Error: pawl.Failure{Message: "of another"}})
		w.ok(err, "failed")
		w.budgetIs(1000, 0, 120) // it does not know of that one
		w.effectFailed(first, opened.ID)
		w.budgetIs(1000, 0, 60)
		w.release(second)
		third := w.claim("w3")
		open(third)
		w.effectDone(third, opened.ID, "1") // once: the outside recognises the key
		w.budgetIs(1000, 60, 0)
	}},
	{"what its sender says after a decision that it did not happen is asked about before it is sent again", func(w *fixture) {
		w.oneItem()
		first := w.claim("w1")
		opened := w.openEffect(first, "charge")
		w.release(first)
		w.resolve(opened.ID, pawl.DidNotHappen)
		w.clock.Advance(time.Second)
		w.effectDone(first, opened.ID, `"ch_1"`)
		w.effect(opened.ID, pawl.EffectFailed)
		second := w.claim("w2")
		_, err := w.svc.OpenEffect(w.ctx, openCall(second, "charge"))
		w.same(w.refused(err, pawl.CodeEffectUnknown).EffectID, opened.ID, "the effect")
		w.effect(opened.ID, pawl.EffectUnknown)
		w.clock.Advance(time.Second)
		w.resolve(opened.ID, pawl.DidNotHappen) // the person knows both statements
		w.same(w.openEffect(second, "charge").ID, opened.ID, "id")
	}},
	{"an earlier sending that happened after all decides, and contradicts", func(w *fixture) {
		w.oneItem()
		first := w.claim("w1")
		opened := w.openEffect(first, "charge")
		w.release(first)
		w.resolve(opened.ID, pawl.DidNotHappen)
		second := w.claim("w2")
		w.openEffect(second, "charge")
		w.effectDone(first, opened.ID, `"ch_1"`)
		f := w.effect(opened.ID, pawl.EffectDone)
		w.same([]any{f.Contradicts, string(f.Answer)}, []any{true, `"ch_1"`}, "contradicts, the answer")
		w.effectDone(second, opened.ID, `"ch_2"`)
		f = w.effect(opened.ID, pawl.EffectDone)
		w.same([]any{f.Contradicts, string(f.Answer), string(f.LateReport.Answer)}, []any{true, `"ch_1"`, `"ch_2"`}, "beside the decision")
	}},
	{"an effect that was sent without an approval waits for one before it is sent again", func(w *fixture) {
		w.oneItem()
		l := w.claim("w1")
		w.effectFailed(l, w.openEffect(l, "charge").ID)
		call := openCall(l, "charge")
		call.Approve = true
		waiting, err := w.svc.OpenEffect(w.ctx, call)
		w.ok(err, "open")
		w.same([]any{waiting.State, waiting.Send}, []any{pawl.EffectWaiting, false}, "state, send")
		ann := w.as(pawl.ActorUser, "ann")
		_, err = ann.svc.ApproveEffect(ann.ctx, waiting.ID, pawl.EffectDecision{})
		w.ok(err, "approve")
		opened, err := w.svc.OpenEffect(w.ctx, call)
		w.ok(err, "open")
		w.same([]any{opened.Send, opened.Sending}, []any{true, 2}, "send, sending")
		w.release(l) // it is unknown, and was approved

		other := openCall(w.claim("w2"), "refund")
		other.Repeatable = true
		first, err := w.svc.OpenEffect(w.ctx, other)
		w.ok(err, "open")
		_, err = w.svc.EffectUnknown(w.ctx, first.ID, pawl.EffectUnknownCall{ItemID: other.ItemID, WorkerID: other.WorkerID,
			Attempt: other.Attempt})
		w.ok(err, "unknown")
		other.Approve = true
		_, err = w.svc.OpenEffect(w.ctx, other) // a rejection could not say that it did not happen
		w.refused(err, pawl.CodeEffectUnknown)
	}},
	{"an effect asks for more of its budget, and leaves nothing if it is refused", func(w *fixture) {
		w.putBudget(pawl.NewBudget{Limit: 10, OnExhausted: pawl.ExhaustedAsk})
		w.oneItem()
		call := openCall(w.claim("w1"), "charge")
		call.Budget, call.Amount = "b", 60
		_, err := w.svc.OpenEffect(w.ctx, call)
		x := w.refused(err, pawl.CodeBudgetExhausted).Exhausted
		w.same([]any{x.TaskID != "", x.SignalKey != ""}, []any{true, true}, "the task that asks, the signal")
		w.same(w.task(x.TaskID).Type, pawl.TypeBudget, "its type")
		list, err := w.svc.ListEffects(w.ctx, pawl.EffectFilter{})
		w.ok(err, "list")
		w.same(len(list.Items), 0, "effects")
	}},
	{"in a fork a call waits for the effect that stands for the one of its key", func(w *fixture) {
		task := w.oneItem()
		l := w.claim("w1")
		call := openCall(l, "charge")
		call.Key, call.Repeatable = "charge-7", true
		_, err := w.svc.OpenEffect(w.ctx, call)
		w.ok(err, "open")
		w.release(l)
		fork, err := first(w.svc.ForkTasks(w.ctx, []pawl.TaskFork{{TaskID: task.ID}}))
		w.ok(err, "fork")
		copied := w.claimItem("w2", w.onlyItem(fork.ID).ID)
		call.ItemID, call.WorkerID, call.Attempt = copied.ID, copied.WorkerID, copied.Attempt
		_, err = w.svc.OpenEffect(w.ctx, call)
		e := w.refused(err, pawl.CodeEffectUnknown)
		w.resolve(e.EffectID, pawl.DidNotHappen)
		_, err = w.svc.OpenEffect(w.ctx, call)
		w.ok(err, "open in the fork")
		w.waitsForEffect(copied, call, e.EffectID)
	}},
}}

// waitsForEffect checks that a call that opens an effect waits while it is open elsewhere.
func (w *fixture) waitsForEffect(l pawl.Lease, call pawl.OpenEffectCall, id string) {
	w.Helper()
	call.WaitSeconds = 30
	answered := make(chan pawl.OpenedEffect)
	go func() {
		out, err := w.svc.OpenEffect(w.ctx, call)
		if err != nil {
			w.Error(err)
		}
		answered <- out
	}()
	time.Sleep(20 * time.Millisecond)
	w.effectDone(l, id, `"ch_1"`)
	w.same(string((<-answered).Answer), `"ch_1"`, "the answer")
}
