package children

import (
	"cmp"
	"context"
	"maps"
	"slices"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/store"
)

// Link implements kernel.Children.
func (asked) Link(ctx context.Context, tx store.Tx, tasks []store.NewTask) error {
	of := map[store.TaskID][]*store.NewTask{}
	for i := range tasks {
		if p := tasks[i].ParentID; p != nil {
			of[*p] = append(of[*p], &tasks[i])
		}
	}
	for _, parent := range slices.Sorted(maps.Keys(of)) { // all transactions lock parents in the same order
		if err := linkChildRows(ctx, tx, parent, of[parent]); err != nil {
			return err
		}
	}
	return nil
}

func linkChildRows(ctx context.Context, tx store.Tx, parent store.TaskID, children []*store.NewTask) error {
	ns := children[0].Namespace
	if err := store.ShareParent(ctx, tx, ns, string(parent)); err != nil {
		return err
	}
	var depth, count int
	if _, err := store.Row(ctx, tx, []any{&depth, &count}, texts["count children"], parent, ns, len(children)); err != nil {
		return err
	}
	if depth > pawl.MaxChildDepth {
		return &pawl.Error{Code: pawl.CodeLimit, Op: "create",
			Message: "the parent " + string(parent) + " has the greatest depth of children already"}
	}
	if count > pawl.MaxChildren {
		return &pawl.Error{Code: pawl.CodeLimit, Op: "create",
			Message: "the parent " + string(parent) + " has as many children as a task may have"}
	}
	rows := make([][]any, len(children))
	for i, c := range children {
		rows[i] = []any{store.TaskID(c.ID), ns, parent, store.ItemID(c.Spawned.ItemID), c.Spawned.Key, depth}
	}
	return tx.ExecEach(ctx, texts["link child"], rows)
}

// Count implements kernel.Children.
func (asked) Count(ctx context.Context, tx store.Tx, taskID string) (n int, err error) {
	_, err = store.Row(ctx, tx, []any{&n}, texts["children so far"], store.TaskID(taskID))
	return n, err
}

// childByKey returns the child of a task that was spawned under a key; "" = none.
func childByKey(ctx context.Context, tx store.Tx, parentID, key string) (id string, err error) {
	_, err = store.Row(ctx, tx, []any{(*store.TaskID)(&id)}, texts["child by key"], store.TaskID(parentID), key)
	return id, err
}

// taskOfItem returns the task of an item.
func taskOfItem(ctx context.Context, tx store.Tx, namespace, itemID string) (id string, err error) {
	found, err := store.Row(ctx, tx, []any{(*store.TaskID)(&id)}, texts["task of item"], store.ItemID(itemID), namespace)
	if err == nil && !found {
		err = pawl.NotFound("item", itemID)
	}
	return id, err
}

// endedChild names a task that may be a child and may have ended.
type endedChild struct {
	Ord    int
	TaskID string
}

// endChildren counts the children that have ended in the waits for them, each once. It queues
// the items that have what they need, and fails those that cannot get it. It locks the waits,
// in the order of items, and reads the states of the children before. It counts nothing in the
// waits of items that are left out.
func endChildren(ctx context.Context, tx store.Tx, children []endedChild, leftOut func(item string) bool) ([]store.ChildrenEnded, error) {
	ids := make([]string, len(children))
	out := make([]store.ChildrenEnded, len(children))
	for i, c := range children {
		ids[i], out[i].Ord = c.TaskID, c.Ord
	}
	ended, err := store.EndTasks(ctx, tx, ids, leftOut)
	ended.Ord = out[0].Ord
	out[0] = ended
	return out, err
}

// awaited is a child that an item waits for. The zero value is before all others.
type awaited struct{ ItemID, ChildID string }

// openAwaited lists up to limit children of open waits above after that have not been counted
// as ended.
func openAwaited(ctx context.Context, tx store.Tx, after awaited, limit int) (out []awaited, err error) {
	from := []any{store.FromItem(after.ItemID), store.TaskID(cmp.Or(after.ChildID, store.FirstTask)), limit}
	return store.All(ctx, tx, texts["open awaited"], from, func(rows store.Rows, a *awaited) error {
		return rows.Scan((*store.ItemID)(&a.ItemID), (*store.TaskID)(&a.ChildID))
	})
}

// Of implements kernel.Children.
func (asked) Of(ctx context.Context, tx store.Tx, itemID string) (*pawl.ChildrenState, error) {
	var s pawl.ChildrenState
	var over int
	found, err := store.Row(ctx, tx, []any{(*store.Text)(&s.Name), &s.Need, &s.OnFailure, &s.Total, &s.Ended, &s.Failed, &over},
		texts["wait of item"], store.ItemID(itemID))
	if err != nil || !found {
		return nil, err
	}
	s.Over = over == 1
	return &s, nil
}

// Open implements kernel.Children.
func (asked) Open(ctx context.Context, tx store.Tx, itemID string) (id string, err error) {
	_, err = store.Row(ctx, tx, []any{(*store.TaskID)(&id)}, texts["open child"], store.ItemID(itemID))
	return id, err
}

// Results implements kernel.Children.
func (asked) Results(ctx context.Context, tx store.Tx, itemID string, page pawl.Page) (pawl.List[pawl.ChildResult], error) {
	after := cmp.Or(page.Cursor, store.FirstTask)
	rows, err := tx.Query(ctx, texts["ended children"], store.ItemID(itemID), store.TaskID(after), pawl.MaxChildResult, page.Limit)
	if err != nil {
		return pawl.List[pawl.ChildResult]{}, err
	}
	defer rows.Close()
	out := pawl.List[pawl.ChildResult]{}
	for rows.Next() {
		var c pawl.ChildResult
		var key, failure, result store.Text
		var size *int
		if err := rows.Scan((*store.TaskID)(&c.ID), &key, (*string)(&c.State), &failure, &size, &result); err != nil {
			return out, err
		}
		c.Key, c.Error, c.Result = string(key), store.FailureOf(failure), store.Raw(result)
		c.Omitted = c.State == pawl.TaskCompleted && c.Result == nil
		out.Items = append(out.Items, c)
	}
	if len(out.Items) == page.Limit {
		out.Next = out.Items[len(out.Items)-1].ID
	}
	return out, rows.Err()
}
