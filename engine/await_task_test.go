package engine_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/engine"
	"github.com/pawl-work/pawl/pawltest"
)

// onEach runs a test on each database with the machine's clock.
func onEach(t *testing.T, o engine.Options, fn func(t *testing.T, p *pawltest.Pawl)) {
	for _, which := range pawltest.Databases {
		t.Run(string(which), func(t *testing.T) {
			t.Parallel()
			fn(t, pawltest.OpenReal(t, which, o))
		})
	}
}

// complete claims the item of a task of one item and completes it.
func complete(t *testing.T, s pawl.Service, task pawl.Task) {
	t.Helper()
	ls, err := s.Claim(context.Background(), pawl.ClaimRequest{WorkerID: "w", TaskID: task.ID})
	if err != nil || len(ls) != 1 {
		t.Errorf("claimed %d, %v", len(ls), err)
		return
	}
	if _, err := s.Complete(context.Background(), []pawl.CompleteCall{{Fence: ls[0].Fence(), Result: []byte(`1`)}}); err != nil {
		t.Error(err)
	}
}

// settledSoon waits until a number stays the same for a while, and returns it.
func settledSoon(n *atomic.Int64) int64 {
	for {
		before := n.Load()
		if time.Sleep(300 * time.Millisecond); n.Load() == before {
			return before
		}
	}
}

// Calls that wait for a task read nothing while nothing happens. Its end wakes them all.
func TestWaitingForATaskReadsNothing(t *testing.T) {
	for _, which := range pawltest.Databases {
		t.Run(string(which), func(t *testing.T) {
			t.Parallel()
			var reads atomic.Int64
			p := pawltest.OpenReal(t, which, engine.Options{PollInterval: time.Hour, Statement: func(string) { reads.Add(1) }})
			task := need[pawl.Task](t)(pawl.Create(t.Context(), p.Service, pawl.NewTask{Type: "a"}))
			const callers = 20
			ended := make(chan error, callers)
			for range callers {
				go func() {
					got, err := pawl.Await(t.Context(), p.Engine, task.ID)
					if err == nil && got.State != pawl.TaskCompleted {
						err = fmt.Errorf("awaited until it was %s", got.State)
					}
					ended <- err
				}()
			}
			for reads.Load() < 2*callers { // each reads the task at first, and after the first shared look
				time.Sleep(5 * time.Millisecond)
			}
			before := settledSoon(&reads)
			if time.Sleep(time.Second); reads.Load() != before {
				t.Errorf("%d statements while nothing happened", reads.Load()-before)
			}
			complete(t, p.Service, task)
			for range callers {
				if err := <-ended; err != nil {
					t.Error(err)
				}
			}
		})
	}
}

// A commit of another process wakes the calls that wait here.
func TestAnotherProcessEndsATask(t *testing.T) {
	onEach(t, engine.Options{PollInterval: 50 * time.Millisecond}, func(t *testing.T, p *pawltest.Pawl) {
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
		defer cancel()
		other := p.Another(engine.Options{})
		task := need[pawl.Task](t)(pawl.Create(ctx, other, pawl.NewTask{Type: "a"}))
		ended := make(chan error, 1)
		go func() {
			_, err := pawl.Await(ctx, p.Engine, task.ID)
			ended <- err
		}()
		time.Sleep(300 * time.Millisecond)
		complete(t, other, task)
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

// No change between the read of a task and the wait is missed: nothing polls here within the
// time limit.
func TestNoEndOfATaskIsMissed(t *testing.T) {
	onEach(t, engine.Options{PollInterval: time.Hour}, func(t *testing.T, p *pawltest.Pawl) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		var all sync.WaitGroup
		for range 8 {
			all.Go(func() {
				for range 10 {
					task, err := pawl.Create(ctx, p.Service, pawl.NewTask{Type: "a"})
					if err != nil {
						t.Error(err)
						return
					}
					var done sync.WaitGroup
					done.Go(func() { complete(t, p.Service, task) })
					within, cancel := context.WithTimeout(ctx, 30*time.Second) // less than the pause of a poll
					if got, err := pawl.Await(within, p.Engine, task.ID); err != nil {
						t.Errorf("%v; it is %s", err, got.State)
					}
					cancel()
					done.Wait()
				}
			})
		}
		all.Wait()
	})
}

// A wait ends with its context and with the engine, and leaves no goroutine behind.
func TestAWaitForATaskEnds(t *testing.T) {
	onEach(t, engine.Options{}, func(t *testing.T, p *pawltest.Pawl) {
		e := p.Another(engine.Options{})
		task := need[pawl.Task](t)(pawl.Create(t.Context(), e, pawl.NewTask{Type: "a"}))
		brief, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		defer cancel()
		if got, err := pawl.Await(brief, e, task.ID); !errors.Is(err, context.DeadlineExceeded) || got.ID != task.ID {
			t.Errorf("%s, %v", got.ID, err)
		}
		if _, err := pawl.Await(t.Context(), e, "tsk_none"); !errors.Is(err, pawl.ErrNotFound) {
			t.Errorf("no such task: %v", err)
		}
		ended := make(chan error, 2)
		for range 2 {
			go func() {
				_, err := pawl.Await(t.Context(), e, task.ID)
				ended <- err
			}()
		}
		time.Sleep(100 * time.Millisecond)
		if err := e.Close(); err != nil {
			t.Error(err)
		}
		for range 2 {
			if err := <-ended; !errors.Is(err, pawl.ErrUnavailable) {
				t.Errorf("after Close: %v", err)
			}
		}
		if _, err := pawl.Await(t.Context(), e, task.ID); !errors.Is(err, pawl.ErrUnavailable) {
			t.Errorf("after Close: %v", err)
		}
	})
	t.Cleanup(func() {
		stacks := make([]byte, 1<<20)
		if stacks = stacks[:runtime.Stack(stacks, true)]; strings.Contains(string(stacks), "taskwait.") {
			t.Errorf("a goroutine is left:\n%s", stacks)
		}
	})
}

// A call cannot wait for a task within a transaction, which sees no other one's commits.
func TestNoWaitForATaskInATransaction(t *testing.T) {
	pawltest.Each(t, func(t *testing.T, p *pawltest.Pawl) {
		open := need[pawl.Task](t)(pawl.Create(t.Context(), p.Service, pawl.NewTask{Type: "a"}))
		ended := need[pawl.Task](t)(pawl.Create(t.Context(), p.Service, pawl.NewTask{Type: "a"}))
		complete(t, p.Service, ended)
		tx := beginOwn(t, p)
		if _, err := pawl.Await(t.Context(), tx.TxEngine, open.ID); !errors.Is(err, pawl.ErrInvalid) {
			t.Error(err)
		}
		if got, err := pawl.Await(t.Context(), tx.TxEngine, ended.ID); err != nil || got.State != pawl.TaskCompleted {
			t.Errorf("%s, %v", got.State, err)
		}
		if err := tx.rollback(); err != nil {
			t.Error(err)
		}
	})
}

// The event that ends a task may be committed after one with a higher number. Its end is
// found all the same.
func TestTheEventOfAnEndMayComeLate(t *testing.T) {
	p := pawltest.OpenReal(t, pawltest.Postgres, engine.Options{})
	ctx, cancel := context.WithTimeout(t.Context(), 60*time.Second)
	defer cancel()
	task := need[pawl.Task](t)(pawl.Create(ctx, p.Engine, pawl.NewTask{Type: "a"}))
	ended := make(chan error, 1)
	go func() {
		_, err := pawl.Await(ctx, p.Engine, task.ID)
		ended <- err
	}()
	ls := need[[]pawl.Lease](t)(p.Engine.Claim(ctx, pawl.ClaimRequest{WorkerID: "w", TaskID: task.ID}))
	tx := beginOwn(t, p)
	need[pawl.Moved](t)(pawl.Complete(ctx, tx.TxEngine, ls[0].Fence(), []byte(`1`)))
	title := "changed meanwhile"
	if _, err := first(p.Engine.UpdateTasks(ctx, []pawl.TaskUpdate{{TaskID: task.ID, Title: &title}})); err != nil {
		t.Fatal(err)
	}
	time.Sleep(500 * time.Millisecond) // the change is seen
	if err := tx.commit(); err != nil {
		t.Fatal(err)
	}
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
