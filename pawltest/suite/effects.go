package suite

import (
	"encoding/json"
	"fmt"
	"sync"

	"github.com/pawl-work/pawl"
)

func openCall(l pawl.Lease, name string) pawl.OpenEffectCall {
	return pawl.OpenEffectCall{ItemID: l.ID, WorkerID: l.WorkerID, Attempt: l.Attempt, Name: name, RequestHash: "h1"}
}

// openEffect opens an effect that is to be sent.
func (w *fixture) openEffect(l pawl.Lease, name string) pawl.OpenedEffect {
	w.Helper()
	out, err := w.svc.OpenEffect(w.ctx, openCall(l, name))
	w.ok(err, "open effect")
	w.same([]any{out.State, out.Send}, []any{pawl.EffectOpen, true}, "state, send")
	return out
}

func (w *fixture) tryDone(l pawl.Lease, id, answer string) (pawl.EffectRecord, error) {
	return w.svc.EffectDone(w.ctx, id, pawl.EffectDoneCall{ItemID: l.ID, WorkerID: l.WorkerID, Attempt: l.Attempt, Answer: raw(answer)})
}

func (w *fixture) effectDone(l pawl.Lease, id, answer string) pawl.EffectRecord {
	w.Helper()
	out, err := w.tryDone(l, id, answer)
	w.ok(err, "done")
	return out
}

func (w *fixture) effectFailed(l pawl.Lease, id string) pawl.EffectRecord {
	w.Helper()
	out, err := w.svc.EffectFailed(w.ctx, id, pawl.EffectFailedCall{ItemID: l.ID, WorkerID: l.WorkerID, Attempt: l.Attempt,
		Error: pawl.Failure{Message: "refused"}})
	w.ok(err, "failed")
	return out
}

func (w *fixture) resolve(id, outcome string) pawl.EffectRecord {
	w.Helper()
	out, err := w.as(pawl.ActorUser, "ann").svc.ResolveEffect(w.ctx, id, pawl.ResolveEffectCall{Outcome: outcome})
	w.ok(err, "resolve")
	return out
}

// effect checks the state of an effect.
func (w *fixture) effect(id string, state pawl.EffectState) pawl.EffectRecord {
	w.Helper()
	out, err := w.svc.GetEffect(w.ctx, id)
	w.ok(err, "get effect")
	w.same(out.State, state, "state of the effect")
	return out
}

// effectEvents returns the events of effects of a task, oldest first.
func (w *fixture) effectEvents(taskID string) (out []string) {
	w.Helper()
	for _, e := range w.allEvents(pawl.EventFilter{TaskID: taskID, Asc: true}) {
		var facts struct {
			EffectID string `json:"effect_id"`
		}
		if json.Unmarshal(e.Data, &facts) == nil && facts.EffectID != "" {
			out = append(out, e.Event)
		}
	}
	return out
}

var effects = noun{"effects", []promise{
	{"malformed calls are invalid, and name the members as the call does", func(w *fixture) {
		w.create(pawl.NewTask{Type: "a"})
		l := w.claim("w1")
		for pointer, change := range map[string]func(c *pawl.OpenEffectCall){
			"/item_id":      func(c *pawl.OpenEffectCall) { c.ItemID = "" },
			"/worker_id":    func(c *pawl.OpenEffectCall) { c.WorkerID = "" },
			"/attempt":      func(c *pawl.OpenEffectCall) { c.Attempt = 0 },
			"/name":         func(c *pawl.OpenEffectCall) { c.Name = "" },
			"/request_hash": func(c *pawl.OpenEffectCall) { c.RequestHash = "" },
			"/amount":       func(c *pawl.OpenEffectCall) { c.Amount = 3 },
		} {
			call := openCall(l, "charge")
			change(&call)
			_, err := w.svc.OpenEffect(w.ctx, call)
			w.invalid(err, pointer)
		}
	}},
	{"one caller sends, and the answer is given to all others", func(w *fixture) {
		task := w.oneItem()
		l := w.claim("w1")
		opened := w.openEffect(l, "charge")
		again, err := w.svc.OpenEffect(w.ctx, openCall(l, "charge"))
		w.ok(err, "open again")
		w.same([]any{again.ID, again.State, again.Send}, []any{opened.ID, pawl.EffectOpen, false}, "the second answer")
		w.effectDone(l, opened.ID, `{"charge":"ch_1"}`)
		again, err = w.svc.OpenEffect(w.ctx, openCall(l, "charge"))
		w.ok(err, "open when done")
		w.same([]any{again.State, again.Send, string(again.Answer)}, []any{pawl.EffectDone, false, `{"charge":"ch_1"}`}, "the answer")
		w.complete(l, "1")
		w.same(w.effectEvents(task.ID), []string{"effect_opened", "effect_done"}, "events")
	}},
	{"of many calls at once one sends", func(w *fixture) {
		w.oneItem()
		l := w.claim("w1")
		var all sync.WaitGroup
		sends := make(chan bool, 8)
		for range 8 {
			all.Go(func() {
				out, err := w.svc.OpenEffect(w.ctx, openCall(l, "charge"))
				if err != nil {
					w.Error(err)
				}
				sends <- out.Send
			})
		}
		all.Wait()
		close(sends)
		n := 0
		for send := range sends {
			if send {
				n++
			}
		}
		w.same(n, 1, "senders")
	}},
	{"another request under a key is key_reused", func(w *fixture) {
		w.oneItem()
		l := w.claim("w1")
		w.openEffect(l, "charge")
		call := openCall(l, "charge")
		call.RequestHash = "h2"
		_, err := w.svc.OpenEffect(w.ctx, call)
		w.refused(err, pawl.CodeKeyReused)
	}},
	{"a stale attempt opens nothing", func(w *fixture) {
		w.oneItem()
		old := w.claim("w1")
		w.failNow(old, "x")
		w.claim("w2")
		_, err := w.svc.OpenEffect(w.ctx, openCall(old, "charge"))
		w.leaseLost(err, pawl.ReasonTaken, "leased", "w2", 2)
		list, err := w.svc.ListEffects(w.ctx, pawl.EffectFilter{})
		w.ok(err, "list")
		w.same(len(list.Items), 0, "effects")
	}},
	{"a result is refused while an effect of the attempt is open", func(w *fixture) {
		task := w.oneItem()
		l := w.claim("w1")
		opened := w.openEffect(l, "charge")
		_, err := first(w.svc.Complete(w.ctx, []pawl.CompleteCall{{Fence: l.Fence(), Result: raw("1")}}))
		e := w.refused(err, pawl.CodeConflict)
		w.same([]string{e.Reason, e.EffectID}, []string{pawl.ReasonEffectOpen, opened.ID}, "reason, effect")
		w.same(w.task(task.ID).State, pawl.TaskCheckedOut, "state")
		w.effectFailed(l, opened.ID)
		w.complete(l, "1")
	}},
	{"a submitted result is refused while an effect of the attempt is open", func(w *fixture) {
		judged := pawl.Type{Name: "judged", Acceptance: true, Approval: pawl.Approval{Mode: pawl.ApprovalManual}}
		w.ok(first2(first(w.svc.PutTypes(w.ctx, []pawl.Type{judged}))), "put")
		w.create(pawl.NewTask{Type: "judged"})
		l := w.claim("w1")
		opened := w.openEffect(l, "charge")
		submit := func() error {
			_, err := first(w.svc.Submit(w.ctx, []pawl.SubmitCall{{Fence: l.Fence(), Result: raw("1")}}))
			return err
		}
		w.same(w.refused(submit(), pawl.CodeConflict).Reason, pawl.ReasonEffectOpen, "reason")
		w.effectDone(l, opened.ID, "1")
		w.ok(submit(), "submit")
	}},
	{"an effect is unknown in the transaction that ends the attempt", func(w *fixture) {
		ends := map[string]func(l pawl.Lease){
			"fail": func(l pawl.Lease) { w.failNow(l, "x") }, "fail for good": func(l pawl.Lease) { w.failPermanently(l, "x") },
			"release": func(l pawl.Lease) { w.release(l) }, "suspend": func(l pawl.Lease) { w.suspendFor(l, "s", "k") },
			"expire": func(l pawl.Lease) { w.expire(l) }, "cancel": func(l pawl.Lease) { w.cancel(l.TaskID) },
			"revoke": func(l pawl.Lease) {
				w.ok(first2(first(w.svc.RevokeLeases(w.ctx, []pawl.RevokeCall{{ItemID: l.ID}}))), "revoke")
			},
		}
		for name, end := range ends {
			task := w.create(pawl.NewTask{Type: "a", MaxAttempts: 3})
			l := w.claims(pawl.ClaimRequest{WorkerID: "w1", TaskID: task.ID})[0]
			opened := w.openEffect(l, "charge")
			end(l)
			w.effect(opened.ID, pawl.EffectUnknown)
			w.same(w.effectEvents(task.ID), []string{"effect_opened", "effect_unknown"}, "events after "+name)
		}
	}},
	{"an effect of many items is unknown with its own item alone", func(w *fixture) {
		w.manyItems(2)
		a, b := w.claim("w1"), w.claim("w2")
		opened, other := w.openEffect(a, "charge"), w.openEffect(b, "charge")
		w.failNow(a, "x")
		w.effect(opened.ID, pawl.EffectUnknown)
		w.effect(other.ID, pawl.EffectOpen)
	}},
	{"an unknown effect is not sent again, but for a repeatable one", func(w *fixture) {
		w.oneItem()
		l := w.claim("w1")
		opened := w.openEffect(l, "charge")
		w.release(l)
		l = w.claim("w2")
		_, err := w.svc.OpenEffect(w.ctx, openCall(l, "charge"))
		e := w.refused(err, pawl.CodeEffectUnknown)
		w.same(e.EffectID, opened.ID, "effect_id")
		call := openCall(l, "charge")
		call.Repeatable = true
		again, err := w.svc.OpenEffect(w.ctx, call)
		w.ok(err, "repeat")
		w.same([]any{again.ID, again.Send}, []any{opened.ID, true}, "id, send")
		w.same(w.effect(opened.ID, pawl.EffectOpen).Sendings, 2, "sendings")
	}},
	{"a failed effect may be sent again", func(w *fixture) {
		w.oneItem()
		l := w.claim("w1")
		opened := w.openEffect(l, "charge")
		w.same(w.effectFailed(l, opened.ID).Error.Message, "refused", "error")
		again := w.openEffect(l, "charge")
		w.same([]any{again.ID, w.effect(again.ID, pawl.EffectOpen).Sendings}, []any{opened.ID, 2}, "id, sendings")
	}},
	{"a key is one identity in the namespace", func(w *fixture) {
		w.oneItem()
		w.oneItem()
		a, b := w.claim("w1"), w.claim("w2")
		call := openCall(a, "charge")
		call.Key = "order-1"
		opened, err := w.svc.OpenEffect(w.ctx, call)
		w.ok(err, "open")
		other := openCall(b, "pay")
		other.Key = "order-1"
		again, err := w.svc.OpenEffect(w.ctx, other)
		w.ok(err, "open by another task")
		w.same([]any{again.ID, again.State, again.Send}, []any{opened.ID, pawl.EffectOpen, false}, "the other's answer")
		w.effectDone(a, opened.ID, `"ch_1"`)
		again, err = w.svc.OpenEffect(w.ctx, other)
		w.ok(err, "open by another task")
		w.same(string(again.Answer), `"ch_1"`, "the answer")
		elsewhere := w.in("elsewhere")
		elsewhere.oneItem()
		other = openCall(elsewhere.claim("w3"), "pay")
		other.Key = "order-1"
		fresh, err := elsewhere.svc.OpenEffect(elsewhere.ctx, other)
		w.ok(err, "open in another namespace")
		w.same(fresh.Send, true, "send")
		_, err = elsewhere.svc.GetEffect(elsewhere.ctx, opened.ID)
		w.refused(err, pawl.CodeNotFound)
	}},
	{"a report is never refused because it is late", func(w *fixture) {
		w.oneItem()
		l := w.claim("w1")
		opened := w.openEffect(l, "charge")
		w.release(l)
		next := w.claim("w2")
		done := w.effectDone(l, opened.ID, `"ch_1"`)
		w.same([]any{done.State, done.Late}, []any{pawl.EffectDone, false}, "it decides what is unknown")
		again, err := w.svc.OpenEffect(w.ctx, openCall(next, "charge"))
		w.ok(err, "open")
		w.same(string(again.Answer), `"ch_1"`, "the answer")
		_, err = w.tryDone(next, opened.ID, `"ch_2"`)
		w.leaseLost(err, pawl.ReasonTaken, "done", "w1", 1)
	}},
	{"the next attempt may report what a probe has found out", func(w *fixture) {
		w.oneItem()
		l := w.claim("w1")
		opened := w.openEffect(l, "charge")
		w.release(l)
		next := w.claim("w2")
		w.effectFailed(next, opened.ID)
		w.same(w.openEffect(next, "charge").ID, opened.ID, "id")
	}},
	{"a report beside a decision is kept and flagged", func(w *fixture) {
		task := w.oneItem()
		l := w.claim("w1")
		opened := w.openEffect(l, "charge")
		w.release(l)
		w.resolve(opened.ID, pawl.DidNotHappen)
		w.effectDone(l, opened.ID, `"ch_1"`)
		f := w.effect(opened.ID, pawl.EffectFailed)
		w.same([]any{f.Late, f.Contradicts, string(f.LateReport.Answer)}, []any{true, true, `"ch_1"`}, "late, contradicts, the answer")
		w.effectDone(l, opened.ID, `"ch_1"`) // again
		w.same(w.effectEvents(task.ID), []string{"effect_opened", "effect_unknown", "effect_resolved", "effect_done"}, "events")
	}},
	{"the sender may say that it does not know, and learn it later", func(w *fixture) {
		w.oneItem()
		l := w.claim("w1")
		opened := w.openEffect(l, "charge")
		_, err := w.svc.EffectUnknown(w.ctx, opened.ID, pawl.EffectUnknownCall{ItemID: l.ID, WorkerID: l.WorkerID, Attempt: l.Attempt,
			Error: &pawl.Failure{Message: "time-out"}})
		w.ok(err, "unknown")
		w.same(w.effect(opened.ID, pawl.EffectUnknown).Error.Message, "time-out", "error")
		w.effectFailed(l, opened.ID)
		w.complete(l, "1")
	}},
	{"a person decides about an unknown effect, and the item that waits goes on", func(w *fixture) {
		w.oneItem()
		l := w.claim("w1")
		opened := w.openEffect(l, "charge")
		_, err := w.svc.ResolveEffect(w.ctx, opened.ID, pawl.ResolveEffectCall{Outcome: pawl.Happened})
		w.conflict(err, "open")
		w.suspendFor(l, pawl.EffectSignal, opened.ID)
		b := w.item(l.ID).BlockedBy
		w.same([]string{b.Reason, b.Detail}, []string{pawl.BlockedByEffect, opened.ID}, "blocked by")
		why, err := w.svc.Why(w.ctx, l.ID)
		w.ok(err, "why")
		w.same([]string{why.Reason, why.Command}, []string{pawl.BlockedByEffect, "pawl effect get " + opened.ID}, "why")
		_, err = w.svc.ResolveEffect(w.ctx, opened.ID, pawl.ResolveEffectCall{Outcome: pawl.Happened, Answer: raw(`"ch_7"`), Comment: "seen"})
		w.ok(err, "resolve")
		f := w.effect(opened.ID, pawl.EffectDone)
		w.same([]string{f.Outcome, f.Comment, string(f.Answer)}, []string{pawl.Happened, "seen", `"ch_7"`}, "outcome, comment, answer")
		l = w.claim("w2")
		again, err := w.svc.OpenEffect(w.ctx, openCall(l, "charge"))
		w.ok(err, "open")
		w.same(string(again.Answer), `"ch_7"`, "answer")
		_, err = w.svc.ResolveEffect(w.ctx, opened.ID, pawl.ResolveEffectCall{Outcome: pawl.DidNotHappen})
		w.conflict(err, "done")
	}},
	{"an effect that is given up stays unknown, and the item that waits fails", func(w *fixture) {
		task := w.oneItem()
		l := w.claim("w1")
		opened := w.openEffect(l, "charge")
		w.suspendFor(l, pawl.EffectSignal, opened.ID)
		w.same(w.resolve(opened.ID, pawl.GiveUp).Outcome, pawl.GiveUp, "outcome")
		w.effect(opened.ID, pawl.EffectUnknown)
		it := w.onlyItem(task.ID)
		w.same(it.State, pawl.ItemFailed, "state")
		w.same(it.Error.Code, "effect_unknown", "error")
	}},
	{"an effect waits for an approval, which is not its worker's", func(w *fixture) {
		w.oneItem()
		l := w.claim("w1")
		call := openCall(l, "charge")
		call.Approve = true
		waiting, err := w.svc.OpenEffect(w.ctx, call)
		w.ok(err, "open")
		w.same([]any{waiting.State, waiting.Send}, []any{pawl.EffectWaiting, false}, "state, send")
		w.release(l)
		l = w.claim("w2")
		call.WorkerID, call.Attempt = l.WorkerID, l.Attempt
		for range 2 {
			again, err := w.svc.OpenEffect(w.ctx, call)
			w.ok(err, "open again")
			w.same([]any{again.ID, again.State}, []any{waiting.ID, pawl.EffectWaiting}, "id, state")
		}
		for _, id := range []string{"w1", "w2"} {
			worker := w.as(pawl.ActorWorker, id)
			_, err = worker.svc.ApproveEffect(worker.ctx, waiting.ID, pawl.EffectDecision{})
			w.refused(err, pawl.CodeForbidden)
		}
		w.suspendFor(l, pawl.EffectSignal, waiting.ID)
		ann := w.as(pawl.ActorUser, "ann")
		_, err = ann.svc.ApproveEffect(ann.ctx, waiting.ID, pawl.EffectDecision{})
		w.ok(err, "approve")
		call = openCall(w.claim("w2"), "charge")
		call.Approve = true
		opened, err := w.svc.OpenEffect(w.ctx, call)
		w.ok(err, "open")
		w.same([]any{opened.ID, opened.Send}, []any{waiting.ID, true}, "id, send")
	}},
	{"a rejected effect is failed for good", func(w *fixture) {
		w.oneItem()
		l := w.claim("w1")
		call := openCall(l, "charge")
		call.Approve = true
		waiting, err := w.svc.OpenEffect(w.ctx, call)
		w.ok(err, "open")
		ann := w.as(pawl.ActorUser, "ann")
		_, err = ann.svc.RejectEffect(ann.ctx, waiting.ID, pawl.EffectDecision{Comment: "no"})
		w.ok(err, "reject")
		again, err := w.svc.OpenEffect(w.ctx, call)
		w.ok(err, "open")
		w.same([]any{again.State, again.Send, again.Error.Code}, []any{pawl.EffectFailed, false, "rejected"}, "state, send, error")
		_, err = ann.svc.ApproveEffect(ann.ctx, waiting.ID, pawl.EffectDecision{})
		w.conflict(err, "failed")
	}},
	{"what an effect costs is reserved before it is sent, and settled after", func(w *fixture) {
		w.putBudget(pawl.NewBudget{Limit: 100})
		w.oneItem()
		l := w.claim("w1")
		call := openCall(l, "charge")
		call.Budget, call.Amount = "b", 60
		opened, err := w.svc.OpenEffect(w.ctx, call)
		w.ok(err, "open")
		w.budgetIs(100, 0, 60)
		other := openCall(l, "other")
		other.Budget, other.Amount = "b", 60
		_, err = w.svc.OpenEffect(w.ctx, other)
		w.refused(err, pawl.CodeBudgetExhausted)
		w.effectFailed(l, opened.ID)
		w.budgetIs(100, 0, 0)
		opened, err = w.svc.OpenEffect(w.ctx, call)
		w.ok(err, "open again")
		w.release(l)
		w.effectDone(l, opened.ID, "1")
		w.budgetIs(100, 60, 0)
	}},
	{"effects are listed by state, task and key, newest first", func(w *fixture) {
		w.oneItem()
		l := w.claim("w1")
		var ids []string
		for n := range 3 {
			ids = append(ids, w.openEffect(l, fmt.Sprint("e", n)).ID)
		}
		w.effectDone(l, ids[1], "1")
		w.release(l)
		list, err := w.svc.ListEffects(w.ctx, pawl.EffectFilter{States: []pawl.EffectState{pawl.EffectUnknown}, TaskID: l.TaskID})
		w.ok(err, "list")
		w.same([]string{list.Items[0].ID, list.Items[1].ID}, []string{ids[2], ids[0]}, "unknown effects")
		list, err = w.svc.ListEffects(w.ctx, pawl.EffectFilter{Page: pawl.Page{Limit: 2}})
		w.ok(err, "list")
		list, err = w.svc.ListEffects(w.ctx, pawl.EffectFilter{Page: pawl.Page{Limit: 2, Cursor: list.Next}})
		w.ok(err, "next page")
		w.same([]any{len(list.Items), list.Items[0].ID, list.Next}, []any{1, ids[0], ""}, "the second page")
	}},
	{"an effect has no receipt before its events are signed", func(w *fixture) {
		w.oneItem()
		opened := w.openEffect(w.claim("w1"), "charge")
		_, err := w.svc.EffectReceipt(w.ctx, opened.ID)
		w.refused(err, pawl.CodeNotFound)
		_, err = w.svc.EffectReceipt(w.ctx, "eff_0")
		w.refused(err, pawl.CodeNotFound)
	}},
	{"a call waits while the effect is open elsewhere", func(w *fixture) {
		w.oneItem()
		l := w.claim("w1")
		opened := w.openEffect(l, "charge")
		w.waitsForEffect(l, openCall(l, "charge"), opened.ID)
	}},
	{"a task with an unknown effect is deleted with force alone, and the event names it", func(w *fixture) {
		task := w.oneItem()
		l := w.claim("w1")
		opened := w.openEffect(l, "charge")
		w.cancel(task.ID)
		_, err := first(w.svc.DeleteTasks(w.ctx, []pawl.TaskCall{{TaskID: task.ID}}))
		w.refused(err, pawl.CodeConflict)
		w.remove(task.ID, true)
		events := w.allEvents(pawl.EventFilter{TaskID: task.ID})
		var data struct {
			Effects []string `json:"unknown_effects"`
		}
		w.ok(json.Unmarshal(events[0].Data, &data), "data")
		w.same(data.Effects, []string{opened.ID}, "unknown_effects")
		w.oneItem()
		call := openCall(w.claim("w2"), "pay")
		call.Key = opened.Key
		_, err = w.svc.OpenEffect(w.ctx, call)
		e := w.refused(err, pawl.CodeConflict)
		w.same(e.TaskID, task.ID, "task_id")
	}},
	{"a fork has the answers of its original, and sends nothing by itself", func(w *fixture) {
		task := w.oneItem()
		l := w.claim("w1")
		done, lost, refused := w.openEffect(l, "a"), w.openEffect(l, "b"), w.openEffect(l, "c")
		w.effectDone(l, done.ID, `"ch_1"`)
		w.effectFailed(l, refused.ID)
		w.release(l)
		fork, err := first(w.svc.ForkTasks(w.ctx, []pawl.TaskFork{{TaskID: task.ID}}))
		w.ok(err, "fork")
		copied := w.claimItem("w2", w.onlyItem(fork.ID).ID)
		again, err := w.svc.OpenEffect(w.ctx, openCall(copied, "a"))
		w.ok(err, "open a")
		w.same([]any{again.State, again.Send, string(again.Answer)}, []any{pawl.EffectDone, false, `"ch_1"`}, "a")
		for _, name := range []string{"b", "c"} {
			call := openCall(copied, name)
			call.Repeatable = true
			_, err = w.svc.OpenEffect(w.ctx, call)
			e := w.refused(err, pawl.CodeEffectUnknown)
			w.resolve(e.EffectID, pawl.DidNotHappen)
			out, err := w.svc.OpenEffect(w.ctx, call)
			w.ok(err, "open "+name)
			w.same(out.Send, true, "send")
		}
		w.effect(lost.ID, pawl.EffectUnknown)
	}},
}}

// first2 drops the value of an answer.
func first2[T any](_ T, err error) error { return err }
