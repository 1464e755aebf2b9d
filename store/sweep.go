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

// Gated runs fn while deletions from the event log are allowed, in this transaction only.
func Gated(ctx context.Context, tx Tx, reason string, fn func() error) error {
	if _, err := tx.Exec(ctx, sweepSQL["open gate"], reason); err != nil {
		return err
	}
	if err := fn(); err != nil {
		return err
	}
	_, err := tx.Exec(ctx, sweepSQL["close gate"])
	return err
}
