package hot

import (
	"context"
	"slices"

	"github.com/pawl-work/pawl/store"
)

// lease is a row of leases that is being removed.
type lease struct {
	itemID           store.ItemID
	taskID           store.TaskID
	namespace, state string
	queue            int64
	worker, priority int64
	store.Carried
	prefetch, startedAt, acquiredAt, heartbeatAt int64
	expiresAt                                    int64
	progress                                     *int64
	stage, err, keyID                            store.Text
	effects                                      int64
	workerID                                     string // read only where a record needs it
	rank                                         int    // once it is queued
}

func (l *lease) targets() []any {
	return slices.Concat([]any{&l.itemID, &l.namespace, &l.taskID, &l.queue, (*store.StateCode)(&l.state), &l.worker,
		&l.priority}, store.Targets(l.Columns()),
		[]any{
			&l.prefetch, &l.startedAt, &l.acquiredAt, &l.heartbeatAt, &l.expiresAt, &l.progress, &l.stage, &l.err, &l.keyID,
			&l.effects})
}

// with appends the values of columns to the other arguments.
func with(columns []store.Column, args ...any) []any {
	return append(args, store.Values(columns)...)
}

func (l *lease) event(name, to string, by by) event {
	return event{namespace: l.namespace, taskID: l.taskID, itemID: l.itemID, solo: l.Solo, attempt: int64(l.Attempt),
		name: name, from: store.Text(l.state), to: store.Text(to), by: by, queue: l.queue, since: l.acquiredAt}
}

// back sets the rank with which the item comes back to the queue.
func (l *lease) back(now int64) int64 {
	l.rank = store.BackRank(int(l.priority), l.Attempt, &l.acquiredAt, now)
	return int64(l.rank)
}

// claimedAt returns what the tables of items that come back later keep of the claim.
func (l *lease) claimedAt() *int64 {
	if l.Attempt < 2 {
		return nil
	}
	return &l.acquiredAt
}

// toReady, toScheduled, toWaiting and toFailed insert the item into the table of its new
// state, with its carried values. The lease was removed before.
func (l *lease) toReady(ctx context.Context, tx store.Tx, leftBy string, now int64) error {
	_, err := tx.Exec(ctx, putReady, with(l.Columns(), l.queue, l.back(now), l.itemID, l.taskID, leftBy, l.worker, l.startedAt, now,
		l.err)...)
	return err
}

func (l *lease) toScheduled(ctx context.Context, tx store.Tx, leftBy string, runAt, now int64) error {
	_, err := tx.Exec(ctx, putScheduled, with(l.Columns(), l.itemID, l.queue, l.taskID, l.priority, runAt,
		leftBy, l.worker, l.startedAt, now, l.err, l.claimedAt())...)
	return err
}

func (l *lease) toWaiting(ctx context.Context, tx store.Tx, leftBy string, until *int64, signal, key store.Text, now int64) error {
	_, err := tx.Exec(ctx, putWaiting, with(l.Columns(), l.itemID, l.queue, l.taskID, l.priority, until, signal, key, 0,
		leftBy, l.worker, l.startedAt, now, l.err, l.claimedAt())...)
	return err
}

// toFailed also updates the items that depend on this item.
func (l *lease) toFailed(ctx context.Context, tx store.Tx, leftBy string, now int64) error {
	_, err := tx.Exec(ctx, putFailed, with(l.Columns(), l.itemID, l.queue, l.taskID, l.priority,
		leftBy, l.worker, l.startedAt, now, l.progress, l.stage, l.err, store.FailureKey(l.err), l.claimedAt())...)
	if err == nil && l.FeedsItems() {
		_, err = tx.Exec(ctx, breakOthers, l.itemID)
	}
	return err
}

// endEffects makes unknown what the attempt has sent and not reported.
func (l *lease) endEffects(ctx context.Context, tx store.Tx, now int64) error {
	if l.effects == 0 {
		return nil
	}
	return store.EndEffects(ctx, tx, now, string(l.itemID), l.Attempt)
}
