package engine

import (
	"context"
	"fmt"
	"slices"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/engine/internal/budgets"
	"github.com/pawl-work/pawl/engine/internal/kernel"
	"github.com/pawl-work/pawl/engine/internal/rules"
	"github.com/pawl-work/pawl/engine/internal/tasktypes"
	"github.com/pawl-work/pawl/internal/idform"
	"github.com/pawl-work/pawl/store"
)

// ApproveTasks approves tasks; see pawl.Decider.
func (e *Engine) ApproveTasks(ctx context.Context, calls []pawl.ApproveCall) ([]pawl.Result[pawl.Task], error) {
	calls = idform.Calls(calls)
	return withProvenance(ctx, e, "approve", calls, subjectOfTask,
		eachly("approve", func(e *Engine, ctx context.Context, c *pawl.ApproveCall) (pawl.Task, error) {
			if err := checkApprove(c); err != nil {
				return pawl.Task{}, err
			}
			by := actor(pawl.CallerOf(ctx), pawl.ActorUser, "")
			err := e.approve(ctx, c.TaskID, verdictBy{by: by, comment: c.Comment, version: c.Version, limit: c.Limit})
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
	limit   *int64
}

// approve approves a task. If that needs no worker, the same transaction also applies it.
// If applying fails, the transaction is rolled back. A second transaction then writes the
// approval and after it the failure.
func (e *Engine) approve(ctx context.Context, taskID string, v verdictBy) error {
	err := e.decide(ctx, taskID, "approve", v, func(ctx context.Context, tx store.Tx, d *taskDecision) (effects, error) {
		raised, err := d.raiseBudget(ctx, tx, v)
		if err != nil {
			return effects{}, err
		}
		out := raised
		err = d.Together(ctx, tx, func() error {
			approved, err := d.approve(ctx, tx, v)
			if err != nil {
				return err
			}
			applied, err := d.applyApproved(ctx, tx)
			out = out.and(approved).and(applied)
			return err
		})
		return out, err
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
	e      *Engine
	rules  *tasktypes.Rules
	itemID string     // the item whose row the effects return; "" = none
	data   store.Text // of the event of an approval
	// accepted are the items that the transaction has accepted, if these are all; else nil
	accepted []string
	failed   bool // the hook Check returned an error
}

// effects lists what to do after a transaction has committed, in the order of the fields.
type effects struct {
	queued   []store.DueItem       // items to report to waiting claims
	waking   bool                  // a signal has items left to queue
	applied  func(context.Context) // calls the hook AfterApply; nil = none
	followUp bool                  // dependents of the moved items may move
	advance  []string              // tasks that the engine has to advance
	ended    []string              // items whose open messages end
	children []string              // tasks that are children, and may have ended
	passOn   bool                  // the children of a task are to be cancelled
	failing  []string              // tasks with a failed item, of which the rest may be cancelled
	again    bool                  // advance takes another step of this task
	item     *store.StateRow       // the item of the decision, if it moved
}

// and returns the effects of two parts of one transaction. At most one part sets applied.
func (f effects) and(g effects) effects {
	f.queued = append(f.queued, g.queued...)
	if g.applied != nil {
		f.applied = g.applied
	}
	f.followUp, f.advance, f.again = f.followUp || g.followUp, append(f.advance, g.advance...), f.again || g.again
	if g.item != nil {
		f.item = g.item
	}
	f.children, f.passOn, f.waking = append(f.children, g.children...), f.passOn || g.passOn, f.waking || g.waking
	f.ended, f.failing = append(f.ended, g.ended...), append(f.failing, g.failing...)
	return f
}

// andAdvance returns f, and the step that the engine has to take of the task if items are
// left to move.
func (f effects) andAdvance(taskID string, more bool) effects {
	if more {
		f.advance = append(f.advance, taskID)
	}
	return f
}

// change runs fn in one transaction and returns its value. After the commit it carries out
// the effects that fn returned. If fn runs again, or is rolled back, nothing that it
// returned before counts.
func change[T any](ctx context.Context, e *Engine, fn func(ctx context.Context, tx store.Tx) (T, effects, error)) (T, error) {
	var out T
	var then effects
	err := e.db.Do(ctx, func(ctx context.Context, tx store.Tx) (err error) {
		out, then, err = fn(ctx, tx)
		return err
	})
	if err != nil {
		var none T
		return none, err
	}
	e.follow(ctx, then)
	return out, nil
}

// follow carries out the effects of a transaction that has committed. Inside a scope,
// where the commit is still to come, it does what needs no commit and leaves the rest to
// the scope.
func (e *Engine) follow(ctx context.Context, f effects) {
	if len(f.queued) > 0 {
		e.after(func() { e.itemsQueued(f.queued) })
	} else if ns := pawl.CallerOf(ctx).Namespace; e.limits.knowsAny(ns) { // a slot may be free
		e.after(func() { e.ready(ns) })
	}
	if f.waking {
		e.wakeAfter(ctx)
	}
	if f.applied != nil {
		ctx := context.WithoutCancel(ctx) // a scope cancels its own context before it reports the commit
		e.after(func() { f.applied(ctx) })
	}
	if f.followUp {
		e.followUp(ctx)
	}
	for _, id := range f.advance {
		e.advanceSoon(ctx, id)
	}
	e.k.Messages.End(ctx, e.k, f.ended, "")
	e.k.Children.Ended(ctx, e.k, e.origin, f.children)
	if f.passOn {
		e.k.Children.PassOn(ctx, e.k, e.origin)
	}
	for _, id := range f.failing {
		if err := tasktypes.Of(e.taskTypes).CancelRemaining(context.WithoutCancel(ctx), e.origin, id); err != nil {
			e.logError(ctx, "the remaining items of a task with a failed item could not be cancelled; retrying", err) // the next pass repeats it
		}
	}
}

// wakeAfter goes on, after the commit, with signals that were sent to more items than one transaction queues. What it
// leaves is done by advanceAll.
func (e *Engine) wakeAfter(ctx context.Context) {
	if e.scope != nil {
		e.after(func() { e.root.wakeAfter(ctx) })
		return
	}
	if err := e.k.Signals.WakeRest(store.WithLockWait(context.WithoutCancel(ctx), kernel.LockedRow), e.k); err != nil {
		e.k.LeftAside(ctx, "items that wait for a signal are queued by the next pass", err)
	}
}

// decide runs fn with the task locked, if the caller may decide about the task and it is
// not decided yet.
func (e *Engine) decide(
	ctx context.Context,
	taskID, verb string,
	v verdictBy,
	fn func(ctx context.Context, tx store.Tx, d *taskDecision) (effects, error),
) error {
	once := func(ctx context.Context, tx store.Tx, d *taskDecision) (effects, error) {
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
	}
	return budgets.Try(func() error {
		_, err := e.withDecision(ctx, taskID, verb, once)
		return err
	})
}

// withDecision runs fn with the task's row locked, and carries out the effects after the
// commit. It refuses a task without submitted results with a conflict that names the
// task's state.
func (e *Engine) withDecision(
	ctx context.Context,
	taskID, verb string,
	fn func(ctx context.Context, tx store.Tx, d *taskDecision) (effects, error),
) (effects, error) {
	return change(ctx, e, func(ctx context.Context, tx store.Tx) (effects, effects, error) {
		d, err := e.lockDecision(ctx, tx, taskID, verb)
		if err != nil {
			return effects{}, effects{}, err
		}
		out, err := fn(ctx, tx, d)
		if d.ParentID != "" {
			out.children = append(out.children, taskID)
		}
		return out, out, err
	})
}

// lockDecision locks the row of a task with submitted results and reads its rules.
func (e *Engine) lockDecision(ctx context.Context, tx store.Tx, taskID, verb string) (*taskDecision, error) {
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
	if err == nil && !found {
		err = pawl.NotFound("task", taskID) // deleted meanwhile
	}
	if err != nil {
		return nil, err
	}
	r, err := tasktypes.Of(e.taskTypes).In(ctx, tx, ns, c.Type, c.TypeVersion)
	return &taskDecision{TaskDecision: c, e: e, rules: r}, err
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
		if escalated, err = isEscalated(ctx, tx, d.TaskID); err != nil {
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
	asks := d.Type == pawl.TypeBudget
	if !requester && !workers && !asks {
		return nil
	}
	did, err := tookPart(ctx, tx, d.TaskID, by, requester, workers, asks)
	if err != nil || did == "" {
		return err
	}
	return rules.NotSeparate(rules.Actor(by), did)
}

// approve moves the task to approved and its items to accepted.
func (d *taskDecision) approve(ctx context.Context, tx store.Tx, v verdictBy) (effects, error) {
	if !d.Ready {
		c := rules.Conflict("approve", d.State, pawl.TaskState(d.State).Allowed()).(*pawl.Error)
		c.Message = "the task is not ready for approval: it was not checked yet, or did not pass; see its error"
		return effects{}, c
	}
	to := store.TaskMove{Event: "approved", To: "approved", Actor: v.by, Message: store.Text(v.comment), Data: d.data, Todo: true}
	if err := d.Move(ctx, tx, to); err != nil {
		return effects{}, err
	}
	move := store.ItemMove{Event: "accepted", From: "submitted", To: "accepted", Actor: v.by}
	if d.Solo {
		move.IDs = []string{"itm_" + d.TaskID[len("tsk_"):]}
	}
	rows, out, more, err := d.moveRows(ctx, tx, move)
	if err == nil && !more {
		d.accepted = []string{}
		for i := range rows {
			d.accepted = append(d.accepted, rows[i].ItemID)
		}
	}
	return out, err
}

// moveItems moves a batch of the task's items. more reports whether items are left for
// another transaction.
func (d *taskDecision) moveItems(ctx context.Context, tx store.Tx, m store.ItemMove) (out effects, more bool, err error) {
	_, out, more, err = d.moveRows(ctx, tx, m)
	return out, more, err
}

// moveRows is moveItems, with the rows of the items.
func (d *taskDecision) moveRows(ctx context.Context, tx store.Tx, m store.ItemMove) (rows []store.StateRow, out effects, more bool,
	err error) {
	if rows, out.queued, more, err = d.MoveItems(ctx, tx, m); err != nil {
		return nil, effects{}, false, err
	}
	if i := slices.IndexFunc(rows, func(r store.StateRow) bool { return r.ItemID == d.itemID }); i >= 0 {
		out.item = &rows[i]
	}
	out.followUp = m.To == "completed" && slices.ContainsFunc(rows, func(r store.StateRow) bool { return r.FeedsItems() })
	if !more {
		return rows, out, false, nil
	}
	left, err := d.ItemsIn(ctx, tx, m.From, 1)
	return rows, out, len(left) > 0, err
}

// RejectTasks rejects, for good or for rework; see pawl.Decider.
func (e *Engine) RejectTasks(ctx context.Context, calls []pawl.RejectCall) ([]pawl.Result[pawl.Task], error) {
	calls = idform.Calls(calls)
	return withProvenance(ctx, e, "reject", calls, subjectOfTask,
		eachly("reject", func(e *Engine, ctx context.Context, c *pawl.RejectCall) (pawl.Task, error) {
			if err := checkReject(c); err != nil {
				return pawl.Task{}, err
			}
			by := actor(pawl.CallerOf(ctx), pawl.ActorUser, "")
			v := verdictBy{by: by, comment: c.Comment, version: c.Version}
			err := e.decide(ctx, c.TaskID, "reject", v, func(ctx context.Context, tx store.Tx, d *taskDecision) (effects, error) {
				if d.Type == pawl.TypeBudget {
					return d.rejectBudget(ctx, tx, v, c)
				}
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
func (d *taskDecision) reject(ctx context.Context, tx store.Tx, v verdictBy, reasons []pawl.Complaint) (effects, error) {
	data := store.Text(rules.Encode(map[string]any{"errors": reasons}))
	failure := store.Text(rules.Encode(pawl.Failure{Code: "rejected", Message: reasons[0].Message, Detail: rules.Encode(reasons)}))
	to := store.TaskMove{Event: "rejected", To: "rejected", Actor: v.by, Message: store.Text(v.comment), Data: data, Error: failure,
		Todo: true}
	if err := d.Move(ctx, tx, to); err != nil {
		return effects{}, err
	}
	out, more, err := d.moveItems(ctx, tx, store.ItemMove{Event: "rejected", From: "submitted", To: "rejected", Actor: v.by, Data: data})
	if err == nil && !more {
		err = d.ClearTodo(ctx, tx)
	}
	return out.andAdvance(d.TaskID, more), err
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
	spent, err := reworkedTooOften(ctx, tx, ids, pawl.MaxRework)
	if err != nil {
		return out, err
	}
	if spent != "" {
		c := rules.Conflict("reject", d.State, pawl.TaskState(d.State).Allowed()).(*pawl.Error)
		c.Message = fmt.Sprintf("the item %s has been sent back %d times, the most there is: approve the task, or reject it for good",
			spent, pawl.MaxRework)
		return out, c
	}
	data := store.Text(rules.Encode(map[string]any{"errors": c.Errors, "rework": true}))
	reasons := rules.Encode(c.Errors)
	failure := store.Text(rules.Encode(pawl.Failure{Code: "rejected", Message: c.Errors[0].Message, Detail: reasons}))
	to := store.TaskMove{Event: "rejected", Actor: v.by, Message: store.Text(v.comment), Data: data}
	if err := d.Reopen(ctx, tx, len(ids), to); err != nil {
		return out, err
	}
	for chunk := range slices.Chunk(ids, store.DecideBatch) {
		moved, _, err := d.moveItems(ctx, tx, store.ItemMove{
			Event:   "rejected",
			From:    "submitted",
			To:      "queued",
			IDs:     chunk,
			Actor:   v.by,
			Data:    data,
			Error:   failure,
			Reasons: store.Text(reasons),
		})
		if err != nil {
			return out, err
		}
		out = out.and(moved)
	}
	return out, nil
}

// raiseBudget carries out what the approval of a question means.
func (d *taskDecision) raiseBudget(ctx context.Context, tx store.Tx, v verdictBy) (effects, error) {
	if d.Type != pawl.TypeBudget {
		if v.limit != nil {
			return effects{}, pawl.Invalid("/limit", "is for tasks of type %s", pawl.TypeBudget)
		}
		return effects{}, nil
	}
	woken, asked, err := budgets.Raise(ctx, d.e.budgeted, tx, d.TaskDecision, v.limit, v.by)
	d.data = store.Text(rules.Encode(asked))
	return effects{queued: woken, waking: len(woken) > 0}, err
}

// rejectBudget rejects a question. The items that ask by it are queued, and their next refusal
// tells their workers to fail them.
func (d *taskDecision) rejectBudget(ctx context.Context, tx store.Tx, v verdictBy, c *pawl.RejectCall) (effects, error) {
	if c.AllowRework {
		return effects{}, pawl.Invalid("/allow_rework", "is not for tasks of type %s", pawl.TypeBudget)
	}
	woken, err := budgets.Reject(ctx, d.e.budgeted, tx, d.TaskDecision, v.by)
	if err != nil {
		return effects{}, err
	}
	rejected, err := d.reject(ctx, tx, v, c.Errors)
	return effects{queued: woken, waking: len(woken) > 0}.and(rejected), err
}
