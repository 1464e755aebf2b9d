package bulk

import (
	"context"
	"slices"
	"time"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/engine/internal/kernel"
	"github.com/pawl-work/pawl/engine/internal/rules"
	"github.com/pawl-work/pawl/internal/clock"
	"github.com/pawl-work/pawl/internal/idform"
	"github.com/pawl-work/pawl/store"
)

// Bulk begins a bulk call; see pawl.BulkOperator. Its payload is the call. Its metadata has how
// far it is, and is written with each step.
func (b *Bulk) Bulk(ctx context.Context, call pawl.BulkCall) (pawl.Task, error) {
	if err := b.k.Acts(ctx, "bulk"); err != nil {
		return pawl.Task{}, err
	}
	call = bulkIDs(call)
	if call.DryRun {
		return pawl.Task{}, pawl.Invalid("/dry_run", "is for the call that counts")
	}
	if err := check(&call); err != nil {
		return pawl.Task{}, err
	}
	t := pawl.NewTask{Type: pawl.TypeBulk, Title: call.Verb + " by filter", Payload: rules.Encode(call), MaxAttempts: pawl.MaxAttemptsCeiling}
	tasks := b.k.Tasks(kernel.Origin{})
	d, err := tasks.Draft(ctx, &t, kernel.Allowed{Reserved: true})
	if err != nil {
		return pawl.Task{}, err
	}
	var now int64
	err = b.k.Write(ctx, func(ctx context.Context, w *kernel.Write) (err error) {
		now, err = tasks.Insert(ctx, w, []kernel.Draft{d})
		w.After(b.tell)
		return err
	})
	if err != nil {
		return pawl.Task{}, err
	}
	return d.Answer(now), nil
}

// bulkIDs returns the call with its ids as text.
func bulkIDs(call pawl.BulkCall) pawl.BulkCall {
	call.Filter.ID = slices.Clone(call.Filter.ID)
	for i, id := range call.Filter.ID {
		call.Filter.ID[i] = idform.Task(id)
	}
	return call
}

// CountBulk counts the tasks of a bulk call; see pawl.BulkOperator.
func (b *Bulk) CountBulk(ctx context.Context, call pawl.BulkCall) (int64, error) {
	call = bulkIDs(call)
	if err := check(&call); err != nil {
		return 0, err
	}
	now, err := kernel.Read(ctx, b.k, func(ctx context.Context, tx store.Tx, _ string) (int64, error) { return tx.Now(ctx) })
	if err != nil {
		return 0, err
	}
	return countTasks(ctx, b.k, filterOf(&call, now))
}

// bulkFilter returns the filter of a call that was made at a time. Tasks of the same microsecond
// count.
func filterOf(call *pawl.BulkCall, made int64) pawl.TaskFilter {
	q := call.Filter.Tasks()
	if at := store.Stamp(made + 1); q.Until.IsZero() || at.Before(q.Until) {
		q.Until = at
	}
	return q
}

// countTasks counts the tasks of a filter, each step in a snapshot of its own. Steps grow and
// shrink as batches do.
func countTasks(ctx context.Context, k *kernel.Kernel, q pawl.TaskFilter) (n int64, err error) {
	size := bulkCount
	for p := (store.BulkPage{}); err == nil && !p.Done; n += p.Count {
		var began time.Time
		p, err = kernel.Read(ctx, k, func(ctx context.Context, tx store.Tx, ns string) (store.BulkPage, error) {
			began = clock.Now()
			return store.CountBulk(ctx, tx, ns, q, p, size)
		})
		size = nextSize(size, clock.Now().Sub(began), bulkCount, bulkCounts)
	}
	return n, err
}

// bulkPage takes the step over the tasks of a filter that follows another one.
func bulkPage(ctx context.Context, k *kernel.Kernel, q pawl.TaskFilter, last store.BulkPage) (store.BulkPage, error) {
	return kernel.Read(ctx, k, func(ctx context.Context, tx store.Tx, ns string) (store.BulkPage, error) {
		return store.BulkTasks(ctx, tx, ns, q, last, pawl.BulkStep)
	})
}
