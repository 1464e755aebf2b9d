package engine

import (
	"context"
	"errors"
	"time"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/engine/internal/queue"
	"github.com/pawl-work/pawl/engine/internal/rules"
	"github.com/pawl-work/pawl/engine/internal/tasktypes"
	"github.com/pawl-work/pawl/store"
)

// isPlan reports whether an item is a plan item. The result of a plan item may be as large
// as a call, because it is stored as items.
func (e *Engine) isPlan(ctx context.Context, itemID string) bool {
	it, _, err := e.k.Item(ctx, itemID)
	return err == nil && it.Kind == pawl.KindPlan
}

// completePlan completes a plan item and creates the items of its plan in the task. A
// result that is not a valid plan is refused: the item keeps its lease, and the task does
// not change.
func (e *Engine) completePlan(ctx context.Context, call *pawl.CompleteCall, it store.ItemRow, now, request int64) (pawl.Moved, error) {
	const op = "plan"
	if err := rules.CheckFence(rules.Item(it), call.Fence, now, op); err != nil {
		return pawl.Moved{}, err
	}
	task, err := e.GetTask(ctx, it.TaskID)
	if err != nil {
		return pawl.Moved{}, err
	}
	r, err := tasktypes.Of(e.taskTypes).At(ctx, task.Namespace, task.Type, task.TypeVersion)
	if err != nil {
		return pawl.Moved{}, err
	}
	d, err := e.draftPlan(ctx, r, &task, &it.Item, call, stamp(now))
	if pawl.CodeOf(err) == pawl.CodeInvalid {
		return pawl.Moved{}, e.complain(ctx, call.Fence, op, err)
	}
	if err != nil {
		return pawl.Moved{}, err
	}
	var out pawl.Moved
	err = e.k.Held(ctx, call.Fence, op, func(ctx context.Context, tx store.Tx, g *store.LockedItem) error {
		now, g.Request = g.Now, request
		if err := e.insertMore(ctx, tx, d.items); err != nil {
			return err
		}
		if err := setTaskType(ctx, tx, task.ID, &d); err != nil {
			return err
		}
		planned, err := g.EndPlan(ctx, tx, len(d.items))
		out = movedOf(ctx, it.Item, g)
		if err == nil && !planned {
			err = rules.Conflict(op, string(task.State), task.State.Allowed())
		}
		return err
	})
	if err != nil {
		return pawl.Moved{}, err
	}
	e.after(func() { e.created([]draft{d}, now) })
	return out, nil
}

// draftPlan drafts the items of a plan that a worker made.
func (e *Engine) draftPlan(ctx context.Context, r *tasktypes.Rules, task *pawl.Task, it *pawl.Item, call *pawl.CompleteCall,
	now time.Time) (draft, error) {
	items, err := r.ReadPlan(call.Result, now)
	if err == nil {
		err = e.checkItemTypes(ctx, queue.Pair{Type: task.Type, Priority: task.Priority}, "/result/items", items)
	}
	if err != nil {
		return draft{}, err
	}
	like := pawl.NewTask{MaxAttempts: it.MaxAttempts}
	if r.Plan.MaxAttempts > 0 {
		like.MaxAttempts = r.MaxAttempts // it.MaxAttempts is the plan item's own
	}
	row := store.NewTask{
		ID:        task.ID,
		Namespace: task.Namespace,
		Type:      task.Type,
		Priority:  task.Priority,
		Actor:     store.Actor{Type: pawl.ActorWorker, ID: call.WorkerID, Key: pawl.CallerOf(ctx).Key},
	}
	row.StartToClose, row.ScheduleToStart = seconds(task.StartToCloseSeconds), seconds(task.ScheduleToStartSeconds)
	if task.ParentID != "" {
		row.ParentID = (*store.TaskID)(&task.ParentID)
	}
	row.Deadline = ahead(micros(task.Deadline), now.UnixMicro())
	d := draft{task: row, items: make([]store.NewItem, len(items))}
	for i := range items {
		d.items[i] = newItem(&row, &like, &items[i], e.k.IDs.Next("itm"), i)
	}
	err = link(d.items, items, nil)
	var wrong *pawl.Error
	if errors.As(err, &wrong) {
		for i := range wrong.Fields {
			wrong.Fields[i].Pointer = "/result" + wrong.Fields[i].Pointer
		}
	}
	return drafted(r, d), err
}
