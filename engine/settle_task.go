package engine

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/engine/internal/kernel"
	"github.com/pawl-work/pawl/engine/internal/rules"
	"github.com/pawl-work/pawl/engine/internal/tasktypes"
	"github.com/pawl-work/pawl/internal/clock"
	"github.com/pawl-work/pawl/store"
)

// advanceSoon takes the steps that the engine owes a task. If it fails, the task keeps
// its todo flag and the next pass of Run takes the step.
func (e *Engine) advanceSoon(ctx context.Context, taskID string) {
	e.advanceItem(ctx, taskID, nil)
}

// advanceItem is advanceSoon for the task of an item. It returns the item's row as the
// last step of the task left it, or nil if further transactions may have moved the item.
func (e *Engine) advanceItem(ctx context.Context, taskID string, item *store.StateRow) *store.StateRow {
	item, err := e.advance(context.WithoutCancel(ctx), taskID, item)
	if err != nil {
		e.k.LeftAside(ctx, "a task is left to the sweep", err, "task_id", taskID)
	}
	return item
}

// advanceLoop takes the steps that are owed until ctx ends. It is beside the loop of Run, in which leases expire: a step
// may wait for rows that other transactions lock.
func (e *Engine) advanceLoop(ctx context.Context) {
	tick := time.NewTicker(often)
	defer tick.Stop()
	for looked := (time.Time{}); ctx.Err() == nil; {
		if clock.Now().Sub(looked) >= seldom { // a long sweep tells nothing
			looked = clock.Now()
			e.owed.Store(true)
		}
		if e.k.Base.Moves.Refuse(ctx) == nil {
			if err := e.advanceOwed(ctx); err != nil {
				e.logError(ctx, "advancing tasks failed; retrying", err)
			}
		}
		select {
		case <-ctx.Done():
		case <-tick.C:
		}
	}
}

// advanceOwed is advanceAll without the tasks that are postponed, and without looks at what quick has not found.
func (e *Engine) advanceOwed(ctx context.Context) error {
	if !e.owed.Swap(false) {
		return tasktypes.Of(e.taskTypes).CancelRemaining(store.WithLockWait(ctx, kernel.LockedRow), e.origin, "")
	}
	var notes []string
	if e.postponed.any() {
		var err error
		if notes, err = tasktypes.Of(e.taskTypes).NotedHooks(ctx); err != nil {
			return err
		}
	}
	e.postponed.begin(notes)
	err := e.advanceEach(ctx, e.postponed.waits)
	if err == nil {
		e.postponed.end()
	}
	return err
}

// advanceAll takes every step that is owed and handles approvals that were not decided
// in time. It leaves tasks that other transactions lock to the next call.
func (e *Engine) advanceAll(ctx context.Context) error {
	return e.advanceEach(ctx, func(string, string, int64) bool { return false })
}

func (e *Engine) advanceEach(ctx context.Context, waits func(taskID, state string, now int64) bool) error {
	ctx = store.WithLockWait(ctx, kernel.LockedRow)
	if err := tasktypes.Of(e.taskTypes).CancelRemaining(ctx, e.origin, ""); err != nil {
		return err
	}
	if err := e.k.Signals.WakeRest(ctx, e.k); err != nil {
		return err
	}
	after, expired := "", store.TaskRef{}
	for {
		var owed []owedStep
		var late []store.TaskRef
		var now int64
		err := e.k.Look(ctx, func(ctx context.Context, tx store.Tx) (err error) {
			if now, err = tx.Now(ctx); err == nil {
				late, err = overdueDecisions(ctx, tx, now, expired, 100)
			}
			if err == nil {
				owed, err = tasksWithTodo(ctx, tx, after, 100)
			}
			return err
		})
		if err != nil || len(owed)+len(late) == 0 {
			return err
		}
		for _, t := range late {
			if err := e.expireApproval(pawl.As(ctx, pawl.Caller{Namespace: t.Namespace}), t.ID); err != nil {
				e.k.LeftAside(ctx, "expiring an approval failed; retrying", err, "task_id", t.ID)
			}
			expired = t
		}
		for _, t := range owed {
			if !waits(t.ID, t.state, now) {
				e.advanceSoon(pawl.As(ctx, pawl.Caller{Namespace: t.Namespace}), t.ID)
			}
			after = t.ID
		}
	}
}

// advance moves a task as far as it goes without a decision: checked, approved by rule,
// applied. item is the row of one of its items, or nil; see advanceItem.
func (e *Engine) advance(ctx context.Context, taskID string, item *store.StateRow) (*store.StateRow, error) {
	for range 8 {
		state, of := "", (*taskDecision)(nil)
		out, err := e.withDecision(ctx, taskID, "advance", func(ctx context.Context, tx store.Tx, d *taskDecision) (effects, error) {
			state, of = d.State, d
			if item != nil {
				d.itemID = item.ItemID
			}
			return d.step(ctx, tx)
		})
		if of != nil {
			e.postponed.note(taskID, state, of.Now, !of.failed && !errors.Is(err, kernel.ErrNoHook))
		}
		if failed, ok := asApplyFailure(err); ok {
			out, err = e.withDecision(ctx, taskID, "advance", func(ctx context.Context, tx store.Tx, d *taskDecision) (effects, error) {
				if d.State != "approved" {
					return effects{}, nil
				}
				return effects{}, d.fail(ctx, tx, pawl.KindApply, failed.Failure())
			})
		}
		switch {
		case out.item != nil && item != nil && out.item.Attempt == item.Attempt:
			item = out.item
		case out.item != nil: // a later attempt submitted it again
		case state != "submitted" && state != "approved": // another call took the step
			item = nil
		}
		if len(out.advance) > 0 { // further transactions have moved items
			item = nil
		}
		if err != nil || !out.again {
			return item, err
		}
	}
	return item, nil
}

// step takes one step of advance.
func (d *taskDecision) step(ctx context.Context, tx store.Tx) (effects, error) {
	switch d.State {
	case "open":
		return d.planByItem(ctx, tx)
	case "submitted":
		if d.Ready {
			return effects{}, d.ClearTodo(ctx, tx)
		}
		return d.check(ctx, tx)
	case "approved":
		return d.applyApproved(ctx, tx)
	case "rejected", "completed":
		return d.moveRemaining(ctx, tx)
	case "dead_lettered": // settled by a hot verb, which does not lock the task
		if err := d.ReleaseHash(ctx, tx); err != nil {
			return effects{}, err
		}
	}
	return effects{}, d.ClearTodo(ctx, tx)
}

var system = store.Actor{Type: pawl.ActorSystem}

// check runs the type's check on all submitted results, and then its approval rule.
func (d *taskDecision) check(ctx context.Context, tx store.Tx) (effects, error) {
	if err := d.rules.LacksCheck(d.Checks, d.Approves); err != nil { // it is left to a process that has the hook
		return effects{}, err
	}
	task, items, err := d.load(ctx, tx, "submitted")
	if err != nil {
		return effects{}, err
	}
	complaints, err := d.rules.Check(ctx, task, items)
	if d.failed = err != nil; d.failed { // it is repeated
		failure := hookFailure(err, func(text string) pawl.Failure {
			return complained([]pawl.Complaint{{Code: "check_failed", Message: text}})
		})
		return effects{}, d.Checked(ctx, tx, false, true, store.Text(rules.Encode(failure)), d.expiry())
	}
	if len(complaints) > 0 {
		return effects{}, d.Checked(ctx, tx, false, false, store.Text(rules.Encode(allComplaints(complaints))), d.expiry())
	}
	consent, err := d.rules.Approves(ctx, task, items)
	if err != nil {
		d.e.log.WarnContext(ctx, "the approval rule failed; the task waits for a decision", "task_id", d.TaskID, "error", err)
	}
	by := d.expiry()
	if consent {
		by = nil
	}
	if err := d.Checked(ctx, tx, true, false, "", by); err != nil || !consent {
		return effects{}, err
	}
	out, err := d.approve(ctx, tx, verdictBy{by: system, rule: true, comment: "by rule"})
	out.again = err == nil // it is applied in a separate transaction, which may fail: the approval stays
	return out, err
}

// expiry returns when an approval that is not decided now expires; nil = never.
func (d *taskDecision) expiry() *int64 {
	s := d.rules.Approval.ExpiresSeconds
	if s == 0 {
		return nil
	}
	at := d.Now + int64(s)*time.Second.Microseconds()
	return &at
}

// applyApproved applies an approved task, or takes over the result of its apply item.
func (d *taskDecision) applyApproved(ctx context.Context, tx store.Tx) (effects, error) {
	if err := d.rules.LacksApply(); err != nil { // no failure: it is left to a process that has the hook
		return effects{}, err
	}
	var moved effects
	if d.accepted == nil {
		var more bool
		var err error
		moved, more, err = d.moveItems(ctx, tx, store.ItemMove{Event: "accepted", From: "submitted", To: "accepted", Actor: system})
		if err != nil || more {
			return moved.andAdvance(d.TaskID, more), err
		}
	}
	if mode := d.rules.Apply.Mode; mode == pawl.ApplyGo || mode == pawl.ApplyItem {
		if err := d.e.acts(ctx, "apply"); err != nil {
			return moved, err
		}
		if err := d.RecordHeld(ctx, tx); err != nil { // the hook may read them, and the item has an event of its own
			return moved, err
		}
	}
	var err error
	var applied effects
	switch d.rules.Apply.Mode {
	case pawl.ApplyGo:
		applied, err = d.applyByHook(ctx, tx)
	case pawl.ApplyItem:
		applied, err = d.applyByItem(ctx, tx)
	default:
		applied, err = d.settle(ctx, tx, pawl.Applied{})
	}
	return moved.and(applied), err
}

// applyByHook applies the task by the hook Apply, in this transaction.
func (d *taskDecision) applyByHook(ctx context.Context, tx store.Tx) (effects, error) {
	task, items, err := d.load(ctx, tx, "accepted")
	if err != nil {
		return effects{}, err
	}
	hookCtx, end, err := d.traceApply(ctx, tx, task)
	if err != nil {
		return effects{}, err
	}
	if err := d.e.waitForOthers(ctx, tx); err != nil {
		return effects{}, err
	}
	done, err := d.rules.ApplyByHook(hookCtx, pawl.Application{Task: task, Items: items, Tx: store.Native(tx)})
	end(err)
	if err != nil {
		return effects{}, &applyFailure{err}
	}
	if err := d.e.k.Blobs.Refer(ctx, tx, d.Now, "apply", d.TaskID, blobsIn(done.Result)); pawl.CodeOf(err) == pawl.CodeInvalid {
		return effects{}, &applyFailure{err}
	} else if err != nil {
		return effects{}, err
	}
	out, err := d.settle(ctx, tx, done)
	if hook := d.rules.AfterApply(); hook != nil {
		out.applied = func(ctx context.Context) { hook(ctx, task, done) }
	}
	return out, err
}

// waitForOthers ends the bound of waits for locks: what a hook changes is not Pawl's, and its error fails the task.
// The rest of the transaction waits as long as one without WithLockWait does.
func (e *Engine) waitForOthers(ctx context.Context, tx store.Tx) error {
	if store.LockWaitOf(ctx) == 0 || !e.db.Dialect().ParallelWrites {
		return nil
	}
	return store.BoundLockWait(ctx, tx, 3*time.Second)
}

// applyByItem queues the apply item, or takes over its result.
func (d *taskDecision) applyByItem(ctx context.Context, tx store.Tx) (effects, error) {
	it, found, err := d.AsideItem(ctx, tx, pawl.KindApply)
	if err != nil {
		return effects{}, err
	}
	switch {
	case !found:
		queued, err := d.makeApplyItem(ctx, tx)
		return effects{queued: queued}, err
	case it.State == string(pawl.ItemCompleted):
		var done pawl.Applied
		if err := json.Unmarshal([]byte(it.Result), &done); err != nil {
			return effects{}, d.fail(ctx, tx, pawl.KindApply,
				pawl.Failure{Code: "apply_failed", Message: "the apply item's result is not {result?, diff?}: " + err.Error()})
		}
		return d.settle(ctx, tx, done)
	case slices.Contains(stopped, it.State):
		return effects{}, d.fail(ctx, tx, pawl.KindApply, failureOf(it))
	}
	return effects{}, nil // in progress
}

// makeApplyItem queues an item that applies the task.
func (d *taskDecision) makeApplyItem(ctx context.Context, tx store.Tx) ([]store.DueItem, error) {
	row := applyItem(d.rules, d.e.k.IDs.Next("itm"), d.Namespace, d.TaskID)
	queued := store.DueItem{Namespace: row.Namespace, ItemID: row.ID, Type: row.Type, Rank: store.NewRank(row.Priority)}
	return []store.DueItem{queued}, d.e.insertMore(ctx, tx, []store.NewItem{row})
}

// stopped lists the states of an item that no worker takes unless an operator acts.
var stopped = []string{string(pawl.ItemFailed), string(pawl.ItemDeadLettered), string(pawl.ItemCancelled)}

// failureOf returns the failure of a plan or apply item.
func failureOf(it store.AsideItem) pawl.Failure {
	f := pawl.Failure{Code: it.Kind + "_failed", Message: "the " + it.Kind + " item is " + it.State}
	if it.Error != "" {
		_ = json.Unmarshal([]byte(it.Error), &f) // written by us
	}
	return f
}

// planByItem handles the end of an open task's plan item.
func (d *taskDecision) planByItem(ctx context.Context, tx store.Tx) (effects, error) {
	it, found, err := d.AsideItem(ctx, tx, pawl.KindPlan)
	switch {
	case err != nil:
		return effects{}, err
	case !found, it.State == string(pawl.ItemCompleted): // it may have been left open for dependents of its items
		return effects{followUp: true}, d.ClearTodo(ctx, tx)
	case it.State == string(pawl.ItemCancelled):
		_, err := store.Apply(ctx, tx, d.Now,
			store.Change{Namespace: d.Namespace, TaskID: d.TaskID, Verb: "cancel", Actor: system, Reason: "its plan item was cancelled"})
		return effects{}, err
	case slices.Contains(stopped, it.State):
		return effects{}, d.fail(ctx, tx, pawl.KindPlan, failureOf(it))
	}
	return effects{}, nil // in progress
}

// settle records that the task was applied, and completes it with its items.
func (d *taskDecision) settle(ctx context.Context, tx store.Tx, done pawl.Applied) (effects, error) {
	var diff store.Text
	if done.Diff != nil {
		diff = store.Text(rules.Encode(completeDiff(*done.Diff)))
	}
	if err := d.Move(ctx, tx, store.TaskMove{Event: "applied", To: "applied", Actor: system, Diff: diff}); err != nil {
		return effects{}, err
	}
	if len(done.Result) > 0 {
		if err := d.PutResult(ctx, tx, string(done.Result)); err != nil {
			return effects{}, err
		}
	}
	completed := store.ItemMove{Event: "completed", From: "accepted", To: "completed", IDs: d.accepted, Actor: system}
	out, more, err := d.moveItems(ctx, tx, completed)
	if err != nil {
		return effects{}, err
	}
	return out.andAdvance(d.TaskID, more), d.Move(ctx, tx, store.TaskMove{Event: "completed", To: "completed", Actor: system, Todo: more})
}

// moveRemaining moves items of a decided task that the decision's transaction did not
// move.
func (d *taskDecision) moveRemaining(ctx context.Context, tx store.Tx) (effects, error) {
	from, to, event := "accepted", "completed", "completed"
	if d.State == "rejected" {
		from, to, event = "submitted", "rejected", "rejected"
	}
	out, more, err := d.moveItems(ctx, tx, store.ItemMove{Event: event, From: from, To: to, Actor: system})
	if err == nil && !more {
		err = d.ClearTodo(ctx, tx)
	}
	out.again = more
	return out, err
}

// fail moves the task to failed because it could not be planned or applied. A retry
// repeats that step.
func (d *taskDecision) fail(ctx context.Context, tx store.Tx, in string, f pawl.Failure) error {
	return d.Move(ctx, tx, store.TaskMove{
		Event:    "failed",
		To:       "failed",
		Actor:    system,
		Message:  store.Text(f.Message),
		FailedIn: store.Text(in),
		Error:    store.Text(rules.Encode(f)),
	})
}

// applyFailure is an error of applying. It rolls back the transaction that applies;
// another transaction writes the failure.
type applyFailure struct{ error }

func (f *applyFailure) Unwrap() error { return f.error }

// Failure returns the failure to store.
func (f *applyFailure) Failure() pawl.Failure {
	return hookFailure(f, func(text string) pawl.Failure { return pawl.Failure{Code: "apply_failed", Message: text} })
}

func asApplyFailure(err error) (*applyFailure, bool) {
	var f *applyFailure
	ok := errors.As(err, &f)
	return f, ok
}

// load reads the task, and its items in a state if the rules need them.
func (d *taskDecision) load(ctx context.Context, tx store.Tx, state string) (pawl.Task, []pawl.Item, error) {
	task, err := store.GetTask(ctx, tx, d.Namespace, d.TaskID)
	if err != nil || !d.rules.LooksAtItems() {
		return task, nil, err
	}
	ids, err := d.ItemsIn(ctx, tx, state, pawl.MaxItemsPerTask)
	if err != nil {
		return task, nil, err
	}
	items := make([]pawl.Item, 0, len(ids))
	for _, id := range ids {
		it, err := store.GetItem(ctx, tx, d.Namespace, id, d.Now)
		if err != nil {
			return task, nil, err
		}
		items = append(items, it.Item)
	}
	return task, items, nil
}

// expireApproval does what the type says after the time to decide has passed.
func (e *Engine) expireApproval(ctx context.Context, taskID string) error {
	_, err := e.withDecision(ctx, taskID, "expire", func(ctx context.Context, tx store.Tx, d *taskDecision) (effects, error) {
		if d.State != "submitted" || d.DecideBy == nil || *d.DecideBy > d.Now {
			return effects{}, nil
		}
		if err := d.ClearDecideBy(ctx, tx); err != nil {
			return effects{}, err
		}
		if err := d.Note(ctx, tx, "approval_expired", system, ""); err != nil {
			return effects{}, err
		}
		switch d.rules.Approval.OnExpiry {
		case pawl.ExpiryEscalate:
			return effects{}, d.Note(ctx, tx, "escalated", system, store.Text(rules.Encode(map[string]any{"to": d.rules.Approval.EscalateTo})))
		case pawl.ExpiryReject:
			late := fmt.Sprintf("not decided within %d s", d.rules.Approval.ExpiresSeconds)
			return d.reject(ctx, tx, verdictBy{by: system}, []pawl.Complaint{{Code: "approval_expired", Message: late}})
		}
		return effects{}, nil
	})
	return err
}
