package engine

import (
	"context"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/store"
)

// owedStep is a task that waits for a step of the engine, and its state.
type owedStep struct {
	store.TaskRef
	state string
}

// tasksWithTodo lists tasks that wait for a step of the engine, with ids above after.
func tasksWithTodo(ctx context.Context, tx store.Tx, after string, limit int) ([]owedStep, error) {
	args := []any{store.FromTask(after), limit}
	return store.All(ctx, tx, decideSQL["to do"], args, func(rows store.Rows, t *owedStep) error {
		return rows.Scan((*store.TaskID)(&t.ID), &t.Namespace, &t.state)
	})
}

// overdueDecisions lists tasks whose deadline for a decision has passed, behind one, by that deadline.
func overdueDecisions(ctx context.Context, tx store.Tx, now int64, after store.TaskRef, limit int) ([]store.TaskRef, error) {
	args := []any{now, after.DecideBy, store.FromTask(after.ID), limit}
	return store.All(ctx, tx, decideSQL["undecided for too long"], args, func(rows store.Rows, t *store.TaskRef) error {
		return rows.Scan((*store.TaskID)(&t.ID), &t.Namespace, &t.DecideBy)
	})
}

// isEscalated says whether the approval of a task was escalated since its results were submitted.
func isEscalated(ctx context.Context, tx store.Tx, taskID string) (bool, error) {
	var one int
	return store.Row(ctx, tx, []any{&one}, decideSQL["escalated"], store.TaskID(taskID))
}

// tookPart returns the first that an actor did of what is asked: it requested the task or replaced its payload, has claimed
// an item of it, or one that asks for a budget by it; "" = none. It did so under its name or by its API key. An agent
// without an API key counts as every agent without one.
func tookPart(ctx context.Context, tx store.Tx, taskID string, who store.Actor, requested, worked, asks bool) (did string, err error) {
	args := []any{store.TaskID(taskID), store.Text(who.ID), store.Text(who.Key), store.Text("")} // NULL is equal to nothing
	if who.Key == "" && who.Type == pawl.ActorAgent {
		args[3] = store.Text(pawl.ActorAgent)
	}
	for _, asked := range []bool{requested, worked, asks} {
		if asked {
			args = append(args, 1)
		} else {
			args = append(args, 0)
		}
	}
	_, err = store.Row(ctx, tx, []any{&did}, decideSQL["took part"], args...)
	return did, err
}

// reworkedTooOften returns the first of the items that was sent back limit times, or "".
func reworkedTooOften(ctx context.Context, tx store.Tx, itemIDs []string, limit int) (id string, err error) {
	_, err = store.Row(ctx, tx, []any{(*store.ItemID)(&id)}, decideSQL["reworked too often"], store.ItemList(itemIDs), limit)
	return id, err
}
