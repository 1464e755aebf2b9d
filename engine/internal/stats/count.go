package stats

import (
	"context"
	"time"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/engine/internal/kernel"
	"github.com/pawl-work/pawl/store"
)

// Stats returns the statistics of the caller's namespace.
func (r *Stats) Stats(ctx context.Context) (pawl.Stats, error) {
	checkpoints, keys, err := r.stored.read(ctx, r.k)
	if err != nil {
		return pawl.Stats{}, err
	}
	return kernel.Read(ctx, r.k, func(ctx context.Context, tx store.Tx, ns string) (pawl.Stats, error) {
		now, err := tx.Now(ctx)
		if err != nil {
			return pawl.Stats{}, err
		}
		s, err := read(ctx, tx, ns, now)
		if err != nil {
			return s, err
		}
		s.Checkpoints, s.Keys = checkpoints, keys
		s.Sweeps, err = r.k.Sweeps(ctx, tx)
		return s, err
	})
}

// read counts the tasks, items, leases and workers of a namespace. The states of items and tasks come from the totals, if the
// events are counted.
func read(ctx context.Context, tx store.Tx, namespace string, now int64) (pawl.Stats, error) {
	s := noStats()
	counted, known, _, err := readTotals(ctx, tx, namespace)
	if err != nil {
		return s, err
	}
	if known {
		err = counted.states(ctx, tx, namespace, &s)
	} else {
		err = countStates(ctx, tx, namespace, &s)
	}
	if err != nil {
		return s, err
	}
	if _, err := store.Row(ctx, tx, []any{&s.Leases, &s.ExpiredLeases, &s.StaleLeases, &s.Workers, &s.Streaming}, texts["held"],
		namespace, now, pawl.HeartbeatsPerLease, pawl.DefaultStaleBeats); err != nil {
		return s, err
	}
	if s.Stalled, err = store.CountStalled(ctx, tx, namespace, now); err != nil {
		return s, err
	}
	oldest, err := readOldest(ctx, tx, namespace)
	if err != nil {
		return s, err
	}
	s.OldestQueuedAt, err = oldest.queued(ctx, tx, namespace)
	return s, err
}

func noStats() pawl.Stats {
	return pawl.Stats{ItemsByState: map[pawl.ItemState]int64{}, TasksByState: map[pawl.TaskState]int64{}}
}

// oldestItems are the oldest items of queues, by state.
type oldestItems map[store.QueueName]map[string]store.ItemID

// queued returns when the oldest queued item of a namespace, or of all if it is "", was created; nil = none is queued.
func (oldest oldestItems) queued(ctx context.Context, tx store.Tx, namespace string) (*time.Time, error) {
	var first store.ItemID
	for queue, states := range oldest {
		if id := states[string(pawl.ItemQueued)]; id != "" && (namespace == "" || queue.Namespace == namespace) && (first == "" || id < first) {
			first = id
		}
	}
	if first == "" {
		return nil, nil
	}
	var at int64
	found, err := store.Row(ctx, tx, []any{&at}, texts["created"], first)
	if !found {
		return nil, err
	}
	return store.StampOf(&at), nil
}

// states fills in the states from the totals. Which tasks are checked out, in progress or queued follows from the leases and
// from the open tasks of many.
func (c *counted) states(ctx context.Context, tx store.Tx, namespace string, s *pawl.Stats) error {
	tasks := c.tasks[namespace]
	s.Events = c.events[namespace]
	for state, n := range c.items[namespace] {
		s.ItemsByState[pawl.ItemState(state)] = n
	}
	for state, n := range tasks {
		if state != "" && state != "open" && n > 0 {
			s.TasksByState[pawl.TaskState(state)] = n
		}
	}
	var begun, scheduled, waiting, laterScheduled, laterWaiting int64
	held := map[string]int64{}
	if err := counts(ctx, tx, "held tasks", namespace, func(state string, n int64) { held[state] += n }); err != nil {
		return err
	}
	if _, err := store.Row(ctx, tx, []any{&begun}, texts["begun tasks"], namespace); err != nil {
		return err
	}
	if _, err := store.Row(ctx, tx, []any{&scheduled, &waiting, &laterScheduled, &laterWaiting},
		texts["pending of many"], namespace); err != nil {
		return err
	}
	running, out := held["in_progress"]+begun, held["leased"]
	queued := max(0, tasks["open"]-running-out)
	for state, n := range map[pawl.TaskState]int64{pawl.TaskInProgress: running, pawl.TaskCheckedOut: out, pawl.TaskQueued: queued} {
		if n > 0 {
			s.TasksByState[state] = n
		}
	}
	p := &s.TasksPending
	p.Scheduled = max(0, s.ItemsByState[pawl.ItemScheduled]-scheduled+laterScheduled)
	p.Waiting = max(0, s.ItemsByState[pawl.ItemWaiting]-waiting+laterWaiting)
	p.Queued = max(0, queued-p.Scheduled-p.Waiting)
	return nil
}

// countStates counts the rows of items, tasks and events.
func countStates(ctx context.Context, tx store.Tx, namespace string, s *pawl.Stats) error {
	err := counts(ctx, tx, "item counts", namespace, func(state string, n int64) { s.ItemsByState[pawl.ItemState(state)] = n })
	if err == nil {
		err = counts(ctx, tx, "task counts", namespace, func(state string, n int64) { s.TasksByState[pawl.TaskState(state)] = n })
	}
	if err == nil {
		err = counts(ctx, tx, "pending tasks", namespace, func(place string, n int64) {
			switch place {
			case "scheduled":
				s.TasksPending.Scheduled = n
			case "waiting":
				s.TasksPending.Waiting = n
			default:
				s.TasksPending.Queued = n
			}
		})
	}
	if err == nil {
		_, err = store.Row(ctx, tx, []any{&s.Events}, texts["events"], namespace)
	}
	return err
}

func counts(ctx context.Context, tx store.Tx, query, namespace string, put func(string, int64)) error {
	return store.EachRow(ctx, tx, func(rows store.Rows) error {
		var state string
		var n int64
		err := rows.Scan(&state, &n)
		if n > 0 {
			put(state, n)
		}
		return err
	}, texts[query], namespace)
}

// readOldest returns the oldest item of each queue of a namespace, or of all if it is "", in each state
// that is not an end and has no lease.
func readOldest(ctx context.Context, tx store.Tx, namespace string) (oldestItems, error) {
	out := oldestItems{}
	err := store.EachRow(ctx, tx, func(rows store.Rows) error {
		var of store.QueueName
		var state string
		var id store.ItemID
		if err := rows.Scan(&of.Namespace, &of.Type, &state, &id); err != nil || id == "" {
			return err
		}
		if out[of] == nil {
			out[of] = map[string]store.ItemID{}
		}
		out[of][state] = id
		return nil
	}, texts["oldest"], namespace)
	return out, err
}
