package suite

import (
	"encoding/json"
	"time"

	"github.com/pawl-work/pawl"
)

var budgetQuestions = noun{"budget questions", []promise{
	{"an exhausted budget asks a person, who raises it by approving", func(w *fixture) {
		w.putBudget(pawl.NewBudget{Limit: 100, OnExhausted: "ask"})
		t := w.oneItem()
		l := w.claim("w")
		x := w.exhausted(w.tryReserve(l, 101, "k"))
		again := w.exhausted(w.tryReserve(l, 150, "other"))
		w.same([]any{again.TaskID, again.SignalKey, again.OnExhausted}, []any{x.TaskID, x.SignalKey, "ask"}, "one question for each item")
		q := w.task(x.TaskID)
		w.same([]any{q.Type, q.State, q.ReadyForApproval}, []any{pawl.TypeBudget, pawl.TaskSubmitted, true}, "question")
		var asked pawl.BudgetQuestion
		w.ok(json.Unmarshal(w.onlyItem(x.TaskID).Result, &asked), "read the question")
		w.same(asked, pawl.BudgetQuestion{Budget: "b", Unit: "tokens", ItemID: l.ID, TaskID: t.ID, WorkerID: "w", Amount: 101, Limit: 100,
			Remaining: 100, Waiting: 1, Needed: 101}, "what is asked")
		w.suspendFor(l, pawl.BudgetSignal, x.SignalKey)
		b := w.onlyItem(t.ID).BlockedBy
		w.same([]any{b.Reason, b.Detail}, []any{pawl.BlockedByBudget, "b, asked in " + x.TaskID}, "blocked by")
		w.noneClaimable()
		w.ok(w.tryApprove(x.TaskID), "approve")
		w.same(w.task(x.TaskID).State, pawl.TaskCompleted, "question")
		w.budgetIs(101, 0, 0)
		w.reserve(w.claim("w"), 101, "k")
	}},
	{"what an item that came back has reserved itself does not keep a person from being asked", func(w *fixture) {
		w.putBudget(pawl.NewBudget{Limit: 100, OnExhausted: "ask"})
		w.oneItem()
		l := w.claim("w")
		w.reserve(l, 60, "a")
		x := w.exhausted(w.tryReserve(l, 50, "b"))
		w.same([]any{x.TaskID, x.Remaining, x.Reserved}, []any{"", int64(40), int64(60)}, "refusal")
		w.release(l)
		l = w.claim("w")
		w.reserve(l, 60, "a")
		x = w.exhausted(w.tryReserve(l, 50, "b"))
		w.same([]any{x.TaskID != "", x.Remaining, x.Reserved}, []any{true, int64(40), int64(60)}, "refusal")
		w.oneItem()
		other := w.claim("v")
		x = w.exhausted(w.tryReserve(other, 50, "b"))
		w.same([]any{x.TaskID, x.Remaining, x.Reserved}, []any{"", int64(40), int64(60)}, "refusal of another item")
	}},
	{"an approval may name the new limit of a budget", func(w *fixture) {
		w.putBudget(pawl.NewBudget{Limit: 100, OnExhausted: "ask"})
		w.oneItem()
		l := w.claim("w")
		x := w.exhausted(w.tryReserve(l, 200, "k"))
		approve := func(id string, limit int64) error {
			_, err := first(w.svc.ApproveTasks(w.ctx, []pawl.ApproveCall{{TaskID: id, Limit: &limit}}))
			return err
		}
		for _, limit := range []int64{0, -1, 199, pawl.MaxBudgetAmount + 1} {
			w.invalid(approve(x.TaskID, limit), "/limit")
		}
		w.ok(approve(x.TaskID, 500), "approve")
		w.budgetIs(500, 0, 0)
		w.suspendFor(l, pawl.BudgetSignal, x.SignalKey)
		w.reserve(w.claim("w"), 200, "k")
		w.refused(approve(x.TaskID, 600), pawl.CodeConflict)
		w.budgetIs(500, 0, 200)
	}},
	{"a rejected question fails its item, until the budget is changed", func(w *fixture) {
		for _, waits := range []bool{true, false} {
			w.putBudget(pawl.NewBudget{Limit: 100, OnExhausted: "ask"})
			w.oneItem()
			l := w.claim("w")
			x := w.exhausted(w.tryReserve(l, 101, "k"))
			if waits {
				w.suspendFor(l, pawl.BudgetSignal, x.SignalKey)
			}
			no := pawl.RejectCall{TaskID: x.TaskID, AllowRework: true, Errors: []pawl.Complaint{{Code: "no", Message: "no"}}}
			_, err := first(w.svc.RejectTasks(w.ctx, []pawl.RejectCall{no}))
			w.invalid(err, "/allow_rework")
			no.AllowRework = false
			_, err = first(w.svc.RejectTasks(w.ctx, []pawl.RejectCall{no}))
			w.ok(err, "reject")
			if !waits {
				w.suspendFor(l, pawl.BudgetSignal, x.SignalKey)
			}
			l = w.claim("w")
			x = w.exhausted(w.tryReserve(l, 101, "k"))
			w.same([]any{x.OnExhausted, x.TaskID}, []any{"fail", ""}, "refusal")
			w.putBudget(pawl.NewBudget{Limit: 100, OnExhausted: "ask"})
			x = w.exhausted(w.tryReserve(l, 101, "k"))
			w.same([]any{x.OnExhausted, x.TaskID != ""}, []any{"ask", true}, "refusal after a change")
			w.complete(l, `1`)
		}
	}},
	{"nobody is asked while others may settle, or when another change was enough", func(w *fixture) {
		w.putBudget(pawl.NewBudget{Limit: 100, OnExhausted: "ask"})
		w.oneItem()
		w.oneItem()
		l, other := w.claim("w"), w.claim("w")
		r := w.reserve(l, 60, "k")
		w.same(w.exhausted(w.tryReserve(other, 60, "k")).TaskID, "", "question")
		w.settle(l, r.Reservation, 50)
		x := w.exhausted(w.tryReserve(other, 60, "k"))
		w.suspendFor(other, pawl.BudgetSignal, x.SignalKey)
		w.putBudget(pawl.NewBudget{Limit: 105, OnExhausted: "ask"})
		other = w.claimItem("w", other.ID)
		y := w.exhausted(w.tryReserve(other, 60, "k"))
		w.same([]any{y.TaskID, y.SignalKey == x.SignalKey}, []any{x.TaskID, false}, "the question stays")
		w.sweep()
		w.same(w.task(x.TaskID).State, pawl.TaskSubmitted, "the question after a sweep")
		w.putBudget(pawl.NewBudget{Limit: 110, OnExhausted: "ask"})
		w.reserve(other, 60, "k")
		_, err := first(w.svc.ApproveTasks(w.ctx, []pawl.ApproveCall{{TaskID: x.TaskID}}))
		w.refused(err, pawl.CodeConflict)
		w.sweep()
		w.same(w.task(x.TaskID).State, pawl.TaskCancelled, "the question that needs no answer")
		w.budgetIs(110, 50, 60)
	}},
	{"the item of a cancelled or deleted question waits for a change of the budget", func(w *fixture) {
		for _, deletes := range []bool{false, true} {
			w.putBudget(pawl.NewBudget{Limit: 100, OnExhausted: "ask"})
			w.oneItem()
			l := w.claim("w")
			x := w.exhausted(w.tryReserve(l, 160, "k"))
			w.suspendFor(l, pawl.BudgetSignal, x.SignalKey)
			if deletes {
				_, err := first(w.svc.DeleteTasks(w.ctx, []pawl.TaskCall{{TaskID: x.TaskID, Force: true}}))
				w.ok(err, "delete")
			} else {
				_, err := pawl.Cancel(w.ctx, w.svc, x.TaskID, "")
				w.ok(err, "cancel")
			}
			w.sweep()
			w.same(w.item(l.ID).State, pawl.ItemWaiting, "the item")
			w.putBudget(pawl.NewBudget{Limit: 101, OnExhausted: "ask"})
			l = w.claimItem("w", l.ID)
			y := w.exhausted(w.tryReserve(l, 160, "k"))
			w.same(w.task(y.TaskID).State, pawl.TaskSubmitted, "another question")
			w.complete(l, `1`)
		}
	}},
	{"the question of an item that ended, or of a deleted budget, is cancelled", func(w *fixture) {
		for _, deleted := range []bool{false, true} {
			w.putBudget(pawl.NewBudget{Limit: 100, OnExhausted: "ask"})
			t := w.oneItem()
			x := w.exhausted(w.tryReserve(w.claim("w"), 101, "k"))
			if deleted {
				w.ok(w.svc.DeleteBudget(w.ctx, "b"), "delete")
			} else {
				w.cancel(t.ID)
			}
			w.sweep()
			w.same(w.task(x.TaskID).State, pawl.TaskCancelled, "question")
		}
	}},
	{"items that wait for a budget are queued when it is changed", func(w *fixture) {
		w.putBudget(pawl.NewBudget{Limit: 100, OnExhausted: "ask"})
		t := w.oneItem()
		l := w.claim("w")
		x := w.exhausted(w.tryReserve(l, 101, "k"))
		w.suspendFor(l, pawl.BudgetSignal, x.SignalKey)
		b := w.onlyItem(t.ID).BlockedBy
		w.same([]any{b.Reason, b.Detail}, []any{pawl.BlockedByBudget, "b, asked in " + x.TaskID}, "blocked by")
		w.same(w.task(t.ID).BlockedBy.Reason, pawl.BlockedByBudget, "the task is blocked by")
		w.noneClaimable()
		w.putBudget(pawl.NewBudget{Limit: 101, OnExhausted: "ask"})
		again := w.claim("w")
		w.reserve(again, 101, "k")
	}},
	{"an item that waits only after the change does not miss it", func(w *fixture) {
		w.putBudget(pawl.NewBudget{Limit: 100, OnExhausted: "ask"})
		w.oneItem()
		l := w.claim("w")
		x := w.exhausted(w.tryReserve(l, 101, "k"))
		w.putBudget(pawl.NewBudget{Limit: 200, OnExhausted: "ask"})
		w.suspendFor(l, pawl.BudgetSignal, x.SignalKey)
		again := w.claim("w")
		x = w.exhausted(w.tryReserve(again, 201, "k"))
		w.suspendFor(again, pawl.BudgetSignal, x.SignalKey)
		w.noneClaimable()
		w.ok(w.svc.DeleteBudget(w.ctx, "b"), "delete")
		w.claim("w")
	}},
	{"all items that wait for a budget ask one question, and an approval raises it by the sum", func(w *fixture) {
		w.putBudget(pawl.NewBudget{Limit: 100, OnExhausted: "ask"})
		waiting, q := w.allAsk(110, 120, 130)
		w.asked(q, 3, 360)
		w.same(w.task(q).Title, "Budget b: more tokens", "title")
		w.cancel(waiting[1].TaskID)
		w.asked(q, 2, 240)
		w.sweep()
		w.asked(q, 2, 240)
		w.ok(w.tryApprove(q), "approve")
		w.budgetIs(240, 0, 0)
		w.asked(q, 2, 240)
		for _, n := range []int64{110, 130} {
			l := w.claim("w")
			w.settle(l, w.reserve(l, n, "k").Reservation, n)
		}
		w.sweep()
		w.asked(q, 2, 240)
		_, next := w.allAsk(10)
		w.same(next != q, true, "who asks later opens another question")
		w.asked(next, 1, 10)
	}},
	{"an approval of a question of many goes to a limit that one of them fits in", func(w *fixture) {
		w.putBudget(pawl.NewBudget{Limit: 100, OnExhausted: "ask"})
		waiting, q := w.allAsk(200, 150)
		limit := int64(149)
		_, err := first(w.svc.ApproveTasks(w.ctx, []pawl.ApproveCall{{TaskID: q, Limit: &limit}}))
		w.invalid(err, "/limit")
		limit = 200
		_, err = first(w.svc.ApproveTasks(w.ctx, []pawl.ApproveCall{{TaskID: q, Limit: &limit}}))
		w.ok(err, "approve")
		w.reserve(w.claimItem("w", waiting[1].ID), 150, "k")
		again := w.claimItem("w", waiting[0].ID)
		x := w.exhausted(w.tryReserve(again, 200, "k"))
		w.same(x.TaskID, "", "question while the other may settle")
	}},
	{"a rejection fails the items that wait then, on the next day too, and no others", func(w *fixture) {
		w.putBudget(pawl.NewBudget{Limit: 100, OnExhausted: "ask", Period: "day"})
		waiting, q := w.allAsk(110, 120)
		w.advance(24 * time.Hour)
		no := pawl.RejectCall{TaskID: q, Errors: []pawl.Complaint{{Code: "no", Message: "no"}}}
		_, err := first(w.svc.RejectTasks(w.ctx, []pawl.RejectCall{no}))
		w.ok(err, "reject")
		_, err = first(w.svc.RejectTasks(w.ctx, []pawl.RejectCall{no}))
		w.refused(err, pawl.CodeConflict)
		w.asked(q, 2, 230)
		_, next := w.allAsk(130)
		w.sweep()
		for n, l := range waiting {
			l = w.claimItem("w", l.ID)
			x := w.exhausted(w.tryReserve(l, int64(110+10*n), "k"))
			w.same([]any{x.OnExhausted, x.TaskID}, []any{"fail", ""}, "refusal")
			w.same(w.exhausted(w.tryReserve(l, 150, "other")).OnExhausted, "fail", "refusal of another reservation")
			w.complete(l, `1`)
		}
		w.asked(next, 1, 130)
		w.sweep()
		w.asked(next, 1, 130)
		w.same(w.task(next).State, pawl.TaskSubmitted, "the other question")
	}},
	{"an item that its rejection has been told to asks again in the next period", func(w *fixture) {
		w.putBudget(pawl.NewBudget{Limit: 100, OnExhausted: "ask", Period: "day"})
		waiting, q := w.allAsk(110)
		no := pawl.RejectCall{TaskID: q, Errors: []pawl.Complaint{{Code: "no", Message: "no"}}}
		_, err := first(w.svc.RejectTasks(w.ctx, []pawl.RejectCall{no}))
		w.ok(err, "reject")
		l := w.claimItem("w", waiting[0].ID)
		w.same(w.exhausted(w.tryReserve(l, 110, "k")).OnExhausted, "fail", "refusal")
		w.release(l)
		w.advance(24 * time.Hour)
		l = w.claimItem("w", l.ID)
		x := w.exhausted(w.tryReserve(l, 110, "k"))
		w.same([]any{x.OnExhausted, x.TaskID != "", x.TaskID != q}, []any{"ask", true, true}, "refusal in the next period")
	}},
	{"whoever asks by a question, first or later, must not approve it", func(w *fixture) {
		w.putBudget(pawl.NewBudget{Limit: 100, OnExhausted: "ask"})
		var q string
		for _, worker := range []string{"w", "other"} {
			w.oneItem()
			q = w.exhausted(w.tryReserve(w.claim(worker), 110, "k")).TaskID
		}
		for _, worker := range []string{"w", "other"} {
			w.refused(w.as(pawl.ActorAgent, worker).tryApprove(q), pawl.CodeForbidden)
		}
	}},
}}

// allAsk makes items that wait for as much of the exhausted budget each. They ask one question.
func (w *fixture) allAsk(amounts ...int64) (waiting []pawl.Lease, question string) {
	for _, n := range amounts {
		t := w.oneItem()
		l := w.claimItem("w", w.onlyItem(t.ID).ID)
		x := w.exhausted(w.tryReserve(l, n, "k"))
		w.same([]any{x.TaskID != "", question == "" || x.TaskID == question}, []any{true, true}, "one question for all")
		question = x.TaskID
		w.suspendFor(l, pawl.BudgetSignal, x.SignalKey)
		waiting = append(waiting, l)
	}
	return waiting, question
}

// asked checks what a question says about the items that wait.
func (w *fixture) asked(task string, waiting int, needed int64) {
	for what, value := range map[string]json.RawMessage{"payload": w.task(task).Payload, "result": w.onlyItem(task).Result} {
		var q pawl.BudgetQuestion
		w.ok(json.Unmarshal(value, &q), "read the "+what)
		w.same([]any{q.Waiting, q.Needed}, []any{waiting, needed}, what)
	}
}
