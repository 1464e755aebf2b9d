package suite

import (
	"encoding/json"

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
			Remaining: 100}, "what is asked")
		w.suspendFor(l, pawl.BudgetSignal, x.SignalKey)
		b := w.onlyItem(t.ID).BlockedBy
		w.same([]any{b.Reason, b.Detail}, []any{pawl.BlockedByBudget, "b, asked in " + x.TaskID}, "blocked by")
		w.noneClaimable()
		w.ok(w.tryApprove(x.TaskID), "approve")
		w.same(w.task(x.TaskID).State, pawl.TaskCompleted, "question")
		w.budgetIs(101, 0, 0)
		w.reserve(w.claim("w"), 101, "k")
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
}}
