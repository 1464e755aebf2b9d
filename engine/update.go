package engine

import (
	"context"
	"errors"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/engine/internal/kernel"
	"github.com/pawl-work/pawl/engine/internal/queue"
	"github.com/pawl-work/pawl/engine/internal/rules"
	"github.com/pawl-work/pawl/engine/internal/tasktypes"
	"github.com/pawl-work/pawl/internal/idform"
	"github.com/pawl-work/pawl/store"
)

// UpdateTasks changes tasks; see pawl.TaskMaker.
func (e *Engine) UpdateTasks(ctx context.Context, calls []pawl.TaskUpdate) ([]pawl.Result[pawl.Task], error) {
	calls = idform.Calls(calls)
	return kernel.EachIn(ctx, e.answers("update"), calls, e.updateTask)
}

// errOvertaken says that the task was changed while its items were being moved.
var errOvertaken = &pawl.Error{Code: pawl.CodeUnavailable, Op: "update", Message: "the task is being changed; try again"}

func (e *Engine) updateTask(ctx context.Context, call *pawl.TaskUpdate) (t pawl.Task, err error) {
	if err := rules.CheckUpdate(call); err != nil {
		return t, err
	}
	if call.Priority != nil {
		if r, _, err := tasktypes.Of(e.taskTypes).OfTask(ctx, call.TaskID); err != nil {
			return t, err
		} else if err := e.checkItemQueues(ctx, queue.Pair{Type: r.Name, Priority: *call.Priority}, nil); err != nil {
			return t, err
		}
	}
	for range 4 {
		t, err = change(ctx, e, func(ctx context.Context, tx store.Tx) (pawl.Task, effects, error) {
			return e.update(ctx, tx, call)
		})
		if !errors.Is(err, errOvertaken) {
			break
		}
	}
	return t, err
}

// update locks the task, moves its items and then locks its counters, in the order
// in which all verbs lock.
func (e *Engine) update(ctx context.Context, tx store.Tx, call *pawl.TaskUpdate) (t pawl.Task, out effects, err error) {
	c := pawl.CallerOf(ctx)
	now, err := tx.Now(ctx)
	if err != nil {
		return t, out, err
	}
	if err := store.LockTaskRow(ctx, tx, c.Namespace, call.TaskID); err != nil {
		return t, out, err
	}
	seen, err := store.GetTask(ctx, tx, c.Namespace, call.TaskID)
	if err != nil {
		return t, out, err
	}
	if err := rules.CheckUpdatable(seen, call); err != nil {
		return t, out, err
	}
	if seen.Type == pawl.TypeBulk { // its metadata says how far it is
		return t, out, rules.Conflict("update", string(seen.State), seen.State.Allowed())
	}
	if call.Priority != nil && *call.Priority != seen.Priority {
		if out.queued, err = store.Reprioritize(ctx, tx, []string{call.TaskID}, *call.Priority); err != nil {
			return t, out, err
		}
	}
	if t, err = store.LockTask(ctx, tx, now, c.Namespace, call.TaskID); err != nil {
		return t, out, err
	}
	if err := rules.CheckUpdatable(t, call); err != nil {
		return t, out, err
	}
	if call.Priority != nil && t.Priority != seen.Priority {
		return t, out, errOvertaken
	}
	t, diff, err := rules.Update(t, call)
	if err != nil || diff == "" {
		return t, out, err
	}
	by := actor(c, pawl.ActorUser, "")
	if err := store.UpdateTasks(ctx, tx, now, []store.UpdatedTask{{Task: t, Diff: diff}}, e.origin.Data(), by); err != nil {
		return t, out, err
	}
	t, err = taskAndReason(ctx, tx, c.Namespace, call.TaskID)
	return t, out, err
}
