package worker

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"strings"
	"time"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/internal/clock"
)

const (
	handInRoom  = 256           // results that wait before handlers have to
	handInBatch = pawl.MaxClaim // calls in one batch
	handInBytes = 4 << 20       // of results in one batch, at most one more
	handInCall  = 10 * time.Second
)

// handInPause is between two tries of a call of a job.
var handInPause = backoff{50 * time.Millisecond, 5 * time.Second}

// errShort is a batch that was answered in part.
var errShort = &pawl.Error{Code: pawl.CodeInternal, Message: "the batch was answered in part"}

type verb int

const (
	complete verb = iota
	submit        // where a result is to be accepted
	fail
	release
)

// handin is what a job came to, on its way.
type handin struct {
	job     *job
	verb    verb
	result  json.RawMessage
	failure pawl.FailCall
	unsure  bool // an earlier try may have been carried out
	tries   int
	next    time.Time // when to try again
}

// hand passes on what a job came to; w.handing counts it already. It waits while
// too much is waiting: results are not produced faster than they are taken.
func (w *crew) hand(h *handin) {
	select {
	case w.queue <- h:
	case <-w.calls.Done():
	}
}

// handIn hands in what handlers came to. Whatever waits goes into one call; a
// call that could not be made is made again until its lease has run out.
func (w *crew) handIn() {
	var later []*handin
	for {
		batch, rest := w.gather(later)
		if w.calls.Err() != nil {
			return
		}
		later = append(rest, w.send(batch)...)
	}
}

// gather waits for something to hand in, new or to be tried again, and takes all
// there is.
func (w *crew) gather(later []*handin) (batch, rest []*handin) {
	size := 0
	add := func(h *handin) {
		batch, size = append(batch, h), size+len(h.result)
	}
	timer := time.NewTimer(untilFirst(later))
	defer timer.Stop()
	select {
	case h := <-w.queue:
		add(h)
	case <-timer.C:
	case <-w.calls.Done():
		return nil, nil
	}
	now := clock.Now()
	for _, h := range later {
		if h.next.After(now) || len(batch) >= handInBatch || size >= handInBytes {
			rest = append(rest, h)
		} else {
			add(h)
		}
	}
	for len(batch) < handInBatch && size < handInBytes {
		select {
		case h := <-w.queue:
			add(h)
		default:
			return batch, rest
		}
	}
	return batch, rest
}

// untilFirst is how long until the first of them is to be tried again.
func untilFirst(later []*handin) time.Duration {
	wait, now := time.Hour, clock.Now()
	for _, h := range later {
		wait = min(wait, max(0, h.next.Sub(now)))
	}
	return wait
}

// send hands a batch in, verb by verb, and returns what is to be sent again.
func (w *crew) send(batch []*handin) (again []*handin) {
	by := map[verb][]*handin{}
	for _, h := range batch {
		by[h.verb] = append(by[h.verb], h)
	}
	for _, v := range []verb{complete, submit, fail, release} {
		if len(by[v]) == 0 {
			continue
		}
		errs := w.post(v, by[v])
		for i, h := range by[v] {
			if w.settle(h, errs[i]) {
				again = append(again, h)
			}
		}
	}
	return again
}

// post makes one call for many. A batch refused as a whole is sent one by one:
// one bad call must not hold up the others.
func (w *crew) post(v verb, hs []*handin) []error {
	ctx, cancel := context.WithTimeout(w.calls, handInCall)
	defer cancel()
	var errs []error
	var err error
	switch v {
	case complete:
		errs, err = answers(w.c.Complete(ctx, each(hs, func(h *handin) pawl.CompleteCall { return pawl.CompleteCall{Fence: h.job.fence, Result: h.result} })))
	case submit:
		errs, err = answers(w.c.Submit(ctx, each(hs, func(h *handin) pawl.SubmitCall { return pawl.SubmitCall{Fence: h.job.fence, Result: h.result} })))
	case fail:
		errs, err = answers(w.c.Fail(ctx, each(hs, func(h *handin) pawl.FailCall { return h.failure })))
	case release:
		errs, err = answers(w.c.Release(ctx, each(hs, func(h *handin) pawl.ReleaseCall { return pawl.ReleaseCall{Fence: h.job.fence} })))
	}
	if err == nil && len(errs) != len(hs) {
		err = errShort
	}
	if err == nil {
		return errs
	}
	errs = make([]error, len(hs))
	for i := range hs {
		if errs[i] = err; len(hs) > 1 && !passing(err) {
			errs[i] = w.post(v, hs[i:i+1])[0]
		}
	}
	return errs
}

// settle takes in the answer to one call; true when it is to be sent again.
func (w *crew) settle(h *handin, err error) (again bool) {
	j := h.job
	var e *pawl.Error
	switch code := pawl.CodeOf(err); {
	case err == nil:
		h.logTaken()
	case passing(err):
		if h.unsure, h.tries = true, h.tries+1; w.held(j) {
			h.next = clock.Now().Add(handInPause.after(h.tries, err))
			return true
		}
		w.tellLost(j, &pawl.Error{Code: pawl.CodeLeaseLost, Op: "hand in", Reason: pawl.ReasonExpired, Message: "the lease ran out before the result could be handed in", Err: err})
	case h.verb <= submit && (code == pawl.CodeInvalid || code == pawl.CodeTooLarge):
		message := "the result was refused: " + reasons(err)
		j.log.Warn("the result was refused, and its item fails", "error", message)
		return w.failInstead(h, CodeInvalidResult, message)
	case h.verb == complete && code == pawl.CodeConflict && errors.As(err, &e) && pawl.ItemState(e.State).Leased():
		h.verb, h.next = submit, time.Time{} // the only verb that the state of a lease forbids: its type wants results accepted
		return true
	case code == pawl.CodeConflict: // cancelled meanwhile, or an earlier try was carried out
		j.log.Debug("the item had ended", "error", err)
	case h.unsure && h.verb > submit && code == pawl.CodeLeaseLost:
		j.log.Debug("an earlier try was carried out", "error", err)
	case loss(err) != nil:
		w.tellLost(j, loss(err))
	default:
		j.log.Error("what the handler came to was refused", "error", err)
	}
	w.mu.Lock()
	w.handing--
	w.mu.Unlock()
	signal(w.changed)
	return false
}

// logTaken logs what was handed in and taken.
func (h *handin) logTaken() {
	log := h.job.log.With("took", h.job.took)
	switch h.verb {
	case complete:
		log.Info("item done")
	case submit:
		log.Info("item submitted")
	case release:
		log.Info("item released")
	case fail:
		log.Warn("item failed", "error", h.failure.Error.Message, "code", h.failure.Error.Code, "retryable", h.failure.Retryable == nil || *h.failure.Retryable)
	}
}

// reasons is a refusal in short: what is wrong where, or what it says.
func reasons(err error) string {
	var e *pawl.Error
	if !errors.As(err, &e) {
		return err.Error()
	}
	out := make([]string, len(e.Fields))
	for i, f := range e.Fields {
		out[i] = f.Pointer + ": " + f.Message
	}
	if len(out) == 0 {
		return cmp.Or(e.Message, e.Code.Info().Means)
	}
	return strings.Join(out, "; ")
}

// failInstead makes a refused result a final failure that says why.
func (w *crew) failInstead(h *handin, code, message string) bool {
	h.verb, h.result, h.unsure, h.next = fail, nil, false, time.Time{}
	h.failure = failCall(h.job.fence, pawl.Permanent(Failed(pawl.Failure{Code: code, Message: message})))
	return true
}

// held says whether the job's lease may still hold.
func (w *crew) held(j *job) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	over := j.verdict == lost || j.verdict == cancelled || j.verdict == abandoned
	return !over && clock.Now().Before(j.hold.end)
}

func each[C any](hs []*handin, call func(*handin) C) []C {
	out := make([]C, len(hs))
	for i, h := range hs {
		out[i] = call(h)
	}
	return out
}

// answers keeps of a batch's answers what went wrong.
func answers[R any](rs []pawl.Result[R], err error) ([]error, error) {
	errs := make([]error, len(rs))
	for i, r := range rs {
		errs[i] = r.Err
	}
	return errs, err
}

// retryAfter is how long an error asks to wait.
func retryAfter(err error) time.Duration {
	var e *pawl.Error
	if errors.As(err, &e) {
		return e.RetryAfter
	}
	return 0
}
