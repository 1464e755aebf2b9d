package worker

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/internal/clock"
)

const (
	resultQueueSize = 256           // results in the queue before handlers block
	maxResultBatch  = pawl.MaxClaim // calls in one batch
	maxBatchBytes   = 4 << 20       // size of a batch; the last result may exceed it
	callTimeout     = 10 * time.Second
)

// retryBackoff is the pause between two tries of a call of a job.
var retryBackoff = backoff{50 * time.Millisecond, 5 * time.Second}

// errPartialAnswer means that a batch got fewer answers than it had calls.
var errPartialAnswer = &pawl.Error{Code: pawl.CodeInternal, Message: "the service answered only a part of the batch"}

type verb int

const (
	complete verb = iota
	submit        // for types whose results need acceptance
	fail
	release
)

// result is the outcome of a job that is to be reported.
type result struct {
	job       *job
	verb      verb
	payload   json.RawMessage
	failure   pawl.FailCall
	delay     int  // of a release, in seconds
	maybeDone bool // an earlier try may have succeeded
	tries     int
	retryAt   time.Time // when to try again
}

// enqueueResult passes a result to resultLoop; w.pendingResults counts it already.
// It blocks while the queue is full, which slows the handlers down.
func (w *runner) enqueueResult(h *result) {
	select {
	case w.results <- h:
	case <-w.callCtx.Done():
	}
}

// resultLoop reports the handlers' results. All queued results go into one call. A
// call that fails is retried until the lease has expired.
func (w *runner) resultLoop() {
	var later []*result
	for {
		batch, rest := w.nextBatch(later)
		if w.callCtx.Err() != nil {
			return
		}
		later = append(rest, w.sendBatch(batch)...)
	}
}

// nextBatch waits for a result, new or due for a retry, and takes all that there are.
func (w *runner) nextBatch(later []*result) (batch, rest []*result) {
	size := 0
	add := func(h *result) {
		batch, size = append(batch, h), size+len(h.payload)
	}
	timer := time.NewTimer(untilRetry(later))
	defer timer.Stop()
	select {
	case h := <-w.results:
		add(h)
	case <-timer.C:
	case <-w.callCtx.Done():
		return nil, nil
	}
	now := clock.Now()
	for _, h := range later {
		if h.retryAt.After(now) || len(batch) >= maxResultBatch || size >= maxBatchBytes {
			rest = append(rest, h)
		} else {
			add(h)
		}
	}
	for len(batch) < maxResultBatch && size < maxBatchBytes {
		select {
		case h := <-w.results:
			add(h)
		default:
			return batch, rest
		}
	}
	return batch, rest
}

// untilRetry is how long until the first result is due for a retry.
func untilRetry(later []*result) time.Duration {
	wait, now := time.Hour, clock.Now()
	for _, h := range later {
		wait = min(wait, max(0, h.retryAt.Sub(now)))
	}
	return wait
}

// sendBatch reports a batch, verb by verb, and returns the results to send again.
func (w *runner) sendBatch(batch []*result) (again []*result) {
	by := map[verb][]*result{}
	for _, h := range batch {
		by[h.verb] = append(by[h.verb], h)
	}
	for _, v := range []verb{complete, submit, fail, release} {
		if len(by[v]) == 0 {
			continue
		}
		errs := w.call(v, by[v])
		for i, h := range by[v] {
			if w.handleAnswer(h, errs[i]) {
				again = append(again, h)
			}
		}
	}
	return again
}

// call reports many results in one call. When the whole batch is refused, it sends
// the results one by one, so that one bad result does not block the others.
func (w *runner) call(v verb, hs []*result) []error {
	ctx, cancel := context.WithTimeout(w.callContext(hs), callTimeout)
	defer cancel()
	var errs []error
	var err error
	switch v {
	case complete:
		errs, err = errorsOf(
			w.claimer.Complete(
				ctx,
				mapResults(hs, func(h *result) pawl.CompleteCall { return pawl.CompleteCall{Fence: h.job.fence, Result: h.payload} }),
			),
		)
	case submit:
		errs, err = errorsOf(
			w.claimer.Submit(ctx, mapResults(hs, func(h *result) pawl.SubmitCall { return pawl.SubmitCall{Fence: h.job.fence, Result: h.payload} })),
		)
	case fail:
		errs, err = errorsOf(w.claimer.Fail(ctx, mapResults(hs, func(h *result) pawl.FailCall { return h.failure })))
	case release:
		errs, err = errorsOf(
			w.claimer.Release(ctx, mapResults(hs, func(h *result) pawl.ReleaseCall {
				return pawl.ReleaseCall{Fence: h.job.fence, DelaySeconds: h.delay}
			})),
		)
	}
	if err == nil && len(errs) != len(hs) {
		err = errPartialAnswer
	}
	if err == nil {
		return errs
	}
	errs = make([]error, len(hs))
	for i := range hs {
		if errs[i] = err; len(hs) > 1 && !isTransient(err) {
			errs[i] = w.call(v, hs[i:i+1])[0]
		}
	}
	return errs
}

// handleAnswer handles the answer to one result; true means send it again.
func (w *runner) handleAnswer(h *result, err error) (again bool) {
	j := h.job
	var e *pawl.Error
	switch code := pawl.CodeOf(err); {
	case err == nil:
		h.logAccepted()
	case isTransient(err):
		if h.maybeDone, h.tries = true, h.tries+1; w.mayHold(j) {
			h.retryAt = clock.Now().Add(retryBackoff.after(h.tries, err))
			return true
		}
		w.reportLost(
			j,
			&pawl.Error{
				Code:    pawl.CodeLeaseLost,
				Op:      "report result",
				Reason:  pawl.ReasonExpired,
				Message: "the lease expired before the result was reported",
				Err:     err,
			},
		)
	case h.verb <= submit && (code == pawl.CodeInvalid || code == pawl.CodeTooLarge):
		failure := pawl.FailureOf(err)
		failure.Code, failure.Message = CodeInvalidResult, "the result was refused: "+failure.Message
		j.log.Warn("the result was refused, and its item fails", "error", failure.Message)
		return h.failInstead(pawl.Permanent(Failed(failure)))
	case h.verb <= submit && code == pawl.CodeConflict && errors.As(err, &e) && e.Reason == pawl.ReasonEffectOpen:
		j.log.Warn("the result was refused, and its attempt fails", "error", err)
		return h.failInstead(err) // which makes the effect unknown: the next attempt decides about it
	case h.verb == complete && code == pawl.CodeConflict && errors.As(err, &e) && pawl.ItemState(e.State).Leased():
		h.verb, h.retryAt = submit, time.Time{} // a lease forbids complete only if the type's results need acceptance
		return true
	case code == pawl.CodeConflict: // cancelled meanwhile, or an earlier try succeeded
		j.log.Debug("the item had already ended", "error", err)
	case h.maybeDone && h.verb > submit && code == pawl.CodeLeaseLost:
		j.log.Debug("the lease is gone; an earlier try probably succeeded", "error", err)
	case claimLoss(err) != nil:
		w.reportLost(j, claimLoss(err))
	default:
		j.log.Error("the service refused the outcome of the handler", "error", err)
	}
	w.mu.Lock()
	w.pendingResults--
	w.mu.Unlock()
	signal(w.jobEnded)
	return false
}

// logAccepted logs a result that was accepted.
func (h *result) logAccepted() {
	log := h.job.log.With("took", h.job.took)
	switch h.verb {
	case complete:
		log.Info("item done")
	case submit:
		log.Info("item submitted")
	case release:
		log.Info("item released")
	case fail:
		log.Warn(
			"item failed",
			"error",
			h.failure.Error.Message,
			"code",
			h.failure.Error.Code,
			"retryable",
			h.failure.Retryable == nil || *h.failure.Retryable,
		)
	}
}

// failInstead turns a refused result into a failure with an error; it is to be sent again.
func (h *result) failInstead(err error) (again bool) {
	h.verb, h.payload, h.maybeDone, h.retryAt = fail, nil, false, time.Time{}
	h.failure = failCall(h.job.fence, err)
	return true
}

// mayHold reports whether the job's lease may still be valid.
func (w *runner) mayHold(j *job) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	over := j.state == jobLost || j.state == jobCancelled || j.state == jobAbandoned
	return !over && clock.Now().Before(j.lease.expiresAt)
}

func mapResults[C any](hs []*result, call func(*result) C) []C {
	out := make([]C, len(hs))
	for i, h := range hs {
		out[i] = call(h)
	}
	return out
}

// errorsOf returns the errors of a batch's answers.
func errorsOf[R any](rs []pawl.Result[R], err error) ([]error, error) {
	errs := make([]error, len(rs))
	for i, r := range rs {
		errs[i] = r.Err
	}
	return errs, err
}

// retryAfter is the error's RetryAfter.
func retryAfter(err error) time.Duration {
	var e *pawl.Error
	if errors.As(err, &e) {
		return e.RetryAfter
	}
	return 0
}
