package hot

import (
	"context"

	"github.com/pawl-work/pawl/store"
)

var (
	create          = read("create.sql")
	createTask      = newInsert(create.get("Task"))
	createCounters  = create.get("Counters")
	createItem      = newInsert(create.get("Item"))
	createNeed      = create.get("Dependency")
	createReady     = newInsert(create.get("Ready"))
	createScheduled = create.get("Scheduled")
	createWaiting   = create.get("Waiting")
)

// Create implements store.Hot.
func (Verbs) Create(ctx context.Context, tx store.Tx, tasks []store.NewTask, items []store.NewItem) (int64, error) {
	now, err := tx.Now(ctx)
	if err != nil {
		return 0, err
	}
	store.JoinOnlyItems(tasks, items)
	w := creation{now: now, tasks: inserter{insert: createTask}, items: inserter{insert: createItem},
		ready: inserter{insert: createReady}, events: inserter{insert: addEvent}}
	for i := range tasks {
		if err := w.newTask(ctx, tx, &tasks[i]); err != nil {
			return 0, err
		}
	}
	for i := range items {
		if err := w.newItem(ctx, tx, &items[i]); err != nil {
			return 0, err
		}
	}
	return now, flush(ctx, tx, &w.tasks, &w.items, &w.ready, &w.events)
}

// creation has the rows of a create.
type creation struct {
	now                         int64
	tasks, items, ready, events inserter
}

func (w *creation) newTask(ctx context.Context, tx store.Tx, t *store.NewTask) error {
	var queue any // of its only item
	if t.Solo {
		id, err := store.QueueID(ctx, tx, t.OnlyQueue())
		if err != nil {
			return err
		}
		queue = id
	}
	err := w.tasks.add(ctx, tx, with(t.Columns(), w.now, queue)...)
	if err != nil || t.Solo {
		return err
	}
	if _, err := tx.Exec(ctx, createCounters, store.TaskID(t.ID), t.Namespace, int64(t.Items)); err != nil {
		return err
	}
	who, err := byActor(ctx, tx, t.Actor)
	if err != nil {
		return err
	}
	e := event{namespace: t.Namespace, taskID: store.TaskID(t.ID), name: "proposed", to: "open", by: who, data: store.Text(t.Data),
		digest: t.Digest()}
	return e.add(ctx, tx, &w.events, w.now)
}

func (w *creation) newItem(ctx context.Context, tx store.Tx, n *store.NewItem) error {
	id, task := store.ItemID(n.ID), store.TaskID(n.TaskID)
	queue, err := store.QueueID(ctx, tx, n.Queue())
	if err != nil {
		return err
	}
	if !n.Solo {
		err = w.items.add(ctx, tx, id, n.Namespace, queue, task, n.Type, n.Kind, int64(n.Position), n.Key, int64(n.Priority),
			int64(n.MaxAttempts), n.RunAt, n.After, n.Input, w.now, n.Deadline)
		if err != nil {
			return err
		}
	}
	var needs int64
	for _, needed := range n.Needs {
		added, err := tx.Exec(ctx, createNeed, store.ItemID(needed), id)
		if err != nil {
			return err
		}
		needs += added
	}
	who, err := byActor(ctx, tx, n.Actor)
	if err != nil {
		return err
	}
	e := event{namespace: n.Namespace, taskID: task, itemID: id, solo: n.Mark(), name: "planned", by: who, data: n.Data, queue: queue,
		digest: n.Digest()}
	begins := n.Carried()
	given := begins.Given()
	switch {
	case needs > 0:
		e.to = "waiting"
		_, err = tx.Exec(ctx, createWaiting, with(given, id, queue, task, int64(n.Priority), n.RunAt, needs)...)
	case n.RunAt != nil && *n.RunAt > w.now:
		e.to = "scheduled"
		_, err = tx.Exec(ctx, createScheduled, with(given, id, queue, task, int64(n.Priority), *n.RunAt)...)
	default:
		e.to = "queued"
		err = w.ready.add(ctx, tx, with(given, queue, int64(store.NewRank(n.Priority)), id, task, n.Since(w.now))...)
	}
	if err != nil {
		return err
	}
	if n.Solo {
		e.name, e.taskTo = "proposed", "open"
	}
	return e.add(ctx, tx, &w.events, w.now)
}
