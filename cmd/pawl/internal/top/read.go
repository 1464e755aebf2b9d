package top

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/internal/clock"
)

// The bounds of what one frame reads.
const (
	maxStuck  = 12 // pairs of type and state that are explained
	maxLeased = 100
)

// source is what top reads.
type source interface {
	pawl.SeriesReader
	pawl.QueueReader
	pawl.ItemReader
	pawl.Explainer
	pawl.FailureReader
	ListTasks(ctx context.Context, f pawl.TaskFilter) (pawl.List[pawl.Task], error)
	ListWorkers(ctx context.Context, f pawl.WorkerFilter) (pawl.List[pawl.WorkerInfo], error)
	ListRelays(ctx context.Context) (pawl.List[pawl.Relay], error)
	Stats(ctx context.Context) (pawl.Stats, error)
}

// frame is what top shows of one moment. Its JSON is the answer of `pawl top -o json`.
type frame struct {
	At            time.Time    `json:"at"`
	Namespace     string       `json:"namespace"`
	WindowSeconds float64      `json:"window_seconds"` // the time that rates, waits and failures are about
	Totals        totals       `json:"totals"`
	Queues        []queueLine  `json:"queues"`
	Stuck         []stuckLine  `json:"stuck"`
	Leased        []leaseLine  `json:"leased"` // at most maxLeased, those that are held longest first
	Relays        []pawl.Relay `json:"relays"` // empty for callers who may not see them
}

// flow is what happened in the window.
type flow struct {
	Started   int64   `json:"started"`   // claims
	Completed int64   `json:"completed"` // items
	Failed    int64   `json:"failed"`    // attempts that failed, and leases that ran out
	StartedPM float64 `json:"started_per_minute"`
	EndedPM   float64 `json:"ended_per_minute"` // attempts that completed or failed
	WaitP95   float64 `json:"wait_p95_seconds"` // of the claimed items, in the queue
}

type totals struct {
	flow
	FailureRate         float64  `json:"failure_rate"` // the part of the ended attempts that failed, 0…1
	Queued              int64    `json:"queued"`
	Leased              int64    `json:"leased"`
	Waiting             int64    `json:"waiting"`
	Scheduled           int64    `json:"scheduled"`
	OldestQueuedSeconds int64    `json:"oldest_queued_seconds"`
	Workers             int      `json:"workers"`                     // live ones
	Streaming           int64    `json:"streaming_messages"`          // that have not ended
	Stalled             int64    `json:"stalled_messages"`            // of those, the ones that no worker writes
	RelayLagEvents      *int64   `json:"relay_lag_events,omitempty"`  // of the relay that is most behind
	RelayLagSeconds     *float64 `json:"relay_lag_seconds,omitempty"` // since the oldest event that a relay has not delivered
}

type queueLine struct {
	Type                string `json:"type"`
	Paused              bool   `json:"paused"`
	Queued              int64  `json:"queued"`
	Leased              int64  `json:"leased"`
	Waiting             int64  `json:"waiting"`
	Scheduled           int64  `json:"scheduled"`
	OldestQueuedSeconds int64  `json:"oldest_queued_seconds"`
	Workers             int    `json:"workers"` // live ones that take the type
	flow
}

// stuckLine is the work of one type in one state that needs help to go on, with the explanation of
// its oldest item.
type stuckLine struct {
	Type  string `json:"type"`
	Count int64  `json:"count"` // items of the type in that state, or failed tasks; 0 = not counted: expired, failed or submitted items
	pawl.Why
}

type leaseLine struct {
	ItemID         string      `json:"item_id"`
	TaskID         string      `json:"task_id"`
	Title          string      `json:"title"` // of the task
	Type           string      `json:"type"`
	WorkerID       string      `json:"worker_id"`
	Attempt        int         `json:"attempt"`
	Status         pawl.Status `json:"status"` // expired: the lease has run out and is not swept yet
	Progress       int         `json:"progress"`
	Stage          string      `json:"stage"`
	HeldSeconds    float64     `json:"held_seconds"`
	LeaseExpiresAt *time.Time  `json:"lease_expires_at"`
}

// reader reads frames. The explanations of what is stuck take most calls: they are kept for a time.
type reader struct {
	source
	window  time.Duration
	command func(line string) string // completes a command line, so that it can be copied
	stuck   []stuckLine
	stuckAt time.Time // when they are read again
}

// read reads a frame.
func (r *reader) read(ctx context.Context) (*frame, error) {
	now := clock.Now()
	since := now.Add(-r.window).Truncate(time.Minute)
	f := &frame{At: now, Namespace: pawl.CallerOf(ctx).Namespace, WindowSeconds: now.Sub(since).Seconds()}
	workers, err := r.liveWorkers(ctx, now)
	if err != nil {
		return nil, err
	}
	stats, err := r.Stats(ctx)
	if err != nil {
		return nil, err
	}
	f.Totals.Workers, f.Totals.Streaming, f.Totals.Stalled = len(workers), stats.Streaming, stats.Stalled
	if err := r.queues(ctx, f, workers, since); err != nil {
		return nil, err
	}
	if err := r.leased(ctx, f); err != nil {
		return nil, err
	}
	if err := r.relays(ctx, f); err != nil {
		return nil, err
	}
	if !clock.Now().Before(r.stuckAt) {
		if r.stuck, err = r.explain(ctx, f.Queues); err != nil {
			return nil, err
		}
		end := clock.Now()
		r.stuckAt = end.Add(20 * end.Sub(now))
	}
	f.Stuck = r.stuck
	return f, nil
}

func (r *reader) liveWorkers(ctx context.Context, now time.Time) ([]pawl.WorkerInfo, error) {
	l, err := r.ListWorkers(ctx, pawl.WorkerFilter{SeenSince: now.Add(-pawl.WorkerLive), Page: pawl.Page{Limit: pawl.MaxPage}})
	return l.Items, err
}

// queues reads all queues of the namespace, and what happened in them.
func (r *reader) queues(ctx context.Context, f *frame, workers []pawl.WorkerInfo, since time.Time) error {
	f.Queues = []queueLine{}
	page := pawl.Page{Limit: pawl.MaxPage}
	for {
		l, err := r.ListQueues(ctx, page)
		if err != nil {
			return err
		}
		for _, q := range l.Items {
			line := queueLine{Type: q.Type, Paused: q.Paused, Queued: q.Queued, Leased: q.Leased, Waiting: q.Waiting, Scheduled: q.Scheduled,
				OldestQueuedSeconds: q.OldestQueuedSeconds}
			for _, w := range workers {
				if len(w.Types) == 0 || slices.Contains(w.Types, q.Type) {
					line.Workers++
				}
			}
			f.Queues = append(f.Queues, line)
		}
		if page.Cursor = l.Next; l.Next == "" {
			break
		}
	}
	series, err := r.series(ctx, f.Queues, since)
	if err != nil {
		return err
	}
	f.add(series)
	return nil
}

// series reads the counters of all queues; of too many, those of the queues with most items.
func (r *reader) series(ctx context.Context, queues []queueLine, since time.Time) ([]pawl.QueueSeries, error) {
	q := pawl.SeriesQuery{Since: since, Step: time.Minute}
	series, err := r.Series(ctx, q)
	if pawl.CodeOf(err) != pawl.CodeInvalid {
		return series, err
	}
	most := slices.SortedFunc(slices.Values(queues), func(a, b queueLine) int { return cmp.Compare(b.backlog(), a.backlog()) })
	for _, line := range most[:min(len(most), pawl.MaxSeriesTypes)] {
		q.Types = append(q.Types, line.Type)
	}
	return r.Series(ctx, q)
}

func (q queueLine) backlog() int64 { return q.Queued + q.Leased + q.Waiting }

// add adds the counters to the queues, and all to the totals.
func (f *frame) add(series []pawl.QueueSeries) {
	minutes := f.WindowSeconds / 60
	all := make([]int64, len(pawl.TimingBounds)+1)
	for i := range f.Queues {
		q := &f.Queues[i]
		waits := make([]int64, len(all))
		at := slices.IndexFunc(series, func(s pawl.QueueSeries) bool { return s.Type == q.Type })
		if at >= 0 {
			for _, p := range series[at].Points {
				q.Started, q.Completed, q.Failed = q.Started+p.Claimed, q.Completed+p.Completed, q.Failed+p.Failed+p.Expired
				for b, n := range p.Wait.Buckets {
					waits[b] += n
					all[b] += n
				}
			}
		}
		q.finish(minutes, waits)
		t := &f.Totals
		t.Started, t.Completed, t.Failed = t.Started+q.Started, t.Completed+q.Completed, t.Failed+q.Failed
		t.Queued, t.Leased, t.Waiting, t.Scheduled = t.Queued+q.Queued, t.Leased+q.Leased, t.Waiting+q.Waiting, t.Scheduled+q.Scheduled
		t.OldestQueuedSeconds = max(t.OldestQueuedSeconds, q.OldestQueuedSeconds)
	}
	f.Totals.finish(minutes, all)
	if ended := f.Totals.Completed + f.Totals.Failed; ended > 0 {
		f.Totals.FailureRate = float64(f.Totals.Failed) / float64(ended)
	}
}

func (w *flow) finish(minutes float64, waits []int64) {
	w.StartedPM, w.EndedPM = float64(w.Started)/minutes, float64(w.Completed+w.Failed)/minutes
	w.WaitP95 = pawl.NewTiming(0, waits).P95
}

func (r *reader) leased(ctx context.Context, f *frame) error {
	f.Leased = []leaseLine{}
	l, err := r.ListItems(ctx, pawl.ItemFilter{
		States: []pawl.ItemState{pawl.ItemLeased, pawl.ItemInProgress},
		Fields: []string{"id", "task_id", "type", "worker_id", "attempt", "status", "progress", "stage", "lease_acquired_at", "lease_expires_at"},
		Page:   pawl.Page{Limit: maxLeased},
	})
	if err != nil {
		return err
	}
	for _, it := range l.Items {
		line := leaseLine{ItemID: it.ID, TaskID: it.TaskID, Type: it.Type, WorkerID: it.WorkerID, Attempt: it.Attempt, Status: it.Status,
			Progress: it.Progress, Stage: it.Stage, LeaseExpiresAt: it.LeaseExpiresAt}
		if it.LeaseAcquiredAt != nil {
			line.HeldSeconds = max(0, f.At.Sub(*it.LeaseAcquiredAt).Seconds())
		}
		f.Leased = append(f.Leased, line)
	}
	slices.SortStableFunc(f.Leased, func(a, b leaseLine) int { return cmp.Compare(b.HeldSeconds, a.HeldSeconds) })
	return r.titles(ctx, f.Leased)
}

// titles reads the titles of the tasks of leased items.
func (r *reader) titles(ctx context.Context, leased []leaseLine) error {
	if len(leased) == 0 {
		return nil
	}
	var ids []string
	for _, l := range leased {
		ids = append(ids, l.TaskID)
	}
	slices.Sort(ids)
	ids = slices.Compact(ids)
	l, err := r.ListTasks(ctx, pawl.TaskFilter{IDs: ids, Fields: []string{"id", "title"}, Page: pawl.Page{Limit: len(ids)}})
	for i := range leased {
		for _, t := range l.Items {
			if t.ID == leased[i].TaskID {
				leased[i].Title = t.Title
			}
		}
	}
	return err
}

// relays reads how far the relays are behind. They belong to the whole database: not every caller
// may see them.
func (r *reader) relays(ctx context.Context, f *frame) error {
	f.Relays = []pawl.Relay{}
	l, err := r.ListRelays(ctx)
	switch {
	case pawl.CodeOf(err) == pawl.CodeForbidden:
		return nil
	case err != nil:
		return err
	}
	for _, relay := range l.Items {
		f.Relays = append(f.Relays, relay)
		lag, seconds := max(relay.Lag, deref(f.Totals.RelayLagEvents)), deref(f.Totals.RelayLagSeconds)
		if relay.OldestAt != nil {
			seconds = max(seconds, f.At.Sub(*relay.OldestAt).Seconds())
		}
		f.Totals.RelayLagEvents, f.Totals.RelayLagSeconds = &lag, &seconds
	}
	return nil
}

func deref[T any](p *T) (v T) {
	if p != nil {
		v = *p
	}
	return v
}

// explain says of each type why its oldest item that is queued or waits does not go on, and of all
// types why the oldest item that is expired, failed or submitted does not. What has no worker comes
// first, then what most items wait for.
func (r *reader) explain(ctx context.Context, queues []queueLine) ([]stuckLine, error) {
	out := []stuckLine{}
	for _, c := range candidates(queues) {
		l, err := r.ListItems(ctx, c.filter)
		if err != nil {
			return nil, err
		}
		if len(l.Items) == 0 { // it went on meanwhile, or no lease has expired
			continue
		}
		why, err := r.Why(ctx, l.Items[0].ID)
		switch {
		case pawl.CodeOf(err) == pawl.CodeNotFound, err == nil && why.GoesOn():
			continue
		case err != nil:
			return nil, err
		}
		why.Command = r.command(why.Command)
		out = append(out, stuckLine{l.Items[0].Type, c.count, why})
	}
	tasks, err := r.failedTasks(ctx)
	if err != nil {
		return nil, err
	}
	out = append(out, tasks...)
	slices.SortStableFunc(out, func(a, b stuckLine) int {
		if x, y := a.Reason == pawl.BlockedByNoWorker, b.Reason == pawl.BlockedByNoWorker; x != y {
			return map[bool]int{true: -1, false: 1}[x]
		}
		return cmp.Compare(b.Count, a.Count)
	})
	return out, nil
}

// failedTasks says of the largest groups of tasks that failed without an item, as in the hook Apply, why the last one did.
func (r *reader) failedTasks(ctx context.Context) (out []stuckLine, err error) {
	l, err := r.ListFailures(ctx, pawl.FailureFilter{State: pawl.ItemFailed, Page: pawl.Page{Limit: maxStuck}})
	for _, g := range l.Items {
		if g.ItemID != "" {
			continue
		}
		why, err := r.Why(ctx, g.TaskID)
		switch {
		case pawl.CodeOf(err) == pawl.CodeNotFound, err == nil && why.GoesOn():
			continue
		case err != nil:
			return nil, err
		}
		why.Command = r.command(why.Command)
		out = append(out, stuckLine{g.Type, g.Count, why})
	}
	return out, err
}

type candidate struct {
	filter pawl.ItemFilter
	count  int64
}

// candidates returns questions for the oldest items that may be stuck, of the types with most items.
func candidates(queues []queueLine) (out []candidate) {
	one := pawl.ItemFilter{Fields: []string{"id", "type"}, Page: pawl.Page{Limit: 1}}
	add := func(typ string, state pawl.ItemState, n int64) {
		if n > 0 {
			f := one
			f.Types, f.States = []string{typ}, []pawl.ItemState{state}
			out = append(out, candidate{f, n})
		}
	}
	for _, q := range queues {
		add(q.Type, pawl.ItemQueued, q.Queued)
		add(q.Type, pawl.ItemWaiting, q.Waiting)
	}
	slices.SortStableFunc(out, func(a, b candidate) int { return cmp.Compare(b.count, a.count) })
	out = out[:min(len(out), maxStuck)]
	expired, failed, submitted := one, one, one
	expired.Statuses = []pawl.Status{pawl.StatusExpired}
	failed.States, submitted.States = []pawl.ItemState{pawl.ItemFailed}, []pawl.ItemState{pawl.ItemSubmitted}
	return append(out, candidate{filter: expired}, candidate{filter: failed}, candidate{filter: submitted})
}
