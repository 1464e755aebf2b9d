package stats

import (
	"cmp"
	"context"
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

// seenWorker is a worker that was active at a time.
type seenWorker struct {
	Namespace, WorkerID string
}

// seenWorkers collects the workers that called, to be written every few seconds instead
// of with every claim and heartbeat.
type seenWorkers struct {
	mu    sync.Mutex
	seen  map[seenWorker]bool
	since time.Time // of the first one
	later time.Time // before it no call writes them again, after a failure
}

// unwritten is said when workers could not be written.
const unwritten = "writing the worker registry failed; retrying"

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

// called notes that a worker called by k, and writes the workers after the commit, in transactions of base, if that is due.
func (r *seenWorkers) called(ctx context.Context, base, k *kernel.Kernel, namespace, workerID string) {
	if workerID == "" || len(workerID) > pawl.MaxIDLen {
		return
	}
	if !r.note(seenWorker{namespace, workerID}) {
		return
	}
	k.After(func() {
		if err := r.write(store.WithLockWait(context.WithoutCancel(ctx), kernel.LockedRow), base); err != nil {
			k.LogError(ctx, unwritten, err)
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

// write writes the workers that called since the last time.
func (r *seenWorkers) write(ctx context.Context, k *kernel.Kernel) error {
	seen := r.take()
	if len(seen) == 0 {
		return nil
	}
	err := k.Write(ctx, func(ctx context.Context, w *kernel.Write) error {
		now, err := w.Now(ctx)
		if err != nil {
			return err
		}
		rows := make([][]any, len(seen))
		for i, s := range seen {
			rows[i] = []any{s.Namespace, s.WorkerID, now}
		}
		return w.Tx.ExecEach(ctx, texts["see worker"], rows)
	})
	if err != nil {
		r.putBack(seen)
	}
	return err
}

// RegisterWorker adds a worker to the registry; see pawl.Recorder.
func (r *Stats) RegisterWorker(ctx context.Context, info pawl.WorkerInfo) error {
	if err := checkWorker(&info); err != nil {
		return err
	}
	return r.k.Write(ctx, func(ctx context.Context, w *kernel.Write) error {
		now, err := w.Now(ctx)
		if err != nil {
			return err
		}
		_, err = w.Tx.Exec(ctx, texts["register worker"], w.Caller.Namespace, info.WorkerID, store.Text(info.Name), store.Text(info.Version),
			store.List(info.Types), now)
		return err
	})
}

// checkWorker checks the registration of a worker.
func checkWorker(w *pawl.WorkerInfo) error {
	var f rules.Fields
	f.Text("/worker_id", w.WorkerID, 1, pawl.MaxIDLen)
	f.Text("/name", w.Name, 0, pawl.MaxIDLen)
	f.Text("/version", w.Version, 0, pawl.MaxIDLen)
	for i, t := range w.Types {
		f.Text(fmt.Sprintf("/types/%d", i), t, 1, pawl.MaxTypeLen)
	}
	return f.Err("register")
}

// ListWorkers lists workers, last seen first.
func (r *Stats) ListWorkers(ctx context.Context, q pawl.WorkerFilter) (pawl.List[pawl.WorkerInfo], error) {
	if err := rules.CheckPage(&q.Page); err != nil {
		return pawl.List[pawl.WorkerInfo]{}, err
	}
	if err := r.seen.write(ctx, r.k); err != nil {
		return pawl.List[pawl.WorkerInfo]{}, err
	}
	return kernel.Read(ctx, r.k, func(ctx context.Context, tx store.Tx, ns string) (pawl.List[pawl.WorkerInfo], error) {
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
	out, err := store.All(ctx, tx, w.Text(texts["workers"], "k.last_seen_at DESC, k.worker_id DESC", q.Limit+1), w.Args,
		func(rows store.Rows, k *pawl.WorkerInfo) error {
			var name, version, types store.Text
			var started, seen int64
			err := rows.Scan(&k.WorkerID, &name, &version, &types, &started, &seen, &k.InFlight)
			k.Name, k.Version, k.StartedAt, k.LastSeenAt = string(name), string(version), store.Stamp(started), store.Stamp(seen)
			k.Types = types.List()
			return err
		})
	return store.Paged(out, q.Limit, func(k pawl.WorkerInfo) string {
		return fmt.Sprintf("%d.%s", k.LastSeenAt.UnixMicro(), k.WorkerID)
	}), err
}

// namedTypes returns types that tasks or items of a namespace have had, a given one first. Without that one, it also returns
// those that workers have said to take.
func namedTypes(ctx context.Context, tx store.Tx, namespace, first string) ([]string, error) {
	known, err := store.Strings(ctx, tx, texts["types of queues"], namespace, first, pawl.MaxPage)
	if err != nil || slices.Contains(known, first) {
		return known, err
	}
	workers, err := workersPage(ctx, tx, namespace, pawl.WorkerFilter{Page: pawl.Page{Limit: pawl.MaxPage}})
	for _, w := range workers.Items {
		known = append(known, w.Types...)
	}
	return known, err
}
