package bulk

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"time"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/engine/internal/kernel"
	"github.com/pawl-work/pawl/engine/internal/rules"
	"github.com/pawl-work/pawl/internal/clock"
	"github.com/pawl-work/pawl/store"
)

const (
	bulkWorker  = pawl.TypeBulk         // who holds the lease of a bulk call
	bulkLease   = 30                    // seconds
	bulkPoll    = 5 * time.Second       // how often Run looks for bulk calls of other processes
	bulkReport  = 2 * time.Second       // how often progress is told
	bulkHeld    = 5 * time.Second       // how long the last tasks may stay locked before the call makes room for others
	InSweep     = 10 * time.Second      // how long a sweep works on bulk calls
	bulkTime    = 40 * time.Millisecond // that a transaction is to take: batches grow and shrink towards it
	bulkFirst   = 16                    // tasks of the first batch
	bulkLeast   = 40                    // tasks of a later batch at least: fewer save little of its time
	bulkLocked  = 200                   // tasks of a batch at most, where all are locked before the first is changed
	bulkCount   = 1000                  // tasks at least of a statement that counts
	bulkCounts  = 5000                  // and at most
	bulkApart   = 100                   // tasks of a batch at most that are changed apart
	bulkLeft    = 1000                  // tasks at most that other transactions lock and that are left to the end
	bulkPart    = 20                    // tasks of one call of a verb, or of the statements of a batch between two looks at the clock
	bulkWriters = 4                     // calls at the same time, where transactions write concurrently
)

// loop carries out bulk calls until ctx ends: at once those of this process, and within
// bulkPoll those of others.
func (b *Bulk) loop(ctx context.Context) {
	var running sync.WaitGroup
	defer running.Wait()
	slots := make(chan struct{}, pawl.BulksPerEngine)
	look := time.NewTicker(bulkPoll)
	defer look.Stop()
	for ctx.Err() == nil {
		err := b.take(ctx, func(one *run) {
			slots <- struct{}{}
			running.Go(func() {
				one.run(ctx)
				<-slots
				b.tell() // another one may wait for the slot
			})
		}, func() bool { return len(slots) < cap(slots) })
		if err != nil {
			b.k.LogError(ctx, "looking for bulk calls failed; retrying", err)
		}
		select {
		case <-ctx.Done():
		case <-b.made:
		case <-look.C:
		}
	}
}

// Run carries out bulk calls for at most a time; 0 = until none is left.
func Run(ctx context.Context, b *Bulk, limit time.Duration) error {
	within := ctx
	if limit > 0 {
		var stop context.CancelFunc
		within, stop = context.WithTimeout(ctx, limit)
		defer stop()
	}
	err := b.take(within, func(one *run) { one.run(within) }, func() bool { return within.Err() == nil })
	if within.Err() != nil && ctx.Err() == nil {
		return nil
	}
	return err
}

// take leases bulk calls and passes them to start, as long as there are any and more
// says so.
func (b *Bulk) take(ctx context.Context, start func(*run), more func() bool) error {
	if err := b.k.Acts(ctx, "bulk"); err != nil {
		return err
	}
	for taken := true; taken && more(); {
		taken = false
		var found []item
		err := b.k.Look(ctx, func(ctx context.Context, tx store.Tx) (err error) {
			found, err = waiting(ctx, tx, pawl.BulksPerEngine)
			return err
		})
		if err != nil {
			return err
		}
		for _, item := range found {
			if !more() {
				return nil
			}
			one := &run{k: b.k, tasks: b.k.Tasks(kernel.Origin{}), item: item, size: bulkFirst}
			ok, err := one.claim(ctx)
			if err != nil {
				return err
			}
			if ok {
				taken = true
				start(one)
			}
		}
	}
	return nil
}

// state is how far a bulk call is: the metadata of its task.
type state struct {
	pawl.BulkResult
	Total  *int64 `json:"total,omitempty"` // that the filter selected when it began; nil = not counted yet
	Cursor string `json:"cursor,omitempty"`
	// Apart are tasks before the cursor that are to be changed each by a call of its own.
	Apart []task `json:"apart,omitempty"`
}

// task is a task, and its version when it was selected.
type task struct {
	ID      string `json:"id"`
	Version int    `json:"version"`
}

// run is a bulk call that this engine carries out.
type run struct {
	k        *kernel.Kernel
	tasks    kernel.Tasks
	item     item
	fence    pawl.Fence
	caller   pawl.Caller // who made the call
	call     pawl.BulkCall
	filter   pawl.TaskFilter
	state    state
	size     int                  // tasks of the next batch
	touched  map[string]bool      // of state.Apart, what this call has changed before it was interrupted
	held     map[string]time.Time // of state.Apart, what another transaction locked, and when it was tried
	reported time.Time
}

// data is the data of the events that the call leaves.
func (r *run) data() store.Text { return kernel.Origin{Bulk: r.item.TaskID}.Data() }

// asWorker returns a context for the verbs of the item's lease.
func (r *run) asWorker(ctx context.Context) context.Context {
	return pawl.As(ctx, pawl.Caller{Namespace: r.item.Namespace})
}

func (r *run) claim(ctx context.Context) (bool, error) {
	attempt := 0
	err := r.k.DB.Do(ctx, func(ctx context.Context, tx store.Tx) (err error) {
		attempt, err = store.ClaimOwn(ctx, tx, r.item.ItemID, bulkWorker, bulkLease)
		return err
	})
	r.fence = pawl.Fence{ItemID: r.item.ItemID, WorkerID: bulkWorker, Attempt: attempt}
	return attempt > 0, err
}

// run carries the call out, as far as ctx allows. If this process ends, the item is released,
// and another engine goes on. If the lease is lost, the call was cancelled, or another engine
// goes on already.
func (r *run) run(ctx context.Context) {
	within, stop := context.WithCancel(r.asWorker(ctx))
	var beats sync.WaitGroup
	beats.Go(func() { r.keep(within, stop) })
	err := r.steps(within)
	stop()
	beats.Wait()
	switch code := pawl.CodeOf(err); {
	case err == nil, code == pawl.CodeLeaseLost, code == pawl.CodeConflict, code == pawl.CodeNotFound:
	case ctx.Err() != nil, err == errHeld:
		call := pawl.ReleaseCall{Fence: r.fence}
		if err == errHeld {
			call.DelaySeconds = int(bulkHeld / time.Second)
		}
		rs, failed := r.tasks.Release(context.WithoutCancel(within), []pawl.ReleaseCall{call})
		if failed = cmp.Or(failed, firstError(rs)); failed != nil {
			r.k.Log.WarnContext(ctx, "a bulk call was not released; its lease will expire", "task_id", r.item.TaskID, "error", failed)
		}
	case code == pawl.CodeInvalid:
		no := false
		call := pawl.FailCall{Fence: r.fence, Error: pawl.Failure{Code: string(code), Message: err.Error()}, Retryable: &no}
		rs, failed := r.tasks.Fail(within, []pawl.FailCall{call})
		r.k.LogError(ctx, "a bulk call could not be carried out", cmp.Or(failed, firstError(rs), err))
	default:
		r.k.LogError(ctx, "a bulk call was interrupted; it goes on when its lease has expired", err)
	}
}

func firstError[T any](rs []pawl.Result[T]) error {
	for i := range rs {
		if rs[i].Err != nil {
			return rs[i].Err
		}
	}
	return nil
}

// keep extends the lease until ctx ends, and calls lost when the lease is.
func (r *run) keep(ctx context.Context, lost func()) {
	beat := time.NewTicker(bulkLease * time.Second / 4)
	defer beat.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-beat.C:
		}
		rs, err := r.tasks.Heartbeat(ctx, []pawl.HeartbeatCall{{Fence: r.fence}})
		if err == nil && rs[0].Err != nil && pawl.CodeOf(rs[0].Err) != pawl.CodeUnavailable {
			lost()
			return
		}
	}
}

// steps does what is left of the call, and completes its item.
func (r *run) steps(ctx context.Context) error {
	if err := r.load(ctx); err != nil {
		return err
	}
	if r.state.Total == nil {
		n, err := countTasks(ctx, r.k, r.filter)
		if err != nil {
			return err
		}
		r.state.Total = &n
		if err := r.save(ctx); err != nil {
			return err
		}
	}
	if err := r.goOn(ctx); err != nil {
		return err
	}
	for p := (store.BulkPage{Last: r.state.Cursor}); !p.Done; {
		var err error
		if p, err = bulkPage(ctx, r.k, r.filter, p); err != nil {
			return err
		}
		for rest := p.Tasks; len(rest) > 0; {
			n, err := r.batch(ctx, rest[:min(r.size, len(rest))])
			if err == nil {
				err = r.apart(ctx)
			}
			if err == nil {
				err = r.report(ctx, false)
			}
			if err != nil {
				return err
			}
			rest = rest[n:]
		}
		r.state.Cursor = p.Last
		if err := r.report(ctx, p.Done); err != nil {
			return err
		}
	}
	if err := r.rest(ctx); err != nil {
		return err
	}
	rs, err := r.tasks.Complete(ctx, []pawl.CompleteCall{{Fence: r.fence, Result: rules.Encode(r.state.BulkResult)}})
	return cmp.Or(err, firstError(rs))
}

// load reads the call, who made it, and how far it is.
func (r *run) load(ctx context.Context) error {
	t, err := r.tasks.GetTask(ctx, r.item.TaskID)
	if err != nil {
		return err
	}
	events, err := r.tasks.ListEvents(ctx, pawl.EventFilter{TaskID: t.ID, Asc: true, Page: pawl.Page{Limit: 1}})
	if err != nil {
		return err
	}
	r.caller = pawl.Caller{Namespace: t.Namespace}
	if len(events.Items) == 1 {
		made := events.Items[0]
		r.caller.ActorType, r.caller.ActorID, r.caller.Key = made.ActorType, made.ActorID, made.KeyID
	}
	if err := cmp.Or(json.Unmarshal(t.Payload, &r.call), json.Unmarshal(t.Metadata, &r.state)); err != nil {
		return pawl.Invalid("/payload", "is no bulk call: %v", err)
	}
	if err := check(&r.call); err != nil {
		return err
	}
	r.filter = filterOf(&r.call, t.CreatedAt.UnixMicro())
	return nil
}

// save stores how far the call is, under its lease. If the task was cancelled, that is refused.
func (r *run) save(ctx context.Context) error {
	text := rules.Encode(r.state)
	return r.locked(ctx, func(ctx context.Context, tx store.Tx) error {
		return save(ctx, tx, r.item.TaskID, string(text))
	})
}

// report saves how far the call is, if it has changed or the last report is long ago, and shows
// it as the item's progress.
func (r *run) report(ctx context.Context, changed bool) error {
	late := clock.Now().Sub(r.reported) >= bulkReport
	if changed || late {
		if err := r.save(ctx); err != nil {
			return err
		}
	}
	if !late {
		return nil
	}
	r.reported = clock.Now()
	total := max(*r.state.Total, r.state.Matched)
	stage, percent := fmt.Sprintf("%d of %d", r.state.Matched, total), 0
	if total > 0 {
		percent = int(r.state.Matched * 100 / total)
	}
	rs, err := r.tasks.Progress(ctx, []pawl.ProgressCall{{Fence: r.fence, Progress: &percent, Stage: &stage}})
	return cmp.Or(err, firstError(rs))
}
