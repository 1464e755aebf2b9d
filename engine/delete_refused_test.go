package engine_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/engine"
	"github.com/pawl-work/pawl/pawltest"
)

// A delete beside a create of a child deletes the task, and there is no child, or is refused and has
// changed nothing: neither the task nor the child is cancelled, now or later.
func TestARefusedDeleteChangesNothing(t *testing.T) {
	pawltest.Each(t, func(t *testing.T, p *pawltest.Pawl) {
		svcs := [2]*engine.Engine{p.Engine, p.Another(engine.Options{})}
		for n := range times(12, 400) {
			never, force := pawl.Never, n%4 == 3
			parent := need[pawl.Task](t)(pawl.Create(t.Context(), p.Engine, pawl.NewTask{Type: fmt.Sprint("p", n), RunAt: &never}))
			var child pawl.Task
			var failed, deleted error
			var wg sync.WaitGroup
			wg.Go(func() {
				child, failed = pawl.Create(context.Background(), svcs[0], pawl.NewTask{Type: "child", ParentID: parent.ID, RunAt: &never})
			})
			wg.Go(func() {
				_, deleted = first(svcs[1].DeleteTasks(asOperator(context.Background()), []pawl.TaskCall{{TaskID: parent.ID, Force: force}}))
			})
			wg.Wait()
			for _, err := range []error{failed, deleted} {
				if code := pawl.CodeOf(err); err != nil && code != pawl.CodeConflict && code != pawl.CodeNotFound {
					t.Fatal(err)
				}
			}
			for range 3 {
				need[pawl.SweepStats](t)(p.Engine.Sweep(t.Context()))
			}
			got, err := p.Engine.GetTask(t.Context(), parent.ID)
			switch {
			case deleted == nil && pawl.CodeOf(err) != pawl.CodeNotFound || force && deleted != nil:
				t.Errorf("round %d: the task is %s after its delete: %v", n, got.State, deleted)
			case deleted == nil && failed == nil:
				if _, err := p.Engine.GetTask(t.Context(), child.ID); !force || pawl.CodeOf(err) != pawl.CodeNotFound {
					t.Errorf("round %d: a child of a deleted task: %v", n, err)
				}
			case deleted != nil && (failed != nil || err != nil || got.State != pawl.TaskQueued):
				t.Errorf("round %d: the task is %s after a delete that was refused: %v, %v", n, got.State, err, failed)
			case deleted != nil:
				if now := need[pawl.Task](t)(p.Engine.GetTask(t.Context(), child.ID)); now.State != pawl.TaskQueued {
					t.Errorf("round %d: the child is %s after a delete of its parent that was refused", n, now.State)
				}
			}
			if t.Failed() {
				return
			}
		}
	})
}

// The child is created in a caller's transaction that commits while the delete waits for it.
func TestADeleteWaitsForACreateOfAChild(t *testing.T) {
	t.Parallel()
	pawltest.Each(t, func(t *testing.T, p *pawltest.Pawl) {
		never := pawl.Never
		parent := need[pawl.Task](t)(pawl.Create(t.Context(), p.Engine, pawl.NewTask{Type: "p", RunAt: &never}))
		tx := beginOwn(t, p)
		child := need[pawl.Task](t)(pawl.Create(t.Context(), tx, pawl.NewTask{Type: "c", ParentID: parent.ID, RunAt: &never}))
		deleted := make(chan error, 1)
		go func() {
			_, err := first(p.Engine.DeleteTasks(asOperator(context.Background()), []pawl.TaskCall{{TaskID: parent.ID}}))
			deleted <- err
		}()
		time.Sleep(300 * time.Millisecond) // a delete that has not begun by then finds the child
		if err := tx.commit(); err != nil {
			t.Fatal(err)
		}
		if err := <-deleted; pawl.CodeOf(err) != pawl.CodeConflict {
			t.Errorf("the delete: %v", err)
		}
		need[pawl.SweepStats](t)(p.Engine.Sweep(t.Context()))
		for _, id := range []string{parent.ID, child.ID} {
			if got := need[pawl.Task](t)(p.Engine.GetTask(t.Context(), id)); got.State != pawl.TaskQueued {
				t.Errorf("%s is %s after a delete that was refused", id, got.State)
			}
		}
	})
}
