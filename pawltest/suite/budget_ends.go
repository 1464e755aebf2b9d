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
}}
