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

// Several servers that create the first tasks of a type at the same time give it one number.
func TestServersCreateAQueueAtOnce(t *testing.T) {
	t.Parallel()
	pawltest.Each(t, func(t *testing.T, p *pawltest.Pawl) {
		var begin, done sync.WaitGroup
		begin.Add(1)
		for range 3 {
			e := p.Another(engine.Options{})
			for n := range 8 {
				done.Go(func() {
					begin.Wait()
					if _, err := pawl.Create(t.Context(), e, pawl.NewTask{Type: fmt.Sprintf("new-%d", n%4)}); err != nil {
						t.Error(err)
					}
				})
			}
		}
		begin.Done()
		done.Wait()
		var n int
		read(t, p.Engine, []any{&n}, "SELECT COUNT(*) FROM pawl.queues WHERE type LIKE 'new-%'")
		if n != 4 {
			t.Errorf("%d rows of 4 types", n)
		}
		for n := range 4 {
			ls := need[[]pawl.Lease](t)(p.Engine.Claim(t.Context(), pawl.ClaimRequest{WorkerID: "w", Types: []string{fmt.Sprintf("new-%d", n)},
				Limit: 10}))
			if len(ls) != 6 {
				t.Errorf("%d leases of the type", len(ls))
			}
		}
	})
}

// A type that was used first in a transaction that rolls back has its number when it is
// used again: in a transaction of the engine, and in one of a caller.
func TestAQueueOfARolledBackTransaction(t *testing.T) {
	t.Parallel()
	undo := errors.New("undo")
	pawltest.Each(t, func(t *testing.T, p *pawltest.Pawl) {
		err := p.Engine.DB().Do(t.Context(), func(ctx context.Context, tx store.Tx) error {
			for range 2 {
				if err := store.EnsureQueues(ctx, tx, store.QueueName{Namespace: "default", Type: "a"}); err != nil {
					return err
				}
			}
			return undo
		})
		if !errors.Is(err, undo) {
			t.Fatal(err)
		}
		own := beginOwn(t, p)
		need[pawl.Task](t)(own.Create(t.Context(), pawl.NewTask{Type: "b"}))
		if err := own.rollback(); err != nil {
			t.Fatal(err)
		}
		for _, typ := range []string{"a", "b"} {
			task := need[pawl.Task](t)(pawl.Create(t.Context(), p.Engine, pawl.NewTask{Type: typ}))
			ls := need[[]pawl.Lease](t)(p.Engine.Claim(t.Context(), pawl.ClaimRequest{WorkerID: "w", Types: []string{typ}}))
			if len(ls) != 1 || ls[0].TaskID != task.ID || ls[0].Type != typ {
				t.Errorf("leases of type %s: %v", typ, ls)
			}
		}
	})
}

// A database that went back in time has other queues under the numbers that a running
// process has used. The process uses the numbers that its own queues have now.
func TestQueuesAfterTheDatabaseWentBackInTime(t *testing.T) {
	t.Parallel()
	pawltest.Each(t, func(t *testing.T, p *pawltest.Pawl) {
		other := p.Another(engine.Options{})
		create := func() string {
			return need[pawl.Task](t)(pawl.Create(t.Context(), p.Engine, pawl.NewTask{Type: "a"})).ID
		}
		before := create()
		rename := func(from, to string) {
			t.Helper()
			err := other.DB().Do(t.Context(), func(ctx context.Context, tx store.Tx) error {
				for _, table := range []string{"queues", "items", "tasks"} {
					if _, err := tx.Exec(ctx, "UPDATE pawl."+table+" SET type = $1 WHERE type = $2", to, from); err != nil {
						return err
					}
				}
				return nil
			})
			if err != nil {
				t.Fatal(err)
			}
		}
		rename("a", "b")
		after := create()
		for typ, task := range map[string]string{"a": after, "b": before} {
			ls := need[[]pawl.Lease](t)(p.Engine.Claim(t.Context(), pawl.ClaimRequest{WorkerID: "w", Types: []string{typ}, Limit: 10}))
			if len(ls) != 1 || ls[0].TaskID != task || ls[0].Type != typ {
				t.Errorf("leases of type %s: %v, not of task %s", typ, ls, task)
				continue
			}
			if _, err := first(p.Engine.Complete(t.Context(), []pawl.CompleteCall{{Fence: ls[0].Fence()}})); err != nil {
				t.Error(err)
			}
		}
	})
}
