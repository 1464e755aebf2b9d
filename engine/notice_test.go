package engine_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/engine"
	"github.com/pawl-work/pawl/pawltest"
)

// A process gets notices of work that another process creates. So the claims that wait in
// it need not poll.
func TestWorkOfAnotherProcessIsHeardOf(t *testing.T) {
	t.Parallel()
	p := pawltest.OpenReal(t, pawltest.Postgres, engine.Options{})
	waiting := p.Another(engine.Options{PollInterval: time.Hour})
	until := func(what string, so func() bool) {
		t.Helper()
		for end := time.Now().Add(time.Minute); !so(); time.Sleep(5 * time.Millisecond) {
			if time.Now().After(end) {
				t.Fatal(what)
			}
		}
	}
	until("it does not listen", waiting.Hears)
	if waiting.Told() {
		t.Fatal("it was told of nothing")
	}
	task := need[pawl.Task](t)(pawl.Create(t.Context(), p.Engine, pawl.NewTask{Type: "heard"}))
	until("no notice was heard", waiting.Told)
	ls := need[[]pawl.Lease](t)(waiting.Claim(t.Context(), pawl.ClaimRequest{WorkerID: "w", Types: []string{"heard"}}))
	if len(ls) != 1 || ls[0].TaskID != task.ID {
		t.Fatalf("claimed %v", ls)
	}
}

// Each verb that queues items tells the processes in which claims wait.
func TestVerbsThatQueueItemsTellOthers(t *testing.T) {
	budget := pawl.NewBudget{Unit: "tokens", Limit: 1}
	for name, queue := range map[string]func(e *engine.Engine, l pawl.Lease) error{
		"release": func(e *engine.Engine, l pawl.Lease) error {
			_, err := first(e.Release(context.Background(), []pawl.ReleaseCall{{Fence: l.Fence()}}))
			return err
		},
		"signal": func(e *engine.Engine, l pawl.Lease) error {
			_, err := first(e.Suspend(context.Background(), []pawl.SuspendCall{{Fence: l.Fence(), Signal: "go"}}))
			if err == nil {
				_, err = pawl.Signal(context.Background(), e, "go", "", nil)
			}
			return err
		},
		"budget": func(e *engine.Engine, l pawl.Lease) error {
			_, err := e.ReserveBudget(context.Background(), "b", pawl.ReserveCall{ItemID: l.ID, WorkerID: l.WorkerID, Attempt: l.Attempt, Amount: 2,
				Key: "k"})
			var refused *pawl.Error
			if !errors.As(err, &refused) || refused.Exhausted == nil {
				return fmt.Errorf("reserve: %w", err)
			}
			_, err = first(e.Suspend(context.Background(), []pawl.SuspendCall{{Fence: l.Fence(), Signal: pawl.BudgetSignal,
				Key: refused.Exhausted.SignalKey}}))
			if err == nil {
				_, err = e.PutBudget(context.Background(), "b", pawl.NewBudget{Unit: "tokens", Limit: 3})
			}
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := pawltest.OpenReal(t, pawltest.Postgres, engine.Options{})
			need[pawl.Budget](t)(p.Engine.PutBudget(t.Context(), "b", budget))
			need[pawl.Task](t)(pawl.Create(t.Context(), p.Engine, pawl.NewTask{Type: "a"}))
			l := leases(t, p.Engine, pawl.ClaimRequest{WorkerID: "w"}, 1)[0]
			waiting := p.Another(engine.Options{PollInterval: time.Hour})
			until := func(what string, so func() bool) {
				t.Helper()
				for end := time.Now().Add(time.Minute); !so(); time.Sleep(5 * time.Millisecond) {
					if time.Now().After(end) {
						t.Fatal(what)
					}
				}
			}
			until("it does not listen", waiting.Hears)
			ok(t, queue(p.Engine, l))
			until("no notice was heard", waiting.Told)
		})
	}
}
