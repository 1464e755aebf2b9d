package engine

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/engine/internal/kernel"
	"github.com/pawl-work/pawl/engine/internal/rules"
	"github.com/pawl-work/pawl/internal/idform"
	"github.com/pawl-work/pawl/store"
)

// CloneTasks creates tasks like older ones; see pawl.TaskMaker.
func (e *Engine) CloneTasks(ctx context.Context, calls []pawl.TaskClone) ([]pawl.Result[pawl.Task], error) {
	return copies(ctx, e, "clone", idform.Calls(calls), func(call *pawl.TaskClone) (copying, error) {
		c := copying{op: "clone", taskID: call.TaskID, like: call}
		if call.Checkpoints {
			c.checkpoints, c.at = true, store.AllCheckpoints
		}
		return c, checkClone(call)
	})
}

// copying is a call that copies a task.
type copying struct {
	op, taskID  string
	like        *pawl.TaskClone // how the copy differs
	checkpoints bool            // it has checkpoints too, up to number at
	at          int64
	archived    bool // it was read from its archive
}

// copyRoom is what the calls of a batch that copy tasks have left: no more of a task is read than
// can be stored.
type copyRoom struct {
	rules.CallBytes
	rows int
}

// errManyRows refuses a batch that would make too many rows.
var errManyRows error = &pawl.Error{Code: pawl.CodeTooLarge, Op: "copy", Message: fmt.Sprintf(
	"the batch would make more than %d items and checkpoints; copy large tasks one by one", pawl.MaxCopyRows)}

// errLargeArchive refuses a copy of an archived task that is too large for one transaction.
var errLargeArchive error = &pawl.Error{Code: pawl.CodeTooLarge, Op: "copy", Message: fmt.Sprintf(
	"of an archived task at most %d items and checkpoints, and %d MiB, are copied: restore the task first",
	pawl.MaxCopyRows, pawl.MaxCallBytes>>20)}

// copies creates a task for each call. One call alone may copy a task of any size. A batch may make
// pawl.MaxCopyRows rows: one that would make more is refused as a whole.
func copies[C any](ctx context.Context, e *Engine, op string, calls []C,
	read func(call *C) (copying, error)) ([]pawl.Result[pawl.Task], error) {
	if err := rules.CheckBatch(op, len(calls)); err != nil {
		return nil, err
	}
	if err := fewCopies(ctx, e, calls, read); err != nil {
		return nil, err
	}
	out := make([]pawl.Result[pawl.Task], len(calls))
	var drafts []draft
	room, said := copyRoom{rules.CallBytes{Op: op}, pawl.MaxCopyRows}, kernel.Answers{Op: op}
	alone := len(calls) == 1 && e.copiesApart()
	if alone {
		room.rows = 2 * store.CopyStep
	}
	for i := range calls {
		d, err := draft{}, said.Full()
		var c copying
		if err == nil {
			c, err = read(&calls[i])
		}
		if err == nil {
			d, err = e.copyAtOnce(ctx, &c, room)
		}
		if err == nil {
			err = room.Take(d.Bytes())
		}
		switch large := pawl.CodeOf(err) == pawl.CodeTooLarge; {
		case large && c.archived && len(calls) == 1:
			err = errLargeArchive
		case large && alone:
			d, err = e.copyInParts(ctx, &c)
		case err == errManyRows && len(calls) > 1:
			return nil, err
		}
		if err != nil {
			out[i].Err = err
			said.Take(nil, err)
			continue
		}
		said.Take(d.Answer(0), nil)
		d.ord = i
		room.rows -= d.rows()
		drafts = append(drafts, d)
	}
	err := e.createAll(ctx, out, drafts)
	for i := range drafts {
		e.copyEnded(ctx, &drafts[i], out[drafts[i].ord], err)
	}
	if err != nil {
		return nil, err
	}
	return out, nil
}

// fewCopies refuses a batch that would make too many rows, before a task is read. Archived tasks are
// counted when they are read.
func fewCopies[C any](ctx context.Context, e *Engine, calls []C, read func(call *C) (copying, error)) error {
	for i, left := 0, pawl.MaxCopyRows; i < len(calls) && len(calls) > 1; i++ {
		c, err := read(&calls[i])
		if err != nil {
			continue // it is answered on its own
		}
		n, err := view(ctx, e, func(ctx context.Context, tx store.Tx, ns string) (int, error) {
			return store.CountCopied(ctx, tx, ns, c.taskID, c.at, left)
		})
		if left -= n; err == nil && left < 0 {
			err = errManyRows
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// rows returns how many items and checkpoints a draft has.
func (d *draft) rows() int {
	n := len(d.items)
	if d.fork != nil {
		n += len(d.fork.Checkpoints)
	}
	if d.staged != nil {
		n += d.staged.rows
	}
	return n
}

// copyAtOnce drafts a copy whose rows one transaction writes. More of them than room has are
// errManyRows.
func (e *Engine) copyAtOnce(ctx context.Context, c *copying, room copyRoom) (draft, error) {
	if c.checkpoints {
		return e.forked(ctx, c, room)
	}
	t, err := view(ctx, e, func(ctx context.Context, tx store.Tx, ns string) (pawl.NewTask, error) {
		of, items, err := original(ctx, tx, ns, c.taskID, room)
		return cloneOf(of, workOf(items), c.like), err
	})
	if err != nil {
		return draft{}, err
	}
	return e.draft(ctx, &t, c.taskID, &drafting{stored: true})
}

// original reads a task that is to be copied, and its items in order of position.
func original(ctx context.Context, tx store.Tx, ns, taskID string, room copyRoom) (of pawl.Task, out []pawl.Item, err error) {
	if of, err = store.GetTask(ctx, tx, ns, taskID); err != nil {
		return of, nil, err
	}
	if of.Items > room.rows {
		return of, nil, errManyRows
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

// asCreated returns a clone as a create would say it that is the same: an item that has only an input is the payload.
func asCreated(t *pawl.NewTask) *pawl.NewTask {
	if len(t.Items) != 1 || t.Payload != nil {
		return t
	}
	n := t.Items[0]
	if n.Key != "" || n.Type != "" || len(n.After) > 0 || n.MaxAttempts != 0 || n.RunAt != nil || n.Deadline != nil || n.Priority != nil {
		return t
	}
	like := *t
	like.Items, like.Payload = nil, n.Input
	return &like
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
	// What a create need not say is not said: such a clone is compared with creates.
	byInput := call.Unique != nil && call.Unique.By == pawl.UniqueByInput
	if byInput && !slices.ContainsFunc(items, func(it pawl.Item) bool { return it.MaxAttempts != items[0].MaxAttempts }) && len(items) > 0 {
		t.MaxAttempts = items[0].MaxAttempts
	}
	for i, it := range items {
		n := &t.Items[i]
		*n = pawl.NewItem{Input: it.Input, Key: it.Key, After: it.After, MaxAttempts: it.MaxAttempts}
		if byInput && string(it.Input) == "null" {
			n.Input = nil
		}
		if t.MaxAttempts > 0 {
			n.MaxAttempts = 0
		}
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
	if of.Items == 1 && len(items) == 1 && items[0].Key == "" && string(items[0].Input) == string(of.Payload) {
		t.Items[0].Input, t.Payload = t.Payload, nil
	}
	return t
}
