package engine

import (
	"context"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/store"
)

// registerWorker inserts a worker's row, or renews it.
func registerWorker(ctx context.Context, tx store.Tx, namespace string, w pawl.WorkerInfo, now int64) error {
	_, err := tx.Exec(ctx, statsSQL["register worker"], namespace, w.WorkerID, store.Text(w.Name), store.Text(w.Version),
		store.List(w.Types), now)
	return err
}

// seenWorker is a worker that was active at a time.
type seenWorker struct {
	Namespace, WorkerID string
}

// putSeenWorkers records that workers are alive.
func putSeenWorkers(ctx context.Context, tx store.Tx, seen []seenWorker, now int64) error {
	rows := make([][]any, len(seen))
	for i, s := range seen {
		rows[i] = []any{s.Namespace, s.WorkerID, now}
	}
	return tx.ExecEach(ctx, statsSQL["see worker"], rows)
}

// readStoredStats counts the checkpoints and the keys of a namespace. It reads all of them.
func readStoredStats(ctx context.Context, tx store.Tx, namespace string) (checkpoints int64, keys pawl.KeyStats, err error) {
	if _, err = store.Row(ctx, tx, []any{&checkpoints}, statsSQL["checkpoints"], namespace); err == nil {
		keys, err = keyStats(ctx, tx, namespace)
	}
	return checkpoints, keys, err
}

// keyStats counts a namespace's keys, without those that belong to calls.
func keyStats(ctx context.Context, tx store.Tx, namespace string) (pawl.KeyStats, error) {
	var s pawl.KeyStats
	_, err := store.Row(ctx, tx, []any{&s.Pending, &s.Completed, &s.Failed, &s.Hits, &s.Misses, &s.Replays}, statsSQL["key stats"], namespace)
	return s, err
}
