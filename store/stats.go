package store

import (
	"context"
	"time"

	"github.com/pawl-work/pawl"
)

var statsSQL = Texts(sqlFiles, "stats.sql")

// Stats counts the tasks, items, leases, workers and keys of a namespace, and its checkpoints. The
// states of items and tasks come from the totals, if the events are counted.
func Stats(ctx context.Context, tx Tx, namespace string, now int64) (pawl.Stats, error) {
	s := pawl.Stats{ItemsByState: map[pawl.ItemState]int64{}, TasksByState: map[pawl.TaskState]int64{}}
	counted, known, _, err := ReadTotals(ctx, tx, namespace)
	if err != nil {
		return s, err
	}
	if known {
		err = totalStates(ctx, tx, namespace, counted, &s)
	} else {
		err = countStates(ctx, tx, namespace, &s)
	}
	if err != nil {
		return s, err
	}
	if _, err := Row(ctx, tx, []any{&s.Leases, &s.ExpiredLeases, &s.StaleLeases, &s.Workers, &s.Streaming}, statsSQL["held"],
		namespace, now, pawl.HeartbeatsPerLease, pawl.DefaultStaleBeats); err != nil {
		return s, err
	}
	if s.Stalled, err = CountStalled(ctx, tx, namespace, now); err != nil {
		return s, err
	}
	oldest, err := Oldest(ctx, tx, namespace)
	if err != nil {
		return s, err
	}
	s.OldestQueuedAt, err = oldest.Queued(ctx, tx, namespace)
	return s, err
}

// OldestItems are the oldest items of queues, by state.
type OldestItems map[QueueName]map[string]ItemID

// Queued returns when the oldest queued item of a namespace, or of all if it is "", was created; nil = none is queued.
func (oldest OldestItems) Queued(ctx context.Context, tx Tx, namespace string) (*time.Time, error) {
	var first ItemID
	for queue, states := range oldest {
		if id := states[string(pawl.ItemQueued)]; id != "" && (namespace == "" || queue.Namespace == namespace) && (first == "" || id < first) {
			first = id
		}
	}
	if first == "" {
		return nil, nil
	}
	var at int64
	found, err := Row(ctx, tx, []any{&at}, statsSQL["created"], first)
	if !found {
		return nil, err
	}
	return StampOf(&at), nil
}

// totalStates fills in the states from the totals. Which tasks are checked out, in progress or queued
// follows from the leases and from the open tasks of many.
func totalStates(ctx context.Context, tx Tx, namespace string, counted totals, s *pawl.Stats) error {
	var tasks map[string]int64
	s.ItemsByState, tasks, s.Events = counted.states(namespace)
	for state, n := range tasks {
		if state != "open" && n > 0 {
			s.TasksByState[pawl.TaskState(state)] = n
		}
	}
	var begun, scheduled, waiting, laterScheduled, laterWaiting int64
	held := map[string]int64{}
	if err := counts(ctx, tx, totalsSQL["held tasks"], namespace, func(state string, n int64) { held[state] += n }); err != nil {
		return err
	}
	if _, err := Row(ctx, tx, []any{&begun}, totalsSQL["begun tasks"], namespace); err != nil {
		return err
	}
	if _, err := Row(ctx, tx, []any{&scheduled, &waiting, &laterScheduled, &laterWaiting},
		totalsSQL["pending of many"], namespace); err != nil {
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
func countStates(ctx context.Context, tx Tx, namespace string, s *pawl.Stats) error {
	if err := counts(ctx, tx, statsSQL["item counts"], namespace,
		func(state string, n int64) { s.ItemsByState[pawl.ItemState(state)] = n }); err != nil {
		return err
	}
	if err := counts(ctx, tx, statsSQL["task counts"], namespace,
		func(state string, n int64) { s.TasksByState[pawl.TaskState(state)] = n }); err != nil {
		return err
	}
	if err := counts(ctx, tx, blockedSQL["pending tasks"], namespace, func(place string, n int64) {
		switch place {
		case "scheduled":
			s.TasksPending.Scheduled = n
		case "waiting":
			s.TasksPending.Waiting = n
		default:
			s.TasksPending.Queued = n
		}
	}); err != nil {
		return err
	}
	_, err := Row(ctx, tx, []any{&s.Events}, statsSQL["events"], namespace)
	return err
}

func counts(ctx context.Context, tx Tx, query, namespace string, put func(string, int64)) error {
	return EachRow(ctx, tx, func(rows Rows) error {
		var state string
		var n int64
		if err := rows.Scan(&state, &n); err != nil {
			return err
		}
		if n > 0 {
			put(state, n)
		}
		return nil
	}, query, namespace)
}

// Oldest returns the oldest item of each queue of a namespace, or of all if it is "", in each state
// that is not an end and has no lease.
func Oldest(ctx context.Context, tx Tx, namespace string) (OldestItems, error) {
	out := OldestItems{}
	err := EachRow(ctx, tx, func(rows Rows) error {
		var of QueueName
		var state string
		var id ItemID
		if err := rows.Scan(&of.Namespace, &of.Type, &state, &id); err != nil || id == "" {
			return err
		}
		if out[of] == nil {
			out[of] = map[string]ItemID{}
		}
		out[of][state] = id
		return nil
	}, totalsSQL["oldest"], namespace)
	return out, err
}
