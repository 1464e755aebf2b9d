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
	calls = idform.Calls(calls)
	if err := rules.CheckBatch("clone", len(calls)); err != nil {
		return nil, err
	}
	out := make([]pawl.Result[pawl.Task], len(calls))
	var drafts []draft
	room := rules.CallBytes{Op: "clone"}
	for i := range calls {
		d, err := e.cloned(ctx, &calls[i], room)
		if err == nil {
			err = room.Take(d.bytes())
		}
		if err != nil {
			out[i].Err = err
			continue
		}
		d.ord = i
		drafts = append(drafts, d)
	}
	if err := e.createAll(ctx, out, drafts); err != nil {
		return nil, err
	}
	return out, nil
}

// cloned drafts a clone. room is the number of bytes that the call has left: no more of a
// task is read than can be stored.
func (e *Engine) cloned(ctx context.Context, call *pawl.TaskClone, room rules.CallBytes) (draft, error) {
	if err := rules.CheckClone(call); err != nil {
		return draft{}, err
	}
	t, err := view(ctx, e, func(ctx context.Context, tx store.Tx, ns string) (pawl.NewTask, error) {
		of, err := store.GetTask(ctx, tx, ns, call.TaskID)
		if err != nil {
			return pawl.NewTask{}, err
		}
		if of.Items > pawl.MaxItemsPerTask {
			return pawl.NewTask{}, pawl.Invalid("/task_id", "the task has %d items; at most %d are cloned", of.Items, pawl.MaxItemsPerTask)
		}
		items, err := workOf(ctx, tx, ns, of, room)
		return cloneOf(of, items, call), err
	})
	if err != nil {
		return draft{}, err
	}
	return e.draft(ctx, &t, call.TaskID, new(drafting))
}

// workOf reads the work items of a task in order of position. It leaves out plan and
// apply items.
func workOf(ctx context.Context, tx store.Tx, ns string, of pawl.Task, room rules.CallBytes) ([]pawl.Item, error) {
	var out []pawl.Item
	f := pawl.ItemFilter{TaskID: of.ID, Fields: []string{"input"}, Page: pawl.Page{Limit: pawl.MaxPage}}
	for {
		page, err := store.ListItems(ctx, tx, ns, f, 0)
		if err != nil {
			return nil, err
		}
		for _, it := range page.Items {
			if err := room.Take(len(it.Input)); err != nil {
				return nil, err
			}
			if it.Kind == pawl.KindWork {
				out = append(out, it)
			}
		}
		if f.Cursor = page.Next; f.Cursor == "" {
			slices.SortStableFunc(out, func(a, b pawl.Item) int { return cmp.Compare(a.Position, b.Position) })
			return out, nil
		}
	}
}

// cloneOf returns the task to create. If the older task was created from a payload
// alone, so is the clone: its only item's input is its payload.
func cloneOf(of pawl.Task, items []pawl.Item, call *pawl.TaskClone) pawl.NewTask {
	t := pawl.NewTask{Type: of.Type, Payload: of.Payload, Title: of.Title, Priority: of.Priority, RunAt: call.RunAt,
		RequestedBy: of.RequestedBy, Metadata: of.Metadata, Items: make([]pawl.NewItem, len(items)),
		StartToCloseSeconds: of.StartToCloseSeconds, ScheduleToStartSeconds: of.ScheduleToStartSeconds}
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
