package suite

import (
	"fmt"
	"strings"
	"time"

	"github.com/pawl-work/pawl"
)

// putBudget makes or changes the budget b.
func (w *fixture) putBudget(b pawl.NewBudget) pawl.Budget {
	w.Helper()
	if b.Unit == "" {
		b.Unit = "tokens"
	}
	out, err := w.svc.PutBudget(w.ctx, "b", b)
	w.ok(err, "put budget")
	return out
}

// budgetIs checks limit, spent, reserved and remaining of the budget b.
func (w *fixture) budgetIs(limit, spent, reserved int64) {
	w.Helper()
	b, err := w.svc.GetBudget(w.ctx, "b")
	w.ok(err, "get budget")
	w.same([]int64{b.Limit, b.Spent, b.Reserved, b.Remaining}, []int64{limit, spent, reserved, limit - spent - reserved},
		"limit, spent, reserved, remaining")
}

func reserveCall(l pawl.Lease, amount int64, key string) pawl.ReserveCall {
	return pawl.ReserveCall{ItemID: l.ID, WorkerID: l.WorkerID, Attempt: l.Attempt, Amount: amount, Key: key}
}

func (w *fixture) tryReserve(l pawl.Lease, amount int64, key string) error {
	_, err := w.svc.ReserveBudget(w.ctx, "b", reserveCall(l, amount, key))
	return err
}

func (w *fixture) reserve(l pawl.Lease, amount int64, key string) pawl.Reserved {
	w.Helper()
	r, err := w.svc.ReserveBudget(w.ctx, "b", reserveCall(l, amount, key))
	w.ok(err, "reserve")
	return r
}

func (w *fixture) trySettle(l pawl.Lease, reservation string, amount int64) (pawl.Settled, error) {
	return w.svc.SettleBudget(w.ctx, "b", pawl.SettleCall{Reservation: reservation, Amount: amount, ItemID: l.ID, WorkerID: l.WorkerID,
		Attempt: l.Attempt})
}

func (w *fixture) settle(l pawl.Lease, reservation string, amount int64) pawl.Settled {
	w.Helper()
	s, err := w.trySettle(l, reservation, amount)
	w.ok(err, "settle")
	return s
}

// exhausted checks a refusal of the budget b, and returns what it says.
func (w *fixture) exhausted(err error) pawl.Exhausted {
	w.Helper()
	e := w.refused(err, pawl.CodeBudgetExhausted)
	if e.Exhausted == nil {
		w.Fatalf("%v does not say what is left", err)
	}
	return *e.Exhausted
}

// spending returns what was spent of the budget b, as name=spent/reservations.
func (w *fixture) spending(by string, all bool) string {
	w.Helper()
	s, err := w.svc.BudgetSpending(w.ctx, "b", pawl.BudgetSpendingFilter{By: by, All: all})
	w.ok(err, "spending")
	out := []string{fmt.Sprint(s.Spent)}
	for _, i := range s.Items {
		out = append(out, fmt.Sprintf("%s=%d/%d", i.Name, i.Spent, i.Reservations))
	}
	return strings.Join(out, " ")
}

var budgets = noun{"budgets", []promise{
	{"an amount is reserved before it is spent, and settled afterwards", func(w *fixture) {
		b := w.putBudget(pawl.NewBudget{Limit: 100})
		w.same(b, pawl.Budget{Name: "b",
			NewBudget: pawl.NewBudget{Unit: "tokens", Limit: 100, Period: "none", OnExhausted: "fail", OnLost: "charge"},
			Remaining: 100, PeriodStart: w.now(), CreatedAt: w.now(), UpdatedAt: w.now(), Created: true}, "budget")
		w.oneItem()
		l := w.claim("w")
		r := w.reserve(l, 60, "call 1")
		w.same([]any{r.Reservation != "", r.Amount, r.Remaining, r.Settled}, []any{true, int64(60), int64(40), (*int64)(nil)}, "answer")
		w.budgetIs(100, 0, 60)
		w.same(w.settle(l, r.Reservation, 25), pawl.Settled{Remaining: 75, Spent: 25}, "answer")
		w.budgetIs(100, 25, 0)
	}},
	{"more than is left is refused and changes nothing", func(w *fixture) {
		w.putBudget(pawl.NewBudget{Limit: 100, Period: "day", OnExhausted: "ask"})
		w.oneItem()
		l := w.claim("w")
		r := w.reserve(l, 60, "1")
		x := w.exhausted(w.tryReserve(l, 41, "2"))
		w.same([]any{x.Budget, x.OnExhausted, x.Limit, x.Remaining, x.Reserved}, []any{"b", "ask", int64(100), int64(40), int64(60)}, "refusal")
		w.timeIs(x.PeriodEnd, w.now().Truncate(24*time.Hour).Add(24*time.Hour), "end of the period")
		w.budgetIs(100, 0, 60)
		w.reserve(l, 40, "2")
		w.exhausted(w.tryReserve(l, 1, "3"))
		w.settle(l, r.Reservation, 59)
		w.reserve(l, 1, "3")
		w.budgetIs(100, 59, 41)
		w.exhausted(w.tryReserve(l, 101, "4"))
	}},
	{"the same key is the same reservation", func(w *fixture) {
		w.putBudget(pawl.NewBudget{Limit: 100})
		w.oneItem()
		l := w.claim("w")
		first := w.reserve(l, 60, "k")
		w.same(w.reserve(l, 60, "k"), first, "again")
		w.same(w.reserve(l, 80, "k"), first, "with another amount")
		w.settle(l, first.Reservation, 10)
		again := w.reserve(l, 60, "k")
		w.same([]any{again.Reservation, again.Remaining, *again.Settled}, []any{first.Reservation, int64(90), int64(10)}, "once it is settled")
		w.budgetIs(100, 10, 0)
		w.oneItem()
		other := w.reserve(w.claim("w"), 60, "k")
		w.same(other.Reservation == first.Reservation, false, "of another item")
	}},
	{"a reservation is settled once; the same amount again changes nothing", func(w *fixture) {
		w.putBudget(pawl.NewBudget{Limit: 100})
		w.oneItem()
		l := w.claim("w")
		r := w.reserve(l, 60, "k")
		first := w.settle(l, r.Reservation, 0)
		w.same(first, pawl.Settled{Remaining: 100}, "answer")
		w.same(w.settle(l, r.Reservation, 0), first, "again")
		_, err := w.trySettle(l, r.Reservation, 1)
		w.refused(err, pawl.CodeConflict)
		_, err = w.trySettle(l, "rsv_none", 1)
		w.refused(err, pawl.CodeNotFound)
		w.oneItem()
		_, err = w.trySettle(w.claim("w"), r.Reservation, 0)
		w.refused(err, pawl.CodeNotFound)
		_, err = w.svc.SettleBudget(w.ctx, "none", pawl.SettleCall{Reservation: r.Reservation, ItemID: l.ID, WorkerID: "w", Attempt: 1})
		w.refused(err, pawl.CodeNotFound)
		w.budgetIs(100, 0, 0)
	}},
	{"more than was reserved is recorded, and the budget is overdrawn", func(w *fixture) {
		w.putBudget(pawl.NewBudget{Limit: 100})
		w.oneItem()
		l := w.claim("w")
		w.same(w.settle(l, w.reserve(l, 60, "k").Reservation, 130), pawl.Settled{Remaining: -30, Spent: 130}, "answer")
		x := w.exhausted(w.tryReserve(l, 1, "2"))
		w.same(x.Remaining, int64(-30), "remaining")
		w.budgetIs(100, 130, 0)
	}},
	{"only the holder of the lease reserves and settles", func(w *fixture) {
		w.putBudget(pawl.NewBudget{Limit: 100})
		w.oneItem()
		l := w.claim("w")
		r := w.reserve(l, 60, "k")
		other := l
		other.WorkerID = "x"
		w.refused(w.tryReserve(other, 1, "2"), pawl.CodeLeaseLost)
		w.advance(time.Duration(l.LeaseSeconds) * time.Second)
		w.leaseLost(w.tryReserve(l, 1, "2"), pawl.ReasonExpired, "leased", "w", 1)
		_, err := w.trySettle(l, r.Reservation, 1)
		w.refused(err, pawl.CodeLeaseLost)
		w.budgetIs(100, 0, 60)
	}},
	{"a later attempt adopts the reservation of its key", func(w *fixture) {
		w.putBudget(pawl.NewBudget{Limit: 100})
		w.oneItem()
		l := w.claim("w1")
		r := w.reserve(l, 60, "k")
		w.failNow(l, "died")
		again := w.claim("w2")
		w.same(w.reserve(again, 60, "k"), r, "adopted")
		w.sweep()
		w.budgetIs(100, 0, 60)
		w.settle(again, r.Reservation, 50)
		w.budgetIs(100, 50, 0)
		w.same(w.spending("agent", false), "50 w2=50/1", "the attempt that settles has spent")
	}},
	{"a later attempt that asks for more than it adopts needs the difference", func(w *fixture) {
		for n, lost := range pawl.BudgetLosses {
			w.putBudget(pawl.NewBudget{Limit: 100 * int64(n+1), OnLost: lost})
			w.oneItem()
			l := w.claim("w1")
			r := w.reserve(l, 60, "k")
			w.failNow(l, "died")
			again := w.claim("w2")
			w.same(w.exhausted(w.tryReserve(again, 101, "k")).Limit, 100*int64(n+1), "limit")
			w.same(w.reserve(again, 90, "k"), pawl.Reserved{Reservation: r.Reservation, Amount: 90, Remaining: 10}, "adopted")
			w.failNow(again, "died")
			last := w.claim("w3")
			w.exhausted(w.tryReserve(last, 200, "k"))
			w.same(w.reserve(last, 100, "k"), pawl.Reserved{Reservation: r.Reservation, Amount: 100}, "adopted again")
			w.budgetIs(100*int64(n+1), 100*int64(n), 100)
			w.settle(last, r.Reservation, 100)
			w.complete(last, `1`)
		}
	}},
	{"a reservation of an earlier period is lost there, and reserved anew", func(w *fixture) {
		for n, lost := range []string{pawl.LostReturn, pawl.LostCharge} {
			w.putBudget(pawl.NewBudget{Limit: 100, Period: "day", OnLost: lost})
			w.oneItem()
			l := w.claim("w1")
			r := w.reserve(l, 60, "k")
			w.failNow(l, "died")
			w.advance(24 * time.Hour)
			again := w.claim("w2")
			w.exhausted(w.tryReserve(again, 101, "k"))
			anew := w.reserve(again, 70, "k")
			w.same([]any{anew.Reservation == r.Reservation, anew.Amount, anew.Remaining}, []any{n == 0, int64(70), int64(30)}, "anew")
			w.same(w.reserve(again, 70, "k"), anew, "again")
			w.budgetIs(100, 0, 70)
			w.settle(again, anew.Reservation, 50)
			w.complete(again, `1`)
			w.sweep()
			w.budgetIs(100, 50, 0)
			w.advance(24 * time.Hour)
		}
		w.same(w.spending("agent", true), "160 w2=100/2 w1=60/1", "spent on all days")
	}},
	{"what an attempt does not settle is charged, and a later attempt that adopts it pays once", func(w *fixture) {
		w.putBudget(pawl.NewBudget{Limit: 100})
		w.oneItem()
		l := w.claim("w1")
		r := w.reserve(l, 60, "k")
		w.expire(l)
		w.budgetIs(100, 60, 0)
		w.advance(2 * time.Hour)
		w.sweep()
		again := w.claim("w2")
		w.exhausted(w.tryReserve(again, 41, "other"))
		w.same(w.reserve(again, 60, "k"), r, "adopted")
		w.budgetIs(100, 0, 60)
		w.settle(again, r.Reservation, 70)
		w.budgetIs(100, 70, 0)
	}},
	{"a refusal says what may come back from lost attempts", func(w *fixture) {
		w.putBudget(pawl.NewBudget{Limit: 100, OnExhausted: "suspend"})
		t := w.oneItem()
		w.oneItem()
		l, other := w.claim("w1"), w.claim("w1")
		w.reserve(l, 60, "k")
		w.failNow(l, "died")
		x := w.exhausted(w.tryReserve(other, 60, "k"))
		w.same([]int64{x.Remaining, x.Reserved}, []int64{40, 60}, "while its item may run again")
		again := w.claimItem("w2", l.ID)
		r := w.reserve(again, 60, "k")
		w.settle(again, r.Reservation, 1)
		w.reserve(other, 60, "k")
		w.cancel(t.ID)
		w.failNow(other, "died")
		last := w.claimItem("w3", other.ID)
		w.same(w.exhausted(w.tryReserve(last, 100, "z")).Reserved, int64(60), "of the item itself")
		w.cancel(last.TaskID)
		w.oneItem()
		w.same(w.exhausted(w.tryReserve(w.claim("w"), 60, "k")).Reserved, int64(0), "when its item has ended")
	}},
	{"what an attempt does not settle is returned if the budget says so", func(w *fixture) {
		w.putBudget(pawl.NewBudget{Limit: 100, OnLost: "return"})
		w.oneItem()
		w.oneItem()
		l, other := w.claim("w1"), w.claim("w1")
		r := w.reserve(l, 60, "k")
		w.exhausted(w.tryReserve(other, 50, "k"))
		w.release(l)
		theirs := w.reserve(other, 50, "k") // the refusal takes the lost one back first
		w.budgetIs(100, 0, 50)
		again := w.claimItem("w2", l.ID)
		w.exhausted(w.tryReserve(again, 60, "k"))
		w.settle(other, theirs.Reservation, 5)
		w.same(w.reserve(again, 61, "k"), pawl.Reserved{Reservation: r.Reservation, Amount: 61, Remaining: 34}, "reserved anew")
		w.complete(again, `1`)
		w.sweep()
		w.budgetIs(100, 5, 0)
	}},
	{"however a lease ends, nothing stays reserved", func(w *fixture) {
		w.putBudget(pawl.NewBudget{Limit: 1000, OnLost: "return"})
		ends := []func(l pawl.Lease){
			func(l pawl.Lease) { w.complete(l, `1`) },
			func(l pawl.Lease) { w.failPermanently(l, "no") },
			func(l pawl.Lease) { w.release(l) },
			func(l pawl.Lease) { w.suspendFor(l, "never", "") },
			func(l pawl.Lease) { w.cancel(l.TaskID) },
			func(l pawl.Lease) { w.remove(l.TaskID, true) },
			func(l pawl.Lease) {
				_, err := first(w.svc.RevokeLeases(w.ctx, []pawl.RevokeCall{{ItemID: l.ID}}))
				w.ok(err, "revoke")
			},
		}
		for _, end := range ends {
			t := w.oneItem()
			l := w.claimItem("w", w.onlyItem(t.ID).ID)
			w.reserve(l, 10, "k")
			end(l)
		}
		w.budgetIs(1000, 0, 10*int64(len(ends)))
		w.sweep()
		w.budgetIs(1000, 0, 0)
	}},
	{"a period begins at midnight UTC, and a reservation is charged where it was made", func(w *fixture) {
		w.putBudget(pawl.NewBudget{Limit: 100, Period: "day"})
		w.oneItem()
		l := w.claims(pawl.ClaimRequest{WorkerID: "w", LeaseSeconds: pawl.MaxLeaseSeconds})[0]
		early, late := w.reserve(l, 60, "1"), w.reserve(l, 40, "2")
		w.settle(l, early.Reservation, 50)
		midnight := w.now().Truncate(24 * time.Hour).Add(24 * time.Hour)
		w.advance(midnight.Sub(w.now()) - time.Second)
		_, err := pawl.Heartbeat(w.ctx, w.svc, l.Fence())
		w.ok(err, "heartbeat")
		w.exhausted(w.tryReserve(l, 11, "3"))
		w.advance(time.Second)
		w.budgetIs(100, 0, 0)
		w.reserve(l, 100, "3")
		w.same(w.settle(l, late.Reservation, 45), pawl.Settled{}, "of the day before")
		w.budgetIs(100, 0, 100)
		b, err := w.svc.GetBudget(w.ctx, "b")
		w.ok(err, "get")
		w.same(b.PeriodStart, midnight, "start")
		w.timeIs(b.PeriodEnd, midnight.Add(24*time.Hour), "end")
		w.same(w.spending("agent", false), "0", "spent today")
		w.same(w.spending("agent", true), "95 w=95/2", "spent on all days")
	}},
	{"a month is a month", func(w *fixture) {
		w.putBudget(pawl.NewBudget{Limit: 100, Period: "month"})
		b, err := w.svc.GetBudget(w.ctx, "b")
		w.ok(err, "get")
		y, m, _ := w.now().UTC().Date()
		w.same(b.PeriodStart, time.Date(y, m, 1, 0, 0, 0, 0, time.UTC), "start")
		w.timeIs(b.PeriodEnd, time.Date(y, m+1, 1, 0, 0, 0, 0, time.UTC), "end")
	}},
}}

var budgetKeeping = noun{"budget keeping", []promise{
	{"a budget is changed, listed and deleted", func(w *fixture) {
		first := w.putBudget(pawl.NewBudget{Limit: 100})
		w.oneItem()
		l := w.claim("w")
		r := w.reserve(l, 60, "k")
		w.advance(time.Second)
		b := w.putBudget(pawl.NewBudget{Limit: 50, Period: "day", OnExhausted: "suspend", OnLost: "return"})
		w.same([]any{b.Created, b.Limit, b.Reserved, b.Remaining, b.CreatedAt, b.UpdatedAt},
			[]any{false, int64(50), int64(60), int64(-10), first.CreatedAt, w.now()}, "budget")
		w.same(w.settle(l, r.Reservation, 60).Remaining, int64(-10), "remaining")
		_, err := w.svc.PutBudget(w.ctx, "a", pawl.NewBudget{Unit: "x", Limit: 1})
		w.ok(err, "put")
		list, err := w.svc.ListBudgets(w.ctx, pawl.Page{Limit: 1})
		w.ok(err, "list")
		w.same([]any{list.Items[0].Name, list.Next != ""}, []any{"a", true}, "first page")
		list, err = w.svc.ListBudgets(w.ctx, pawl.Page{Cursor: list.Next})
		w.ok(err, "list")
		w.same([]any{list.Items[0].Name, len(list.Items), list.Next}, []any{"b", 1, ""}, "second page")
		w.ok(w.svc.DeleteBudget(w.ctx, "b"), "delete")
		_, err = w.svc.GetBudget(w.ctx, "b")
		w.refused(err, pawl.CodeNotFound)
		w.refused(w.svc.DeleteBudget(w.ctx, "b"), pawl.CodeNotFound)
		w.refused(w.tryReserve(l, 1, "2"), pawl.CodeNotFound)
		w.sweep()
		w.same(w.putBudget(pawl.NewBudget{Limit: 7, Unit: "requests"}).Remaining, int64(7), "a new one of the name")
	}},
	{"a budget is deleted while an attempt has reserved, whose settle is then refused", func(w *fixture) {
		w.putBudget(pawl.NewBudget{Limit: 100})
		w.oneItem()
		l := w.claim("w")
		r := w.reserve(l, 60, "k")
		w.ok(w.svc.DeleteBudget(w.ctx, "b"), "delete")
		_, err := w.trySettle(l, r.Reservation, 50)
		w.refused(err, pawl.CodeNotFound)
		w.putBudget(pawl.NewBudget{Limit: 100})
		_, err = w.trySettle(l, r.Reservation, 50)
		w.refused(err, pawl.CodeNotFound)
		w.budgetIs(100, 0, 0)
		w.complete(l, `1`)
	}},
	{"the unit stays once there is a reservation", func(w *fixture) {
		w.putBudget(pawl.NewBudget{Limit: 100, Unit: "usd_micro"})
		w.putBudget(pawl.NewBudget{Limit: 100, Unit: "eur_micro"})
		w.oneItem()
		l := w.claim("w")
		w.settle(l, w.reserve(l, 60, "k").Reservation, 0)
		_, err := w.svc.PutBudget(w.ctx, "b", pawl.NewBudget{Limit: 100, Unit: "usd_micro"})
		w.refused(err, pawl.CodeConflict)
		call := reserveCall(l, 1, "2")
		call.Unit = "usd_micro"
		_, err = w.svc.ReserveBudget(w.ctx, "b", call)
		w.invalid(err, "/unit")
		call.Unit = "eur_micro"
		_, err = w.svc.ReserveBudget(w.ctx, "b", call)
		w.ok(err, "reserve")
	}},
	{"a budget applies to a type or to a task", func(w *fixture) {
		w.putBudget(pawl.NewBudget{Limit: 100, AppliesTo: &pawl.BudgetScope{Type: "a"}})
		t := w.create(pawl.NewTask{Type: "a"})
		w.create(pawl.NewTask{Type: "b"})
		a := w.claims(pawl.ClaimRequest{WorkerID: "w", Types: []string{"a"}})[0]
		b := w.claims(pawl.ClaimRequest{WorkerID: "w", Types: []string{"b"}})[0]
		w.reserve(a, 1, "k")
		w.refused(w.tryReserve(b, 1, "k"), pawl.CodeConflict)
		w.putBudget(pawl.NewBudget{Limit: 100, AppliesTo: &pawl.BudgetScope{TaskID: t.ID}})
		w.reserve(a, 1, "k2")
		w.refused(w.tryReserve(b, 1, "k"), pawl.CodeConflict)
		_, err := w.svc.PutBudget(w.ctx, "b", pawl.NewBudget{Unit: "tokens", Limit: 1, AppliesTo: &pawl.BudgetScope{TaskID: "tsk_none"}})
		w.refused(err, pawl.CodeNotFound)
		for n, parent := range []string{t.ID, ""} {
			child := w.create(pawl.NewTask{Type: "c", ParentID: parent})
			w.create(pawl.NewTask{Type: "d", ParentID: child.ID})
			for _, typ := range []string{"c", "d"} {
				l := w.claims(pawl.ClaimRequest{WorkerID: "w", Types: []string{typ}})[0]
				if err := w.tryReserve(l, 1, "k"); n == 0 {
					w.ok(err, "reserve of a descendant")
				} else {
					w.refused(err, pawl.CodeConflict)
				}
			}
		}
		w.budgetIs(100, 0, 4)
		w.putBudget(pawl.NewBudget{Limit: 100, AppliesTo: &pawl.BudgetScope{}})
		w.reserve(b, 1, "k")
	}},
	{"budgets are of a namespace", func(w *fixture) {
		w.putBudget(pawl.NewBudget{Limit: 100})
		other := w.in("other")
		_, err := other.svc.GetBudget(other.ctx, "b")
		w.refused(err, pawl.CodeNotFound)
		other.oneItem()
		w.refused(other.tryReserve(other.claim("w"), 1, "k"), pawl.CodeNotFound)
	}},
	{"absurd budgets and amounts are refused", func(w *fixture) {
		put := func(name string, change func(b *pawl.NewBudget)) error {
			b := pawl.NewBudget{Unit: "tokens", Limit: 1}
			change(&b)
			_, err := w.svc.PutBudget(w.ctx, name, b)
			return err
		}
		for _, limit := range []int64{0, -1, pawl.MaxBudgetAmount + 1} {
			w.invalid(put("b", func(b *pawl.NewBudget) { b.Limit = limit }), "/limit")
		}
		w.invalid(put("b", func(b *pawl.NewBudget) { b.Unit = "" }), "/unit")
		w.invalid(put("b", func(b *pawl.NewBudget) { b.Unit = "US dollars" }), "/unit")
		w.invalid(put("b", func(b *pawl.NewBudget) { b.Period = "week" }), "/period")
		w.invalid(put("b", func(b *pawl.NewBudget) { b.OnExhausted = "shout" }), "/on_exhausted")
		w.invalid(put("b", func(b *pawl.NewBudget) { b.OnLost = "keep" }), "/on_lost")
		w.invalid(put("a@b", func(*pawl.NewBudget) {}), "/name")
		w.invalid(put(strings.Repeat("n", pawl.MaxBudgetNameLen+1), func(*pawl.NewBudget) {}), "/name")
		w.putBudget(pawl.NewBudget{Limit: pawl.MaxBudgetAmount})
		w.oneItem()
		l := w.claim("w")
		for _, amount := range []int64{0, -1, pawl.MaxBudgetAmount + 1} {
			w.invalid(w.tryReserve(l, amount, "k"), "/amount")
		}
		w.invalid(w.tryReserve(l, 1, ""), "/key")
		w.invalid(w.tryReserve(l, 1, strings.Repeat("k", pawl.MaxKeyLen+1)), "/key")
		r := w.reserve(l, pawl.MaxBudgetAmount, "k")
		_, err := w.trySettle(l, r.Reservation, -1)
		w.invalid(err, "/amount")
		_, err = w.svc.BudgetSpending(w.ctx, "b", pawl.BudgetSpendingFilter{By: "weather"})
		w.invalid(err, "/by")
	}},
	{"spending is told by task, model and agent, and outlives the task", func(w *fixture) {
		w.putBudget(pawl.NewBudget{Limit: 100})
		t := w.oneItem()
		l := w.withProvenance(pawl.Provenance{AgentID: "ana", Model: "m-1"}).claims(
			pawl.ClaimRequest{WorkerID: "w", LeaseSeconds: pawl.MaxLeaseSeconds})[0]
		w.settle(l, w.reserve(l, 10, "1").Reservation, 8)
		call := reserveCall(l, 10, "2")
		call.AgentID, call.Model = "bob", "m-2"
		r, err := w.svc.ReserveBudget(w.ctx, "b", call)
		w.ok(err, "reserve")
		w.settle(l, r.Reservation, 3)
		w.reserve(l, 10, "open")
		w.same(w.spending("task", false), fmt.Sprintf("11 %s=11/2", t.ID), "by task")
		w.same(w.spending("model", false), "11 m-1=8/1 m-2=3/1", "by model")
		w.same(w.spending("agent", false), "11 ana=8/1 bob=3/1", "by agent")
		w.same(w.spending("type", false), fmt.Sprintf("11 %s=11/2", t.Type), "by type")
		w.same(w.spending("key", false), "11 1=8/1 2=3/1", "by key")
		today := w.now().Format(time.DateOnly)
		w.same(w.spending("day", false), fmt.Sprintf("11 %s=11/2", today), "by day")
		for range 2 { // its lease would end in a day
			w.advance(12 * time.Hour)
			w.heartbeat(l)
		}
		w.settle(l, w.reserve(l, 5, "3").Reservation, 4)
		w.same(w.spending("day", false), fmt.Sprintf("15 %s=4/1 %s=11/2", w.now().Format(time.DateOnly), today), "by day, the newest first")
		w.complete(l, `1`)
		w.advance(pawl.BudgetDetailKept + 2*time.Hour)
		w.sweep()
		w.same(w.spending("task", false), "25 =25/4", "by task, of a task that is gone")
		w.same(w.spending("agent", false), "25 ana=22/3 bob=3/1", "by agent")
		w.budgetIs(100, 25, 0)
		w.advance(pawl.BudgetDetailKept)
		w.sweep()
		w.same(w.spending("task", true), "25 =25/4", "by task, summed up")
		w.same(w.spending("agent", true), "25 ana=22/3 bob=3/1", "by agent, summed up")
		w.budgetIs(100, 25, 0)
	}},
}}
