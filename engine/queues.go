package engine

import (
	"context"
	"time"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/engine/internal/queue"
	"github.com/pawl-work/pawl/engine/internal/tasktypes"
	"github.com/pawl-work/pawl/internal/watch"
	"github.com/pawl-work/pawl/store"
)

// The defaults of Options.PollInterval. A claim that waits polls less and less often.
const (
	defaultPoll = 250 * time.Millisecond
	deafPoll    = time.Second // of claims, without notices
)

// openHub creates the hub and the queues, which waiting callers of this process use.
func (e *Engine) openHub() {
	d := e.db.Dialect()
	o := watch.Options{Log: e.log, OnRemote: func(t watch.Topic) { e.queues.Elsewhere(t) }}
	if d.Notices {
		o.Notify = d.Notify
	}
	if d.Listens {
		o.Listen = d.Listen
	}
	if d.DataVersion {
		o.Version = d.Changed
	}
	poll := e.opts.PollInterval
	if poll == defaultPoll && d.Notices && !d.Listens {
		poll = deafPoll
	}
	e.hub = watch.New(o)
	e.limits = &limits{}
	e.queues = queue.New(queue.Options{Hub: e.hub, View: e.queueView(), MaxTypes: e.opts.MaxTypes, PollInterval: poll})
}

// queueView returns the function that reads what is queued: in the transaction of e, if
// it has one.
func (e *Engine) queueView() queue.View {
	if e.scope == nil {
		return e.k.Base.Look
	}
	return e.db.View
}

// ready reports that a namespace has claimable work, to waiting claims of this process
// and to other processes.
func (e *Engine) ready(namespace string) { e.queues.Ready(namespace) }

// checkItemTypes refuses items of a task whose own types have rules for input or results, or whose queues would be too many.
func (e *Engine) checkItemTypes(ctx context.Context, task queue.Pair, at string, items []pawl.NewItem) error {
	if err := tasktypes.Of(e.taskTypes).CheckItems(ctx, task.Type, at, items); err != nil {
		return err
	}
	return e.checkItemQueues(ctx, task, items)
}

// checkItemQueues refuses items whose type, or type and priority, exceeds the
// namespace's limit. Items without a type have their task's.
func (e *Engine) checkItemQueues(ctx context.Context, task queue.Pair, items []pawl.NewItem) error {
	return e.queues.CheckItems(ctx, e.queueView(), pawl.CallerOf(ctx).Namespace, task, items)
}

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
	return store.All(ctx, tx, query, args, func(rows store.Rows, q *queueRow) error {
		var paused, all *int64
		var limits store.Text
		if err := rows.Scan(&q.id, &q.Type, &paused, &all, &limits); err != nil {
			return err
		}
		if limits != "" {
			q.QueueLimits = store.LimitsOf(string(limits))
		}
		q.PausedAt, q.NamespacePausedAt = store.StampOf(paused), store.StampOf(all)
		q.Paused = paused != nil || all != nil
		return nil
	})
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

// pauseQueue stops or allows claims from a queue. A type without a queue gets one when it is
// paused.
func pauseQueue(ctx context.Context, tx store.Tx, namespace, typ string, pause bool, now int64) error {
	if !pause {
		_, err := tx.Exec(ctx, queueSQL["resume queue"], namespace, typ)
		return err
	}
	if _, err := store.QueueID(ctx, tx, store.QueueName{Namespace: namespace, Type: typ}); err != nil {
		return err
	}
	_, err := tx.Exec(ctx, queueSQL["pause queue"], namespace, typ, now)
	return err
}

// pauseNamespace stops or allows claims in a namespace.
func pauseNamespace(ctx context.Context, tx store.Tx, namespace string, pause bool, now int64) error {
	query, args := "resume namespace", []any{namespace}
	if pause {
		query, args = "pause namespace", append(args, now)
	}
	_, err := tx.Exec(ctx, queueSQL[query], args...)
	return err
}

// Namespaces lists the namespaces that had work, in order, at most limit. An operator of all namespaces chooses from them.
func (e *Engine) Namespaces(ctx context.Context, limit int) (out []string, err error) {
	err = e.db.View(ctx, func(ctx context.Context, tx store.Tx) error {
		out, err = store.Namespaces(ctx, tx, "", limit)
		return err
	})
	return out, err
}
