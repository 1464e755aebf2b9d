package engine

import (
	"context"
	"sync"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/engine/internal/rules"
	"github.com/pawl-work/pawl/store"
)

// seenWorkers collects the workers that called, to be written every few seconds instead
// of with every claim and heartbeat.
type seenWorkers struct {
	mu   sync.Mutex
	seen map[store.SeenWorker]bool
}

func (r *seenWorkers) note(namespace, workerID string) {
	if workerID == "" || len(workerID) > pawl.MaxIDLen {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.seen == nil {
		r.seen = map[store.SeenWorker]bool{}
	}
	r.seen[store.SeenWorker{Namespace: namespace, WorkerID: workerID}] = true
}

func (r *seenWorkers) take() []store.SeenWorker {
	r.mu.Lock()
	defer r.mu.Unlock()
	var out []store.SeenWorker
	for s := range r.seen {
		out = append(out, s)
	}
	r.seen = nil
	return out
}

// flushSeen writes the workers that called since the last time.
func (e *Engine) flushSeen(ctx context.Context) error {
	seen := e.seen.take()
	if len(seen) == 0 {
		return nil
	}
	return e.db.Do(ctx, func(ctx context.Context, tx store.Tx) error {
		now, err := tx.Now(ctx)
		if err != nil {
			return err
		}
		return store.PutSeenWorkers(ctx, tx, seen, now)
	})
}

// RegisterWorker adds a worker to the registry; see pawl.Recorder.
func (e *Engine) RegisterWorker(ctx context.Context, w pawl.WorkerInfo) error {
	if err := rules.CheckWorker(&w); err != nil {
		return err
	}
	return e.db.Do(ctx, func(ctx context.Context, tx store.Tx) error {
		now, err := tx.Now(ctx)
		if err != nil {
			return err
		}
		return store.RegisterWorker(ctx, tx, pawl.CallerOf(ctx).Namespace, w, now)
	})
}

// ListFailures groups failed items; see pawl.FailureReader.
func (e *Engine) ListFailures(ctx context.Context, q pawl.FailureFilter) (pawl.List[pawl.FailureGroup], error) {
	if err := rules.CheckFailureFilter(&q); err != nil {
		return pawl.List[pawl.FailureGroup]{}, err
	}
	return view(ctx, e, func(ctx context.Context, tx store.Tx, ns string) (pawl.List[pawl.FailureGroup], error) {
		return store.ListFailures(ctx, tx, ns, q)
	})
}

// ListWorkers lists workers, last seen first.
func (e *Engine) ListWorkers(ctx context.Context, q pawl.WorkerFilter) (pawl.List[pawl.WorkerInfo], error) {
	if err := rules.CheckPage(&q.Page); err != nil {
		return pawl.List[pawl.WorkerInfo]{}, err
	}
	if err := e.flushSeen(ctx); err != nil {
		return pawl.List[pawl.WorkerInfo]{}, err
	}
	return view(ctx, e, func(ctx context.Context, tx store.Tx, ns string) (pawl.List[pawl.WorkerInfo], error) {
		return store.ListWorkers(ctx, tx, ns, q)
	})
}
