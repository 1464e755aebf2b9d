package store

import (
	"context"
	"maps"
	"slices"

	"github.com/pawl-work/pawl"
)

var childrenSQL = Texts(sqlFiles, "children.sql")

// Spawned says which item spawned a child, and under which key.
type Spawned struct {
	ItemID string
	Key    Text
}

// LinkChildren locks the parents of new tasks, counts the children and links them. Tasks without
// a parent are skipped. A parent that does not exist is not_found; one that has ended or failed
// is a conflict.
func LinkChildren(ctx context.Context, tx Tx, tasks []NewTask) error {
	of := map[TaskID][]*NewTask{}
	for i := range tasks {
		if p := tasks[i].ParentID; p != nil {
			of[*p] = append(of[*p], &tasks[i])
		}
	}
	for _, parent := range slices.Sorted(maps.Keys(of)) { // all transactions lock parents in the same order
		if err := linkChildren(ctx, tx, parent, of[parent]); err != nil {
			return err
		}
	}
	return nil
}

func linkChildren(ctx context.Context, tx Tx, parent TaskID, children []*NewTask) error {
	ns := children[0].Namespace
	if err := ShareParent(ctx, tx, ns, string(parent)); err != nil {
		return err
	}
	var depth, count int
	if _, err := Row(ctx, tx, []any{&depth, &count}, childrenSQL["count children"], parent, ns, len(children)); err != nil {
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
		rows[i] = []any{TaskID(c.ID), ns, parent, ItemID(c.Spawned.ItemID), c.Spawned.Key, depth}
	}
	return tx.ExecEach(ctx, childrenSQL["link child"], rows)
}

// ShareParent locks a task that gets children, so that it is not cancelled before they are
// there. It refuses a task that has ended or failed.
func ShareParent(ctx context.Context, tx Tx, namespace, taskID string) error {
	if _, err := ShareTask(ctx, tx, namespace, taskID); err != nil {
		return err
	}
	state, err := TaskState(ctx, tx, namespace, taskID)
	if err != nil {
		return err
	}
	if s := pawl.TaskState(state); childOver(s) {
		return &pawl.Error{Code: pawl.CodeConflict, Op: "create", State: state, Allowed: append([]string{}, s.Allowed()...),
			Message: "the parent " + taskID + " is " + state + ": it gets no children any more"}
	}
	return nil
}

// childOver says whether a child has ended for those that wait for it. What failed counts, even
// if it is retried later.
func childOver(s pawl.TaskState) bool {
	status := s.Status()
	return status == pawl.StatusCompleted || status == pawl.StatusFailed || status == pawl.StatusCancelled
}

// CountChildren returns how many children a task has had. A task that is locked gets no more.
func CountChildren(ctx context.Context, tx Tx, taskID string) (n int, err error) {
	_, err = Row(ctx, tx, []any{&n}, childrenSQL["children so far"], TaskID(taskID))
	return n, err
}

// ChildByKey returns the child of a task that was spawned under a key; "" = none.
func ChildByKey(ctx context.Context, tx Tx, parentID, key string) (id string, err error) {
	_, err = Row(ctx, tx, []any{(*TaskID)(&id)}, childrenSQL["child by key"], TaskID(parentID), key)
	return id, err
}

// TaskOfItem returns the task of an item.
func TaskOfItem(ctx context.Context, tx Tx, namespace, itemID string) (id string, err error) {
	found, err := Row(ctx, tx, []any{(*TaskID)(&id)}, childrenSQL["task of item"], ItemID(itemID), namespace)
	if err == nil && !found {
		err = pawl.NotFound("item", itemID)
	}
	return id, err
}

// OwnChildren refuses ids that are no children of a task.
func OwnChildren(ctx context.Context, tx Tx, taskID string, ids []string) error {
	return ownChildren(ctx, tx, "own children", taskID, ids)
}

func ownChildren(ctx context.Context, tx Tx, query, taskID string, ids []string) error {
	own, err := TaskIDs(ctx, tx, childrenSQL[query], TaskList(ids), TaskID(taskID))
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
