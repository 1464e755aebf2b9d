package engine_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/engine"
	"github.com/pawl-work/pawl/pawltest"
)

func until(t *testing.T, what string, so func() bool) {
	t.Helper()
	for end := time.Now().Add(time.Minute); !so(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal(what)
		}
	}
}

// A process gets notices of work that another process creates. So the claims that wait in
// it need not poll.
func TestWorkOfAnotherProcessIsHeardOf(t *testing.T) {
	t.Parallel()
	p := pawltest.OpenReal(t, pawltest.Postgres, engine.Options{})
	waiting := p.Another(engine.Options{PollInterval: time.Hour})
	until(t, "it does not listen", waiting.Hears)
	if waiting.Told() {
		t.Fatal("it was told of nothing")
	}
	task := need[pawl.Task](t)(pawl.Create(t.Context(), p.Engine, pawl.NewTask{Type: "heard"}))
	until(t, "no notice was heard", waiting.Told)
	ls := need[[]pawl.Lease](t)(waiting.Claim(t.Context(), pawl.ClaimRequest{WorkerID: "w", Types: []string{"heard"}}))
	if len(ls) != 1 || ls[0].TaskID != task.ID {
		t.Fatalf("claimed %v", ls)
	}
}

// Each verb that queues items tells the processes in which claims wait.
func TestVerbsThatQueueItemsTellOthers(t *testing.T) {
	suspend := func(t *testing.T, e *engine.Engine, l pawl.Lease, signal, key string) {
		t.Helper()
		need[pawl.Moved](t)(first(e.Suspend(t.Context(), []pawl.SuspendCall{{Fence: l.Fence(), Signal: signal, Key: key}})))
	}
	for name, verb := range map[string]struct { // before is what queues nothing
		before func(t *testing.T, e *engine.Engine, l pawl.Lease)
		queue  func(e *engine.Engine, l pawl.Lease) error
	}{
		"release": {queue: func(e *engine.Engine, l pawl.Lease) error {
			_, err := first(e.Release(context.Background(), []pawl.ReleaseCall{{Fence: l.Fence()}}))
			return err
		}},
		"signal": {
			before: func(t *testing.T, e *engine.Engine, l pawl.Lease) { suspend(t, e, l, "go", "") },
			queue: func(e *engine.Engine, _ pawl.Lease) error {
				_, err := pawl.Signal(context.Background(), e, "go", "", nil)
				return err
			},
		},
		"budget": {
			before: func(t *testing.T, e *engine.Engine, l pawl.Lease) {
				need[pawl.Budget](t)(e.PutBudget(t.Context(), "b", pawl.NewBudget{Unit: "tokens", Limit: 1}))
				_, err := e.ReserveBudget(t.Context(), "b",
					pawl.ReserveCall{ItemID: l.ID, WorkerID: l.WorkerID, Attempt: l.Attempt, Amount: 2, Key: "k"})
				var refused *pawl.Error
				if !errors.As(err, &refused) || refused.Exhausted == nil {
					t.Fatal("reserve:", err)
				}
				suspend(t, e, l, pawl.BudgetSignal, refused.Exhausted.SignalKey)
			},
			queue: func(e *engine.Engine, _ pawl.Lease) error {
				_, err := e.PutBudget(context.Background(), "b", pawl.NewBudget{Unit: "tokens", Limit: 3})
				return err
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := pawltest.OpenReal(t, pawltest.Postgres, engine.Options{})
			waiting := p.Another(engine.Options{PollInterval: time.Hour})
			until(t, "it does not listen", waiting.Hears)
			need[pawl.Task](t)(pawl.Create(t.Context(), p.Engine, pawl.NewTask{Type: "a"}))
			until(t, "no notice of the create was heard", waiting.Told)
			l := leases(t, waiting, pawl.ClaimRequest{WorkerID: "w"}, 1)[0] // reads all that it was told of
			if verb.before != nil {
				verb.before(t, p.Engine, l)
				until(t, "no notice of the free worker was heard", waiting.Told)
				need[[]pawl.Lease](t)(waiting.Claim(t.Context(), pawl.ClaimRequest{WorkerID: "w"})) // reads from the start
			}
			if waiting.Told() {
				t.Fatal("it was told of more than that")
			}
			ok(t, verb.queue(p.Engine, l))
			until(t, "no notice was heard", waiting.Told)
		})
	}
}
