package engine

import (
	"context"
	"fmt"
	"slices"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/engine/internal/rules"
	"github.com/pawl-work/pawl/store"
)

// ApproveTasks approves; see pawl.Decider.
func (e *Engine) ApproveTasks(ctx context.Context, calls []pawl.ApproveCall) ([]pawl.Result[pawl.Task], error) {
	return withProvenance(ctx, e, "approve", calls, subjectOfTask, eachly("approve", func(e *Engine, ctx context.Context, c *pawl.ApproveCall) (pawl.Task, error) {
		if err := rules.CheckApprove(c); err != nil {
			return pawl.Task{}, err
		}
		by := actor(pawl.CallerOf(ctx), pawl.ActorUser, "")
		err := e.approve(ctx, c.TaskID, verdictBy{by: by, comment: c.Comment, version: c.Version})
		if err != nil {
			return pawl.Task{}, err
		}
		return e.GetTask(ctx, c.TaskID)
	}))
}

// verdictBy is who decides, and what he says.
type verdictBy struct {
	by      store.Actor
	comment string
	version *int // the task must still have it; nil = any
	rule    bool // the type's own rule decides, not a caller
}

// approve approves a task and, where that needs no worker, applies it in the
// same transaction. If applying fails all of that is undone; the approval is
// then written by itself, and the failure after it.
func (e *Engine) approve(ctx context.Context, taskID string, v verdictBy) error {
	err := e.decide(ctx, taskID, "approve", v, func(ctx context.Context, tx store.Tx, d *taskDecision) error {
		if err := d.approve(ctx, tx, v); err != nil {
			return err
		}
		return d.applyApproved(ctx, tx)
	})
	failed, ok := asApplyFailure(err)
	if !ok {
		return err
	}
	return e.decide(ctx, taskID, "approve", v, func(ctx context.Context, tx store.Tx, d *taskDecision) error {
		if err := d.approve(ctx, tx, v); err != nil {
			return err
		}
		return d.fail(ctx, tx, pawl.KindApply, failed.Failure())
	})
}

// taskDecision is a decision under way: the locked task, its rules, what it queued.
type taskDecision struct {
	*store.TaskDecision
	e      *Engine
	rules  *typeRules
	queued []store.DueItem
	after  []func(context.Context) // once it has committed
}

// decide runs fn with the task locked, if the caller may decide about it and
// it is not decided yet.
func (e *Engine) decide(ctx context.Context, taskID, verb string, v verdictBy, fn func(ctx context.Context, tx store.Tx, d *taskDecision) error) error {
	return e.withDecision(ctx, taskID, verb, func(ctx context.Context, tx store.Tx, d *taskDecision) error {
		if v.version != nil && *v.version != d.Version {
			state, err := store.TaskState(ctx, tx, d.Namespace, d.TaskID)
			if err != nil {
				return err
			}
			return rules.VersionMismatch(verb, state, d.Version, *v.version)
		}
		if d.State != "submitted" {
			return d.decided(ctx, tx, verb)
		}
		if !v.rule {
			if err := d.may(ctx, tx, verb, v.by); err != nil {
				return err
			}
		}
		return fn(ctx, tx, d)
	})
}

// withDecision runs fn with a task's row locked. A task that nothing was handed in
// for is judged by the state it has.
func (e *Engine) withDecision(ctx context.Context, taskID, verb string, fn func(ctx context.Context, tx store.Tx, d *taskDecision) error) error {
	var d *taskDecision
	err := e.db.Do(ctx, func(ctx context.Context, tx store.Tx) error {
		ns := pawl.CallerOf(ctx).Namespace
		c, found, err := store.OpenDecision(ctx, tx, ns, taskID)
		if err == nil && !found {
			var state string
			if state, err = store.TaskState(ctx, tx, ns, taskID); err == nil {
				err = rules.Conflict(verb, state, pawl.TaskState(state).Allowed())
			}
			if state == string(pawl.TaskSubmitted) { // since we looked
				c, found, err = store.OpenDecision(ctx, tx, ns, taskID)
			}
		}
		if err != nil || !found {
			return err
		}
		d = &taskDecision{TaskDecision: c, e: e}
		if d.rules, err = e.rulesOf(ctx, tx, ns, c.Type, c.TypeVersion); err != nil {
			return err
		}
		return fn(ctx, tx, d)
	})
	if err != nil {
		return err
	}
	e.after(func() { e.itemsQueued(d.queued) })
	for _, fn := range d.after {
		fn(ctx)
	}
	return nil
}

// decided is the conflict of a decision about what is not submitted: it says
// who was first.
func (d *taskDecision) decided(ctx context.Context, tx store.Tx, verb string) error {
	state, err := store.TaskState(ctx, tx, d.Namespace, d.TaskID)
	if err != nil {
		return err
	}
	event, who, err := d.DecidedBy(ctx, tx)
	if err != nil {
		return err
	}
	c := rules.Conflict(verb, state, pawl.TaskState(state).Allowed()).(*pawl.Error)
	if event != "" && d.State != "open" {
		c.Holder = who
		c.Message = fmt.Sprintf("the task was %s by %s already", event, who)
	}
	return c
}

// may refuses who may not decide about tasks of the type.
func (d *taskDecision) may(ctx context.Context, tx store.Tx, verb string, by store.Actor) error {
	escalated := false
	if d.rules.EscalationWidens() {
		var err error
		if escalated, err = store.TaskHasEvent(ctx, tx, d.TaskID, "escalated"); err != nil {
			return err
		}
	}
	if err := d.rules.CheckDecider(verb, rules.Actor(by), escalated); err != nil {
		return err
	}
	if verb != "approve" {
		return nil
	}
	return d.separate(ctx, tx, by)
}

// separate refuses an approver who asked for the task or worked on it, where the
// type keeps these apart. An agent without an API key has the name that it states:
// all such agents are the same one.
func (d *taskDecision) separate(ctx context.Context, tx store.Tx, by store.Actor) error {
	requester, workers := d.rules.Approval.Separates()
	for _, x := range []struct {
		asked bool
		find  func(context.Context, store.Tx, string, store.Actor) (bool, error)
		did   string
	}{{requester, store.AskedFor, "asked for this task"}, {workers, store.WorkedOn, "worked on this task"}} {
		if !x.asked {
			continue
		}
		found, err := x.find(ctx, tx, d.TaskID, by)
		if err != nil {
			return err
		}
		if found {
			return rules.NotSeparate(rules.Actor(by), x.did)
		}
	}
	return nil
}

// approve moves the task to approved and its items to accepted.
func (d *taskDecision) approve(ctx context.Context, tx store.Tx, v verdictBy) error {
	if !d.Ready {
		c := rules.Conflict("approve", d.State, pawl.TaskState(d.State).Allowed()).(*pawl.Error)
		c.Message = "the task is not ready for approval: it was not checked yet, or did not pass; see its error"
		return c
	}
	if err := d.Move(ctx, tx, store.TaskMove{Event: "approved", To: "approved", Actor: v.by, Message: store.Text(v.comment), Todo: true}); err != nil {
		return err
	}
	_, err := d.moveItems(ctx, tx, store.ItemMove{Event: "accepted", From: "submitted", To: "accepted", Actor: v.by})
	return err
}

// moveItems moves a batch of the task's items and says whether more are left
// for another transaction.
func (d *taskDecision) moveItems(ctx context.Context, tx store.Tx, m store.ItemMove) (more bool, err error) {
	_, queued, err := d.MoveItems(ctx, tx, m)
	if err != nil {
		return false, err
	}
	d.queued = append(d.queued, queued...)
	if m.IDs != nil {
		return false, nil
	}
	left, err := d.ItemsIn(ctx, tx, m.From, 1)
	return len(left) > 0, err
}

// RejectTasks rejects, for good or for rework; see pawl.Decider.
func (e *Engine) RejectTasks(ctx context.Context, calls []pawl.RejectCall) ([]pawl.Result[pawl.Task], error) {
	return withProvenance(ctx, e, "reject", calls, subjectOfTask, eachly("reject", func(e *Engine, ctx context.Context, c *pawl.RejectCall) (pawl.Task, error) {
		if err := rules.CheckReject(c); err != nil {
			return pawl.Task{}, err
		}
		by := actor(pawl.CallerOf(ctx), pawl.ActorUser, "")
		v := verdictBy{by: by, comment: c.Comment, version: c.Version}
		err := e.decide(ctx, c.TaskID, "reject", v, func(ctx context.Context, tx store.Tx, d *taskDecision) error {
			if c.AllowRework {
				return d.rework(ctx, tx, v, c)
			}
			return d.reject(ctx, tx, v, c.Errors)
		})
		if err != nil {
			return pawl.Task{}, err
		}
		e.followUp(ctx)
		return e.GetTask(ctx, c.TaskID)
	}))
}

// reject ends the task and its items.
func (d *taskDecision) reject(ctx context.Context, tx store.Tx, v verdictBy, errors []pawl.Complaint) error {
	data := store.Text(rules.Encode(map[string]any{"errors": errors}))
	failure := store.Text(rules.Encode(pawl.Failure{Code: "rejected", Message: errors[0].Message, Detail: rules.Encode(errors)}))
	if err := d.Move(ctx, tx, store.TaskMove{Event: "rejected", To: "rejected", Actor: v.by, Message: store.Text(v.comment), Data: data, Error: failure}); err != nil {
		return err
	}
	more, err := d.moveItems(ctx, tx, store.ItemMove{Event: "rejected", From: "submitted", To: "rejected", Actor: v.by, Data: data})
	if more {
		d.after = append(d.after, func(ctx context.Context) { d.e.advanceSoon(ctx, d.TaskID) })
	}
	return err
}

// rework queues items again with the reasons; the others stay submitted.
func (d *taskDecision) rework(ctx context.Context, tx store.Tx, v verdictBy, c *pawl.RejectCall) error {
	ids := slices.Compact(slices.Sorted(slices.Values(c.ItemIDs)))
	all, err := d.ItemsIn(ctx, tx, "submitted", pawl.MaxItemsPerTask)
	if err != nil {
		return err
	}
	if len(ids) == 0 {
		ids = all
	}
	for _, id := range ids {
		if _, found := slices.BinarySearch(all, id); !found {
			return pawl.NotFound("submitted item", id+" in task "+d.TaskID)
		}
	}
	spent, err := store.ReworkedTooOften(ctx, tx, ids, pawl.MaxRework)
	if err != nil {
		return err
	}
	if spent != "" {
		c := rules.Conflict("reject", d.State, pawl.TaskState(d.State).Allowed()).(*pawl.Error)
		c.Message = fmt.Sprintf("the item %s has been sent back %d times, the most there is: approve the task, or reject it for good", spent, pawl.MaxRework)
		return c
	}
	data := store.Text(rules.Encode(map[string]any{"errors": c.Errors, "rework": true}))
	reasons := rules.Encode(c.Errors)
	failure := store.Text(rules.Encode(pawl.Failure{Code: "rejected", Message: c.Errors[0].Message, Detail: reasons}))
	if err := d.Reopen(ctx, tx, len(ids), store.TaskMove{Event: "rejected", Actor: v.by, Message: store.Text(v.comment), Data: data}); err != nil {
		return err
	}
	for chunk := range slices.Chunk(ids, store.DecideBatch) {
		if _, err := d.moveItems(ctx, tx, store.ItemMove{Event: "rejected", From: "submitted", To: "queued", IDs: chunk, Actor: v.by, Data: data, Error: failure, Reasons: store.Text(reasons)}); err != nil {
			return err
		}
	}
	return nil
}
