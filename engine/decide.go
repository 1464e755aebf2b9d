package engine

import (
	"context"
	"fmt"
	"slices"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/engine/internal/rules"
	"github.com/pawl-work/pawl/store"
)

// ApproveTasks approves tasks; see pawl.Decider.
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

// verdictBy is a decision: its actor, its comment and its conditions.
type verdictBy struct {
	by      store.Actor
	comment string
	version *int // the version that the task must have; nil = any
	rule    bool // the type's own rule decides, not a caller
}

// approve approves a task. If that needs no worker, the same transaction also applies it.
// If applying fails, the transaction is rolled back. A second transaction then writes the
// approval and after it the failure.
func (e *Engine) approve(ctx context.Context, taskID string, v verdictBy) error {
	err := e.decide(ctx, taskID, "approve", v, func(ctx context.Context, tx store.Tx, d *taskDecision) (effects, error) {
		approved, err := d.approve(ctx, tx, v)
		if err != nil {
			return effects{}, err
		}
		applied, err := d.applyApproved(ctx, tx)
		return approved.and(applied), err
	})
	failed, ok := asApplyFailure(err)
	if !ok {
		return err
	}
	return e.decide(ctx, taskID, "approve", v, func(ctx context.Context, tx store.Tx, d *taskDecision) (effects, error) {
		approved, err := d.approve(ctx, tx, v)
		if err != nil {
			return effects{}, err
		}
		return approved, d.fail(ctx, tx, pawl.KindApply, failed.Failure())
	})
}

// taskDecision is the locked task of a decision, and its rules.
type taskDecision struct {
	*store.TaskDecision
	e     *Engine
	rules *typeRules
}

// effects lists what to do after a decision's transaction has committed, in the order of
// the fields.
type effects struct {
	queued   []store.DueItem       // items to report to waiting claims
	applied  func(context.Context) // calls the hook AfterApply; nil = none
	followUp bool                  // dependents of the task's items may move
	advance  bool                  // the task has items left to move
	again    bool                  // advance takes another step
}

// and returns the effects of two parts of one transaction. At most one part sets applied.
func (f effects) and(g effects) effects {
	f.queued = append(f.queued, g.queued...)
	if g.applied != nil {
		f.applied = g.applied
	}
	f.followUp, f.advance, f.again = f.followUp || g.followUp, f.advance || g.advance, f.again || g.again
	return f
}

// follow carries out the effects of a decision that has committed.
func (e *Engine) follow(ctx context.Context, taskID string, f effects) {
	e.after(func() { e.itemsQueued(f.queued) })
	if f.applied != nil {
		ctx := context.WithoutCancel(ctx) // a scope cancels its own context before it reports the commit
		e.after(func() { f.applied(ctx) })
	}
	if f.followUp {
		e.followUp(ctx)
	}
	if f.advance {
		e.advanceSoon(ctx, taskID)
	}
}

// decide runs fn with the task locked, if the caller may decide about the task and it is
// not decided yet.
func (e *Engine) decide(ctx context.Context, taskID, verb string, v verdictBy, fn func(ctx context.Context, tx store.Tx, d *taskDecision) (effects, error)) error {
	_, err := e.withDecision(ctx, taskID, verb, func(ctx context.Context, tx store.Tx, d *taskDecision) (effects, error) {
		if v.version != nil && *v.version != d.Version {
			state, err := store.TaskState(ctx, tx, d.Namespace, d.TaskID)
			if err == nil {
				err = rules.VersionMismatch(verb, state, d.Version, *v.version)
			}
			return effects{}, err
		}
		if d.State != "submitted" {
			return effects{}, d.decided(ctx, tx, verb)
		}
		if !v.rule {
			if err := d.may(ctx, tx, verb, v.by); err != nil {
				return effects{}, err
			}
		}
		return fn(ctx, tx, d)
	})
	return err
}

// withDecision runs fn with the task's row locked, and carries out the effects after the
// commit. It refuses a task without submitted results with a conflict that names the
// task's state.
func (e *Engine) withDecision(ctx context.Context, taskID, verb string, fn func(ctx context.Context, tx store.Tx, d *taskDecision) (effects, error)) (out effects, err error) {
	err = e.db.Do(ctx, func(ctx context.Context, tx store.Tx) (err error) {
		out = effects{} // discards the effects of an earlier try
		ns := pawl.CallerOf(ctx).Namespace
		c, found, err := store.OpenDecision(ctx, tx, ns, taskID)
		if err == nil && !found {
			var state string
			if state, err = store.TaskState(ctx, tx, ns, taskID); err == nil {
				err = rules.Conflict(verb, state, pawl.TaskState(state).Allowed())
			}
			if state == string(pawl.TaskSubmitted) { // the results were submitted after the first look
				c, found, err = store.OpenDecision(ctx, tx, ns, taskID)
			}
		}
		if err != nil || !found {
			return err
		}
		d := &taskDecision{TaskDecision: c, e: e}
		if d.rules, err = e.rulesOf(ctx, tx, ns, c.Type, c.TypeVersion); err != nil {
			return err
		}
		out, err = fn(ctx, tx, d)
		return err
	})
	if err != nil {
		return effects{}, err
	}
	e.follow(ctx, taskID, out)
	return out, nil
}

// decided returns the conflict of a decision about a task that is not submitted. It names
// the actor that decided first.
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

// may refuses an actor that may not decide about the task.
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

// separate refuses an approver that asked for the task or worked on it, if the type
// separates these duties.
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
func (d *taskDecision) approve(ctx context.Context, tx store.Tx, v verdictBy) (effects, error) {
	if !d.Ready {
		c := rules.Conflict("approve", d.State, pawl.TaskState(d.State).Allowed()).(*pawl.Error)
		c.Message = "the task is not ready for approval: it was not checked yet, or did not pass; see its error"
		return effects{}, c
	}
	if err := d.Move(ctx, tx, store.TaskMove{Event: "approved", To: "approved", Actor: v.by, Message: store.Text(v.comment), Todo: true}); err != nil {
		return effects{}, err
	}
	queued, _, err := d.moveItems(ctx, tx, store.ItemMove{Event: "accepted", From: "submitted", To: "accepted", Actor: v.by})
	return effects{queued: queued}, err
}

// moveItems moves a batch of the task's items. It returns those that it queued, and
// whether more are left for another transaction.
func (d *taskDecision) moveItems(ctx context.Context, tx store.Tx, m store.ItemMove) (queued []store.DueItem, more bool, err error) {
	_, queued, err = d.MoveItems(ctx, tx, m)
	if err != nil || m.IDs != nil {
		return queued, false, err
	}
	left, err := d.ItemsIn(ctx, tx, m.From, 1)
	return queued, len(left) > 0, err
}

// RejectTasks rejects, for good or for rework; see pawl.Decider.
func (e *Engine) RejectTasks(ctx context.Context, calls []pawl.RejectCall) ([]pawl.Result[pawl.Task], error) {
	return withProvenance(ctx, e, "reject", calls, subjectOfTask, eachly("reject", func(e *Engine, ctx context.Context, c *pawl.RejectCall) (pawl.Task, error) {
		if err := rules.CheckReject(c); err != nil {
			return pawl.Task{}, err
		}
		by := actor(pawl.CallerOf(ctx), pawl.ActorUser, "")
		v := verdictBy{by: by, comment: c.Comment, version: c.Version}
		err := e.decide(ctx, c.TaskID, "reject", v, func(ctx context.Context, tx store.Tx, d *taskDecision) (effects, error) {
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

// reject moves the task and its items to rejected.
func (d *taskDecision) reject(ctx context.Context, tx store.Tx, v verdictBy, errors []pawl.Complaint) (effects, error) {
	data := store.Text(rules.Encode(map[string]any{"errors": errors}))
	failure := store.Text(rules.Encode(pawl.Failure{Code: "rejected", Message: errors[0].Message, Detail: rules.Encode(errors)}))
	if err := d.Move(ctx, tx, store.TaskMove{Event: "rejected", To: "rejected", Actor: v.by, Message: store.Text(v.comment), Data: data, Error: failure}); err != nil {
		return effects{}, err
	}
	queued, more, err := d.moveItems(ctx, tx, store.ItemMove{Event: "rejected", From: "submitted", To: "rejected", Actor: v.by, Data: data})
	return effects{queued: queued, advance: more}, err
}

// rework queues the named items again with the reasons. The others stay submitted.
func (d *taskDecision) rework(ctx context.Context, tx store.Tx, v verdictBy, c *pawl.RejectCall) (out effects, err error) {
	ids := slices.Compact(slices.Sorted(slices.Values(c.ItemIDs)))
	all, err := d.ItemsIn(ctx, tx, "submitted", pawl.MaxItemsPerTask)
	if err != nil {
		return out, err
	}
	if len(ids) == 0 {
		ids = all
	}
	for _, id := range ids {
		if _, found := slices.BinarySearch(all, id); !found {
			return out, pawl.NotFound("submitted item", id+" in task "+d.TaskID)
		}
	}
	spent, err := store.ReworkedTooOften(ctx, tx, ids, pawl.MaxRework)
	if err != nil {
		return out, err
	}
	if spent != "" {
		c := rules.Conflict("reject", d.State, pawl.TaskState(d.State).Allowed()).(*pawl.Error)
		c.Message = fmt.Sprintf("the item %s has been sent back %d times, the most there is: approve the task, or reject it for good", spent, pawl.MaxRework)
		return out, c
	}
	data := store.Text(rules.Encode(map[string]any{"errors": c.Errors, "rework": true}))
	reasons := rules.Encode(c.Errors)
	failure := store.Text(rules.Encode(pawl.Failure{Code: "rejected", Message: c.Errors[0].Message, Detail: reasons}))
	if err := d.Reopen(ctx, tx, len(ids), store.TaskMove{Event: "rejected", Actor: v.by, Message: store.Text(v.comment), Data: data}); err != nil {
		return out, err
	}
	for chunk := range slices.Chunk(ids, store.DecideBatch) {
		queued, _, err := d.moveItems(ctx, tx, store.ItemMove{Event: "rejected", From: "submitted", To: "queued", IDs: chunk, Actor: v.by, Data: data, Error: failure, Reasons: store.Text(reasons)})
		if err != nil {
			return out, err
		}
		out.queued = append(out.queued, queued...)
	}
	return out, nil
}
