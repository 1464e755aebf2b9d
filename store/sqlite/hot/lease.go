package hot

import (
	"context"

	"github.com/pawl-work/pawl/store"
)

// lease is a row of leases on its way out.
type lease struct {
	itemID, namespace, taskID, kind, state, workerID string
	priority, attempt, failures, maxAttempts         int64
	solo, feeds, acceptance, rework, spared          int64
	prefetch, startedAt, acquiredAt, heartbeatAt     int64
	expiresAt                                        int64
	progress                                         *int64
	stage, err, keyID                                store.Text
}

func (l *lease) targets() []any {
	return []any{&l.itemID, &l.namespace, &l.taskID, &l.kind, &l.state, &l.workerID,
		&l.priority, &l.attempt, &l.failures, &l.maxAttempts, &l.solo, &l.feeds, &l.acceptance, &l.rework, &l.spared,
		&l.prefetch, &l.startedAt, &l.acquiredAt, &l.heartbeatAt, &l.expiresAt, &l.progress, &l.stage, &l.err, &l.keyID}
}

func (l *lease) event(name, to string, actor store.Actor) event {
	return event{namespace: l.namespace, taskID: l.taskID, itemID: store.Text(l.itemID), attempt: l.attempt,
		name: name, from: store.Text(l.state), to: store.Text(to), actor: actor}
}

func (l *lease) rank() int64 { return -2 * l.priority }

// toReady, toScheduled, toWaiting and toFailed put the item where it goes,
// with what it carries. The lease is gone already.
func (l *lease) toReady(ctx context.Context, tx store.Tx, leftBy string, now int64) error {
	_, err := tx.Exec(ctx, putReady, l.namespace, l.kind, l.rank(), l.itemID, l.taskID, l.attempt, l.failures, l.maxAttempts,
		l.solo, l.feeds, l.acceptance, l.rework, l.spared, leftBy, l.workerID, l.startedAt, now, l.err)
	return err
}

func (l *lease) toScheduled(ctx context.Context, tx store.Tx, leftBy string, runAt, now int64) error {
	_, err := tx.Exec(ctx, putScheduled, l.itemID, l.namespace, l.taskID, l.kind, l.priority, runAt, l.attempt, l.failures, l.maxAttempts,
		l.solo, l.feeds, l.acceptance, l.rework, l.spared, leftBy, l.workerID, l.startedAt, now, l.err)
	return err
}

func (l *lease) toWaiting(ctx context.Context, tx store.Tx, leftBy string, until *int64, signal, key store.Text, now int64) error {
	_, err := tx.Exec(ctx, putWaiting, l.itemID, l.namespace, l.taskID, l.kind, l.priority, until, signal, key, 0, l.attempt, l.failures, l.maxAttempts,
		l.solo, l.feeds, l.acceptance, l.rework, l.spared, leftBy, l.workerID, l.startedAt, now, l.err)
	return err
}

// toFailed also tells those that depend on the item.
func (l *lease) toFailed(ctx context.Context, tx store.Tx, leftBy string, now int64) error {
	_, err := tx.Exec(ctx, putFailed, l.itemID, l.namespace, l.taskID, l.kind, l.priority, l.attempt, l.failures, l.maxAttempts,
		l.solo, l.feeds, l.acceptance, l.rework, l.spared, leftBy, l.workerID, l.startedAt, now, l.progress, l.stage, l.err)
	if err == nil && l.feeds == 1 {
		_, err = tx.Exec(ctx, breakOthers, l.itemID)
	}
	return err
}
