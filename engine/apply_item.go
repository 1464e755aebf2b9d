package engine

import (
	"context"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/engine/internal/rules"
	"github.com/pawl-work/pawl/engine/internal/tasktypes"
	"github.com/pawl-work/pawl/store"
)

// completeApply completes an apply item with its result and advances the task. A result
// of another form is refused, because a diff that cannot be decoded would be lost. The
// item then keeps its lease.
func (e *Engine) completeApply(ctx context.Context, call *pawl.CompleteCall, it store.ItemRow, request int64) (pawl.Moved, error) {
	const op = "apply"
	if err := checkApplied(call.Result); err != nil {
		return pawl.Moved{}, e.complain(ctx, call.Fence, op, err)
	}
	var out pawl.Moved
	err := e.k.Held(ctx, call.Fence, op, func(ctx context.Context, tx store.Tx, g *store.LockedItem) error {
		g.Request = request
		ended, err := g.EndAside(ctx, tx, rules.OrNull(call.Result))
		out = movedOf(ctx, it.Item, g)
		if err == nil && !ended {
			err = &pawl.Error{Code: pawl.CodeUnavailable, Op: op, Message: "another call is changing the item; try again"}
		}
		return err
	})
	if err != nil {
		return pawl.Moved{}, err
	}
	e.advanceSoon(ctx, it.TaskID)
	return out, nil
}

// applyItem returns the row of the apply item by which a worker applies a task.
func applyItem(r *tasktypes.Rules, id, namespace, taskID string) store.NewItem {
	return store.NewItem{
		ID:          id,
		Namespace:   namespace,
		TaskID:      taskID,
		Type:        r.Name + pawl.ApplySuffix,
		Kind:        pawl.KindApply,
		Aside:       true,
		Priority:    r.Priority,
		MaxAttempts: r.ApplyAttempts(),
		Input:       string(rules.Encode(map[string]string{"task_id": taskID})),
		Actor:       system,
	}
}
