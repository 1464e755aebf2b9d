package engine

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/engine/internal/checkpoints"
	"github.com/pawl-work/pawl/engine/internal/kernel"
	"github.com/pawl-work/pawl/engine/internal/rules"
	"github.com/pawl-work/pawl/engine/internal/unique"
	"github.com/pawl-work/pawl/internal/idform"
	"github.com/pawl-work/pawl/store"
)

// view runs fn on a snapshot, in the caller's namespace.
func view[T any](ctx context.Context, e *Engine, fn func(ctx context.Context, tx store.Tx, namespace string) (T, error)) (T, error) {
	return kernel.Read(ctx, e.k, fn)
}

// GetTask reads one task.
func (e *Engine) GetTask(ctx context.Context, id string) (pawl.Task, error) {
	id = idform.Task(id)
	return view(ctx, e, func(ctx context.Context, tx store.Tx, ns string) (pawl.Task, error) {
		return taskAndReason(ctx, tx, ns, id)
	})
}

// taskAndReason reads a task and what it waits for.
func taskAndReason(ctx context.Context, tx store.Tx, ns, id string) (pawl.Task, error) {
	t, err := store.GetTask(ctx, tx, ns, id)
	if err != nil {
		return t, err
	}
	one := []pawl.Task{t}
	err = blockTasks(ctx, tx, ns, one)
	return one[0], err
}

func blockTasks(ctx context.Context, tx store.Tx, ns string, tasks []pawl.Task) error {
	now, err := tx.Now(ctx)
	if err != nil {
		return err
	}
	return store.BlockTasks(ctx, tx, ns, tasks, now)
}

// ListTasks lists tasks, newest first unless Asc.
func (e *Engine) ListTasks(ctx context.Context, q pawl.TaskFilter) (pawl.List[pawl.Task], error) {
	q = idform.Call(q)
	if err := rules.CheckTaskFilter(&q); err != nil {
		return pawl.List[pawl.Task]{}, err
	}
	return view(ctx, e, func(ctx context.Context, tx store.Tx, ns string) (pawl.List[pawl.Task], error) {
		l, err := store.ListTasks(ctx, tx, ns, q)
		if err != nil {
			return l, err
		}
		return l, blockTasks(ctx, tx, ns, l.Items)
	})
}

// TaskResult returns the result of a completed task.
func (e *Engine) TaskResult(ctx context.Context, id string) (pawl.TaskResult, error) {
	id = idform.Task(id)
	return e.result(ctx, id, nil)
}

// PartialResult is TaskResult. Of a failed, dead-lettered or cancelled task it returns
// the results of the completed items; see pawl.TaskReader.
func (e *Engine) PartialResult(ctx context.Context, id string) (pawl.TaskResult, error) {
	id = idform.Task(id)
	return e.result(ctx, id, []pawl.TaskState{pawl.TaskFailed, pawl.TaskDeadLettered, pawl.TaskCancelled})
}

// result returns the result of a task that is applied or completed, or whose state is in
// partial.
func (e *Engine) result(ctx context.Context, id string, partial []pawl.TaskState) (pawl.TaskResult, error) {
	return view(ctx, e, func(ctx context.Context, tx store.Tx, ns string) (pawl.TaskResult, error) {
		t, err := store.GetTask(ctx, tx, ns, id)
		if err != nil {
			return pawl.TaskResult{}, err
		}
		part := slices.Contains(partial, t.State)
		if t.State != pawl.TaskCompleted && t.State != pawl.TaskApplied && !part {
			return pawl.TaskResult{}, &pawl.Error{Code: pawl.CodeConflict, Op: "result", State: string(t.State), Allowed: t.State.Allowed(),
				Message: fmt.Sprintf("task %s is %s: it has no result", id, t.State)}
		}
		rows, applied, err := results(ctx, tx, id)
		if err != nil {
			return pawl.TaskResult{}, err
		}
		out := pawl.TaskResult{TaskID: id, CreatedAt: t.UpdatedAt, Payload: applied, Partial: part}
		if t.CompletedAt != nil {
			out.CreatedAt = *t.CompletedAt
		}
		if applied == nil {
			out.Payload = joined(rows)
		}
		if t.Type == pawl.TypeBudget { // the question, with what was asked when it was decided
			out.Payload = t.Payload
		}
		return out, err
	})
}

// joined combines the results of items. The result of a task of one item is returned as
// it is. Other results become an object by key if all items have a key, otherwise a list
// by position.
func joined(rows []itemResult) json.RawMessage {
	if len(rows) == 1 && rows[0].Solo {
		return rows[0].Result
	}
	byKey := map[string]int{}
	size := 2
	for i, r := range rows {
		size += len(r.Key) + len(r.Result) + 8
		if r.Key != "" {
			byKey[r.Key] = i
		}
	}
	out := make([]byte, 0, size) // the values are JSON and are not parsed again
	if len(byKey) == len(rows) && len(rows) > 0 {
		for _, key := range slices.Sorted(maps.Keys(byKey)) {
			out = append(append(append(append(out, ','), rules.Encode(key)...), ':'), rows[byKey[key]].Result...)
		}
		out[0] = '{'
		return append(out, '}')
	}
	for _, r := range rows {
		out = append(append(out, ','), r.Result...)
	}
	if len(rows) == 0 {
		return json.RawMessage("[]")
	}
	out[0] = '['
	return append(out, ']')
}

// GetItem reads one item, with the state of its parts.
func (e *Engine) GetItem(ctx context.Context, id string) (pawl.Item, error) {
	id = idform.Item(id)
	it, err := e.readItem(ctx, id)
	if err == nil && it.Status == pawl.StatusPending {
		return e.itemAndReason(ctx, id)
	}
	if err != nil || !it.Acceptance {
		return it.Item, err
	}
	parts, err := e.liveParts(ctx, id)
	if len(parts) > 0 {
		it.PartsState = partsState(parts)
	}
	return it.Item, err
}

// itemAndReason reads an item that no worker holds, and what it waits for.
func (e *Engine) itemAndReason(ctx context.Context, id string) (pawl.Item, error) {
	return view(ctx, e, func(ctx context.Context, tx store.Tx, ns string) (pawl.Item, error) {
		now, err := tx.Now(ctx)
		if err != nil {
			return pawl.Item{}, err
		}
		it, err := store.GetItem(ctx, tx, ns, id, now)
		one := []pawl.Item{it.Item}
		if err == nil {
			err = store.BlockItems(ctx, tx, ns, one, now)
		}
		return one[0], err
	})
}

// readCall is one caller's read of an item. The reads of several callers share a
// statement.
type readCall struct {
	ord int
	id  string
}

// readAnswer is the answer to a readCall.
type readAnswer struct {
	ord  int
	item store.ItemRow
}

// readItem reads an item as it is now. If a read costs a round trip, concurrent reads
// share one. Inside a caller's transaction it reads what that transaction has written.
func (e *Engine) readItem(ctx context.Context, id string) (store.ItemRow, error) {
	if !e.db.Dialect().RoundTrips || e.scope != nil {
		it, _, err := e.k.Item(ctx, id)
		return it, err
	}
	got, err := e.committers.read.Do(ctx, e.db, []readCall{{id: id}})
	switch {
	case err != nil:
		return store.ItemRow{}, cmp.Or(ctx.Err(), err)
	case len(got) == 0 || got[0].item.Namespace != pawl.CallerOf(ctx).Namespace:
		return store.ItemRow{}, pawl.NotFound("item", id)
	}
	return got[0].item, nil
}

// readGroup reads the items of a group, in any namespace.
func (e *Engine) readGroup(ctx context.Context, group []readCall) (out []readAnswer, err error) {
	asked := map[string][]int{}
	for _, r := range group {
		asked[r.id] = append(asked[r.id], r.ord)
	}
	err = e.k.Base.Look(ctx, func(ctx context.Context, tx store.Tx) error {
		now, err := tx.Now(ctx)
		if err != nil {
			return err
		}
		items, err := store.GetItems(ctx, tx, slices.Collect(maps.Keys(asked)), now)
		out = make([]readAnswer, 0, len(group))
		for _, it := range items {
			for _, ord := range asked[it.ID] {
				out = append(out, readAnswer{ord, it})
			}
		}
		return err
	})
	return out, err
}

// ListItems lists items, oldest first unless Desc.
func (e *Engine) ListItems(ctx context.Context, q pawl.ItemFilter) (pawl.List[pawl.Item], error) {
	q = idform.Call(q)
	if err := checkItemFilter(&q); err != nil {
		return pawl.List[pawl.Item]{}, err
	}
	return view(ctx, e, func(ctx context.Context, tx store.Tx, ns string) (pawl.List[pawl.Item], error) {
		now, err := tx.Now(ctx)
		if err != nil {
			return pawl.List[pawl.Item]{}, err
		}
		l, err := store.ListItems(ctx, tx, ns, q, now)
		if err != nil {
			return l, err
		}
		return l, store.BlockItems(ctx, tx, ns, l.Items, now)
	})
}

// ListEvents lists events, newest first unless Asc, or in feed order.
func (e *Engine) ListEvents(ctx context.Context, q pawl.EventFilter) (pawl.List[pawl.Event], error) {
	q = idform.Call(q)
	if err := rules.CheckPage(&q.Page); err != nil {
		return pawl.List[pawl.Event]{}, err
	}
	if q.After != nil || strings.HasPrefix(q.Cursor, feedCursor) {
		return e.feedPage(ctx, q)
	}
	return view(ctx, e, func(ctx context.Context, tx store.Tx, ns string) (pawl.List[pawl.Event], error) {
		if err := recorded(ctx, tx, ns, q); err != nil {
			return pawl.List[pawl.Event]{}, err
		}
		return store.ListEvents(ctx, tx, ns, q)
	})
}

// recorded refuses ids of tasks and items of which the namespace has no events.
func recorded(ctx context.Context, tx store.Tx, ns string, q pawl.EventFilter) error {
	err := store.Known(ctx, tx, ns, q.TaskID, q.ItemID)
	if pawl.CodeOf(err) != pawl.CodeNotFound || q.TaskID == "" || q.ItemID != "" {
		return err
	}
	if deleted, failed := store.WasDeleted(ctx, tx, ns, q.TaskID); failed != nil || deleted {
		return failed
	}
	return err
}

// ListCheckpoints lists checkpoints, in order of their number unless Desc.
func (e *Engine) ListCheckpoints(ctx context.Context, q pawl.CheckpointFilter) (pawl.List[pawl.Checkpoint], error) {
	q = idform.Call(q)
	if err := checkCheckpointFilter(&q); err != nil {
		return pawl.List[pawl.Checkpoint]{}, err
	}
	return view(ctx, e, func(ctx context.Context, tx store.Tx, ns string) (pawl.List[pawl.Checkpoint], error) {
		if q.TaskKey != "" {
			key, err := unique.New(&pawl.NewTask{Unique: &pawl.Unique{By: pawl.UniqueByKey, Key: q.TaskKey}})
			if err == nil {
				q.TaskID, err = key.Holder(ctx, tx, ns, q.TaskType)
			}
			if err != nil || q.TaskID == "" {
				return pawl.List[pawl.Checkpoint]{}, cmp.Or(err, error(pawl.NotFound("task", q.TaskType+" "+q.TaskKey)))
			}
		}
		if err := store.Known(ctx, tx, ns, q.TaskID, q.ItemID); err != nil {
			return pawl.List[pawl.Checkpoint]{}, err
		}
		return checkpoints.List(ctx, tx, ns, q)
	})
}

// CountCheckpoints counts a task's checkpoints by type.
func (e *Engine) CountCheckpoints(ctx context.Context, taskID string) (map[string]int64, error) {
	taskID = idform.Task(taskID)
	return view(ctx, e, func(ctx context.Context, tx store.Tx, ns string) (map[string]int64, error) {
		if err := store.TaskExists(ctx, tx, ns, taskID); err != nil {
			return nil, err
		}
		return countCheckpoints(ctx, tx, taskID)
	})
}

// ListFailures groups failed items; see pawl.FailureReader.
func (e *Engine) ListFailures(ctx context.Context, q pawl.FailureFilter) (pawl.List[pawl.FailureGroup], error) {
	if err := checkFailureFilter(&q); err != nil {
		return pawl.List[pawl.FailureGroup]{}, err
	}
	return view(ctx, e, func(ctx context.Context, tx store.Tx, ns string) (pawl.List[pawl.FailureGroup], error) {
		return store.ListFailures(ctx, tx, ns, q)
	})
}
