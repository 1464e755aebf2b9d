package store

import (
	"context"
	"slices"

	"github.com/pawl-work/pawl"
)

// movedTask is the task of a Change: its state before, and what the moves of its items add
// to its counters.
type movedTask struct {
	parent                        int // 1: it has children
	found, solo, acceptance       bool
	state, failedIn               string // the stored state; of a solo task after soloMove has run
	open, failed, dead, cancelled int    // deltas
}

// lockTask locks the task of a Change before any of its items. Until the transaction ends,
// no item is added to it, and a task of one item stays one.
func lockTask(ctx context.Context, tx Tx, c Change) (t movedTask, err error) {
	var solo int
	t.found, err = Row(ctx, tx, []any{&solo}, moveSQL["lock task"], TaskID(c.TaskID), c.Namespace)
	t.solo = solo == 1
	if err == nil && t.found {
		err = t.read(ctx, tx, c.TaskID)
	}
	return t, err
}

// read reads the stored state. The state of a task of one item changes with its item, so
// it is reliable only after the item was taken.
func (t *movedTask) read(ctx context.Context, tx Tx, taskID string) error {
	t.state, t.failedIn = "open", ""
	_, err := Row(ctx, tx, []any{&t.state, &t.failedIn, &t.parent}, moveSQL["stored state"], TaskID(taskID))
	return err
}

func (t *movedTask) count(state string, n int) {
	switch itemState(state).Counter {
	case "open":
		t.open += n
	case "failed":
		t.failed += n
	case "dead":
		t.dead += n
	case "cancelled":
		t.cancelled += n
	}
}

// soloMove writes the task's change into its item's event. The task's version is that of
// task_counters, plus one while the item has no work left: soloMove returns what is to be added
// to the stored one, and whether that row is to be written.
func (t *movedTask) soloMove(from, to string, e *Event) (add int, bump bool) {
	before, after := SoloState(from), SoloState(to)
	decided := t.state != "open" && t.state != ""
	if decided {
		before = t.state
	}
	t.state = after
	if before == after {
		return 0, false
	}
	e.TaskFrom, e.TaskTo = Text(before), Text(after)
	add = 1
	if SoloState(from) != "open" && !decided {
		add++ // the version that was derived is stored now
	}
	if after != "open" {
		add-- // the new version is derived again
	}
	return add, add != 0 || decided
}

// conclude writes the counters of a task of many and moves the task.
func (t *movedTask) conclude(ctx context.Context, tx Tx, now int64, c Change, out *Applied) error {
	var state, failedIn string
	open, todo, n := 0, 0, Counts{Acceptance: t.acceptance}
	found, err := Row(ctx, tx, []any{&state, &failedIn, &n.Items, &open, &n.Failed, &n.Dead, &n.Cancelled, &n.Ignores, &todo},
		moveSQL["tally"], TaskID(c.TaskID), t.open, t.failed, t.dead, t.cancelled, now)
	if err != nil || !found {
		return err
	}
	out.Task = state
	to, verb := state, c.Verb
	switch {
	case c.Verb == "cancel" && c.ItemIDs == nil:
		if !pawl.TaskState(state).Ended() {
			to = "cancelled"
		}
	case state == "open" && n.Failed > 0 && n.Cancelled < n.Items && n.Ignores*todo == 1 && c.Verb != "settle": // see leftOpen
	case state == "open" && open == 0 && (out.Items > 0 || c.Verb == "settle") &&
		(n.Items > 0 || c.Verb == "cancel"), // no items: its plan item failed
		(t.cancelled > 0 || c.Verb == "settle") && open == 0 && failedIn == "" && state != "open" &&
			slices.Contains(pawl.From(pawl.TaskMoves, "settle"), state):
		to, verb = n.Settled(), "settle"
	case t.cancelled > 0 && n.Cancelled == n.Items && !pawl.TaskState(state).Ended(): // all items are cancelled, so nothing is left to apply
		to = "cancelled"
	case c.Verb == "retry" && open > 0 && slices.Contains(pawl.From(pawl.TaskMoves, "retry"), state):
		to = "open"
	case c.Verb == "retry" && state != "open" && out.Items > 0: // the task ended while the items were collected
		return &pawl.Error{Code: pawl.CodeConflict, Op: "retry", State: state, Allowed: pawl.TaskState(state).Allowed(),
			Message: "the state is " + state + "; its items cannot be queued again"}
	case c.Verb == "bury" && state == "failed" && n.Failed == 0:
		to = "dead_lettered"
	}
	if to == state {
		return nil
	}
	var completed *int64
	if to != "open" && to != "submitted" {
		completed = &now
	}
	if _, err := tx.Exec(ctx, moveSQL["set task state"], TaskID(c.TaskID), to, completed, now); err != nil {
		return err
	}
	out.Task, out.Changed = to, true
	actor := c.Actor
	if verb == "settle" {
		actor = Actor{Type: pawl.ActorSystem}
	}
	event := map[string]string{"retry": "retried"}[verb]
	if event == "" {
		event = to
	}
	if err := Record(ctx, tx, now, []Event{{Namespace: c.Namespace, TaskID: c.TaskID, Event: event, From: Text(state), To: Text(to),
		Actor: actor, Message: c.Reason, Data: c.Data}}); err != nil {
		return err
	}
	if state == "dead_lettered" && verb == "settle" && to != "cancelled" {
		_, err := tx.Exec(ctx, moveSQL["hold input hash if free"], TaskID(c.TaskID))
		return err
	}
	return releaseHash(ctx, tx, c.TaskID, *out)
}

// Resettle gives a task the state that follows from its items, with an event. It returns
// false when the task has that state already.
func Resettle(ctx context.Context, tx Tx, now int64, ref TaskRef, why Text) (bool, error) {
	c := Change{Namespace: ref.Namespace, TaskID: ref.ID, Verb: "settle", Actor: Actor{Type: pawl.ActorSystem}, Reason: why}
	t, err := lockTask(ctx, tx, c)
	if err != nil || !t.found || t.solo {
		return false, err
	}
	var handedIn int
	if _, err := Row(ctx, tx, []any{&handedIn}, moveSQL["handed in"], TaskID(ref.ID)); err != nil {
		return false, err
	}
	t.acceptance = handedIn == 1
	var out Applied
	err = t.conclude(ctx, tx, now, c, &out)
	return out.Changed, err
}

// Counts are the numbers that decide the state of a task without open items.
type Counts struct {
	Items, Failed, Dead, Cancelled int
	Ignores                        int  // 1 = failed items do not count when other items are left
	Acceptance                     bool // its items were submitted for acceptance
}

// Settled returns the state that the task moves to. Cancelled items do not count.
func (n Counts) Settled() string {
	left := n.Items - n.Cancelled
	counts := n.Ignores == 0 || n.Failed+n.Dead == left
	switch {
	case left == 0:
		return "cancelled"
	case counts && n.Failed > 0:
		return "failed"
	case counts && n.Dead > 0:
		return "dead_lettered"
	case n.Acceptance:
		return "submitted"
	}
	return "completed"
}

// releaseHash releases the input hash of a task in a state that frees its input, and takes
// it again when the task is retried.
func releaseHash(ctx context.Context, tx Tx, taskID string, a Applied) error {
	query := ""
	switch {
	case FreesInput(a.Task):
		query = "let go of input hash"
	case (a.Task == "open" || a.Task == "approved") && a.Items > 0:
		query = "hold input hash"
	}
	if query == "" {
		return nil
	}
	_, err := tx.Exec(ctx, moveSQL[query], TaskID(taskID))
	if pawl.CodeOf(err) == pawl.CodeConflict {
		return &pawl.Error{Code: pawl.CodeConflict, State: string(pawl.TaskDeadLettered), Allowed: pawl.TaskDeadLettered.Allowed(),
			Message: "another task with the same input hash exists", Err: err}
	}
	return err
}
