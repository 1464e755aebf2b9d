package engine

import (
	"context"

	"github.com/pawl-work/pawl/store"
)

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
