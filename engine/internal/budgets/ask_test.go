package budgets_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/engine"
	"github.com/pawl-work/pawl/pawltest"
)

// Items on three engines ask for more of a budget while others approve, reject and change it.
// None of them misses an answer: all items end.
func TestNoAnswerAboutABudgetIsMissed(t *testing.T) {
	for _, which := range pawltest.Databases {
		t.Run(string(which), func(t *testing.T) {
			t.Parallel()
			p := pawltest.OpenReal(t, which, engine.Options{})
			engines := []*engine.Engine{p.Engine, p.Another(engine.Options{}), p.Another(engine.Options{})}
			put := func(limit int64) {
				pawltest.Must[pawl.Budget](t)(p.Engine.PutBudget(t.Context(), "b",
					pawl.NewBudget{Unit: "x", Limit: limit, OnExhausted: pawl.ExhaustedAsk}))
			}
			put(50)
			const items = 24
			for range items {
				pawltest.Must[pawl.Task](t)(pawl.Create(t.Context(), p.Engine, pawl.NewTask{Type: "a", MaxAttempts: 1000}))
			}
			ctx, stop := context.WithTimeout(t.Context(), 30*time.Second)
			defer stop()
			var all sync.WaitGroup
			for n := range 6 {
				all.Go(func() { asksForBudget(ctx, t, engines[n%3], fmt.Sprint("w", n)) })
				all.Go(func() { decidesAboutBudgets(ctx, t, engines[n%3]) })
			}
			for n := int64(0); ctx.Err() == nil; n++ {
				if n < 20 {
					put(50 + n)
				}
				list := pawltest.Must[pawl.List[pawl.Item]](t)(p.Engine.ListItems(t.Context(),
					pawl.ItemFilter{States: []pawl.ItemState{pawl.ItemCompleted, pawl.ItemFailed}, Page: pawl.Page{Limit: 1000}}))
				ended := 0
				for _, it := range list.Items {
					if it.Type == "a" {
						ended++
					}
				}
				if ended == items {
					break
				}
				time.Sleep(20 * time.Millisecond)
			}
			if ctx.Err() != nil {
				t.Error("some items still wait")
			}
			stop()
			all.Wait()
		})
	}
}

// asksForBudget claims items, and does what the budget says.
func asksForBudget(ctx context.Context, t *testing.T, e *engine.Engine, worker string) {
	for ctx.Err() == nil {
		got, err := e.Claim(ctx, pawl.ClaimRequest{WorkerID: worker, Types: []string{"a"}})
		for _, l := range got {
			var r pawl.Reserved
			var refusal *pawl.Error
			r, err = e.ReserveBudget(ctx, "b", reserveOf(l, 30, "k"))
			switch {
			case err == nil:
				if _, err = e.SettleBudget(ctx, "b", settleOf(l, r, 30)); err == nil {
					_, err = pawl.Complete(ctx, e, l.Fence(), nil)
				}
			case !errors.As(err, &refusal) || refusal.Exhausted == nil:
			case refusal.Exhausted.OnExhausted == pawl.ExhaustedFail:
				_, err = pawl.Fail(ctx, e, l.Fence(), pawl.Permanent(err))
			case refusal.Exhausted.TaskID == "": // others may settle
				_, err = pawl.Release(ctx, e, l.Fence())
			default:
				_, err = pawltest.First(e.Suspend(ctx,
					[]pawl.SuspendCall{{Fence: l.Fence(), Signal: pawl.BudgetSignal, Key: refusal.Exhausted.SignalKey}}))
			}
		}
		if err != nil && ctx.Err() == nil {
			t.Errorf("work: %v", err)
			return
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// decidesAboutBudgets approves and rejects what is asked.
func decidesAboutBudgets(ctx context.Context, t *testing.T, e *engine.Engine) {
	for ; ctx.Err() == nil; time.Sleep(20 * time.Millisecond) {
		q := pawl.TaskFilter{Types: []string{pawl.TypeBudget}, States: []pawl.TaskState{pawl.TaskSubmitted}}
		list, err := e.ListTasks(ctx, q)
		if err == nil && len(list.Items) > 0 {
			id := list.Items[rand.IntN(len(list.Items))].ID
			if rand.IntN(2) == 0 {
				_, err = pawltest.First(e.ApproveTasks(ctx, []pawl.ApproveCall{{TaskID: id}}))
			} else {
				no := []pawl.Complaint{{Code: "no", Message: "no"}}
				_, err = pawltest.First(e.RejectTasks(ctx, []pawl.RejectCall{{TaskID: id, Errors: no}}))
			}
		}
		if code := pawl.CodeOf(err); ctx.Err() == nil && (code == pawl.CodeInternal || code == pawl.CodeInvalid) {
			t.Errorf("decide: %v", err)
			return
		}
	}
}

// An item that came back does not wait for what it has reserved itself: a person is asked.
func TestAnItemAsksBesideItsOwnReservation(t *testing.T) {
	pawltest.Each(t, func(t *testing.T, p *pawltest.Pawl) {
		ctx := t.Context()
		pawltest.Must[pawl.Budget](t)(p.Engine.PutBudget(ctx, "b", pawl.NewBudget{Unit: "x", Limit: 100, OnExhausted: pawl.ExhaustedAsk}))
		pawltest.Must[pawl.Task](t)(pawl.Create(ctx, p.Engine, pawl.NewTask{Type: "a"}))
		for attempt, asks := range []bool{false, true} {
			l := pawltest.Must[[]pawl.Lease](t)(p.Engine.Claim(ctx, pawl.ClaimRequest{WorkerID: "w"}))[0]
			pawltest.Must[pawl.Reserved](t)(p.Engine.ReserveBudget(ctx, "b", reserveOf(l, 60, "k")))
			_, err := p.Engine.ReserveBudget(ctx, "b", reserveOf(l, 50, "other"))
			var e *pawl.Error
			if !errors.As(err, &e) || e.Exhausted == nil || (e.Exhausted.TaskID != "") != asks || e.Exhausted.Reserved != 60 {
				t.Errorf("attempt %d: %v, %+v", attempt+1, err, e)
			}
			pawltest.Must[pawl.Moved](t)(pawl.Release(ctx, p.Engine, l.Fence()))
		}
	})
}

// A budget can be changed when its task is gone, and cannot be made for one.
func TestABudgetOutlivesItsTask(t *testing.T) {
	pawltest.Each(t, func(t *testing.T, p *pawltest.Pawl) {
		ctx := t.Context()
		task := pawltest.Must[pawl.Task](t)(pawl.Create(ctx, p.Engine, pawl.NewTask{Type: "a"}))
		b := pawl.NewBudget{Unit: "x", Limit: 1, AppliesTo: &pawl.BudgetScope{TaskID: task.ID}}
		pawltest.Must[pawl.Budget](t)(p.Engine.PutBudget(ctx, "b", b))
		pawltest.Must[string](t)(pawltest.First(p.Engine.DeleteTasks(ctx, []pawl.TaskCall{{TaskID: task.ID, Force: true}})))
		b.Limit = 9
		if got := pawltest.Must[pawl.Budget](t)(p.Engine.PutBudget(ctx, "b", b)); got.Limit != 9 || got.AppliesTo.TaskID != task.ID {
			t.Errorf("%+v", got)
		}
		if _, err := p.Engine.PutBudget(ctx, "other", b); pawl.CodeOf(err) != pawl.CodeNotFound {
			t.Errorf("a budget of a deleted task: %v", err)
		}
	})
}
