package store

import (
	"cmp"
	"context"
	"encoding/json"
	"slices"
	"time"

	"github.com/pawl-work/pawl"
)

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

// ExpiredLeases returns up to limit items whose lease has expired.
func ExpiredLeases(ctx context.Context, tx Tx, now int64, limit int) ([]string, error) {
	return ItemIDs(ctx, tx, sweepSQL["expired leases"], now, limit)
}

// DueItems returns up to limit items that are due.
func DueItems(ctx context.Context, tx Tx, now int64, limit int) ([]string, error) {
	return ItemIDs(ctx, tx, sweepSQL["due items"], now, limit)
}

// Resting is one failed item and when it failed.
type Resting struct {
	Since                     int64
	ItemID, TaskID, Namespace string
}

// FailedBefore lists up to limit items that failed before a time, oldest first, starting
// after the given one.
func FailedBefore(ctx context.Context, tx Tx, before int64, after Resting, limit int) ([]Resting, error) {
	rows, err := tx.Query(ctx, sweepSQL["failed before"], before, after.Since, FromItem(after.ItemID), limit)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var out []Resting
	for rows.Next() {
		var r Resting
		if err := rows.Scan(&r.Since, (*ItemID)(&r.ItemID), (*TaskID)(&r.TaskID), &r.Namespace); err != nil {
			return nil, err
		}
		out = append(out, r)
	}
	return out, rows.Err()
}

// FailedAsideBefore lists up to limit tasks that failed before a time when they were planned or applied, by id, with ids
// above after.
func FailedAsideBefore(ctx context.Context, tx Tx, before int64, after string, limit int) ([]TaskRef, error) {
	return taskRefs(ctx, tx, sweepSQL["failed aside before"], before, FromTask(after), limit)
}

// Cursor is the position of a reader of the event log. The reader has read everything up
// to Position, except for the tasks in Again, which failed and are to be tried again, and for
// events that were not visible yet.
type Cursor struct {
	Position int64    `json:"-"`
	Again    []string `json:"again,omitempty"`
	Unseen   []Unseen `json:"unseen,omitempty"`

	Settings map[string]json.RawMessage `json:"settings,omitempty"` // of retention, in a row of their own
}

// Unseen are numbers below the position of a cursor of which no event was visible when the cursor
// passed them. Transactions below Before may still commit events of these numbers.
type Unseen struct {
	Low    int64 `json:"low"`
	High   int64 `json:"high"`
	Before int64 `json:"before"`
}

// Has reports whether a number is among those that were not visible.
func (c *Cursor) Has(number int64) bool {
	return slices.ContainsFunc(c.Unseen, func(l Unseen) bool { return l.Low <= number && number <= l.High })
}

// maxUnseen bounds the ranges that a cursor keeps; neighbours become one if there are more. Events
// between them are then read again.
const maxUnseen = 1000

// Wait adds ranges that were not visible, and removes those that are done.
func (c *Cursor) Wait(more, done []Unseen) {
	var out []Unseen
	for _, l := range append(slices.Clone(c.Unseen), more...) {
		if !slices.Contains(done, l) && !slices.Contains(out, l) {
			out = append(out, l)
		}
	}
	slices.SortFunc(out, func(a, b Unseen) int { return cmp.Compare(a.Low, b.Low) })
	for len(out) > maxUnseen {
		var half []Unseen
		for pair := range slices.Chunk(out, 2) {
			last := pair[len(pair)-1]
			half = append(half, Unseen{pair[0].Low, max(pair[0].High, last.High), max(pair[0].Before, last.Before)})
		}
		out = half
	}
	c.Unseen = out
}

// KeepAgain replaces those of the tasks to try again that were looked at by those of them that are still to be tried.
func (c *Cursor) KeepAgain(looked, again []string) {
	others := slices.DeleteFunc(c.Again, func(id string) bool { return slices.Contains(looked, id) })
	c.Again = slices.Compact(slices.Sorted(slices.Values(append(others, again...))))
}

// ReadCursor reads a cursor. A cursor that was never moved is at the beginning.
func ReadCursor(ctx context.Context, tx Tx, name string) (Cursor, error) {
	return readCursor(ctx, tx, name, "cursor")
}

// LockCursor reads a cursor and keeps other transactions from moving it until this one
// ends.
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

// MoveCursor moves a cursor that LockCursor has read. It never moves it back.
func MoveCursor(ctx context.Context, tx Tx, now int64, name string, c Cursor) error {
	detail, err := json.Marshal(c)
	if err != nil {
		return err
	}
	_, err = tx.Exec(ctx, sweepSQL["move cursor"], name, c.Position, string(detail), now)
	return err
}

// SetAside keeps tasks of a cursor that are to be tried again in a list of their own: a cursor whose position is 0.
func SetAside(ctx context.Context, tx Tx, now int64, cursor, id string, tasks []string) error {
	list := cursor + aside + id
	if _, err := tx.Exec(ctx, sweepSQL["start cursor"], list); err != nil {
		return err
	}
	return MoveCursor(ctx, tx, now, list, Cursor{Again: tasks})
}

// aside is what comes between the name of a cursor and the id of a list of its tasks.
const aside = ".left."

// ListsOf returns the names of up to limit lists of tasks of a cursor that were set aside, first those that were looked at
// longest ago.
func ListsOf(ctx context.Context, tx Tx, cursor string, limit int) (lists []string, err error) {
	from := cursor + aside
	err = EachRow(ctx, tx, func(rows Rows) error {
		lists = append(lists, "")
		return rows.Scan(&lists[len(lists)-1])
	}, sweepSQL["lists of"], from, from[:len(from)-1]+"/", limit)
	return lists, err
}

// ForgetCursor removes a cursor.
func ForgetCursor(ctx context.Context, tx Tx, name string) error {
	_, err := tx.Exec(ctx, sweepSQL["forget cursor"], name)
	return err
}

// TakeTick says whether this process does the work that is done once per interval. True
// goes to the first process that asks after the interval has passed. A clock that went
// back does not delay it.
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

// Entry is what the sweep reads of an event. TaskTo is the state that the event moved its
// task to, or "" when it did not move it. Newest says that the event is the task's newest.
type Entry struct {
	ID, At            int64
	TaskID, Namespace string
	Event             string
	TaskTo            Text
	Newest            bool
}

// RecordAfter reads up to limit events after an id, in order. It returns none when the
// first of them is not older than before, unless its time is after ahead: the clock was wrong when it was written.
// Without newest it does not say which are the newest of their tasks.
func RecordAfter(ctx context.Context, tx Tx, id, before, ahead int64, limit int, newest bool) ([]Entry, error) {
	query := "record after"
	if !newest {
		query = "moves after"
	}
	return entries(ctx, tx, sweepSQL[query], id, limit, before, ahead)
}

// TimeAfter returns the time of the first event after an id whose time is not after ahead; 0 = there is none.
func TimeAfter(ctx context.Context, tx Tx, id, ahead int64) (at int64, err error) {
	_, err = Row(ctx, tx, []any{&at}, sweepSQL["time after"], id, ahead)
	return at, err
}

// RecordAmong reads the events of ranges of numbers, in order.
func RecordAmong(ctx context.Context, tx Tx, ranges []Unseen) ([]Entry, error) {
	if len(ranges) == 0 {
		return nil, nil
	}
	list := make([][]any, len(ranges))
	for i, l := range ranges {
		list[i] = []any{l.Low, l.High}
	}
	return entries(ctx, tx, sweepSQL["record among"], Table(list))
}

func entries(ctx context.Context, tx Tx, query string, args ...any) ([]Entry, error) {
	rows, err := tx.Query(ctx, query, args...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var out []Entry
	var moves []int
	var e Entry
	var move, newest int
	for rows.Next() {
		if err := rows.Scan(&e.ID, &e.At, (*TaskID)(&e.TaskID), &e.Namespace, &move, &newest); err != nil {
			return nil, err
		}
		e.Newest = newest == 1
		if len(out) == cap(out) {
			out, moves = slices.Grow(out, max(16, len(out))), slices.Grow(moves, max(16, len(out)))
		}
		out, moves = append(out, e), append(moves, move)
	}
	if err := rows.Err(); err != nil {
		return nil, err
	}
	rows.Close()
	for i, move := range moves {
		m, err := moveFrom(ctx, tx, move)
		if err != nil {
			return nil, err
		}
		out[i].Event, out[i].TaskTo = m.Event, Text(m.TaskTo)
		if m.Class == pawl.MoveOfTask {
			out[i].TaskTo = Text(m.To)
		}
	}
	return out, nil
}

// MarkStale records an event `stale` for the task of an event. It does so if that event is
// the task's newest, the task is open, and nothing will happen to the task by itself.
func MarkStale(ctx context.Context, tx Tx, now int64, e Entry) (bool, error) {
	var namespace string
	found, err := Row(ctx, tx, []any{&namespace}, sweepSQL["forgotten"], TaskID(e.TaskID), e.ID)
	if err != nil || !found {
		return false, err
	}
	return true, Record(ctx, tx, now, []Event{{Namespace: namespace, TaskID: e.TaskID, Event: "stale", Actor: Actor{Type: pawl.ActorSystem}}})
}

// RemoveExpiredKeys removes up to limit keys that have expired.
func RemoveExpiredKeys(ctx context.Context, tx Tx, now int64, limit int) (int64, error) {
	return tx.Exec(ctx, sweepSQL["remove expired keys"], now, limit)
}

// RemoveOldKeys removes up to limit keys without expiry that ended by the given time.
func RemoveOldKeys(ctx context.Context, tx Tx, endedBy int64, limit int) (int64, error) {
	return tx.Exec(ctx, sweepSQL["remove old keys"], endedBy, limit)
}

// CountOldKeys counts the keys that have expired and the keys without expiry that ended by
// the given time.
func CountOldKeys(ctx context.Context, tx Tx, now, endedBy int64) (n int64, err error) {
	_, err = Row(ctx, tx, []any{&n}, sweepSQL["count old keys"], now, endedBy)
	return n, err
}

// CountersUntil returns the task id that ends the range of the n rows of task_counters above
// after, or LastTask when there are fewer.
func CountersUntil(ctx context.Context, tx Tx, after string, n int) (string, error) {
	until := LastTask
	_, err := Row(ctx, tx, []any{(*TaskID)(&until)}, sweepSQL["counters until"], FromTask(after), n-1)
	return until, err
}

// Counted is a task and the number of its newest checkpoint.
type Counted struct {
	TaskID      string
	Checkpoints int64
}

// CountersOver lists the tasks of a range that keep more than limit checkpoints.
func CountersOver(ctx context.Context, tx Tx, after, until string, limit int) ([]Counted, error) {
	rows, err := tx.Query(ctx, sweepSQL["counters over"], FromTask(after), TaskID(until), limit)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var out []Counted
	for rows.Next() {
		var c Counted
		if err := rows.Scan((*TaskID)(&c.TaskID), &c.Checkpoints); err != nil {
			return nil, err
		}
		out = append(out, c)
	}
	return out, rows.Err()
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
