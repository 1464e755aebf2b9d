package pawltest

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"sync"
	"testing"
	"time"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/worker"
)

// CrashAfter lets the handlers run one claimable item, and kills the worker after the item's
// writes have reached the engine n times: its saved steps and other checkpoints, sleeps and other
// waits, children, and the call that ends it. Nothing that the worker does after that reaches the engine, and the handler
// does not go on, as after kill -9. With n = 0 the first write does not arrive. Then the lease
// runs out. CrashAfter returns the item as it is then. crashed is false if the item had
// fewer writes.
func CrashAfter(t testing.TB, p *Pawl, n int, handlers ...worker.Handler) (it pawl.Item, crashed bool) {
	t.Helper()
	id, _, crashed := runUntil(t, p, n, false, handlers)
	if id == "" {
		t.Fatal("there is no item that the handlers could claim")
	}
	it, err := p.Service.GetItem(t.Context(), id)
	p.must(err)
	return it, crashed
}

// runUntil runs one claimable item until n writes have reached the engine, or with lost until the next
// one, which does not arrive. It returns the item's id, "" if there was none, and how many writes are left.
func runUntil(t testing.TB, p *Pawl, n int, lost bool, handlers []worker.Handler) (id string, left int, crashed bool) {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	t.Cleanup(stop) // ends the goroutine of a handler that was stopped in its middle
	c := &crashing{once: once{Service: p.Service}, left: n, lost: lost, dead: make(chan struct{}), gone: ctx.Done()}
	done := make(chan error, 1)
	go func() {
		o := worker.Options{Concurrency: 1, NoPrefetch: true, Drain: true, Logger: slog.New(slog.DiscardHandler)}
		done <- worker.RunWith(ctx, c, o, handlers...)
	}()
	select {
	case err := <-done:
		if err != nil {
			t.Fatalf("the worker: %v", err)
		}
		return c.id, c.left, false
	case <-c.dead:
		p.Advance(pawl.MaxLeaseSeconds*time.Second + time.Second)
		_, err := p.Service.Sweep(t.Context())
		p.must(err)
		return c.id, 0, true
	}
}

// EachCrash checks that a task survives every crash of its worker. For n = 0, 1, 2 and so on it
// opens a new Pawl, creates the task, lets the worker crash after n writes, in whichever attempt
// of the item or of a child that is, and runs what there is until the item has ended. It does so
// twice: the worker dies at once, or at its next write, which does not arrive; then the work between
// the two is done again. It then calls check, and goes on until no crash is possible any more. The task has
// one item.
func EachCrash(t *testing.T, task pawl.NewTask, check func(t *testing.T, p *Pawl, it pawl.Item), handlers ...worker.Handler) {
	t.Helper()
	for i, crashed := 1, true; crashed; i++ { // 0 and lost, 1, 1 and lost, 2 and so on
		n, lost := i/2, i%2 == 1
		name := fmt.Sprintf("after %d writes", n)
		if lost {
			name = fmt.Sprintf("at write %d", n+1)
		}
		t.Run(name, func(t *testing.T) {
			p := Open(t, SQLite)
			made, err := pawl.Create(t.Context(), p.Service, task)
			p.must(err)
			l, err := p.Service.ListItems(t.Context(), pawl.ItemFilter{TaskID: made.ID})
			p.must(err)
			it, left := l.Items[0], n
			crashed = false
			for tries := 0; it.CompletedAt == nil && it.State != pawl.ItemSubmitted && tries < maxRuns; tries++ {
				id := ""
				if crashed {
					id, _, _ = runUntil(t, p, math.MaxInt, false, handlers)
				} else {
					id, left, crashed = runUntil(t, p, left, lost, handlers)
				}
				if it, err = p.Service.GetItem(t.Context(), it.ID); err != nil {
					t.Fatal(err)
				}
				switch {
				case id != "":
				case it.RunAt != nil && it.RunAt.After(p.Now()):
					p.Elapse(it.RunAt.Sub(p.Now()) + time.Second)
				default: // a child may have to wait before its next attempt
					p.Elapse(time.Minute)
				}
			}
			check(t, p, it)
		})
		if t.Failed() {
			return
		}
	}
}

// maxRuns bounds how often EachCrash looks at an item that does not end.
const maxRuns = 50

var errCrashed = errors.New("pawltest: the worker has crashed")

// crashing is a service whose caller dies after some writes.
type crashing struct {
	once
	mu   sync.Mutex
	left int
	lost bool            // it dies at the write after the last
	dead chan struct{}   // closed when the worker is dead
	gone <-chan struct{} // closed at the end of the test
}

// reaches carries out a write, unless the worker is dead. The write that kills it does not return.
func reaches[V any](c *crashing, write func() (V, error)) (V, error) {
	var zero V
	c.mu.Lock()
	select {
	case <-c.dead:
		c.mu.Unlock()
		return zero, errCrashed
	default:
	}
	var out V
	var err error
	if c.left > 0 {
		if out, err = write(); err != nil {
			c.mu.Unlock()
			return out, err
		}
		if c.left--; c.left > 0 || c.lost {
			c.mu.Unlock()
			return out, nil
		}
	}
	close(c.dead)
	c.mu.Unlock()
	<-c.gone
	return zero, errCrashed
}

func (c *crashing) alive() bool {
	select {
	case <-c.dead:
		return false
	default:
		return true
	}
}

// Checkpoint implements pawl.Service.
func (c *crashing) Checkpoint(ctx context.Context, calls []pawl.CheckpointCall) ([]pawl.Result[pawl.CheckpointRef], error) {
	return reaches(c, func() ([]pawl.Result[pawl.CheckpointRef], error) { return c.Service.Checkpoint(ctx, calls) })
}

// Suspend implements pawl.Service.
func (c *crashing) Suspend(ctx context.Context, calls []pawl.SuspendCall) ([]pawl.Result[pawl.Moved], error) {
	return reaches(c, func() ([]pawl.Result[pawl.Moved], error) { return c.Service.Suspend(ctx, calls) })
}

// Spawn implements pawl.Service.
func (c *crashing) Spawn(ctx context.Context, calls []pawl.SpawnCall) ([]pawl.Result[pawl.Task], error) {
	return reaches(c, func() ([]pawl.Result[pawl.Task], error) { return c.Service.Spawn(ctx, calls) })
}

// Complete implements pawl.Service.
func (c *crashing) Complete(ctx context.Context, calls []pawl.CompleteCall) ([]pawl.Result[pawl.Moved], error) {
	return reaches(c, func() ([]pawl.Result[pawl.Moved], error) { return c.Service.Complete(ctx, calls) })
}

// Submit implements pawl.Service.
func (c *crashing) Submit(ctx context.Context, calls []pawl.SubmitCall) ([]pawl.Result[pawl.Moved], error) {
	return reaches(c, func() ([]pawl.Result[pawl.Moved], error) { return c.Service.Submit(ctx, calls) })
}

// Fail implements pawl.Service.
func (c *crashing) Fail(ctx context.Context, calls []pawl.FailCall) ([]pawl.Result[pawl.Moved], error) {
	return reaches(c, func() ([]pawl.Result[pawl.Moved], error) { return c.Service.Fail(ctx, calls) })
}

// Release implements pawl.Service. A worker that dies gives nothing back.
func (c *crashing) Release(ctx context.Context, calls []pawl.ReleaseCall) ([]pawl.Result[pawl.Moved], error) {
	if !c.alive() {
		return nil, errCrashed
	}
	return c.Service.Release(ctx, calls)
}

// Heartbeat implements pawl.Service.
func (c *crashing) Heartbeat(ctx context.Context, calls []pawl.HeartbeatCall) ([]pawl.Result[pawl.Beat], error) {
	if !c.alive() {
		return nil, errCrashed
	}
	return c.Service.Heartbeat(ctx, calls)
}
