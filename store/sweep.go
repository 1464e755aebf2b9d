package store

import (
	"context"
	"encoding/json"
	"time"

	"github.com/pawl-work/pawl"
)

var sweepSQL = Texts(sqlFiles, "sweep.sql")

// NextDue is the earliest time at which something falls due: a lease ends, a
// scheduled or waiting item's time comes. Now or earlier means at once; false
// that nothing has a time.
func NextDue(ctx context.Context, tx Tx) (at int64, ok bool, err error) {
	var next *int64
	if _, err := Row(ctx, tx, []any{&next}, sweepSQL["next due"]); err != nil || next == nil {
		return 0, false, err
	}
	return *next, true, nil
}

// ExpiredLeases names up to limit items whose lease has ended.
func ExpiredLeases(ctx context.Context, tx Tx, now int64, limit int) ([]string, error) {
	return Strings(ctx, tx, sweepSQL["expired leases"], now, limit)
}

// DueItems names up to limit items whose time has come.
func DueItems(ctx context.Context, tx Tx, now int64, limit int) ([]string, error) {
	return Strings(ctx, tx, sweepSQL["due items"], now, limit)
}

// Resting is one failed item, by when it failed.
type Resting struct {
	Since                     int64
	ItemID, TaskID, Namespace string
}

// FailedBefore lists up to limit items that failed before a time, oldest first,
// from after the given one on.
func FailedBefore(ctx context.Context, tx Tx, before int64, after Resting, limit int) ([]Resting, error) {
	rows, err := tx.Query(ctx, sweepSQL["failed before"], before, after.Since, after.ItemID, limit)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var out []Resting
	for rows.Next() {
		var r Resting
		if err := rows.Scan(&r.Since, &r.ItemID, &r.TaskID, &r.Namespace); err != nil {
			return nil, err
		}
		out = append(out, r)
	}
	return out, rows.Err()
}

// Cursor is where a reader of the record stands: everything up to Position has
// been seen, but for the tasks in Again, which failed and are to be tried again.
type Cursor struct {
	Position int64    `json:"-"`
	Again    []string `json:"again,omitempty"`
}

// ReadCursor reads a cursor; one that never moved stands at the beginning.
func ReadCursor(ctx context.Context, tx Tx, name string) (Cursor, error) {
	return readCursor(ctx, tx, name, "cursor")
}

// LockCursor reads a cursor and keeps others from moving it until the
// transaction ends.
func LockCursor(ctx context.Context, tx Tx, name string) (Cursor, error) {
	if _, err := tx.Exec(ctx, sweepSQL["start cursor"], name); err != nil {
		return Cursor{}, err
	}
	return readCursor(ctx, tx, name, "hold cursor")
}

func readCursor(ctx context.Context, tx Tx, name, query string) (Cursor, error) {
	var c Cursor
	var detail string
	found, err := Row(ctx, tx, []any{&c.Position, &detail}, sweepSQL[query], name)
	if err != nil || !found {
		return c, err
	}
	return c, json.Unmarshal([]byte(detail), &c)
}

// MoveCursor moves a cursor that HoldCursor has read, never back.
func MoveCursor(ctx context.Context, tx Tx, now int64, name string, c Cursor) error {
	detail, err := json.Marshal(c)
	if err != nil {
		return err
	}
	_, err = tx.Exec(ctx, sweepSQL["move cursor"], name, c.Position, string(detail), now)
	return err
}

// TakeTick says whether this process is the one to do what is done once per
// interval: the first that asks after it is over. A clock that went back does
// not keep it waiting.
func TakeTick(ctx context.Context, tx Tx, name string, interval time.Duration) (bool, error) {
	now, err := tx.Now(ctx)
	if err != nil {
		return false, err
	}
	if _, err := tx.Exec(ctx, sweepSQL["start cursor"], name); err != nil {
		return false, err
	}
	n, err := tx.Exec(ctx, sweepSQL["take tick"], name, now, now-interval.Microseconds())
	return n == 1, err
}

// Entry is what the sweep reads of an event: TaskTo is the state it brought its
// task to, "" when it left it alone; Newest says that the task has none after it.
type Entry struct {
	ID, At            int64
	TaskID, Namespace string
	Event             string
	TaskTo            Text
	Newest            bool
}

// RecordAfter reads up to limit events after an id, in order; none when the first
// of them is not older than before.
func RecordAfter(ctx context.Context, tx Tx, id, before int64, limit int) ([]Entry, error) {
	rows, err := tx.Query(ctx, sweepSQL["record after"], id, limit, before)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var out []Entry
	for rows.Next() {
		var e Entry
		var newest int
		if err := rows.Scan(&e.ID, &e.At, &e.TaskID, &e.Namespace, &e.Event, &e.TaskTo, &newest); err != nil {
			return nil, err
		}
		e.Newest = newest == 1
		out = append(out, e)
	}
	return out, rows.Err()
}

// MarkStale leaves a `stale` event on the task of an event, if that is the
// task's newest, the task is open and nothing will happen to it by itself.
func MarkStale(ctx context.Context, tx Tx, now int64, e Entry) (bool, error) {
	var namespace string
	found, err := Row(ctx, tx, []any{&namespace}, sweepSQL["forgotten"], e.TaskID, e.ID)
	if err != nil || !found {
		return false, err
	}
	return true, Record(ctx, tx, now, []Event{{Namespace: namespace, TaskID: e.TaskID, Event: "stale", Actor: Actor{Type: pawl.ActorSystem}}})
}

// RemoveExpiredKeys removes up to limit keys that have expired.
func RemoveExpiredKeys(ctx context.Context, tx Tx, now int64, limit int) (int64, error) {
	return tx.Exec(ctx, sweepSQL["remove expired keys"], now, limit)
}

// RemoveOldKeys removes up to limit keys without expiry that ended by a time.
func RemoveOldKeys(ctx context.Context, tx Tx, endedBy int64, limit int) (int64, error) {
	return tx.Exec(ctx, sweepSQL["remove old keys"], endedBy, limit)
}

// CountOldKeys counts the keys that have expired and those without expiry that
// ended by a time.
func CountOldKeys(ctx context.Context, tx Tx, now, endedBy int64) (n int64, err error) {
	_, err = Row(ctx, tx, []any{&n}, sweepSQL["count old keys"], now, endedBy)
	return n, err
}

// EndOfTime sorts after every id.
const EndOfTime = "\U0010FFFF"

// CountersUntil is the task id that ends the range of n rows of task_live
// after a task id; EndOfTime when there are fewer.
func CountersUntil(ctx context.Context, tx Tx, after string, n int) (string, error) {
	until := EndOfTime
	_, err := Row(ctx, tx, []any{&until}, sweepSQL["counters until"], after, n-1)
	return until, err
}

// Counted is a task and the number of its newest checkpoint.
type Counted struct {
	TaskID      string
	Checkpoints int64
}

// CountersOver lists the tasks of a range that keep more than limit checkpoints.
func CountersOver(ctx context.Context, tx Tx, after, until string, limit int) ([]Counted, error) {
	rows, err := tx.Query(ctx, sweepSQL["counters over"], after, until, limit)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var out []Counted
	for rows.Next() {
		var c Counted
		if err := rows.Scan(&c.TaskID, &c.Checkpoints); err != nil {
			return nil, err
		}
		out = append(out, c)
	}
	return out, rows.Err()
}

// PruneCheckpoints removes up to batch of a task's checkpoints, oldest first,
// beyond the newest keep and what a resume needs.
func PruneCheckpoints(ctx context.Context, tx Tx, taskID string, keep, batch int) (int, error) {
	var counter int64
	if found, err := Row(ctx, tx, []any{&counter}, sweepSQL["hold counters"], taskID); err != nil || !found {
		return 0, err
	}
	ids, err := Strings(ctx, tx, sweepSQL["prunable checkpoints"], taskID, keep, batch)
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
	_, err = tx.Exec(ctx, sweepSQL["count pruned"], taskID, len(ids))
	return len(ids), err
}

// gated runs fn with the record's refusal of DELETE lifted, for this
// transaction alone.
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
