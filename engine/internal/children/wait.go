package children

import (
	"context"
	"slices"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/engine/internal/kernel"
	"github.com/pawl-work/pawl/internal/idform"
	"github.com/pawl-work/pawl/store"
)

// Check implements kernel.Children.
func (a asked) Check(ctx context.Context, k *kernel.Kernel, calls []pawl.SuspendCall, out []pawl.Result[pawl.Moved]) (good []int,
	err error) {
	for i := range calls {
		w := calls[i].Children
		if w == nil {
			good = append(good, i)
			continue
		}
		ids := make([]string, len(w.IDs))
		for n, id := range w.IDs {
			ids[n] = idform.Task(id)
		}
		calls[i].Children = &pawl.ChildWait{Name: w.Name, IDs: ids, Need: w.Need, OnFailure: w.OnFailure}
		if out[i].Err = checkChildWait(calls[i].Children); out[i].Err != nil {
			continue
		}
		_, out[i].Err = kernel.Read(ctx, k, func(ctx context.Context, tx store.Tx, ns string) (none struct{}, err error) {
			task, err := taskOfItem(ctx, tx, ns, calls[i].ItemID)
			if err != nil {
				return none, err
			}
			return none, areOf(ctx, tx, "own children", task, ids)
		})
		if code := pawl.CodeOf(out[i].Err); code == pawl.CodeUnavailable || code == pawl.CodeInternal {
			return nil, out[i].Err
		}
		if out[i].Err == nil {
			good = append(good, i)
		}
	}
	return good, nil
}

// Wait implements kernel.Children.
func (asked) Wait(w *pawl.ChildWait) *store.ChildWait {
	if w == nil {
		return nil
	}
	out := &store.ChildWait{Name: store.Text(w.Name), IDs: slices.Compact(slices.Sorted(slices.Values(w.IDs))),
		Need: int(w.Need), OnFailure: w.OnFailure}
	if w.Need == pawl.NeedAll {
		out.Need = len(out.IDs)
	}
	if out.OnFailure == "" {
		out.OnFailure = pawl.OnFailureFail
	}
	return out
}

// Await implements kernel.Children.
func (asked) Await(ctx context.Context, tx store.Tx, calls []store.Leave, leave func() ([]store.Moved, error)) ([]store.Moved, error) {
	moved, err := leave()
	if err != nil {
		return nil, err
	}
	waits := map[int]*store.Leave{}
	for i := range calls {
		if calls[i].Children != nil {
			waits[calls[i].Ord] = &calls[i]
		}
	}
	for i := range moved {
		if l := waits[moved[i].Ord]; l != nil {
			if err := put(ctx, tx, l.Children, l, moved[i].TaskID); err != nil {
				return nil, err
			}
		}
	}
	return moved, nil
}

// put stores the wait of an item that was suspended in this transaction. No child counts as
// ended yet: endChildren counts those that have. None of them is removed before the commit.
func put(ctx context.Context, tx store.Tx, w *store.ChildWait, l *store.Leave, taskID string) error {
	item := store.ItemID(l.ItemID)
	if err := areOf(ctx, tx, "keep children", taskID, w.IDs); err != nil {
		return err
	}
	if _, err := tx.Exec(ctx, texts["put wait"], item, l.Namespace, store.TaskID(taskID), l.Attempt, w.Name, w.Need,
		w.OnFailure, len(w.IDs)); err != nil {
		return err
	}
	if _, err := tx.Exec(ctx, texts["forget awaited"], item); err != nil {
		return err
	}
	rows := make([][]any, len(w.IDs))
	for i, id := range w.IDs {
		rows[i] = []any{store.TaskID(id), item}
	}
	if err := tx.ExecEach(ctx, texts["put awaited"], rows); err != nil {
		return err
	}
	_, err := tx.Exec(ctx, texts["hold item"], item)
	return err
}

// areOf refuses ids that are no children of a task.
func areOf(ctx context.Context, tx store.Tx, query, taskID string, ids []string) error {
	own, err := store.TaskIDs(ctx, tx, texts[query], store.TaskList(ids), store.TaskID(taskID))
	if err != nil {
		return err
	}
	known := make(map[string]bool, len(own))
	for _, id := range own {
		known[id] = true
	}
	for _, id := range ids {
		if !known[id] {
			return pawl.NotFound("child", id+" of task "+taskID)
		}
	}
	return nil
}
