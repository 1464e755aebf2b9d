package engine

import (
	"cmp"
	"context"
	"slices"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/engine/internal/rules"
	"github.com/pawl-work/pawl/internal/idform"
	"github.com/pawl-work/pawl/store"
)

// CloneTasks creates tasks like older ones; see pawl.TaskMaker.
func (e *Engine) CloneTasks(ctx context.Context, calls []pawl.TaskClone) ([]pawl.Result[pawl.Task], error) {
	return copies(ctx, e, "clone", idform.Calls(calls), e.cloned)
}

// copies creates a task for each call. room is the number of bytes that the calls have left: no
// more of a task is read than can be stored.
func copies[C any](ctx context.Context, e *Engine, op string, calls []C,
	copied func(ctx context.Context, call *C, room rules.CallBytes) (draft, error)) ([]pawl.Result[pawl.Task], error) {
	if err := rules.CheckBatch(op, len(calls)); err != nil {
		return nil, err
	}
	out := make([]pawl.Result[pawl.Task], len(calls))
	var drafts []draft
	room, said := rules.CallBytes{Op: op}, answers{op: op}
	for i := range calls {
		d, err := draft{}, said.full()
		if err == nil {
			d, err = copied(ctx, &calls[i], room)
		}
		if err == nil {
			err = room.Take(d.bytes())
		}
		if err != nil {
			out[i].Err = err
			said.take(nil, err)
			continue
		}
		said.take(d.answer(0), nil)
		d.ord = i
		drafts = append(drafts, d)
	}
	if err := e.createAll(ctx, out, drafts); err != nil {
		return nil, err
	}
	return out, nil
}

// cloned drafts a clone.
func (e *Engine) cloned(ctx context.Context, call *pawl.TaskClone, room rules.CallBytes) (draft, error) {
	if err := rules.CheckClone(call); err != nil {
		return draft{}, err
	}
	if call.Checkpoints {
		return e.clonedWhole(ctx, call, room)
	}
	t, err := view(ctx, e, func(ctx context.Context, tx store.Tx, ns string) (pawl.NewTask, error) {
		of, items, err := original(ctx, tx, ns, call.TaskID, room)
		return cloneOf(of, workOf(items), call), err
	})
	if err != nil {
		return draft{}, err
	}
	return e.draft(ctx, &t, call.TaskID, new(drafting))
}

// original reads a task that is to be copied, and its items in order of position.
func original(ctx context.Context, tx store.Tx, ns, taskID string, room rules.CallBytes) (of pawl.Task, out []pawl.Item, err error) {
	if of, err = store.GetTask(ctx, tx, ns, taskID); err != nil {
		return of, nil, err
	}
	if of.Items > pawl.MaxItemsPerTask {
		return of, nil, pawl.Invalid("/task_id", "the task has %d items; at most %d are copied", of.Items, pawl.MaxItemsPerTask)
	}
	f := pawl.ItemFilter{TaskID: of.ID, Fields: []string{"input"}, Page: pawl.Page{Limit: pawl.MaxPage}}
	for {
		page, err := store.ListItems(ctx, tx, ns, f, 0)
		if err != nil {
			return of, nil, err
		}
		for _, it := range page.Items {
			if err := room.Take(len(it.Input)); err != nil {
				return of, nil, err
			}
			out = append(out, it)
		}
		if f.Cursor = page.Next; f.Cursor == "" {
			slices.SortStableFunc(out, func(a, b pawl.Item) int { return cmp.Compare(a.Position, b.Position) })
			return of, out, nil
		}
	}
}

// workOf returns the items without plan and apply items.
func workOf(items []pawl.Item) []pawl.Item {
	return slices.DeleteFunc(slices.Clone(items), func(it pawl.Item) bool { return it.Kind != pawl.KindWork })
}

// cloneOf returns the task to create. If the older task was created from a payload
// alone, so is the clone: its only item's input is its payload.
func cloneOf(of pawl.Task, items []pawl.Item, call *pawl.TaskClone) pawl.NewTask {
	t := pawl.NewTask{Type: of.Type, Payload: of.Payload, Title: of.Title, Priority: of.Priority, RunAt: call.RunAt,
		RequestedBy: of.RequestedBy, Metadata: of.Metadata, Items: make([]pawl.NewItem, len(items)),
		StartToCloseSeconds: of.StartToCloseSeconds, ScheduleToStartSeconds: of.ScheduleToStartSeconds, Unique: call.Unique}
	if call.Payload != nil {
		t.Payload = call.Payload
	}
	if len(call.Metadata) > 0 {
		t.Metadata = rules.MergePatch(of.Metadata, call.Metadata)
	}
	if call.Title != nil {
		t.Title = *call.Title
	}
	if call.Priority != nil {
		t.Priority = *call.Priority
	}
	if call.RequestedBy != nil {
		t.RequestedBy = call.RequestedBy
	}
	for i, it := range items {
		n := &t.Items[i]
		*n = pawl.NewItem{Input: it.Input, Key: it.Key, After: it.After, MaxAttempts: it.MaxAttempts}
		if it.RunAt != nil && it.RunAt.Equal(pawl.Never) && call.RunAt == nil {
			n.RunAt = it.RunAt
		}
		if it.Type != of.Type {
			n.Type = it.Type
		}
		if it.Priority != of.Priority {
			n.Priority = &it.Priority
		}
	}
	if len(items) == 1 && items[0].Key == "" && string(items[0].Input) == string(of.Payload) {
		t.Items[0].Input, t.Payload = t.Payload, nil
	}
	return t
}
