package engine_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/engine"
	"github.com/pawl-work/pawl/pawltest"
	"github.com/pawl-work/pawl/store"
)

// An item that another engine claims and releases all the time is in one place or another at
// every moment. A retry of it is a conflict that names the item's state, never its task's. A
// cancel of it succeeds.
func TestAMovingItemIsInOneOfItsPlaces(t *testing.T) {
	pawltest.Each(t, func(t *testing.T, p *pawltest.Pawl) {
		other := p.Another(engine.Options{})
		for n := range times(10, 400) {
			task := need[pawl.Task](t)(pawl.Create(t.Context(), p.Engine, pawl.NewTask{
				Type: fmt.Sprint("moving", n), Items: []pawl.NewItem{{Input: []byte(`1`)}, {Input: []byte(`2`)}},
			}))
			item := need[pawl.List[pawl.Item]](t)(p.Engine.ListItems(t.Context(), pawl.ItemFilter{TaskID: task.ID})).Items[0].ID
			call := []pawl.TaskCall{{TaskID: task.ID, ItemIDs: []string{item}}}
			moving, stop := context.WithCancel(t.Context())
			var mover sync.WaitGroup
			mover.Go(func() { move(moving, t, other, item) })
			for range 20 {
				var refusal *pawl.Error
				_, err := first(p.Engine.RetryTasks(t.Context(), call))
				if !errors.As(err, &refusal) || refusal.Code != pawl.CodeConflict {
					t.Errorf("a retry of an item that has not failed: %v", err)
				} else if s := pawl.ItemState(refusal.State); s != pawl.ItemQueued && s != pawl.ItemLeased {
					t.Errorf("a moving item was taken for %s: %v", s, err)
				}
			}
			if _, err := first(p.Engine.CancelTasks(t.Context(), call)); err != nil {
				t.Errorf("a cancel of a moving item: %v", err)
			}
			stop()
			mover.Wait()
		}
	})
}

// move claims and releases an item until ctx ends or the item has been cancelled.
func move(ctx context.Context, t *testing.T, svc pawl.Service, item string) {
	for ctx.Err() == nil {
		got, err := svc.Claim(ctx, pawl.ClaimRequest{WorkerID: "w", ItemID: item, Limit: 1})
		for _, l := range got {
			_, err = first(svc.Release(ctx, []pawl.ReleaseCall{{Fence: l.Fence()}}))
		}
		if err != nil && ctx.Err() == nil && !errors.Is(err, pawl.ErrLeaseLost) && !errors.Is(err, pawl.ErrConflict) { // it is cancelled
			t.Errorf("moving the item: %v", err)
			return
		}
	}
}

// A change that the triggers of append-only rows refuse is a fault, and not taken for one of a row that is being moved.
func TestAnAppendOnlyRowIsNotBeingMoved(t *testing.T) {
	pawltest.Each(t, func(t *testing.T, p *pawltest.Pawl) {
		p.Create(pawl.NewTask{Type: "a"})
		err := p.Exec("DELETE FROM pawl.task_events")
		if pawl.CodeOf(err) != pawl.CodeInternal || errors.Is(err, store.ErrFenced) {
			t.Errorf("events were removed: %v", err)
		}
	})
}
