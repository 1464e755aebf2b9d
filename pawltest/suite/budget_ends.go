package suite

import (
	"time"

	"github.com/pawl-work/pawl"
)

var budgetEnds = noun{"budgets after an end", []promise{
	{"the first call after the end of a period is answered by the new one", func(w *fixture) {
		w.putBudget(pawl.NewBudget{Limit: 100, Period: "day"})
		w.oneItem()
		l := w.claims(pawl.ClaimRequest{WorkerID: "w", LeaseSeconds: pawl.MaxLeaseSeconds})[0]
		r := w.reserve(l, 60, "1")
		w.advance(w.now().Truncate(24 * time.Hour).Add(24 * time.Hour).Sub(w.now()))
		w.same(w.settle(l, r.Reservation, 50), pawl.Settled{Remaining: 100}, "settled")
		w.budgetIs(100, 0, 0)
		w.same(w.spending("agent", true), "50 w=50/1", "spent on all days")
	}},
	{"what a later attempt settles counts for its agent", func(w *fixture) {
		w.putBudget(pawl.NewBudget{Limit: 100})
		w.oneItem()
		r := w.reserve(w.withProvenance(pawl.Provenance{AgentID: "ana", Model: "m-1"}).claim("w1"), 10, "1")
		w.advance(pawl.DefaultLeaseSeconds * time.Second)
		w.sweep()
		w.settle(w.withProvenance(pawl.Provenance{AgentID: "bob", Model: "m-2"}).claim("w2"), r.Reservation, 8)
		w.same(w.spending("agent", false), "8 bob=8/1", "by agent")
		w.same(w.spending("model", false), "8 m-2=8/1", "by model")
	}},
	{"what was spent in a past period is told alone", func(w *fixture) {
		w.putBudget(pawl.NewBudget{Limit: 100, Period: "day"})
		w.oneItem()
		l := w.claims(pawl.ClaimRequest{WorkerID: "w", LeaseSeconds: pawl.MaxLeaseSeconds})[0]
		began := w.now()
		w.settle(l, w.reserve(l, 60, "1").Reservation, 50)
		late := w.reserve(l, 3, "late").Reservation
		w.advance(began.Truncate(24 * time.Hour).Add(24 * time.Hour).Sub(began))
		w.settle(l, w.reserve(l, 60, "2").Reservation, 7)
		spent := func(f pawl.BudgetSpendingFilter) pawl.BudgetSpending {
			s, err := w.svc.BudgetSpending(w.ctx, "b", f)
			w.ok(err, "spending")
			return s
		}
		for _, by := range pawl.SpendingGroups {
			past := spent(pawl.BudgetSpendingFilter{By: by, Ago: 1})
			w.same([]any{past.Spent, len(past.Items), past.Items[0].Spent}, []any{int64(50), 1, int64(50)}, by)
			w.timeIs(past.Since, began, "since")
		}
		w.same([]int64{spent(pawl.BudgetSpendingFilter{}).Spent, spent(pawl.BudgetSpendingFilter{All: true}).Spent,
			spent(pawl.BudgetSpendingFilter{Ago: 2}).Spent}, []int64{7, 57, 0}, "the current, all and an earlier period")
		w.settle(l, late, 0)
		w.complete(l, `1`)
		for range 3 { // periods without a reservation: the budget is changed in each of them
			w.advance(24 * time.Hour)
			w.putBudget(pawl.NewBudget{Limit: 200, Period: "day"})
		}
		w.same([]int64{spent(pawl.BudgetSpendingFilter{}).Spent, spent(pawl.BudgetSpendingFilter{Ago: 1}).Spent,
			spent(pawl.BudgetSpendingFilter{Ago: 2}).Spent, spent(pawl.BudgetSpendingFilter{Ago: 3}).Spent}, []int64{0, 7, 50, 0}, "after changes")
		w.advance(began.Add(pawl.BudgetDetailKept + time.Second).Sub(w.now())) // one that was settled later is left
		w.sweep()
		past := spent(pawl.BudgetSpendingFilter{Ago: 2})
		w.same([]any{past.Spent, past.Since}, []any{int64(50), (*time.Time)(nil)}, "summed up")
		_, err := w.svc.BudgetSpending(w.ctx, "b", pawl.BudgetSpendingFilter{Ago: pawl.MaxPeriodsAgo + 1})
		w.invalid(err, "/period")
		_, err = w.svc.BudgetSpending(w.ctx, "b", pawl.BudgetSpendingFilter{All: true, Ago: 1})
		w.invalid(err, "/period")
	}},
}}
