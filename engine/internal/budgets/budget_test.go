package budgets_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/engine"
	"github.com/pawl-work/pawl/pawltest"
)

// On PostgreSQL a reservation and its settlement are one statement each.
func TestAReservationAndItsSettlementAreTwoStatements(t *testing.T) {
	for which, most := range map[pawltest.Database]int64{pawltest.Postgres: 2, pawltest.SQLite: 12} {
		t.Run(string(which), func(t *testing.T) {
			var told atomic.Int64
			p := pawltest.OpenWith(t, which, engine.Options{Statement: func(string) { told.Add(1) }})
			ctx := t.Context()
			pawltest.Must[pawl.Budget](t)(p.Engine.PutBudget(ctx, "b", pawl.NewBudget{Unit: "x", Limit: 100, Period: pawl.PeriodDay}))
			pawltest.Must[pawl.Task](t)(pawl.Create(ctx, p.Engine, pawl.NewTask{Type: "a"}))
			l := leases(t, p.Engine, pawl.ClaimRequest{WorkerID: "w"}, 1)[0]
			told.Store(0)
			r := pawltest.Must[pawl.Reserved](t)(p.Engine.ReserveBudget(ctx, "b", reserveOf(l, 10, "k")))
			s := pawltest.Must[pawl.Settled](t)(p.Engine.SettleBudget(ctx, "b", settleOf(l, r, 7)))
			if told.Load() > most {
				t.Errorf("%d statements", told.Load())
			}
			if r.Remaining != 90 || s != (pawl.Settled{Remaining: 93, Spent: 7}) {
				t.Errorf("%+v, %+v", r, s)
			}
		})
	}
}

// A budget applies to one key of a queue.
func TestABudgetAppliesToAKey(t *testing.T) {
	pawltest.Each(t, func(t *testing.T, p *pawltest.Pawl) {
		ctx := t.Context()
		rules := `{"per_key":{"pointer":"/tenant","concurrency":5}}`
		pawltest.Must[pawl.Queue](t)(p.Engine.SetQueue(ctx, "a", []byte(rules)))
		pawltest.Must[pawl.Budget](t)(p.Engine.PutBudget(ctx, "b",
			pawl.NewBudget{Unit: "x", Limit: 100, AppliesTo: &pawl.BudgetScope{Type: "a", Key: "t1"}}))
		for _, tenant := range []string{"t1", "t2"} {
			pawltest.Must[pawl.Task](t)(pawl.Create(ctx, p.Engine, pawl.NewTask{Type: "a", Payload: []byte(`{"tenant":"` + tenant + `"}`)}))
		}
		for _, l := range leases(t, p.Engine, pawl.ClaimRequest{WorkerID: "w", Limit: 2}, 2) {
			_, err := p.Engine.ReserveBudget(ctx, "b", reserveOf(l, 10, "k"))
			if ours := strings.Contains(string(l.Input), "t1"); ours != (err == nil) || !ours && !errors.Is(err, pawl.ErrConflict) {
				t.Errorf("%s: %v", l.Input, err)
			}
		}
	})
}

// Lost reservations are ended in batches: by the sweep, and by a reservation that needs them.
func TestManyLostReservationsAreEndedInBatches(t *testing.T) {
	const many = 1100 // more than a batch
	for _, which := range pawltest.Databases {
		t.Run(string(which), func(t *testing.T) {
			var told atomic.Int64
			p := pawltest.OpenWith(t, which, engine.Options{Statement: func(string) { told.Add(1) }})
			ctx := t.Context()
			pawltest.Must[pawl.Budget](t)(p.Engine.PutBudget(ctx, "b", pawl.NewBudget{Unit: "x", Limit: many, OnLost: pawl.LostReturn}))
			pawltest.Must[pawl.Task](t)(pawl.Create(ctx, p.Engine, pawl.NewTask{Type: "a", MaxAttempts: 9}))
			for _, sweeps := range []bool{false, true} {
				l := leases(t, p.Engine, pawl.ClaimRequest{WorkerID: "w"}, 1)[0]
				for n := range many {
					pawltest.Must[pawl.Reserved](t)(p.Engine.ReserveBudget(ctx, "b", reserveOf(l, 1, fmt.Sprint(sweeps, n))))
				}
				pawltest.Must[pawl.Moved](t)(pawl.Release(ctx, p.Engine, l.Fence()))
				l = leases(t, p.Engine, pawl.ClaimRequest{WorkerID: "w"}, 1)[0]
				told.Store(0)
				if sweeps {
					if _, err := p.Engine.Sweep(ctx); err != nil {
						t.Fatal(err)
					}
				} else {
					pawltest.Must[pawl.Reserved](t)(p.Engine.ReserveBudget(ctx, "b", reserveOf(l, many, "all")))
				}
				if told.Load() > 200 {
					t.Errorf("%d statements", told.Load())
				}
				pawltest.Must[pawl.Moved](t)(pawl.Release(ctx, p.Engine, l.Fence()))
				if _, err := p.Engine.Sweep(ctx); err != nil {
					t.Fatal(err)
				}
				if b := pawltest.Must[pawl.Budget](t)(p.Engine.GetBudget(ctx, "b")); b.Remaining != many {
					t.Errorf("%+v", b)
				}
			}
		})
	}
}

func reserveOf(l pawl.Lease, amount int64, key string) pawl.ReserveCall {
	return pawl.ReserveCall{ItemID: l.ID, WorkerID: l.WorkerID, Attempt: l.Attempt, Amount: amount, Key: key}
}

func settleOf(l pawl.Lease, r pawl.Reserved, amount int64) pawl.SettleCall {
	return pawl.SettleCall{Reservation: r.Reservation, Amount: amount, ItemID: l.ID, WorkerID: l.WorkerID, Attempt: l.Attempt}
}

// Workers on three engines of one database reserve, settle and leave without settling in every
// way, while leases expire and sweeps run. The budget is never above its limit, what was settled
// is what it has spent, and nothing stays reserved.
func TestBudgetsAreNeverExceededAndNeverLeak(t *testing.T) {
	for _, which := range pawltest.Databases {
		t.Run(string(which), func(t *testing.T) {
			t.Parallel()
			lasts := 2 * time.Second
			if os.Getenv("PAWL_TORTURE") == "1" {
				lasts = 10 * time.Minute
			}
			w := &budgetWalk{T: t, p: pawltest.OpenReal(t, which, engine.Options{})}
			w.engines = []*engine.Engine{w.p.Engine, w.p.Another(engine.Options{}), w.p.Another(engine.Options{})}
			pawltest.Must[pawl.Budget](t)(w.p.Engine.PutBudget(t.Context(), "b",
				pawl.NewBudget{Unit: "x", Limit: walkLimit, OnLost: pawl.LostReturn}))
			w.until = time.Now().Add(lasts)
			var all sync.WaitGroup
			for n := range 18 {
				all.Go(func() { w.work(n) })
			}
			all.Go(w.look)
			all.Wait()
			w.end()
		})
	}
}

const walkLimit = 100

type budgetWalk struct {
	*testing.T
	p       *pawltest.Pawl
	engines []*engine.Engine
	until   time.Time
	settled atomic.Int64 // what the calls that were answered have settled
	refused atomic.Int64
	begun   atomic.Int64
}

// work creates, claims and leaves items until the time is over.
func (w *budgetWalk) work(n int) {
	ctx, e, worker := context.Background(), w.engines[n%len(w.engines)], fmt.Sprint("w", n)
	for time.Now().Before(w.until) {
		if _, err := pawl.Create(ctx, e, pawl.NewTask{Type: "a", MaxAttempts: 1000}); err != nil {
			w.Errorf("create: %v", err)
			return
		}
		got, err := e.Claim(ctx, pawl.ClaimRequest{WorkerID: worker, LeaseSeconds: 1 + rand.IntN(2)})
		if err != nil {
			w.Errorf("claim: %v", err)
			return
		}
		for _, l := range got {
			w.spend(ctx, e, l)
			w.leave(ctx, e, l)
		}
	}
}

func (w *budgetWalk) spend(ctx context.Context, e *engine.Engine, l pawl.Lease) {
	for k := range 1 + rand.IntN(3) {
		amount := int64(1 + rand.IntN(30))
		r, err := e.ReserveBudget(ctx, "b", reserveOf(l, amount, fmt.Sprint("k", k)))
		switch {
		case errors.Is(err, pawl.ErrBudgetExhausted):
			w.refused.Add(1)
			continue
		case errors.Is(err, pawl.ErrLeaseLost), errors.Is(err, pawl.ErrConflict):
			return
		case err != nil:
			w.Errorf("reserve: %v", err)
			return
		}
		w.begun.Add(1)
		if r.Remaining < 0 {
			w.Errorf("reserved %d of a budget with %d left after it", amount, r.Remaining)
		}
		if rand.IntN(2) == 0 || r.Settled != nil {
			continue
		}
		spent := int64(0)
		if rand.IntN(40) == 0 {
			spent = 1
		}
		_, err = e.SettleBudget(ctx, "b", settleOf(l, r, spent))
		if err == nil {
			w.settled.Add(spent)
		} else if !errors.Is(err, pawl.ErrLeaseLost) && !errors.Is(err, pawl.ErrConflict) && !errors.Is(err, pawl.ErrNotFound) {
			w.Errorf("settle: %v", err)
		}
	}
}

// leave ends an attempt, or leaves its lease to expire.
func (w *budgetWalk) leave(ctx context.Context, e *engine.Engine, l pawl.Lease) {
	var err error
	switch rand.IntN(8) {
	case 0:
		_, err = pawl.Complete(ctx, e, l.Fence(), nil)
	case 1, 2:
		_, err = pawl.Release(ctx, e, l.Fence())
	case 3:
		_, err = pawl.Fail(ctx, e, l.Fence(), pawl.RetryAfter(0, errors.New("x")))
	case 4:
		_, err = pawltest.First(e.CancelTasks(ctx, []pawl.TaskCall{{TaskID: l.TaskID}}))
	case 5:
		_, err = pawltest.First(e.DeleteTasks(ctx, []pawl.TaskCall{{TaskID: l.TaskID, Force: true}}))
	case 6:
		_, err = pawltest.First(e.RevokeLeases(ctx, []pawl.RevokeCall{{ItemID: l.ID}}))
	}
	if code := pawl.CodeOf(err); code == pawl.CodeInternal || code == pawl.CodeUnavailable {
		w.Errorf("leave: %v", err)
	}
}

// look reads the budget, and sweeps.
func (w *budgetWalk) look() {
	for ctx := context.Background(); time.Now().Before(w.until); time.Sleep(20 * time.Millisecond) {
		b, err := w.p.Engine.GetBudget(ctx, "b")
		if _, swept := w.engines[1].Sweep(ctx); cmp.Or(err, swept) != nil {
			w.Errorf("look: %v, %v", err, swept)
		}
		if b.Spent+b.Reserved > walkLimit || b.Reserved < 0 || b.Spent < 0 {
			w.Errorf("spent %d, reserved %d of %d", b.Spent, b.Reserved, walkLimit)
		}
	}
}

// end lets all leases expire and compares the budget with what was settled.
func (w *budgetWalk) end() {
	ctx := context.Background()
	for end := time.Now().Add(time.Minute); ; time.Sleep(200 * time.Millisecond) {
		if _, err := w.p.Engine.Sweep(ctx); err != nil {
			w.Fatal(err)
		}
		b := pawltest.Must[pawl.Budget](w.T)(w.p.Engine.GetBudget(ctx, "b"))
		if b.Reserved == 0 {
			if b.Spent != w.settled.Load() {
				w.Errorf("spent %d, settled %d", b.Spent, w.settled.Load())
			}
			break
		}
		if time.Now().After(end) {
			w.Fatalf("%d stay reserved", b.Reserved)
		}
	}
	found, err := w.p.Engine.Check(ctx)
	if err != nil || len(found) > 0 {
		w.Errorf("doctor: %+v, %v", found, err)
	}
	if w.begun.Load() == 0 || w.refused.Load() == 0 {
		w.Errorf("%d reservations, %d refused", w.begun.Load(), w.refused.Load())
	}
	w.Logf("%d reservations, %d refused, %d settled", w.begun.Load(), w.refused.Load(), w.settled.Load())
}

// A budget of a task applies to its descendants, also to those whose parent has ended and was archived.
func TestABudgetOfATaskOutlivesTheTasksBetween(t *testing.T) {
	pawltest.Each(t, func(t *testing.T, p *pawltest.Pawl) {
		ctx := t.Context()
		_, err := pawltest.First(p.Engine.PutTypes(ctx, []pawl.Type{{Name: "between", Retention: pawl.Retention{TaskSeconds: 60}}}))
		p.OK(err)
		root := p.Create(pawl.NewTask{Type: "root"})
		between := p.Create(pawl.NewTask{Type: "between", ParentID: root.ID})
		p.Create(pawl.NewTask{Type: "leaf", ParentID: between.ID})
		pawltest.Must[pawl.Budget](t)(p.Engine.PutBudget(ctx, "b",
			pawl.NewBudget{Unit: "x", Limit: 100, AppliesTo: &pawl.BudgetScope{TaskID: root.ID}}))
		p.Complete(p.Claim("between"), "")
		p.Advance(2 * time.Minute)
		pawltest.Must[pawl.SweepStats](t)(p.Engine.Sweep(ctx))
		if _, err := p.Engine.GetTask(ctx, between.ID); !errors.Is(err, pawl.ErrNotFound) {
			t.Fatalf("it was not archived: %v", err)
		}
		pawltest.Must[pawl.Reserved](t)(p.Engine.ReserveBudget(ctx, "b", reserveOf(p.Claim("leaf"), 1, "k")))
	})
}
