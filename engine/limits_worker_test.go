package engine_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"time"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/engine"
)

// limitedTask is a task of a queue with limits, of a key.
func limitedTask(typ string, key int) pawl.NewTask {
	return pawl.NewTask{Type: typ, Payload: json.RawMessage(fmt.Sprintf(`{"t":"%d"}`, key)), MaxAttempts: 1000}
}

// randomWorker creates tasks of queues with limits, claims them, and ends the leases at random.
// It does not end one in eight.
type randomWorker struct {
	*engine.Engine
	name    string
	rnd     *rand.Rand
	until   time.Time
	taken   *atomic.Int64
	remove  func(task string) // is called before a task of the queue "spend" is cancelled or deleted
	outages bool              // the database may be away for a while
	calm    bool              // it settles and completes what it claims
}

// work works until its time is over. On a slow machine it goes on, for a minute at most, until enough items were
// claimed.
func (r *randomWorker) work(ctx context.Context) error {
	for time.Now().Before(r.until) || r.taken.Load() < enough && time.Now().Before(r.until.Add(time.Minute)) {
		err := r.round(ctx)
		if err != nil && !(r.outages && pawl.CodeOf(err) == pawl.CodeUnavailable) {
			return err
		}
	}
	return nil
}

// enough is how many items a run claims at least.
const enough = 50

// backlog is how many items of each queue are queued at most, more or less.
const backlog = 50

func (r *randomWorker) round(ctx context.Context) error {
	typ := []string{"all", "rate", "order", "spend"}[r.rnd.IntN(4)]
	if typ != "order" {
		q, err := r.GetQueue(ctx, typ)
		if err == nil && q.Queued < backlog {
			_, err = pawl.Create(ctx, r.Engine, limitedTask(typ, r.rnd.IntN(4)))
		}
		if err != nil {
			return fmt.Errorf("create: %w", err)
		}
	}
	req := pawl.ClaimRequest{WorkerID: r.name, Types: []string{typ}, Limit: 1 + r.rnd.IntN(4), LeaseSeconds: 1, WaitSeconds: r.rnd.IntN(2)}
	if r.rnd.IntN(8) == 0 {
		req.Types = []string{"all", "rate", "order", "spend"}
	}
	got, err := r.Claim(ctx, req)
	if err != nil {
		return fmt.Errorf("claim: %w", err)
	}
	r.taken.Add(int64(len(got)))
	for _, l := range got {
		end := r.end
		if l.Type == "spend" {
			end = r.spend
		}
		if err := end(ctx, l); err != nil && !lost(err) {
			return fmt.Errorf("end a lease: %w", err)
		}
	}
	return nil
}

// lost reports whether a call was refused because the item is not the worker's any more: its lease
// ended, or another worker, whose lease had ended, cancelled or deleted the task.
func lost(err error) bool {
	return slices.Contains([]pawl.Code{pawl.CodeLeaseLost, pawl.CodeConflict, pawl.CodeNotFound}, pawl.CodeOf(err))
}

// end ends a lease in one of the ways, or not at all.
func (r *randomWorker) end(ctx context.Context, l pawl.Lease) (err error) {
	switch n := r.rnd.IntN(8); {
	case n < 4:
		return r.leave(ctx, l)
	case n == 4 && l.Type != "order":
		return r.removeTask(ctx, l.TaskID)
	default:
		_, err = pawl.Complete(ctx, r.Engine, l.Fence(), nil)
	}
	return err
}

// leave ends a lease without an end of the item, or not at all.
func (r *randomWorker) leave(ctx context.Context, l pawl.Lease) (err error) {
	switch r.rnd.IntN(4) {
	case 0: // the worker dies
	case 1:
		_, err = pawl.Release(ctx, r.Engine, l.Fence())
	case 2:
		_, err = pawl.Suspend(ctx, r.Engine, l.Fence(), time.Now().Add(100*time.Millisecond))
	case 3:
		after := int64(r.rnd.IntN(100))
		call := pawl.FailCallOf(l.Fence(), errors.New("no"))
		call.RetryAfterMS = &after
		_, err = first(r.Fail(ctx, []pawl.FailCall{call}))
	}
	return err
}

// removeTask cancels or deletes a task. Another worker may have ended it since the lease was lost.
func (r *randomWorker) removeTask(ctx context.Context, task string) (err error) {
	if r.rnd.IntN(2) == 0 {
		_, err = pawl.Cancel(ctx, r.Engine, task, "no more")
	} else {
		_, err = first(r.DeleteTasks(ctx, []pawl.TaskCall{{TaskID: task, Force: true}}))
	}
	return err
}
