package budgets_test

import (
	"errors"
	"testing"
	"time"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/pawltest"
)

// What a gate sends may still be spent when the attempt has ended: its reservation is lost with the gate's lease alone.
func TestWhatAGateSendsStaysReserved(t *testing.T) {
	pawltest.Each(t, func(t *testing.T, p *pawltest.Pawl) {
		ctx := t.Context()
		pawltest.Must[pawl.Budget](t)(p.Engine.PutBudget(ctx, "b", pawl.NewBudget{Unit: "x", Limit: 10, OnLost: pawl.LostReturn}))
		for range 2 {
			p.Create(pawl.NewTask{Type: "a"})
		}
		l, other := p.Claim("a"), p.Claim("a")
		send := func(name string) string {
			return pawltest.Must[pawl.OpenedEffect](t)(p.Engine.OpenEffect(ctx, pawl.OpenEffectCall{ItemID: l.ID, WorkerID: l.WorkerID,
				Attempt: l.Attempt, Name: name, RequestHash: "h", Budget: "b", Amount: 5, LeaseSeconds: 15})).ID
		}
		told, silent := send("told"), send("silent")
		p.Complete(l, "")
		numbers := func(spent, reserved int64) {
			t.Helper()
			pawltest.Must[pawl.SweepStats](t)(p.Engine.Sweep(ctx))
			if b := pawltest.Must[pawl.Budget](t)(p.Engine.GetBudget(ctx, "b")); b.Spent != spent || b.Reserved != reserved {
				t.Errorf("%d spent and %d reserved, want %d and %d", b.Spent, b.Reserved, spent, reserved)
			}
		}
		if _, err := p.Engine.ReserveBudget(ctx, "b", reserveOf(other, 1, "k")); !errors.Is(err, pawl.ErrBudgetExhausted) {
			t.Errorf("a gate sends for all that the budget allows, and another reserves: %v", err)
		}
		numbers(0, 10)
		pawltest.Must[pawl.EffectRecord](t)(p.Engine.EffectDone(ctx, told, pawl.EffectDoneCall{ItemID: l.ID, WorkerID: l.WorkerID,
			Attempt: l.Attempt}))
		numbers(5, 5)
		p.Advance(16 * time.Second)
		numbers(5, 0)
		if f := pawltest.Must[pawl.EffectRecord](t)(p.Engine.GetEffect(ctx, silent)); f.State != pawl.EffectUnknown {
			t.Errorf("it is %s", f.State)
		}
	})
}

// An effect that has got what its item asked a person for asks no more, although it has another id than at first.
func TestAnEffectThatGotItsAmountAsksNoMore(t *testing.T) {
	pawltest.Each(t, func(t *testing.T, p *pawltest.Pawl) {
		ctx := t.Context()
		limit := func(n int64) {
			pawltest.Must[pawl.Budget](t)(p.Engine.PutBudget(ctx, "b", pawl.NewBudget{Unit: "x", Limit: n, OnExhausted: pawl.ExhaustedAsk}))
		}
		limit(2)
		p.Create(pawl.NewTask{Type: "a"})
		l := p.Claim("a")
		open := func() error {
			_, err := p.Engine.OpenEffect(ctx, pawl.OpenEffectCall{ItemID: l.ID, WorkerID: l.WorkerID, Attempt: l.Attempt, Name: "pay",
				RequestHash: "h", Budget: "b", Amount: 5})
			return err
		}
		var refused *pawl.Error
		if err := open(); !errors.As(err, &refused) || refused.Exhausted == nil || refused.Exhausted.TaskID == "" {
			t.Fatalf("no person was asked: %v", err)
		}
		limit(10)
		p.OK(open())
		pawltest.Must[pawl.SweepStats](t)(p.Engine.Sweep(ctx))
		if q := p.Task(refused.Exhausted.TaskID); q.State != pawl.TaskCancelled {
			t.Errorf("the question is %s", q.State)
		}
	})
}

// Settled with nothing, it would be taken for what the effect has reserved.
func TestNoCallerReservesUnderTheKeyOfAnEffect(t *testing.T) {
	pawltest.Each(t, func(t *testing.T, p *pawltest.Pawl) {
		pawltest.Must[pawl.Budget](t)(p.Engine.PutBudget(t.Context(), "b", pawl.NewBudget{Unit: "x", Limit: 10}))
		p.Create(pawl.NewTask{Type: "a"})
		l := p.Claim("a")
		_, err := p.Engine.ReserveBudget(t.Context(), "b", reserveOf(l, 1, "effect "+l.ID+"/pay#1"))
		if pawl.CodeOf(err) != pawl.CodeInvalid {
			t.Errorf("a key that effects use: %v", err)
		}
	})
}
