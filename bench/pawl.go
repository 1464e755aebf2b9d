package main

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/engine"
	"github.com/pawl-work/pawl/internal/clock"
)

const (
	callers = 4 // goroutines that create and drain in batches
	taskOf  = "bench"
)

// payload has 200 bytes, for every system.
var payload = json.RawMessage(`{"to":"` + strings.Repeat("x", 191) + `"}`)

var result = json.RawMessage(`{"ok":true}`)

// runningEngine is an engine that runs its sweeps, as in production.
type runningEngine struct {
	*engine.Engine
	stop func() error
}

func openEngine(ctx context.Context, url string) (*runningEngine, error) {
	return openEngineWith(ctx, url, engine.Options{})
}

func openEngineWith(ctx context.Context, url string, o engine.Options) (*runningEngine, error) {
	e, err := engine.OpenWith(ctx, url, o)
	if err != nil {
		return nil, err
	}
	running, end := context.WithCancel(ctx)
	var own sync.WaitGroup
	own.Go(func() { _ = e.Run(running) }) // nil when it is ended
	return &runningEngine{e, func() error {
		end()
		own.Wait()
		return e.Close()
	}}, nil
}

// many runs fn in n goroutines and returns how long all of them took.
func many(n int, fn func(n int) error) (time.Duration, error) {
	start := clock.Now()
	errs := make([]error, n)
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() { errs[i] = fn(i) })
	}
	wg.Wait()
	for _, err := range errs {
		if err != nil {
			return 0, err
		}
	}
	return clock.Now().Sub(start), nil
}

// firstOf returns the first error of a batch.
func firstOf[T any](rs []pawl.Result[T], err error) error {
	for _, r := range rs {
		if err == nil {
			err = r.Err
		}
	}
	return err
}

// batches divides n into parts of at most size.
type batches struct {
	left atomic.Int64
	size int
}

func inBatches(n, size int) *batches {
	b := &batches{size: size}
	b.left.Store(int64(n))
	return b
}

// next returns the size of the next batch; 0 at the end.
func (b *batches) next() int {
	after := b.left.Add(int64(-b.size))
	return max(0, b.size+int(min(after, 0)))
}

// createTasks creates n tasks of one item.
func (h *runningEngine) createTasks(ctx context.Context, n, batch int) (time.Duration, error) {
	todo := inBatches(n, batch)
	return many(callers, func(int) error {
		for k := todo.next(); k > 0; k = todo.next() {
			tasks := make([]pawl.NewTask, k)
			for i := range tasks {
				tasks[i] = pawl.NewTask{Type: taskOf, Payload: payload}
			}
			if err := firstOf(h.CreateTasks(ctx, tasks)); err != nil {
				return err
			}
		}
		return nil
	})
}

// createWhole creates one task with all its n items in one call.
func (h *runningEngine) createWhole(ctx context.Context, n, _ int) (time.Duration, error) {
	items := make([]pawl.NewItem, n)
	for i := range items {
		items[i] = pawl.NewItem{Input: payload}
	}
	start := clock.Now()
	_, err := pawl.Create(ctx, h, pawl.NewTask{Type: taskOf, Items: items})
	return clock.Now().Sub(start), err
}

// createItems creates one task of n items: the task, then batches added to it.
func (h *runningEngine) createItems(ctx context.Context, n, batch int) (time.Duration, error) {
	items := make([]pawl.NewItem, batch)
	for i := range items {
		items[i] = pawl.NewItem{Input: payload}
	}
	start := clock.Now()
	first := min(n, batch)
	task, err := pawl.Create(ctx, h, pawl.NewTask{Type: taskOf, Items: items[:first], Payload: json.RawMessage(`{}`)})
	if err != nil {
		return 0, err
	}
	todo := inBatches(n-first, batch)
	_, err = many(callers, func(int) error {
		for k := todo.next(); k > 0; k = todo.next() {
			if err := firstOf(h.AddItems(ctx, []pawl.AddItems{{TaskID: task.ID, Items: items[:k]}})); err != nil {
				return err
			}
		}
		return nil
	})
	return clock.Now().Sub(start), err
}

// drain claims and completes n items, in batches.
func (h *runningEngine) drain(ctx context.Context, n, batch int) (time.Duration, error) {
	var done atomic.Int64
	took, err := many(callers, func(who int) error {
		for done.Load() < int64(n) {
			got, err := h.Claim(ctx, pawl.ClaimRequest{WorkerID: fmt.Sprintf("bench-%d", who), Types: []string{taskOf}, Limit: batch})
			if err != nil {
				return err
			}
			if err := h.complete(ctx, got); err != nil {
				return err
			}
			done.Add(int64(len(got)))
		}
		return nil
	})
	return took, err
}

// drainAndLog drains until all events are in the log, too.
func (h *runningEngine) drainAndLog(ctx context.Context, n, batch int) (time.Duration, error) {
	start := clock.Now()
	_, err := h.drain(ctx, n, batch)
	if err == nil {
		err = h.Log(ctx)
	}
	return clock.Now().Sub(start), err
}

func (h *runningEngine) complete(ctx context.Context, leases []pawl.Lease) error {
	if len(leases) == 0 {
		return nil
	}
	calls := make([]pawl.CompleteCall, len(leases))
	for i, l := range leases {
		calls[i] = pawl.CompleteCall{Fence: l.Fence(), Result: result}
	}
	return firstOf(h.Complete(ctx, calls))
}

// claimAll claims n items in batches of 1000.
func (h *runningEngine) claimAll(ctx context.Context, n, leaseSeconds int) ([]pawl.Lease, error) {
	var all []pawl.Lease
	for len(all) < n {
		got, err := h.Claim(ctx, pawl.ClaimRequest{WorkerID: "bench", Types: []string{taskOf}, Limit: min(pawl.MaxClaim, n-len(all)),
			LeaseSeconds: leaseSeconds})
		if err != nil {
			return nil, err
		}
		if len(got) == 0 {
			return nil, fmt.Errorf("%d of %d items could be claimed", len(all), n)
		}
		all = append(all, got...)
	}
	return all, nil
}
