package engine

import (
	"context"
	"slices"
	"time"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/engine/internal/rules"
	"github.com/pawl-work/pawl/internal/clock"
	"github.com/pawl-work/pawl/internal/idform"
	"github.com/pawl-work/pawl/store"
)

// Bulk begins a bulk call; see pawl.BulkOperator. Its payload is the call. Its metadata has how
// far it is, and is written with each step.
func (e *Engine) Bulk(ctx context.Context, call pawl.BulkCall) (pawl.Task, error) {
	if err := e.acts(ctx, "bulk"); err != nil {
		return pawl.Task{}, err
	}
	call = bulkIDs(call)
	if call.DryRun {
		return pawl.Task{}, pawl.Invalid("/dry_run", "is for the call that counts")
	}
	if err := rules.CheckBulk(&call); err != nil {
		return pawl.Task{}, err
	}
	t := pawl.NewTask{Type: pawl.TypeBulk, Title: call.Verb + " by filter", Payload: rules.Encode(call), MaxAttempts: pawl.MaxAttemptsCeiling}
	d, err := e.draft(ctx, &t, "", &drafting{reserved: true})
	if err != nil {
		return pawl.Task{}, err
	}
	var made []created
	err = e.db.Do(ctx, func(ctx context.Context, tx store.Tx) (err error) {
		made, err = e.insertInTx(ctx, tx, []draft{d})
		return err
	})
	if err != nil {
		return pawl.Task{}, err
	}
	e.after(func() {
		e.created([]draft{d}, made[0].now)
		select {
		case e.bulkMade <- struct{}{}:
		default: // the loop has been told
		}
	})
	return d.answer(made[0].now), nil
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
func (e *Engine) CountBulk(ctx context.Context, call pawl.BulkCall) (int64, error) {
	call = bulkIDs(call)
	if err := rules.CheckBulk(&call); err != nil {
		return 0, err
	}
	now, err := view(ctx, e, func(ctx context.Context, tx store.Tx, _ string) (int64, error) { return tx.Now(ctx) })
	if err != nil {
		return 0, err
	}
	return e.countTasks(ctx, bulkFilter(&call, now))
}

// bulkFilter returns the filter of a call that was made at a time. Tasks of the same microsecond
// count.
func bulkFilter(call *pawl.BulkCall, made int64) pawl.TaskFilter {
	q := call.Filter.Tasks()
	if at := stamp(made + 1); q.Until.IsZero() || at.Before(q.Until) {
		q.Until = at
	}
	return q
}

// countTasks counts the tasks of a filter, each step in a snapshot of its own. Steps grow and
// shrink as batches do.
func (e *Engine) countTasks(ctx context.Context, q pawl.TaskFilter) (n int64, err error) {
	size := bulkCount
	for p := (store.BulkPage{}); err == nil && !p.Done; n += p.Count {
		var began time.Time
		p, err = view(ctx, e, func(ctx context.Context, tx store.Tx, ns string) (store.BulkPage, error) {
			began = clock.Now()
			return store.CountBulk(ctx, tx, ns, q, p, size)
		})
		size = nextSize(size, clock.Now().Sub(began), bulkCount, bulkCounts)
	}
	return n, err
}

// bulkPage takes the step over the tasks of a filter that follows another one.
func (e *Engine) bulkPage(ctx context.Context, q pawl.TaskFilter, last store.BulkPage) (store.BulkPage, error) {
	return view(ctx, e, func(ctx context.Context, tx store.Tx, ns string) (store.BulkPage, error) {
		return store.BulkTasks(ctx, tx, ns, q, last, pawl.BulkStep)
	})
}

// bulkData is the data of events that a bulk call leaves; "" = they are not part of one.
func bulkData(taskID string) store.Text {
	if taskID == "" {
		return ""
	}
	return store.Text(rules.Encode(map[string]string{"bulk": taskID}))
}
