package worker

import (
	"context"
	"time"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/internal/clock"
)

// A heartbeat call that hangs counts as failed before the next one is due.
const (
	minHeartbeatTimeout = 500 * time.Millisecond
	maxHeartbeatTimeout = 10 * time.Second
)

// heartbeatLoop keeps the leases of all running handlers alive. It sleeps until the
// earliest heartbeat is due and sends it in one call with all that are due soon.
func (w *runner) heartbeatLoop() {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-w.callCtx.Done():
			return
		case <-w.wakeHeartbeat:
		case <-timer.C:
		}
		due, next := w.dueHeartbeats(clock.Now())
		for len(due) > 0 {
			n := min(len(due), pawl.MaxClaim)
			w.sendHeartbeats(due[:n])
			due = due[n:]
			next = clock.Now() // the answers changed what is due: look again
		}
		if !next.IsZero() {
			timer.Reset(max(0, next.Sub(clock.Now())))
		}
	}
}

// dueHeartbeats lists the jobs whose heartbeat is due, or due soon if any is due, and
// when the next one is due.
func (w *runner) dueHeartbeats(now time.Time) (due []*job, next time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	any := false
	for j := range w.jobs {
		if j.state != jobRunning {
			continue
		}
		if !now.Before(j.lease.nextDue) {
			any = true
		}
		if j.lease.dueSoon(now, j.heartbeatSent) {
			due = append(due, j)
		}
		if next.IsZero() || j.lease.nextDue.Before(next) {
			next = j.lease.nextDue
		}
	}
	w.wakeAt = next
	if !any {
		return nil, next
	}
	return due, next
}

// sendHeartbeats sends one heartbeat call and handles its answers.
func (w *runner) sendHeartbeats(due []*job) {
	limit := maxHeartbeatTimeout
	calls := make([]pawl.HeartbeatCall, len(due))
	for i, j := range due {
		calls[i] = pawl.HeartbeatCall{Fence: j.fence}
		limit = min(limit, max(j.lease.interval, minHeartbeatTimeout)) // every never changes
	}
	ctx, cancel := context.WithTimeout(w.callCtx, limit)
	defer cancel()
	sent := clock.Now()
	answers, err := w.claimer.Heartbeat(ctx, calls)
	got := clock.Now()
	if w.callCtx.Err() != nil {
		return // stopped: a missing answer is not a failure
	}
	for i, j := range due {
		var a pawl.Result[pawl.Beat]
		switch {
		case err != nil:
			a.Err = err
		case i < len(answers):
			a = answers[i]
		default:
			a.Err = errPartialAnswer
		}
		w.mu.Lock()
		var gone error
		if j.state == jobRunning {
			j.heartbeatSent = true
			gone = j.lease.apply(sent, got, a.Value, a.Err)
			j.stopMessages(a.Value.Stopped)
		}
		missed := j.lease.misses
		w.mu.Unlock()
		switch {
		case gone != nil:
			w.endClaim(j, gone)
		case a.Err != nil && missed > 0:
			j.log.Warn("heartbeat failed", "in_a_row", missed, "error", a.Err)
		}
	}
}
