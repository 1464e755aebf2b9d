package engine

import (
	"cmp"
	"context"
	"slices"
	"sync/atomic"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/engine/internal/kernel"
	"github.com/pawl-work/pawl/engine/internal/rules"
	"github.com/pawl-work/pawl/engine/internal/tasktypes"
	"github.com/pawl-work/pawl/internal/idform"
	"github.com/pawl-work/pawl/store"
)

// CancelTasks cancels tasks or some of their items; see pawl.TaskMaker.
func (e *Engine) CancelTasks(ctx context.Context, calls []pawl.TaskCall) ([]pawl.Result[pawl.Task], error) {
	calls = idform.Calls(calls)
	return e.changeTasks(ctx, "cancel", calls)
}

// RetryTasks queues failed items again; see pawl.TaskOperator.
func (e *Engine) RetryTasks(ctx context.Context, calls []pawl.TaskCall) ([]pawl.Result[pawl.Task], error) {
	calls = idform.Calls(calls)
	return e.changeTasks(ctx, "retry", calls)
}

// BuryTasks dead-letters failed items; see pawl.TaskOperator.
func (e *Engine) BuryTasks(ctx context.Context, calls []pawl.TaskCall) ([]pawl.Result[pawl.Task], error) {
	calls = idform.Calls(calls)
	return e.changeTasks(ctx, "bury", calls)
}

func (e *Engine) changeTasks(ctx context.Context, verb string, calls []pawl.TaskCall) ([]pawl.Result[pawl.Task], error) {
	if err := rules.CheckBatch(verb, len(calls)); err != nil {
		return nil, err
	}
	calls = slices.Clone(calls)
	for i := range calls {
		if len(calls[i].ItemIDs) == 0 {
			calls[i].ItemIDs = nil // none named = all
		}
	}
	ahead := func(context.Context, *pawl.TaskCall) error { return nil }
	if verb == "cancel" {
		ahead = func(ctx context.Context, c *pawl.TaskCall) error {
			return e.cancelAhead(ctx, c, max(1, cancelBatch/len(calls)))
		}
		if e.scope != nil { // before the transaction of all calls begins
			if err := e.cancelAllAhead(ctx, calls, ahead); err != nil {
				return nil, err
			}
		}
	}
	out, err := kernel.EachIn(ctx, e.answers(verb), calls, func(ctx context.Context, c *pawl.TaskCall) (pawl.Task, error) {
		if err := ahead(ctx, c); err != nil {
			return pawl.Task{}, err
		}
		return e.changeTask(ctx, verb, c)
	})
	e.followUp(ctx)
	return out, err
}

// cancelAllAhead calls ahead for the calls of a batch whose answers have room.
func (e *Engine) cancelAllAhead(ctx context.Context, calls []pawl.TaskCall, ahead func(context.Context, *pawl.TaskCall) error) error {
	_, err := kernel.EachIn(ctx, e.answers("cancel"), calls, func(ctx context.Context, c *pawl.TaskCall) (t pawl.Task, err error) {
		if err = ahead(ctx, c); err == nil && len(calls) > 1 {
			t, err = e.GetTask(ctx, c.TaskID)
		}
		return t, err
	})
	return err
}

// changeTask moves a task's items by a verb. If nothing moves it is a conflict, also
// when the items are in the verb's target state already.
func (e *Engine) changeTask(ctx context.Context, verb string, call *pawl.TaskCall) (pawl.Task, error) {
	if err := checkTaskCall(verb, call); err != nil {
		return pawl.Task{}, err
	}
	task, err := change(ctx, e, func(ctx context.Context, tx store.Tx) (pawl.Task, effects, error) {
		return e.changeIn(ctx, tx, verb, call)
	})
	if err != nil {
		return task, err
	}
	if verb == "cancel" {
		e.k.Messages.End(ctx, e.k, nil, call.TaskID)
	}
	if task.State == pawl.TaskApproved || task.State == pawl.TaskSubmitted || task.Items == 0 && !task.State.Ended() {
		e.advanceSoon(ctx, call.TaskID) // checks it, or handles the end of its plan or apply item
		return e.GetTask(ctx, call.TaskID)
	}
	return task, nil
}

// changeIn is the part of changeTask inside the transaction.
func (e *Engine) changeIn(ctx context.Context, tx store.Tx, verb string, call *pawl.TaskCall) (task pawl.Task, then effects, err error) {
	c := pawl.CallerOf(ctx)
	now, err := tx.Now(ctx)
	if err != nil {
		return task, then, err
	}
	before, err := store.TaskState(ctx, tx, c.Namespace, call.TaskID)
	if err != nil {
		return task, then, err
	}
	again := verb == "retry" && pawl.TaskState(before).Stored() == pawl.TaskOpen // moves its failed items, not the task
	if call.ItemIDs == nil && !again && !slices.Contains(pawl.TaskState(before).Allowed(), verb) {
		return task, then, rules.Conflict(verb, before, pawl.TaskState(before).Allowed())
	}
	if err := movable(ctx, tx, c, verb, call); err != nil {
		return task, then, err
	}
	if then.queued, err = e.changeAside(ctx, tx, verb, call); err != nil {
		return task, then, err
	}
	if then.queued != nil {
		task, err = taskAndReason(ctx, tx, c.Namespace, call.TaskID)
		return task, then, err
	}
	done, err := e.applyChange(ctx, tx, now, store.Change{Namespace: c.Namespace, TaskID: call.TaskID, Verb: verb, ItemIDs: call.ItemIDs,
		Actor: actor(c, pawl.ActorUser, ""), Reason: store.Text(call.Reason), Data: e.origin.Data()})
	if err != nil {
		return task, then, err
	}
	then.queued, then.passOn = done.Released, done.PassesOn
	if done.Child {
		then.children = []string{call.TaskID}
	}
	task, err = taskAndReason(ctx, tx, c.Namespace, call.TaskID)
	if err == nil && done.Items == 0 && !done.Changed { // another call was first
		err = cmp.Or(movable(ctx, tx, c, verb, call), unmoved(verb, task.State))
	}
	return task, then, err
}

// unmoved returns the error of a verb that the state allows and that moved nothing.
func unmoved(verb string, state pawl.TaskState) error {
	err := rules.Conflict(verb, string(state), state.Allowed()).(*pawl.Error)
	if verb == "retry" && slices.Contains(err.Allowed, verb) {
		err.Message = "no item can run again yet: what failed with others goes on by itself when those have completed, " +
			"or is retried then if it was buried"
	}
	return err
}

// applyChange applies a change; a retry resumes the items' open messages.
func (e *Engine) applyChange(ctx context.Context, tx store.Tx, now int64, c store.Change) (store.Applied, error) {
	done, err := store.Apply(ctx, tx, now, c)
	if err == nil && c.Verb == "retry" {
		err = e.k.Messages.Resume(ctx, tx, now, c.TaskID, done.Released, c.Actor)
	}
	return done, err
}

// changeAside retries or dead-letters a task that failed when it was planned or applied.
// A retry repeats only that step. It returns nil if the task did not fail so, or if the
// call names other items.
func (e *Engine) changeAside(ctx context.Context, tx store.Tx, verb string, call *pawl.TaskCall) ([]store.DueItem, error) {
	if verb != "retry" && verb != "bury" {
		return nil, nil
	}
	by := actor(pawl.CallerOf(ctx), pawl.ActorUser, "")
	c, found, err := store.OpenDecision(ctx, tx, pawl.CallerOf(ctx).Namespace, call.TaskID)
	if err != nil || !found || c.FailedIn == "" {
		return nil, err
	}
	it, found, err := c.AsideItem(ctx, tx, c.FailedIn)
	if err != nil || call.ItemIDs != nil && !slices.Equal(call.ItemIDs, []string{it.ID}) {
		return nil, err
	}
	to, event, itemTo := map[string]string{pawl.KindPlan: "open", pawl.KindApply: "approved"}[c.FailedIn], "retried", "queued"
	failedIn := store.Text("")
	if verb == "bury" {
		to, event, itemTo, failedIn = "dead_lettered", "dead_lettered", "dead_lettered", store.Text(c.FailedIn)
	}
	if state := pawl.TaskState(c.State); !slices.Contains(state.Allowed(), verb) { // it changed before it was locked
		return nil, rules.Conflict(verb, c.State, state.Allowed())
	}
	move := store.TaskMove{Event: event, To: to, Actor: by, Message: store.Text(call.Reason), Data: e.origin.Data(), Todo: verb == "retry",
		FailedIn: failedIn}
	if err := c.Move(ctx, tx, move); err != nil {
		return nil, err
	}
	if found && verb == "retry" && c.FailedIn == pawl.KindApply && it.State == string(pawl.ItemCancelled) {
		r, err := tasktypes.Of(e.taskTypes).In(ctx, tx, c.Namespace, c.Type, c.TypeVersion)
		if err != nil {
			return nil, err
		}
		d := taskDecision{TaskDecision: c, e: e, rules: r}
		return d.makeApplyItem(ctx, tx)
	}
	if !found || !slices.Contains(pawl.ItemState(it.State).Allowed(), verb) {
		return []store.DueItem{}, nil
	}
	_, queued, _, err := c.MoveItems(ctx, tx, store.ItemMove{Event: event, From: it.State, To: itemTo, IDs: []string{it.ID}, Actor: by})
	if err == nil && verb == "retry" {
		err = e.k.Messages.Resume(ctx, tx, c.Now, c.TaskID, queued, by)
	}
	return append([]store.DueItem{}, queued...), err
}

// movable refuses the call if an item that it names is not the task's or does not allow
// the verb. Either all of them move or none.
func movable(ctx context.Context, tx store.Tx, c pawl.Caller, verb string, call *pawl.TaskCall) error {
	for _, id := range call.ItemIDs {
		it, err := store.GetItem(ctx, tx, c.Namespace, id, 0)
		if err != nil {
			return err
		}
		if it.TaskID != call.TaskID {
			return pawl.NotFound("item", id+" in task "+call.TaskID)
		}
		if !slices.Contains(it.State.Allowed(), verb) {
			return rules.Conflict(verb, string(it.State), it.State.Allowed())
		}
	}
	return nil
}

// itemsQueued reports items that were queued again to waiting claims.
func (e *Engine) itemsQueued(items []store.DueItem) {
	namespaces := map[string]bool{}
	for _, d := range items {
		e.queues.Inserted(d.Namespace, d.Type, d.Rank, d.ItemID)
		namespaces[d.Namespace] = true
	}
	for ns := range namespaces {
		e.ready(ns)
	}
}

// DeleteTasks deletes tasks; see pawl.TaskOperator. It returns their ids.
func (e *Engine) DeleteTasks(ctx context.Context, calls []pawl.TaskCall) ([]pawl.Result[string], error) {
	calls = idform.Calls(calls)
	if err := cmp.Or(rules.CheckBatch("delete", len(calls)), e.notInTx("delete")); err != nil {
		return nil, err
	}
	if err := e.Log(ctx); err != nil { // what is removed is in the log before
		return nil, err
	}
	c := pawl.CallerOf(ctx)
	out := make([]pawl.Result[string], len(calls))
	for i, call := range calls {
		out[i].Value = call.TaskID
		out[i].Err = e.deleteTask(ctx, c, call, nil)
	}
	return out, nil
}

// deleteTask cancels a task that has not ended, and then removes its rows in bounded
// batches. If it is interrupted, the task is cancelled and can be deleted again. Of its children, and
// of theirs, it deletes at most as many as most says; with more, it leaves the rest and the task to
// the background.
func (e *Engine) deleteTask(ctx context.Context, c pawl.Caller, call pawl.TaskCall, most *atomic.Int64) error {
	t, err := e.GetTask(ctx, call.TaskID)
	if err != nil {
		return err
	}
	if !t.State.Ended() {
		if err := e.cancelToDelete(ctx, c, call); err != nil {
			return err
		}
		if t, err = e.GetTask(ctx, call.TaskID); err != nil { // with force, children may have been created before the cancel
			return err
		}
	}
	if !call.Force {
		if _, err := view(ctx, e, func(ctx context.Context, tx store.Tx, _ string) (none struct{}, err error) {
			return none, refuseUnknown(ctx, tx, call.TaskID, t.State)
		}); err != nil {
			return err
		}
	}
	by := store.Deletion{Key: c.Key, Reason: call.Reason, Bulk: e.origin.Bulk}
	by.Actor = actor(c, pawl.ActorUser, "")
	if t.Children > 0 {
		if gone, err := e.k.Children.Delete(ctx, e.k, e.origin, call, by, most); err != nil || !gone {
			return err
		}
	}
	return work{e}.Remove(ctx, c.Namespace, call.TaskID, by)
}

// cancelToDelete cancels a task that is to be deleted. Without force it refuses one that holds
// work or has children, in the transaction of the cancel: children are created before that or not
// at all, and a delete that is refused has changed nothing.
func (e *Engine) cancelToDelete(ctx context.Context, c pawl.Caller, call pawl.TaskCall) error {
	cancel := pawl.TaskCall{TaskID: call.TaskID, Reason: call.Reason}
	if call.Force {
		if err := e.cancelAlone(ctx, &cancel); err != nil && pawl.CodeOf(err) != pawl.CodeConflict {
			return err
		}
		return nil
	}
	_, err := change(ctx, e, func(ctx context.Context, tx store.Tx) (pawl.Task, effects, error) {
		works, err := store.HoldsWork(ctx, tx, c.Namespace, call.TaskID)
		if err != nil {
			return pawl.Task{}, effects{}, err
		}
		children, err := e.k.Children.Count(ctx, tx, call.TaskID)
		if err != nil {
			return pawl.Task{}, effects{}, err
		}
		state, err := store.TaskState(ctx, tx, c.Namespace, call.TaskID)
		if err == nil {
			err = refuseUnknown(ctx, tx, call.TaskID, pawl.TaskState(state))
		}
		if s := pawl.TaskState(state); err != nil || s.Ended() {
			return pawl.Task{}, effects{}, err
		} else if works || children > 0 {
			err := rules.Conflict("delete", state, s.Allowed()).(*pawl.Error)
			err.Message = "the task has not ended and holds work; cancel it first, or delete with force"
			return pawl.Task{}, effects{}, err
		}
		task, then, err := e.changeIn(ctx, tx, "cancel", &cancel)
		then.passOn = false
		return task, then, err
	})
	if err == nil {
		e.k.Messages.End(ctx, e.k, nil, call.TaskID)
	}
	return err
}

// cancelAlone cancels a task. Its children are left to the caller.
func (e *Engine) cancelAlone(ctx context.Context, call *pawl.TaskCall) error {
	if err := e.cancelAhead(ctx, call, cancelBatch); err != nil {
		return err
	}
	_, err := change(ctx, e, func(ctx context.Context, tx store.Tx) (pawl.Task, effects, error) {
		task, then, err := e.changeIn(ctx, tx, "cancel", call)
		then.passOn = false
		return task, then, err
	})
	if err == nil {
		e.k.Messages.End(ctx, e.k, nil, call.TaskID)
	}
	return err
}

// refuseUnknown refuses to delete a task with effects of which it is not known whether they happened: a gate may be sending one.
func refuseUnknown(ctx context.Context, tx store.Tx, taskID string, state pawl.TaskState) error {
	unknown, err := store.UndecidedEffects(ctx, tx, []string{taskID})
	if ids := unknown[taskID]; err == nil && len(ids) > 0 {
		refusal := rules.Conflict("delete", string(state), state.Allowed()).(*pawl.Error)
		refusal.EffectID, refusal.Message = ids[0], "it is not known whether effect "+ids[0]+" happened; resolve it first, or delete with force"
		err = refusal
	}
	return err
}

// followUp moves dependents of items that completed, failed or were cancelled. The
// sweep does the same, so nothing is lost if this process dies first.
func (e *Engine) followUp(ctx context.Context) {
	if e.scope != nil {
		e.after(func() { e.root.followUp(ctx) })
		return
	}
	ctx = context.WithoutCancel(ctx)
	due, err := e.sweeper.FollowUp(ctx)
	if err != nil {
		e.log.WarnContext(ctx, "dependents are left to the sweep", "error", err)
	}
	e.itemsQueued(due)
}
