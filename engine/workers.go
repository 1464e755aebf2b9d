package engine

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/engine/internal/kernel"
	"github.com/pawl-work/pawl/engine/internal/rules"
	"github.com/pawl-work/pawl/internal/clock"
	"github.com/pawl-work/pawl/store"
)

// seenWorkers collects the workers that called, to be written every few seconds instead
// of with every claim and heartbeat.
type seenWorkers struct {
	mu    sync.Mutex
	seen  map[seenWorker]bool
	since time.Time // of the first one
	later time.Time // before it no call writes them again, after a failure
}

// A call itself writes the workers when there are maxSeen, or the first one came seenAge ago: Run, which
// writes them more often, may be in another process. Beyond maxSeen none is added.
const (
	maxSeen = 1000
	seenAge = time.Minute
)

// note adds workers. It reports whether they are to be written.
func (r *seenWorkers) note(workers ...seenWorker) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.seen) == 0 {
		r.seen, r.since = map[seenWorker]bool{}, clock.Now()
	}
	for _, w := range workers {
		if len(r.seen) < maxSeen {
			r.seen[w] = true
		}
	}
	now := clock.Now()
	return now.After(r.later) && (len(r.seen) >= maxSeen || now.Sub(r.since) >= seenAge)
}

// noteWorker notes that a worker called.
func (e *Engine) noteWorker(ctx context.Context, namespace, workerID string) {
	if workerID == "" || len(workerID) > pawl.MaxIDLen {
		return
	}
	if !e.seen.note(seenWorker{Namespace: namespace, WorkerID: workerID}) {
		return
	}
	e.after(func() {
		if err := e.root.flushSeen(store.WithLockWait(context.WithoutCancel(ctx), kernel.LockedRow)); err != nil {
			e.logError(ctx, "writing the worker registry failed; retrying", err)
		}
	})
}

func (r *seenWorkers) take() []seenWorker {
	r.mu.Lock()
	defer r.mu.Unlock()
	var out []seenWorker
	for s := range r.seen {
		out = append(out, s)
	}
	r.seen = nil
	slices.SortFunc(out, func(a, b seenWorker) int { // others write rows of them in this order too
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.WorkerID, b.WorkerID))
	})
	return out
}

// putBack keeps workers that could not be written.
func (r *seenWorkers) putBack(seen []seenWorker) {
	r.note(seen...)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.later = clock.Now().Add(seenAge / 6)
}

// flushSeen writes the workers that called since the last time.
func (e *Engine) flushSeen(ctx context.Context) error {
	seen := e.seen.take()
	if len(seen) == 0 {
		return nil
	}
	err := e.db.Do(ctx, func(ctx context.Context, tx store.Tx) error {
		now, err := tx.Now(ctx)
		if err != nil {
			return err
		}
		return putSeenWorkers(ctx, tx, seen, now)
	})
	if err != nil {
		e.seen.putBack(seen)
	}
	return err
}

// RegisterWorker adds a worker to the registry; see pawl.Recorder.
func (e *Engine) RegisterWorker(ctx context.Context, w pawl.WorkerInfo) error {
	if err := checkWorker(&w); err != nil {
		return err
	}
	return e.db.Do(ctx, func(ctx context.Context, tx store.Tx) error {
		now, err := tx.Now(ctx)
		if err != nil {
			return err
		}
		return registerWorker(ctx, tx, pawl.CallerOf(ctx).Namespace, w, now)
	})
}

// ListFailures groups failed items; see pawl.FailureReader.
func (e *Engine) ListFailures(ctx context.Context, q pawl.FailureFilter) (pawl.List[pawl.FailureGroup], error) {
	if err := checkFailureFilter(&q); err != nil {
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
		return workersPage(ctx, tx, ns, q)
	})
}

// workersPage lists a namespace's workers, last seen first.
func workersPage(ctx context.Context, tx store.Tx, namespace string, q pawl.WorkerFilter) (pawl.List[pawl.WorkerInfo], error) {
	var w store.Where
	w.And("k.namespace = ?", namespace)
	if !q.SeenSince.IsZero() {
		w.And("k.last_seen_at >= ?", q.SeenSince.UnixMicro())
	}
	if q.Cursor != "" {
		at, rest, _ := strings.Cut(q.Cursor, ".")
		n, err := strconv.ParseInt(at, 10, 64)
		if err != nil {
			return pawl.List[pawl.WorkerInfo]{}, store.NotACursor()
		}
		w.And("(k.last_seen_at, k.worker_id) < (?, ?)", n, rest)
	}
	rows, err := tx.Query(ctx, w.Text(statsSQL["workers"], "k.last_seen_at DESC, k.worker_id DESC", q.Limit+1), w.Args...)
	if err != nil {
		return pawl.List[pawl.WorkerInfo]{}, err
	}
	defer rows.Close()
	var out []pawl.WorkerInfo
	for rows.Next() {
		var k pawl.WorkerInfo
		var name, version, types store.Text
		var started, seen int64
		if err := rows.Scan(&k.WorkerID, &name, &version, &types, &started, &seen, &k.InFlight); err != nil {
			return pawl.List[pawl.WorkerInfo]{}, err
		}
		k.Name, k.Version, k.StartedAt, k.LastSeenAt = string(name), string(version), store.Stamp(started), store.Stamp(seen)
		if types != "" {
			_ = json.Unmarshal([]byte(types), &k.Types) // written by us
		}
		out = append(out, k)
	}
	return store.Paged(out, q.Limit, func(k pawl.WorkerInfo) string {
		return fmt.Sprintf("%d.%s", k.LastSeenAt.UnixMicro(),
			k.WorkerID)
	}), rows.Err()
}
