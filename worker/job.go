package worker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"go.opentelemetry.io/otel/trace"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/internal/clock"
)

// jobState is the state of a claim in this worker.
type jobState int

const (
	jobRunning   jobState = iota
	jobSuspended          // suspended, or being suspended
	jobLost               // the lease is lost
	jobCancelled          // the item was cancelled
	jobReturned           // the handler has returned
	jobAbandoned          // released while the handler still runs
)

// job is one claimed item. The runner's mu guards lease, heartbeatSent, state and
// writers.
type job struct {
	fence     pawl.Fence
	claimedAt time.Time // by the local clock
	ctx       context.Context
	cancel    context.CancelCauseFunc

	span          trace.Span    // nil = none
	log           *slog.Logger  // logs with the ids of the claim
	took          time.Duration // how long the handler ran
	lease         leaseState
	heartbeatSent bool // a heartbeat was sent
	state         jobState
	writers       []*messageWriter // of the messages that the handler wrote
}

func (w *runner) newJob(l pawl.Lease, at time.Time) *job {
	j := &job{fence: l.Fence(), claimedAt: at, lease: newLeaseState(l, at)}
	j.log = w.log.With("item_id", l.ID, "task_id", l.TaskID, "type", l.Type, "attempt", l.Attempt)
	j.lease.maxMisses, j.lease.keepTrying = w.opts.MaxMisses, w.opts.KeepTrying
	return j
}

// start starts a job's handler. The caller holds mu.
func (w *runner) start(j *job) {
	ctx, cancel := context.WithCancelCause(w.workCtx)
	j.ctx, j.cancel = pawl.WithSession(ctx, w.newSession(j)), cancel
	j.lease.nextDue = clock.Now().Add(j.lease.firstAfter())
	w.jobs[j] = struct{}{}
	if w.wakeAt.IsZero() || j.lease.nextDue.Before(w.wakeAt) {
		w.wakeAt = j.lease.nextDue
		signal(w.wakeHeartbeat)
	}
	go w.run(j, j.lease.lease)
}

// errExited is the error of a handler that called runtime.Goexit.
var errExited = Failed(pawl.Failure{Code: CodePanic, Message: "the handler called runtime.Goexit"})

// run runs the handler of one item. stop waits for it, until jobs is empty. finish
// is deferred because a handler may call runtime.Goexit.
func (w *runner) run(j *job, l pawl.Lease) {
	var out json.RawMessage
	err, start := errExited, clock.Now()
	defer func() { w.finish(j, out, err, start) }()
	w.trace(j, l)
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

// finish sends the handler's messages, reports its result and frees its slot.
func (w *runner) finish(j *job, out json.RawMessage, err error, start time.Time) {
	j.took = clock.Now().Sub(start)
	if refused := w.drain(j); err == nil {
		err = refused
	}
	w.mu.Lock()
	j.endWriters(errClaimOver)
	before := j.state
	if before == jobRunning {
		j.state = jobReturned
		w.pendingResults++
	}
	w.mu.Unlock()
	j.cancel(nil)
	var reported *result
	if before == jobRunning {
		reported = w.outcome(j, out, err)
	}
	j.endSpan(before, reported, err)
	switch before {
	case jobRunning:
		w.enqueueResult(reported)
	case jobSuspended:
		j.log.Info("item suspended", "took", j.took)
		if !errors.Is(err, pawl.ErrSuspended) {
			j.log.Warn("the handler suspended the item but did not return ErrSuspended; its return value is dropped", "error", err)
		}
	}
	w.mu.Lock()
	w.updateMean(clock.Now().Sub(start))
	delete(w.jobs, j)
	w.startPrefetched()
	w.mu.Unlock()
	signal(w.slotFreed)
	signal(w.jobEnded)
}

// outcome is what is reported for a job: a result, a failure or, when the handler
// snoozed or the stop cancelled it, a release.
func (w *runner) outcome(j *job, out json.RawMessage, err error) *result {
	if err == nil || w.wasStopped(j, err) {
		return &result{job: j, verb: complete, payload: out}
	}
	if seconds, snoozed := pawl.SnoozeOf(err); snoozed {
		return &result{job: j, verb: release, delay: seconds}
	}
	if retryable, _ := pawl.RetryOf(err); retryable && context.Cause(w.workCtx) != nil {
		w.mu.Lock()
		w.stopped.Released++
		w.mu.Unlock()
		return &result{job: j, verb: release}
	}
	return &result{job: j, verb: fail, failure: failCall(j.fence, err)}
}

// endClaim ends a running job whose claim is over: the handler's context is cancelled
// with the cause, and nothing is reported.
func (w *runner) endClaim(j *job, why error) {
	w.mu.Lock()
	if j.state != jobRunning {
		w.mu.Unlock()
		return
	}
	j.state = jobLost
	if errors.Is(why, pawl.ErrCancelled) {
		j.state = jobCancelled
	}
	was := j.state
	j.endWriters(why)
	w.mu.Unlock()
	j.cancel(why)
	if was == jobCancelled {
		j.log.Info("item cancelled")
		return
	}
	w.reportLost(j, why)
}

// reportLost logs a lost lease and calls OnLeaseLost.
func (w *runner) reportLost(j *job, why error) {
	j.log.Warn("lease lost", "error", why)
	if w.opts.OnLeaseLost == nil {
		return
	}
	w.mu.Lock()
	lease := j.lease.lease
	w.mu.Unlock()
	w.callbacks.Go(func() {
		defer func() {
			if v := recover(); v != nil {
				j.log.Error("OnLeaseLost panicked", "panic", v)
			}
		}()
		w.opts.OnLeaseLost(lease, why)
	})
}

// updateMean updates the moving average of how long an item occupies a slot. The
// caller holds mu.
func (w *runner) updateMean(took time.Duration) {
	if w.meanTime == 0 {
		w.meanTime = max(took, 1)
		return
	}
	w.meanTime = max(w.meanTime+(took-w.meanTime)/8, 1)
}
