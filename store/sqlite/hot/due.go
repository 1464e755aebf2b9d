package hot

import (
	"context"
	"slices"

	"github.com/pawl-work/pawl/store"
)

var (
	due              = read("due.sql")
	dueScheduled     = due.get("Scheduled")
	dueWaitingUntil  = due.get("WaitingUntil")
	dueWaitingReady  = due.get("WaitingReady")
	dueTakeScheduled = due.get("TakeScheduled")
	dueTakeWaiting   = due.get("TakeWaiting")
)

// sleeper is a row of scheduled or waiting that moves to ready.
type sleeper struct {
	itemID          store.ItemID
	taskID          store.TaskID
	queue, priority int64
	store.Carried
	leftBy, err       store.Text
	worker, startedAt *int64
	claimedAt         *int64
}

// Due implements store.Timed. An item with dependencies and a time waits for both.
func (Verbs) Due(ctx context.Context, tx store.Tx, limit int, only []string) ([]store.DueItem, error) {
	now, err := tx.Now(ctx)
	if err != nil {
		return nil, err
	}
	var out []store.DueItem
	for _, kind := range []struct {
		find, take, event, from string
	}{
		{dueScheduled, dueTakeScheduled, "due", "scheduled"},
		{dueWaitingUntil, dueTakeWaiting, "ready", "waiting"},
		{dueWaitingReady, dueTakeWaiting, "ready", "waiting"},
	} {
		ids, err := store.ItemIDs(ctx, tx, kind.find, now, int64(limit-len(out)), only == nil, store.ItemList(only))
		if err != nil {
			return nil, err
		}
		for _, id := range ids {
			item, err := wake(ctx, tx, id, kind.take, kind.event, kind.from, now)
			if err != nil {
				return nil, err
			}
			out = append(out, item)
		}
	}
	return out, nil
}

func wake(ctx context.Context, tx store.Tx, id, take, name, from string, now int64) (store.DueItem, error) {
	var s sleeper
	targets := slices.Concat([]any{&s.itemID, &s.queue, &s.taskID, &s.priority}, store.Targets(s.Columns()), []any{
		&s.leftBy, &s.worker, &s.startedAt, &s.err, &s.claimedAt})
	_, err := store.Row(ctx, tx, targets, take, store.ItemID(id))
	if err != nil {
		return store.DueItem{}, err
	}
	q, err := store.QueueNamed(ctx, tx, s.queue)
	if err != nil {
		return store.DueItem{}, err
	}
	rank := int64(store.BackRank(int(s.priority), s.Attempt, s.claimedAt, now))
	_, err = tx.Exec(ctx, putReady, with(s.Columns(), s.queue, rank, s.itemID, s.taskID, s.leftBy, s.worker, s.startedAt, now,
		s.err)...)
	if err != nil {
		return store.DueItem{}, err
	}
	e := event{namespace: q.Namespace, taskID: s.taskID, itemID: s.itemID, solo: s.Solo, attempt: int64(s.Attempt), name: name,
		from: store.Text(from), to: "queued", by: system, queue: s.queue}
	return store.DueItem{Namespace: q.Namespace, ItemID: string(s.itemID), Type: q.Type, Rank: int(rank)}, e.write(ctx, tx, now)
}
