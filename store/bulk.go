package store

import (
	"context"
	"slices"

	"github.com/pawl-work/pawl"
)

var bulkSQL = Texts(sqlFiles, "bulk.sql")

// ClaimOwn leases the item of a task that Pawl itself made, also in a paused namespace. It returns
// the attempt; 0 = it is not queued.
func ClaimOwn(ctx context.Context, tx Tx, itemID, worker string, seconds int) (attempt int, err error) {
	held, err := Take(ctx, tx, []string{itemID}, []string{"queued"})
	if err != nil || len(held) == 0 {
		return 0, err
	}
	now, err := NowAgain(ctx, tx)
	if err != nil {
		return 0, err
	}
	id, err := ActorID(ctx, tx, Worker(worker))
	if err != nil {
		return 0, err
	}
	h := &held[0]
	h.State, h.LeftBy, h.Worker, h.LeaseSeconds = "leased", "", &id, seconds
	h.Attempt++
	if h.StartedAt == nil {
		h.StartedAt = &now
	}
	h.AcquiredAt, h.HeartbeatAt, h.ExpiresAt = now, now, now+int64(seconds)*1_000_000
	if err := Put(ctx, tx, held); err != nil {
		return 0, err
	}
	return h.Attempt, Record(ctx, tx, now, []Event{{Namespace: h.Namespace, TaskID: h.TaskID, ItemID: Text(h.ItemID), Solo: h.Solo,
		Attempt: h.Attempt, Event: "leased", From: "queued", To: "leased", Actor: Actor{Type: pawl.ActorWorker, ID: worker}}})
}

// BulkPage is one step of a walk over the tasks of a filter, in the order of their ids.
type BulkPage struct {
	Tasks []pawl.Task // with ID, Type and Version
	Count int64       // instead of Tasks, of CountBulk
	Last  string      // Where the next step goes on
	Done  bool        // nothing is left
	many  bool        // too many tasks can be in the states of the filter to collect all of them
}

// BulkTasks takes the step of at most size tasks that follows another one. Bulk calls are left
// out. Each of its statements reads about that many rows, whatever the filter is: where few tasks
// can be in the states of the filter, those; otherwise all tasks of the namespace.
func BulkTasks(ctx context.Context, tx Tx, namespace string, q pawl.TaskFilter, last BulkPage, size int) (BulkPage, error) {
	l, err := bulkList(ctx, tx, namespace, &q)
	if err != nil {
		return BulkPage{}, err
	}
	ctx = ByKeys(ctx) // before the tables have statistics, each step would read and sort all that is left
	keys, out, err := l.bulkStep(ctx, tx, namespace, &q, last, size)
	if err == nil && len(keys) > 0 {
		l.limit = len(keys)
		out.Tasks, err = l.read(keys)
	}
	return out, err
}

// CountBulk counts the tasks of the step of BulkTasks that follows another one.
func CountBulk(ctx context.Context, tx Tx, namespace string, q pawl.TaskFilter, last BulkPage, size int) (BulkPage, error) {
	l, err := bulkList(ctx, tx, namespace, &q)
	if err != nil {
		return BulkPage{}, err
	}
	ctx = ByKeys(ctx)
	keys, out, err := l.bulkStep(ctx, tx, namespace, &q, last, size)
	if out.Count = int64(len(keys)); err == nil && len(keys) > 0 && len(l.derived.conds) > 0 {
		w := l.derived.with("t.id @among_ids(?)", TaskList(keys))
		_, err = Row(ctx, tx, []any{&out.Count}, w.Text("SELECT COUNT(*) FROM pawl.task_rows t", "1", 1), w.Args...)
	}
	return out, err
}

// bulkList is a list in which a bulk call walks.
type bulkListing struct{ listing[pawl.Task] }

func bulkList(ctx context.Context, tx Tx, namespace string, q *pawl.TaskFilter) (*bulkListing, error) {
	l := bulkListing{listing[pawl.Task]{table: "tasks t", rows: bulkSQL["selected"], noun: tasks, key: "t.id", byID: true, order: "t.id ASC"}}
	l.scan = func(query string, args ...any) (out []pawl.Task, err error) {
		err = EachRow(ctx, tx, func(rows Rows) error {
			var t pawl.Task
			err := rows.Scan((*TaskID)(&t.ID), &t.Type, &t.Version)
			out = append(out, t)
			return err
		}, query, args...)
		return out, err
	}
	l.own.And("t.namespace = ?", namespace)
	err := l.searchTasks(ctx, tx, namespace, q)
	statesOfTasks(&l.listing, q)
	l.own.tasks(q)
	l.own.And("t.type <> ?", pawl.TypeBulk)
	return &l, err
}

// bulkStep returns the ids of the next tasks that meet the conditions on their own columns, and
// where the step after this one begins.
func (l *bulkListing) bulkStep(ctx context.Context, tx Tx, namespace string, q *pawl.TaskFilter, last BulkPage,
	size int) ([]string, BulkPage, error) {
	l.many = last.many
	keys, few, err := bulkKeys(ctx, tx, &l.listing, namespace, q, last.Last, size)
	if err != nil || len(keys) == 0 {
		return nil, BulkPage{Last: last.Last, Done: err == nil}, err
	}
	out := BulkPage{Last: keys[len(keys)-1], Done: len(keys) < size, many: l.many}
	w := l.own.with("t.id >= ?", TaskID(keys[0]))
	w.And("t.id <= ?", TaskID(out.Last))
	if few { // COALESCE keeps the planner from reading all tasks of the namespace
		w = l.own.with("t.id @among_ids(?)", TaskList(keys))
		w.conds[0] = "COALESCE(t.namespace, t.namespace) = $1"
	}
	keys, err = l.find(ctx, tx, w, len(keys))
	if err == nil {
		keys, err = l.checked(ctx, tx, keys)
	}
	return keys, out, err
}

// bulkKeys returns the ids of the next tasks that the filter may select, and whether these are
// candidates; otherwise they are all of a range.
func bulkKeys(ctx context.Context, tx Tx, l *listing[pawl.Task], namespace string, q *pawl.TaskFilter, after string,
	size int) (ids []string, few bool, err error) {
	ids, few = slices.Compact(slices.Sorted(slices.Values(q.IDs))), len(q.IDs) > 0
	if few {
		at, found := slices.BinarySearch(ids, after)
		if found {
			at++
		}
		ids = ids[at:]
	} else if ids, few, err = l.few(ctx, tx, namespace, after); err != nil {
		return nil, false, err
	}
	if few {
		return ids[:min(size, len(ids))], true, nil
	}
	if l.many = true; l.isOrdered() {
		ids, err = l.merged(ctx, tx, namespace, after, size)
		return ids, true, err
	}
	var w Where
	w.And("t.namespace = ?", namespace)
	if !q.Until.IsZero() {
		w.And("t.created_at < ?", q.Until.UnixMicro())
	}
	if err := w.afterID("t.id >", TaskID(after)); err != nil {
		return nil, false, err
	}
	ids, err = l.find(ctx, tx, w, size)
	return ids, false, err
}
