package worker

import (
	"context"
	"time"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/internal/clock"
)

// A heartbeat call that hangs counts as failed before the next one is due.
const (
	shortestBeatCall = 500 * time.Millisecond
	longestBeatCall  = 10 * time.Second
)

// pulse keeps the leases of all running handlers: it sleeps until the earliest
// heartbeat is due and sends it with all that fall together with it.
func (w *crew) pulse() {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-w.calls.Done():
			return
		case <-w.poke:
		case <-timer.C:
		}
		due, next := w.dueBeats(clock.Now())
		for len(due) > 0 {
			n := min(len(due), pawl.MaxClaim)
			w.beat(due[:n])
			due = due[n:]
			next = clock.Now() // the answers have moved what is due: look again
		}
		if !next.IsZero() {
			timer.Reset(max(0, next.Sub(clock.Now())))
		}
	}
}

// dueBeats lists whose heartbeat is due, or near enough to go along, and when
// the next one is.
func (w *crew) dueBeats(now time.Time) (due []*job, next time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	any := false
	for j := range w.jobs {
		if j.verdict != working {
			continue
		}
		if !now.Before(j.hold.due) {
			any = true
		}
		if j.hold.near(now, j.beaten) {
			due = append(due, j)
		}
		if next.IsZero() || j.hold.due.Before(next) {
			next = j.hold.due
		}
	}
	w.wakeAt = next
	if !any {
		return nil, next
	}
	return due, next
}

// beat sends one heartbeat call and acts on its answers.
func (w *crew) beat(due []*job) {
	limit := longestBeatCall
	calls := make([]pawl.HeartbeatCall, len(due))
	for i, j := range due {
		calls[i] = pawl.HeartbeatCall{Fence: j.fence}
		limit = min(limit, max(j.hold.every, shortestBeatCall)) // every never changes
	}
	ctx, cancel := context.WithTimeout(w.calls, limit)
	defer cancel()
	sent := clock.Now()
	answers, err := w.c.Heartbeat(ctx, calls)
	got := clock.Now()
	if w.calls.Err() != nil {
		return // stopped: no answer is no failure
	}
	for i, j := range due {
		var a pawl.Result[pawl.Beat]
		switch {
		case err != nil:
			a.Err = err
		case i < len(answers):
			a = answers[i]
		default:
			a.Err = errShort
		}
		w.mu.Lock()
		var gone error
		if j.verdict == working {
			j.beaten = true
			gone = j.hold.answer(sent, got, a.Value, a.Err)
			j.stopMessages(a.Value.Stopped)
		}
		missed := j.hold.misses
		w.mu.Unlock()
		switch {
		case gone != nil:
			w.lose(j, gone)
		case a.Err != nil && missed > 0:
			j.log.Warn("heartbeat failed", "in_a_row", missed, "error", a.Err)
		}
	}
}
