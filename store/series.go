package store

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/pawl-work/pawl"
)

var seriesSQL = Texts(sqlFiles, "series.sql")

// minuteColumns are the columns of queue_minutes that are added up. The constants below are their
// places.
var minuteColumns = func() []string {
	out := []string{"created", "claimed", "completed", "failed", "expired", "retried", "cancelled", "dead_lettered"}
	for _, kind := range []string{"wait_", "run_"} {
		out = append(out, kind+"us")
		for i := range len(pawl.TimingBounds) + 1 {
			out = append(out, fmt.Sprint(kind, i))
		}
	}
	return out
}()

// countedColumns is a list of minuteColumns for marks in statements.
func countedColumns(names []string) (out []Column) {
	for _, name := range names {
		out = append(out, Column{name, new(int64)})
	}
	return out
}

const (
	createdColumn = iota
	claimedColumn
	completedColumn
	failedColumn
	expiredColumn
	retriedColumn
	cancelledColumn
	deadColumn
	waitColumn // the sum; the buckets follow
)

// runColumn has the sum of the run times; the buckets follow.
var runColumn = waitColumn + len(pawl.TimingBounds) + 2

// columnOfEvent is the column that counts an event of an item; −1 = none.
func columnOfEvent(m MoveCode) int {
	switch m.Event {
	case "proposed", "planned":
		return createdColumn
	case "leased":
		return claimedColumn
	case "completed":
		return completedColumn
	case "failed":
		return failedColumn
	case "lease_expired":
		return expiredColumn
	case "retried":
		return retriedColumn
	case "cancelled":
		return cancelledColumn
	case "dead_lettered":
		return deadColumn
	}
	return -1
}

// Tally counts the events of a page of the feed, by queue.
type Tally struct {
	byNumber map[int64]*QueueTally
	byName   map[QueueName]*QueueTally
	totals   totals
	counting *Counting
}

// QueueTally is what a Tally has of one queue, or of the tasks of a type.
type QueueTally struct {
	QueueName
	Events                       map[string]int64 // by name, those of tasks too
	Waits, Pickups, Runs, Leases []float64        // see pawl.CountedEvents
	minutes                      map[int64][]int64
}

// Queues returns what was counted, by namespace and type.
func (t *Tally) Queues() []*QueueTally {
	if t == nil {
		return nil
	}
	return slices.SortedFunc(maps.Values(t.byName), func(a, b *QueueTally) int { return a.Compare(b.QueueName) })
}

func newTally(c *Counting) *Tally {
	return &Tally{map[int64]*QueueTally{}, map[QueueName]*QueueTally{}, totals{}, c}
}

func newQueueTally(name QueueName) *QueueTally {
	return &QueueTally{QueueName: name, Events: map[string]int64{}, minutes: map[int64][]int64{}}
}

// queue returns the counters of the queue of an event: by its number, which is resolved later, or
// by name.
func (t *Tally) queue(r *leafRow) *QueueTally {
	if r.queue != 0 {
		q := t.byNumber[r.queue]
		if q == nil {
			q = newQueueTally(QueueName{})
			t.byNumber[r.queue] = q
		}
		return q
	}
	return t.named(QueueName{string(r.texts[0]), string(r.kind)})
}

func (t *Tally) named(name QueueName) *QueueTally {
	q := t.byName[name]
	if q == nil {
		q = newQueueTally(name)
		t.byName[name] = q
	}
	return q
}

// count counts an event. An event whose task is gone, and with it its type, is not counted.
func (t *Tally) count(r *leafRow, m MoveCode) {
	if t.counting.counts(r.id) {
		t.totals.count(r)
	}
	if r.queue == 0 && len(r.kind) == 0 {
		return
	}
	q := t.queue(r)
	q.Events[m.Event]++
	if m.Class == MoveOfTask {
		return
	}
	row := q.minute(r.created)
	column := columnOfEvent(m)
	if column >= 0 {
		row[column]++
	}
	switch held := m.From == "leased" || m.From == "in_progress"; {
	case m.Event == "leased":
		made := createdAt(string(r.texts[2]))
		if r.attempt == 1 && made > 0 {
			q.Pickups = append(q.Pickups, secondsSince(made, r.created))
		}
		if r.since == 0 {
			r.since = made
		}
		q.Waits = timed(q.Waits, row[waitColumn:], r)
	case held && r.since > 0 && m.To != "in_progress":
		q.Leases = append(q.Leases, secondsSince(r.since, r.created))
		if m.To == "submitted" || column == completedColumn || column == failedColumn {
			q.Runs = timed(q.Runs, row[runColumn:], r)
		}
	}
}

// timed adds the time from since to the event to a sum and its bucket, which follow each other, and
// to seconds.
func timed(seconds []float64, row []int64, r *leafRow) []float64 {
	if r.since == 0 {
		return seconds
	}
	took := secondsSince(r.since, r.created)
	row[0] += max(0, r.created-r.since)
	bucket, _ := slices.BinarySearch(pawl.TimingBounds, took)
	row[1+bucket]++
	return append(seconds, took)
}

func secondsSince(since, at int64) float64 { return float64(max(0, at-since)) / 1e6 }

// createdAt returns the time in an item's id, in microseconds.
func createdAt(id string) int64 {
	b, ok := parseID(itemPrefix, id)
	if !ok {
		return 0
	}
	return int64(b.Time()) * 1000
}

func (q *QueueTally) minute(at int64) []int64 {
	minute := at / time.Minute.Microseconds()
	row := q.minutes[minute]
	if row == nil {
		row = make([]int64, len(minuteColumns))
		q.minutes[minute] = row
	}
	return row
}

// merge adds the counters of another tally of the same queue.
func (q *QueueTally) merge(o *QueueTally) {
	for event, n := range o.Events {
		q.Events[event] += n
	}
	q.Waits, q.Pickups = append(q.Waits, o.Waits...), append(q.Pickups, o.Pickups...)
	q.Runs, q.Leases = append(q.Runs, o.Runs...), append(q.Leases, o.Leases...)
	for minute, row := range o.minutes {
		to := q.minute(minute * time.Minute.Microseconds())
		for i, n := range row {
			to[i] += n
		}
	}
}

// add adds the counters to queue_minutes. The feed is locked.
func (t *Tally) add(ctx context.Context, tx Tx) error {
	for id, counted := range t.byNumber {
		name, err := QueueNamed(ctx, tx, id)
		if err != nil {
			return err
		}
		t.named(name).merge(counted)
	}
	t.byNumber = nil
	if err := t.totals.add(ctx, tx, 1); err != nil {
		return err
	}
	type row struct {
		queue, minute int64
		q             *QueueTally
	}
	var rows []row
	for _, q := range t.byName {
		if len(q.minutes) == 0 {
			continue
		}
		id, found, err := FindQueue(ctx, tx, q.QueueName)
		if err != nil {
			return err
		}
		if !found {
			continue // its items are gone, and it never had a queue here
		}
		for minute := range q.minutes {
			rows = append(rows, row{id, minute, q})
		}
	}
	slices.SortFunc(rows, func(a, b row) int { return cmp.Or(cmp.Compare(a.queue, b.queue), cmp.Compare(a.minute, b.minute)) })
	args := make([][]any, len(rows))
	for i, r := range rows {
		args[i] = []any{r.queue, r.minute, r.q.Namespace}
		for _, n := range r.q.minutes[r.minute] {
			args[i] = append(args[i], n)
		}
	}
	return tx.ExecEach(ctx, seriesSQL["add"], args)
}

// queueBacklog is how many items are in a queue.
type queueBacklog struct {
	QueueName
	number int64
	pawl.Backlog
}

// backlogSought is within how many minutes the last backlog is looked for. It bounds the rows that are read
// where no queue has a backlog.
const backlogSought = 24 * 60

// KeepBacklog stores the backlog at the end of a minute, unless it is stored already.
func KeepBacklog(ctx context.Context, db DB, minute int64) error {
	var queues []queueBacklog
	err := db.View(ctx, func(ctx context.Context, tx Tx) (err error) {
		queues, err = readBacklog(ctx, tx, minute)
		return err
	})
	if err != nil || len(queues) == 0 {
		return err
	}
	return db.Do(ctx, func(ctx context.Context, tx Tx) error {
		rows := make([][]any, len(queues))
		for i, b := range queues {
			rows[i] = []any{b.number, minute, b.Namespace, b.Queued, b.Leased, b.Waiting, b.Scheduled}
		}
		return tx.ExecEach(ctx, seriesSQL["put backlog"], rows)
	})
}

// readBacklog counts the items of all queues that have some, or had when they were counted last, unless
// the backlog of the minute is stored already.
// It reads the narrow tables: about 100 ms for a million items.
func readBacklog(ctx context.Context, tx Tx, minute int64) (out []queueBacklog, err error) {
	var last int64
	if _, err := Row(ctx, tx, []any{&last}, seriesSQL["last backlog"], minute); err != nil || last >= minute {
		return nil, err
	}
	rows, err := tx.Query(ctx, seriesSQL["backlog"], minute-backlogSought)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var b queueBacklog
		if err := rows.Scan(&b.number, &b.Queued, &b.Leased, &b.Waiting, &b.Scheduled); err != nil {
			return nil, err
		}
		out = append(out, b)
	}
	if err := rows.Err(); err != nil {
		return nil, err
	}
	rows.Close()
	for i := range out {
		if out[i].QueueName, err = QueueNamed(ctx, tx, out[i].number); err != nil {
			return nil, err
		}
	}
	return out, nil
}
