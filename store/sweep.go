package store

import "context"

var sweepSQL = Texts(sqlFiles, "sweep.sql")

// Due is what falls due next, and what other processes may have left to this one.
type Due struct {
	// At is the earliest time at which something is due: a lease that ends, itself or with its API key, or a scheduled or
	// waiting item. A time that is not after now means at once. nil = nothing has a time.
	At       *int64
	Schedule *int64 // the time of the first schedule, without the resting ones

	Moves    bool // of the database or of namespaces, over or not
	Removals bool // that the log lacks
	Children bool // to count, or to cancel
	Steps    bool // that tasks may owe, now or when a decision is late; or items that a signal is still to wake
	Limits   bool // of any queue
	Asked    bool // other servers ask whether this one has their database
}

// NextDue reads what falls due next.
func NextDue(ctx context.Context, tx Tx, resting ...string) (d Due, err error) {
	var left [6]int
	_, err = Row(ctx, tx, []any{&d.At, &d.Schedule, &left[0], &left[1], &left[2], &left[3], &left[4], &left[5]}, sweepSQL["next due"],
		List(resting))
	for i, has := range []*bool{&d.Moves, &d.Removals, &d.Children, &d.Steps, &d.Limits, &d.Asked} {
		*has = left[i] > 0
	}
	return d, err
}

// StartCursor adds a cursor at the beginning of the log, unless there is one of its name.
func StartCursor(ctx context.Context, tx Tx, name string) error {
	_, err := tx.Exec(ctx, sweepSQL["start cursor"], name)
	return err
}

// ForgetCursor removes a cursor.
func ForgetCursor(ctx context.Context, tx Tx, name string) error {
	_, err := tx.Exec(ctx, sweepSQL["forget cursor"], name)
	return err
}

// PruneCheckpoints removes up to batch of a task's checkpoints, oldest first. It keeps the
// newest keep checkpoints and those that a resume needs.
func PruneCheckpoints(ctx context.Context, tx Tx, taskID string, keep, batch int) (int, error) {
	var counter int64
	if found, err := Row(ctx, tx, []any{&counter}, sweepSQL["hold counters"], TaskID(taskID)); err != nil || !found {
		return 0, err
	}
	ids, err := Strings(ctx, tx, sweepSQL["prunable checkpoints"], TaskID(taskID), keep, batch)
	if err != nil || len(ids) == 0 {
		return 0, err
	}
	err = gated(ctx, tx, "checkpoints", func() error {
		_, err := tx.Exec(ctx, sweepSQL["prune checkpoints"], List(ids))
		return err
	})
	if err != nil {
		return 0, err
	}
	_, err = tx.Exec(ctx, sweepSQL["count pruned"], TaskID(taskID), len(ids))
	return len(ids), err
}

// gated runs fn while deletions from the event log are allowed, in this transaction only.
func gated(ctx context.Context, tx Tx, reason string, fn func() error) error {
	if _, err := tx.Exec(ctx, sweepSQL["open gate"], reason); err != nil {
		return err
	}
	if err := fn(); err != nil {
		return err
	}
	_, err := tx.Exec(ctx, sweepSQL["close gate"])
	return err
}
