package engine

import (
	"context"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/store"
)

// listQueues reads the queues of a namespace, with what is in them at the time now, in order
// of type.
func listQueues(ctx context.Context, tx store.Tx, namespace string, page pawl.Page, now int64) (pawl.List[pawl.Queue], error) {
	var w store.Where
	w.And("q.namespace = ?", namespace)
	w.And("q.type > ?", page.Cursor)
	rows, err := readQueues(ctx, tx, w.Text(queueSQL["queues"], "q.type", page.Limit+1), w.Args...)
	if err != nil {
		return pawl.List[pawl.Queue]{}, err
	}
	out := store.Paged(rows, page.Limit, func(q queueRow) string { return q.Type })
	queues, err := fillQueues(ctx, tx, namespace, out.Items, now)
	return pawl.List[pawl.Queue]{Items: queues, Next: out.Next}, err
}

// getQueue reads a queue. A type that has none is not_found.
func getQueue(ctx context.Context, tx store.Tx, namespace, typ string, now int64) (pawl.Queue, error) {
	row, err := readQueue(ctx, tx, namespace, typ)
	if err != nil {
		return pawl.Queue{}, err
	}
	queues, err := fillQueues(ctx, tx, namespace, []queueRow{row}, now)
	if err != nil {
		return pawl.Queue{}, err
	}
	return queues[0], nil
}

// queueSettings reads a queue as getQueue, without the counts of its items.
func queueSettings(ctx context.Context, tx store.Tx, namespace, typ string) (pawl.Queue, error) {
	row, err := readQueue(ctx, tx, namespace, typ)
	return row.Queue, err
}

func readQueue(ctx context.Context, tx store.Tx, namespace, typ string) (queueRow, error) {
	rows, err := readQueues(ctx, tx, queueSQL["queues"]+"\nWHERE q.namespace = $1 AND q.type = $2", namespace, typ)
	if err == nil && len(rows) == 0 {
		err = pawl.NotFound("queue", typ)
	}
	if err != nil {
		return queueRow{}, err
	}
	return rows[0], nil
}

type queueRow struct {
	id int64
	pawl.Queue
}

func readQueues(ctx context.Context, tx store.Tx, query string, args ...any) ([]queueRow, error) {
	rows, err := tx.Query(ctx, query, args...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var out []queueRow
	for rows.Next() {
		var q queueRow
		var paused, all *int64
		var limits store.Text
		if err := rows.Scan(&q.id, &q.Type, &paused, &all, &limits); err != nil {
			return nil, err
		}
		if limits != "" {
			q.QueueLimits = store.LimitsOf(string(limits))
		}
		q.PausedAt, q.NamespacePausedAt = store.StampOf(paused), store.StampOf(all)
		q.Paused = paused != nil || all != nil
		out = append(out, q)
	}
	return out, rows.Err()
}

// fillQueues counts what is in queues. They are in order of type.
func fillQueues(ctx context.Context, tx store.Tx, namespace string, list []queueRow, now int64) ([]pawl.Queue, error) {
	out := make([]pawl.Queue, len(list))
	if len(list) == 0 {
		return out, nil
	}
	at := map[int64]*pawl.Queue{}
	for i := range list {
		out[i] = list[i].Queue
		at[list[i].id] = &out[i]
	}
	rows, err := tx.Query(ctx, queueSQL["counts of queues"], namespace, list[0].Type, list[len(list)-1].Type)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var id, n int64
		var place string
		if err := rows.Scan(&id, &place, &n); err != nil {
			return nil, err
		}
		q := at[id]
		if q == nil { // a type that came between the two statements
			continue
		}
		switch place {
		case "queued":
			q.Queued = n
		case "leased":
			q.Leased = n
		case "waiting":
			q.Waiting = n
		case "scheduled":
			q.Scheduled = n
		}
	}
	if err := rows.Err(); err != nil {
		return nil, err
	}
	rows.Close()
	for i := range list {
		if out[i].Queued == 0 {
			continue
		}
		var oldest *int64
		if _, err := store.Row(ctx, tx, []any{&oldest}, queueSQL["oldest queued"], list[i].id); err != nil {
			return nil, err
		}
		if oldest != nil {
			out[i].OldestQueuedSeconds = max(0, now-*oldest) / 1_000_000
		}
	}
	return out, nil
}
