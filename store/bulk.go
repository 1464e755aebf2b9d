package store

import (
	"context"
	"slices"

	"github.com/pawl-work/pawl"
)

var bulkSQL = Texts(sqlFiles, "bulk.sql")

// BulkItem is the item of a bulk call that waits to be carried out.
type BulkItem struct{ ItemID, TaskID, Namespace string }

// WaitingBulks lists up to limit items of bulk calls, oldest first.
func WaitingBulks(ctx context.Context, tx Tx, limit int) ([]BulkItem, error) {
	rows, err := tx.Query(ctx, bulkSQL["waiting"], limit, pawl.TypeBulk)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var out []BulkItem
	for rows.Next() {
		var b BulkItem
		if err := rows.Scan((*ItemID)(&b.ItemID), (*TaskID)(&b.TaskID), &b.Namespace); err != nil {
			return nil, err
		}
		out = append(out, b)
	}
	return out, rows.Err()
}

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

// SaveBulk stores how far a bulk call is, while its item is locked.
func SaveBulk(ctx context.Context, tx Tx, taskID, state string) error {
	_, err := tx.Exec(ctx, bulkSQL["save"], TaskID(taskID), state)
	return err
}

// BulkPage is one step of a walk over the tasks of a filter, in the order of their ids.
type BulkPage struct {
	Tasks []pawl.Task // with ID, Type and Version
	Last  string      // where the next step goes on
	Done  bool        // nothing is left
}

// BulkTasks takes a step of at most size tasks, behind after. Each of its statements reads about
// that many rows, whatever the filter is: where few tasks can be in the states of the filter,
// those; otherwise all tasks of the namespace.
func BulkTasks(ctx context.Context, tx Tx, namespace string, q pawl.TaskFilter, after string, size int) (out BulkPage, err error) {
	l := listing[pawl.Task]{table: "tasks t", rows: without(readSQL["tasks"], []string{"id", "type", "version"}, largeOfTask), noun: tasks,
		key: "t.id", byID: true, order: "t.id ASC", limit: size}
	l.scan = func(query string, args ...any) ([]pawl.Task, error) { return scanTasks(ctx, tx, query, args...) }
	statesOfTasks(&l, &q)
	l.own.tasks(namespace, &q)
	keys, err := bulkKeys(ctx, tx, &l, namespace, &q, after, size)
	if err != nil || len(keys) == 0 {
		return BulkPage{Last: after, Done: err == nil}, err
	}
	out.Last, out.Done = keys[len(keys)-1], len(keys) < size
	if keys, err = l.find(ctx, tx, l.own.with("t.id @among_ids(?)", TaskList(keys)), len(keys)); err == nil {
		out.Tasks, err = l.read(keys)
	}
	return out, err
}

// bulkKeys returns the ids of the next tasks that the filter may select.
func bulkKeys(ctx context.Context, tx Tx, l *listing[pawl.Task], namespace string, q *pawl.TaskFilter, after string,
	size int) ([]string, error) {
	ids, few := slices.Compact(slices.Sorted(slices.Values(q.IDs))), len(q.IDs) > 0
	if few {
		at, found := slices.BinarySearch(ids, after)
		if found {
			at++
		}
		ids = ids[at:]
	} else {
		var err error
		if ids, few, err = l.candidates(ctx, tx, namespace, after); err != nil {
			return nil, err
		}
	}
	if few {
		return ids[:min(size, len(ids))], nil
	}
	var w where
	w.and("t.namespace = ?", namespace)
	if !q.Until.IsZero() {
		w.and("t.created_at < ?", q.Until.UnixMicro())
	}
	if err := w.afterID("t.id >", TaskID(after)); err != nil {
		return nil, err
	}
	return l.find(ctx, tx, w, size)
}
