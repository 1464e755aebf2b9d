package worker

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-work/pawl"
)

// fake is a claimer in memory: one queue, leases by the clock, and a list of every call. The
// rules of the fence are those of docs/contract.md §3, as far as a worker can see them.
type fake struct {
	pawl.BlobReader    // not called
	pawl.BudgetSpender // not called
	pawl.EffectSender  // not called
	pawl.BlobWriter    // not called
	pawl.Deliverer     // not called
	pawl.Messenger     // not called
	pawl.Spawner       // not called
	pawl.TaskForker    // not called
	mu                 sync.Mutex
	start              time.Time
	items              []*fakeItem
	more               chan struct{} // closed when there is more
	calls              []call
	refuse             func(verb string, id string) error // per call; nil = carry out
	down               func(verb string) error            // per batch
	stuck              func(verb string) bool             // per batch: hang until the context ends
	info               []pawl.WorkerInfo
}

type call struct {
	verb  string
	at    time.Duration // since the start
	ids   []string
	claim pawl.ClaimRequest
}

type fakeItem struct {
	lease    pawl.Lease
	state    pawl.ItemState
	leftBy   string
	result   string
	failure  *pawl.FailCall
	progress []string
	saved    map[string]pawl.Checkpoint
	until    time.Time
}

func newFake() *fake { return &fake{start: time.Now(), more: make(chan struct{})} }

func (f *fake) add(typ string, inputs ...string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, in := range inputs {
		f.items = append(
			f.items,
			&fakeItem{
				lease: pawl.Lease{ID: fmt.Sprintf("itm_%d", len(f.items)), TaskID: "tsk", Type: typ, Input: json.RawMessage(in)},
				state: pawl.ItemQueued,
			},
		)
	}
	f.wake()
}

func (f *fake) wake() {
	close(f.more)
	f.more = make(chan struct{})
}

func (f *fake) note(verb string, c call) {
	c.verb, c.at = verb, time.Since(f.start)
	f.calls = append(f.calls, c)
}

func (f *fake) check(ctx context.Context, verb string) error {
	f.mu.Lock()
	stuck, down := f.stuck, f.down
	f.mu.Unlock()
	if stuck != nil && stuck(verb) {
		<-ctx.Done()
		return ctx.Err()
	}
	if down != nil {
		if err := down(verb); err != nil {
			return err
		}
	}
	return ctx.Err()
}

func (f *fake) Claim(ctx context.Context, req pawl.ClaimRequest) ([]pawl.Lease, error) {
	end := time.After(time.Duration(req.WaitSeconds) * time.Second)
	f.mu.Lock()
	f.note("claim", call{claim: req})
	f.mu.Unlock()
	for {
		if err := f.check(ctx, "claim"); err != nil { // again after a wait: it may be down since
			return nil, err
		}
		f.mu.Lock()
		out, more := f.claim(req), f.more
		f.mu.Unlock()
		if len(out) > 0 || req.WaitSeconds == 0 {
			return out, nil
		}
		select {
		case <-more:
		case <-end:
			return nil, nil
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

func (f *fake) claim(req pawl.ClaimRequest) []pawl.Lease {
	now := time.Now()
	var out []pawl.Lease
	for _, it := range f.items {
		if it.state != pawl.ItemQueued || len(out) == req.Limit {
			continue
		}
		it.state = pawl.ItemLeased
		it.lease.Attempt++
		req.LeaseSeconds = cmp.Or(req.LeaseSeconds, pawl.DefaultLeaseSeconds)
		it.lease.WorkerID, it.lease.LeaseSeconds = req.WorkerID, req.LeaseSeconds
		it.lease.ServerTime, it.lease.LeaseExpiresAt = now, now.Add(time.Duration(req.LeaseSeconds)*time.Second)
		out = append(out, it.lease)
	}
	return out
}

// fenced finds the item of a call, or returns the reason why it is refused.
func (f *fake) fenced(verb string, fence pawl.Fence) (*fakeItem, error) {
	if f.refuse != nil {
		if err := f.refuse(verb, fence.ItemID); err != nil {
			return nil, err
		}
	}
	for _, it := range f.items {
		switch {
		case it.lease.ID != fence.ItemID:
			continue
		case it.lease.Attempt != fence.Attempt || it.lease.WorkerID != fence.WorkerID:
			return nil, &pawl.Error{Code: pawl.CodeLeaseLost, Reason: pawl.ReasonTaken}
		case it.state.Leased() && !time.Now().Before(it.lease.LeaseExpiresAt):
			return nil, &pawl.Error{Code: pawl.CodeLeaseLost, Reason: pawl.ReasonExpired}
		case !it.state.Leased() && !it.state.Ended() && it.state != pawl.ItemFailed:
			return nil, &pawl.Error{Code: pawl.CodeLeaseLost, Reason: it.leftBy}
		case !it.state.Leased():
			return it, &pawl.Error{Code: pawl.CodeConflict, State: string(it.state), Allowed: []string{}}
		}
		return it, nil
	}
	return nil, pawl.NotFound("item", fence.ItemID)
}

// batch runs a verb over its calls.
func batch[C, R any](
	ctx context.Context,
	f *fake,
	verb string,
	calls []C,
	fence func(C) pawl.Fence,
	do func(*fakeItem, C) R,
) ([]pawl.Result[R], error) {
	f.mu.Lock()
	ids := make([]string, len(calls))
	for i, c := range calls {
		ids[i] = fence(c).ItemID
	}
	f.note(verb, call{ids: ids})
	f.mu.Unlock()
	if err := f.check(ctx, verb); err != nil {
		return nil, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	out := make([]pawl.Result[R], len(calls))
	for i, c := range calls {
		it, err := f.fenced(verb, fence(c))
		if verb == "heartbeat" && it != nil && it.state == pawl.ItemCancelled {
			err = nil
		}
		if out[i].Err = err; err == nil {
			out[i].Value = do(it, c)
		}
	}
	return out, nil
}

func (f *fake) Heartbeat(ctx context.Context, calls []pawl.HeartbeatCall) ([]pawl.Result[pawl.Beat], error) {
	return batch(
		ctx,
		f,
		"heartbeat",
		calls,
		func(c pawl.HeartbeatCall) pawl.Fence { return c.Fence },
		func(it *fakeItem, c pawl.HeartbeatCall) pawl.Beat {
			if it.state == pawl.ItemCancelled {
				return pawl.Beat{Cancelled: true, ServerTime: time.Now()}
			}
			if c.LeaseSeconds == 0 {
				c.LeaseSeconds = it.lease.LeaseSeconds
			}
			it.state = pawl.ItemInProgress
			it.lease.LeaseExpiresAt = time.Now().Add(time.Duration(c.LeaseSeconds) * time.Second)
			return pawl.Beat{LeaseExpiresAt: it.lease.LeaseExpiresAt, LeaseSeconds: c.LeaseSeconds, ServerTime: time.Now()}
		},
	)
}

func (f *fake) Complete(ctx context.Context, calls []pawl.CompleteCall) ([]pawl.Result[pawl.Moved], error) {
	return batch(
		ctx,
		f,
		"complete",
		calls,
		func(c pawl.CompleteCall) pawl.Fence { return c.Fence },
		func(it *fakeItem, c pawl.CompleteCall) pawl.Moved {
			it.state, it.result = pawl.ItemCompleted, string(c.Result)
			return pawl.Moved{State: it.state}
		},
	)
}

func (f *fake) Submit(ctx context.Context, calls []pawl.SubmitCall) ([]pawl.Result[pawl.Moved], error) {
	return batch(
		ctx,
		f,
		"submit",
		calls,
		func(c pawl.SubmitCall) pawl.Fence { return c.Fence },
		func(it *fakeItem, c pawl.SubmitCall) pawl.Moved {
			it.state, it.result = pawl.ItemSubmitted, string(c.Result)
			return pawl.Moved{State: it.state}
		},
	)
}

func (f *fake) Fail(ctx context.Context, calls []pawl.FailCall) ([]pawl.Result[pawl.Moved], error) {
	return batch(ctx, f, "fail", calls, func(c pawl.FailCall) pawl.Fence { return c.Fence }, func(it *fakeItem, c pawl.FailCall) pawl.Moved {
		it.state, it.failure = pawl.ItemFailed, &c
		return pawl.Moved{State: it.state}
	})
}

func (f *fake) Release(ctx context.Context, calls []pawl.ReleaseCall) ([]pawl.Result[pawl.Moved], error) {
	return batch(
		ctx,
		f,
		"release",
		calls,
		func(c pawl.ReleaseCall) pawl.Fence { return c.Fence },
		func(it *fakeItem, _ pawl.ReleaseCall) pawl.Moved {
			it.state, it.leftBy = pawl.ItemQueued, pawl.ReasonReleased
			f.wake()
			return pawl.Moved{State: it.state}
		},
	)
}

func (f *fake) Suspend(ctx context.Context, calls []pawl.SuspendCall) ([]pawl.Result[pawl.Moved], error) {
	return batch(
		ctx,
		f,
		"suspend",
		calls,
		func(c pawl.SuspendCall) pawl.Fence { return c.Fence },
		func(it *fakeItem, c pawl.SuspendCall) pawl.Moved {
			it.state, it.leftBy, it.until = pawl.ItemWaiting, pawl.ReasonReleased, *c.Until
			time.AfterFunc(time.Until(*c.Until), func() {
				f.mu.Lock()
				defer f.mu.Unlock()
				it.state = pawl.ItemQueued
				f.wake()
			})
			return pawl.Moved{State: it.state}
		},
	)
}

func (f *fake) Progress(ctx context.Context, calls []pawl.ProgressCall) ([]pawl.Result[pawl.Moved], error) {
	return batch(
		ctx,
		f,
		"progress",
		calls,
		func(c pawl.ProgressCall) pawl.Fence { return c.Fence },
		func(it *fakeItem, c pawl.ProgressCall) pawl.Moved {
			it.progress = append(it.progress, *c.Stage)
			return pawl.Moved{State: it.state}
		},
	)
}

func (f *fake) Checkpoint(ctx context.Context, calls []pawl.CheckpointCall) ([]pawl.Result[pawl.CheckpointRef], error) {
	return batch(
		ctx,
		f,
		"checkpoint",
		calls,
		func(c pawl.CheckpointCall) pawl.Fence { return c.Fence },
		func(it *fakeItem, c pawl.CheckpointCall) pawl.CheckpointRef {
			if it.saved == nil {
				it.saved = map[string]pawl.Checkpoint{}
			}
			it.saved[c.Name] = pawl.Checkpoint{
				Type:     c.Type,
				Name:     c.Name,
				ArgsHash: c.ArgsHash,
				Snapshot: c.Snapshot,
				Sequence: int64(len(it.saved) + 1),
				Attempt:  c.Attempt,
			}
			return pawl.CheckpointRef{Sequence: int64(len(it.saved))}
		},
	)
}

func (f *fake) Resume(ctx context.Context, id string) (pawl.ResumeState, error) {
	f.mu.Lock()
	f.note("resume", call{ids: []string{id}})
	f.mu.Unlock()
	if err := f.check(ctx, "resume"); err != nil {
		return pawl.ResumeState{}, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	return pawl.ResumeState{ItemID: id, Steps: f.item(id).saved}, nil
}

func (f *fake) ResumePage(ctx context.Context, id, _ string) (pawl.ResumeState, error) {
	return f.Resume(ctx, id)
}

func (f *fake) RegisterWorker(ctx context.Context, w pawl.WorkerInfo) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.note("register", call{})
	f.info = append(f.info, w)
	return nil
}

func (f *fake) item(id string) *fakeItem {
	for _, it := range f.items {
		if it.lease.ID == id {
			return it
		}
	}
	return nil
}

// callsOf returns the calls of a verb.
func (f *fake) callsOf(verb string) []call {
	f.mu.Lock()
	defer f.mu.Unlock()
	var out []call
	for _, c := range f.calls {
		if c.verb == verb {
			out = append(out, c)
		}
	}
	return out
}

// state returns an item's state.
func (f *fake) state(id string) pawl.ItemState {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.item(id).state
}

func (f *fake) set(change func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	change()
}

// runWorker runs a worker in a synctest bubble until fn returns, then stops it and returns the
// result of Run.
func runWorker(t *testing.T, o Options, handler HandlerFunc, fn func(t *testing.T, f *fake)) (err error) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		err = runWorkerOn(t, f, o, []Handler{{Type: "t", Do: handler}}, fn)
	})
	return err
}

func runWorkerOn(t *testing.T, f *fake, o Options, handlers []Handler, fn func(t *testing.T, f *fake)) error {
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan error, 1)
	if o.Logger == nil {
		o.Logger = slog.New(slog.NewTextHandler(io.Discard, nil))
	}
	go func() { done <- RunWith(ctx, f, o, handlers...) }()
	fn(t, f)
	stop()
	return <-done
}

// runFor returns a handler that runs for d or until its context ends.
func runFor(d time.Duration) HandlerFunc {
	return func(ctx context.Context, in json.RawMessage) (json.RawMessage, error) {
		if !sleep(ctx, d) {
			return nil, context.Cause(ctx)
		}
		return in, nil
	}
}

// advance advances the virtual time and waits until all goroutines are blocked.
func advance(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}
