package worker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/internal/clock"
)

// verdict is what has become of a claim.
type verdict int

const (
	working   verdict = iota
	resting           // it was suspended, or is being so
	lost              // the lease is lost
	cancelled         // the item was cancelled
	returned          // its handler has returned
	abandoned         // given back while its handler runs on
)

// job is one claimed item. The crew's mu guards hold, beaten, verdict
// and pens.
type job struct {
	fence  pawl.Fence
	at     time.Time // when it was claimed, by the local clock
	ctx    context.Context
	cancel context.CancelCauseFunc

	log     *slog.Logger  // with what names the claim
	took    time.Duration // by its handler
	hold    hold
	beaten  bool // a heartbeat was sent
	verdict verdict
	pens    []*pen // of the messages that its handler wrote
}

func (w *crew) newJob(l pawl.Lease, at time.Time) *job {
	j := &job{fence: l.Fence(), at: at, hold: newHold(l, at)}
	j.log = w.log.With("item_id", l.ID, "task_id", l.TaskID, "type", l.Type, "attempt", l.Attempt)
	j.hold.allowed, j.hold.toEnd = w.o.MaxMisses, w.o.KeepTrying
	return j
}

// start runs a job's handler; the caller holds mu.
func (w *crew) start(j *job) {
	ctx, cancel := context.WithCancelCause(w.work)
	j.ctx, j.cancel = pawl.WithSession(ctx, &session{w, j}), cancel
	j.hold.due = clock.Now().Add(j.hold.first())
	w.jobs[j] = struct{}{}
	if w.wakeAt.IsZero() || j.hold.due.Before(w.wakeAt) {
		w.wakeAt = j.hold.due
		signal(w.poke)
	}
	go w.run(j, j.hold.lease)
}

// errExited is the error of a handler that ended its goroutine.
var errExited = Failed(pawl.Failure{Code: CodePanic, Message: "the handler called runtime.Goexit"})

// run does one item. Its owner is stop, which waits until jobs is empty. What
// comes after the handler is deferred: a handler may end its goroutine.
func (w *crew) run(j *job, l pawl.Lease) {
	var out json.RawMessage
	err, start := errExited, clock.Now()
	defer func() { w.ended(j, out, err, start) }()
	j.log.Info("item started")
	do, ok := w.handlers[l.Type]
	if !ok {
		do, ok = w.handlers[""]
	}
	if !ok {
		err = fmt.Errorf("no handler for type %q", l.Type)
		return
	}
	out, err = do(j.ctx, l.Input)
}

// ended hands in what a handler came to, after all that it said, then frees its
// slot.
func (w *crew) ended(j *job, out json.RawMessage, err error, start time.Time) {
	j.took = clock.Now().Sub(start)
	w.drain(j)
	w.mu.Lock()
	j.endPens(errOver)
	before := j.verdict
	if before == working {
		j.verdict = returned
		w.handing++
	}
	w.mu.Unlock()
	j.cancel(nil)
	switch before {
	case working:
		w.hand(w.outcome(j, out, err))
	case resting:
		j.log.Info("item suspended", "took", j.took)
		if !errors.Is(err, pawl.ErrSuspended) {
			j.log.Warn("the handler did not return ErrSuspended; what it returned is dropped, the item goes on later", "error", err)
		}
	}
	w.mu.Lock()
	w.measure(clock.Now().Sub(start))
	delete(w.jobs, j)
	w.fill()
	w.mu.Unlock()
	signal(w.room)
	signal(w.changed)
}

// outcome is what is handed in for a job: its result, its failure or, when it
// was cut short by the stop, its release.
func (w *crew) outcome(j *job, out json.RawMessage, err error) *handin {
	if err == nil || w.wasStopped(j, err) {
		return &handin{job: j, verb: complete, result: out}
	}
	if retryable, _ := pawl.RetryOf(err); retryable && context.Cause(w.work) != nil {
		w.mu.Lock()
		w.tally.Released++
		w.mu.Unlock()
		return &handin{job: j, verb: release}
	}
	return &handin{job: j, verb: fail, failure: failCall(j.fence, err)}
}

// lose ends a running job whose claim is over: its handler's context is
// cancelled with the cause, and nothing is handed in.
func (w *crew) lose(j *job, why error) {
	w.mu.Lock()
	if j.verdict != working {
		w.mu.Unlock()
		return
	}
	j.verdict = lost
	if errors.Is(why, pawl.ErrCancelled) {
		j.verdict = cancelled
	}
	was := j.verdict
	j.endPens(why)
	w.mu.Unlock()
	j.cancel(why)
	if was == cancelled {
		j.log.Info("item cancelled")
		return
	}
	w.tellLost(j, why)
}

// tellLost logs a lost lease and calls OnLeaseLost.
func (w *crew) tellLost(j *job, why error) {
	j.log.Warn("lease lost", "error", why)
	if w.o.OnLeaseLost == nil {
		return
	}
	w.mu.Lock()
	lease := j.hold.lease
	w.mu.Unlock()
	w.callbacks.Go(func() {
		defer func() {
			if v := recover(); v != nil {
				j.log.Error("OnLeaseLost panicked", "panic", v)
			}
		}()
		w.o.OnLeaseLost(lease, why)
	})
}

// measure moves the average of how long an item keeps its slot; the caller
// holds mu.
func (w *crew) measure(took time.Duration) {
	if w.mean == 0 {
		w.mean = max(took, 1)
		return
	}
	w.mean = max(w.mean+(took-w.mean)/8, 1)
}
