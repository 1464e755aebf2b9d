package store

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/pawl-work/pawl"
)

var statsSQL = Texts(sqlFiles, "stats.sql")

// ForgetWorkers deletes up to limit workers that were not seen since a time, or that are
// not among the most recently seen of their namespace, of which most are kept. It returns
// how many it deleted.
func ForgetWorkers(ctx context.Context, tx Tx, before int64, most, limit int) (int64, error) {
	return tx.Exec(ctx, statsSQL["forget workers"], before, most, limit)
}

// ListWorkers lists a namespace's workers, last seen first.
func ListWorkers(ctx context.Context, tx Tx, namespace string, q pawl.WorkerFilter) (pawl.List[pawl.WorkerInfo], error) {
	var w where
	w.and("k.namespace = ?", namespace)
	if !q.SeenSince.IsZero() {
		w.and("k.last_seen_at >= ?", q.SeenSince.UnixMicro())
	}
	if q.Cursor != "" {
		at, rest, _ := strings.Cut(q.Cursor, ".")
		n, err := strconv.ParseInt(at, 10, 64)
		if err != nil {
			return pawl.List[pawl.WorkerInfo]{}, NotACursor()
		}
		w.and("(k.last_seen_at, k.worker_id) < (?, ?)", n, rest)
	}
	rows, err := tx.Query(ctx, w.text(statsSQL["workers"], "k.last_seen_at DESC, k.worker_id DESC", q.Limit+1), w.args...)
	if err != nil {
		return pawl.List[pawl.WorkerInfo]{}, err
	}
	defer rows.Close()
	var out []pawl.WorkerInfo
	for rows.Next() {
		var k pawl.WorkerInfo
		var name, version, types Text
		var started, seen int64
		if err := rows.Scan(&k.WorkerID, &name, &version, &types, &started, &seen, &k.InFlight); err != nil {
			return pawl.List[pawl.WorkerInfo]{}, err
		}
		k.Name, k.Version, k.StartedAt, k.LastSeenAt = string(name), string(version), Stamp(started), Stamp(seen)
		if types != "" {
			_ = json.Unmarshal([]byte(types), &k.Types) // written by us
		}
		out = append(out, k)
	}
	return Paged(out, q.Limit, func(k pawl.WorkerInfo) string {
		return fmt.Sprintf("%d.%s", k.LastSeenAt.UnixMicro(),
			k.WorkerID)
	}), rows.Err()
}

// Stats counts the tasks, items, leases, workers and keys of a namespace, and its checkpoints. The
// states of items and tasks come from the totals, if the events are counted.
func Stats(ctx context.Context, tx Tx, namespace string, now int64) (pawl.Stats, error) {
	s := pawl.Stats{ItemsByState: map[pawl.ItemState]int64{}, TasksByState: map[pawl.TaskState]int64{}}
	counted, known, _, err := readTotals(ctx, tx, namespace)
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
	var first ItemID
	for k, id := range oldest {
		if k.State == string(pawl.ItemQueued) && (first == "" || id < first) {
			first = id
		}
	}
	if first != "" {
		var at int64
		found, err := Row(ctx, tx, []any{&at}, statsSQL["created"], first)
		if err != nil {
			return s, err
		}
		if found {
			s.OldestQueuedAt = StampOf(&at)
		}
	}
	return s, nil
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
	rows, err := tx.Query(ctx, query, namespace)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		var state string
		var n int64
		if err := rows.Scan(&state, &n); err != nil {
			return err
		}
		if n > 0 {
			put(state, n)
		}
	}
	return rows.Err()
}

// QueueState is a state of the items of a queue; a lease that has run out is expired.
type QueueState struct {
	QueueName
	State string
}

// Oldest returns the oldest item of each queue of a namespace, or of all if it is "", in each state
// that is not an end and has no lease.
func Oldest(ctx context.Context, tx Tx, namespace string) (map[QueueState]ItemID, error) {
	rows, err := tx.Query(ctx, totalsSQL["oldest"], namespace)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	out := map[QueueState]ItemID{}
	for rows.Next() {
		var k QueueState
		var id ItemID
		if err := rows.Scan(&k.Namespace, &k.Type, &k.State, &id); err != nil {
			return nil, err
		}
		if id != "" {
			out[k] = id
		}
	}
	return out, rows.Err()
}

// Depth is how many items of a type are in a state, and the id of the oldest one.
type Depth struct {
	QueueState
	OldestID string
	Items    int64
}

// Depths counts the items of all namespaces that have not ended. A lease that has run out
// counts as expired.
func Depths(ctx context.Context, tx Tx, now int64) ([]Depth, error) {
	counted, known, _, err := readTotals(ctx, tx, "")
	if err != nil {
		return nil, err
	}
	if !known {
		return depths(ctx, tx, statsSQL["depths"], now)
	}
	out, err := depths(ctx, tx, totalsSQL["leases"], now)
	if err != nil {
		return nil, err
	}
	oldest, err := Oldest(ctx, tx, "")
	if err != nil {
		return nil, err
	}
	for name, states := range counted.ofQueues() {
		for state, n := range states {
			k := QueueState{name, state}
			if id := oldest[k]; n > 0 && id != "" {
				out = append(out, Depth{k, string(id), n})
			}
		}
	}
	slices.SortFunc(out, func(a, b Depth) int { return cmp.Or(a.compare(b.QueueName), strings.Compare(a.State, b.State)) })
	return out, nil
}

func depths(ctx context.Context, tx Tx, query string, args ...any) ([]Depth, error) {
	rows, err := tx.Query(ctx, query, args...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var out []Depth
	for rows.Next() {
		var d Depth
		if err := rows.Scan(&d.Namespace, &d.Type, &d.State, &d.Items, (*ItemID)(&d.OldestID)); err != nil {
			return nil, err
		}
		out = append(out, d)
	}
	return out, rows.Err()
}

// Monitored returns metrics of workers, effects, messages and the feed.
func Monitored(ctx context.Context, tx Tx, now int64) ([]pawl.Gauge, error) {
	workers, err := workerGauges(ctx, tx, now)
	if err != nil {
		return nil, err
	}
	feed, err := ReadFeed(ctx, tx)
	if err != nil {
		return nil, err
	}
	stalled, err := CountStalled(ctx, tx, "", now)
	if err != nil {
		return nil, err
	}
	newest, err := NewestNumber(ctx, tx)
	lag := pawl.Gauge{Name: "pawl_feed_lag_events", Help: "Event numbers without a position in the feed.",
		Value: float64(max(0, newest-feed.Top))}
	silent := pawl.Gauge{Name: "pawl_messages_stalled", Help: "Open messages without a chunk for a minute and without a live lease.",
		Value: float64(stalled)}
	if err != nil {
		return nil, err
	}
	effects, err := effectGauges(ctx, tx)
	if err != nil {
		return nil, err
	}
	queued, err := queuedGauges(ctx, tx, now)
	return append(slices.Concat(workers, queued, effects), lag, silent), err
}

// queuedGauges say how long the items of each queue are queued. That of the oldest item may have waited for something else.
func queuedGauges(ctx context.Context, tx Tx, now int64) (out []pawl.Gauge, err error) {
	err = EachRow(ctx, tx, func(rows Rows) error {
		var namespace, typ string
		var since *int64
		if err := rows.Scan(&namespace, &typ, &since); err != nil || since == nil {
			return err
		}
		out = append(out, pawl.Gauge{Name: "pawl_oldest_queued_seconds", Help: "Since the item that is queued longest is queued.",
			Labels: []string{"namespace", namespace, "type", typ}, Value: float64(max(0, now-*since)) / 1e6})
		return nil
	}, totalsSQL["queued since"])
	return out, err
}

func workerGauges(ctx context.Context, tx Tx, now int64) ([]pawl.Gauge, error) {
	counts := map[QueueName]int{}
	err := EachRow(ctx, tx, func(rows Rows) error {
		var namespace string
		var types Text
		err := rows.Scan(&namespace, &types)
		all := typesOf(types)
		if len(all) == 0 {
			all = []string{"*"}
		}
		for _, typ := range all {
			counts[QueueName{namespace, typ}]++
		}
		return err
	}, statsSQL["live types"], now-pawl.WorkerLive.Microseconds(), pawl.MaxWorkers)
	var out []pawl.Gauge
	for _, of := range slices.SortedFunc(maps.Keys(counts), QueueName.compare) {
		out = append(out, pawl.Gauge{Name: "pawl_workers", Help: "Live workers that take the type; * = of those that take any.",
			Labels: []string{"namespace", of.Namespace, "type", of.Type}, Value: float64(counts[of])})
	}
	return out, err
}
