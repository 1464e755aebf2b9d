package pawl

import (
	"context"
	"errors"
	"time"
)

// Tries says how often a step tries its function within one attempt of the item; see Retried.
type Tries struct {
	Most int              // calls of the function, with the first; 0 = 3, at most MaxTries
	Base time.Duration    // before the second call; it doubles with each further one, give or take a fifth; 0 = 1 s
	Max  time.Duration    // the longest of these delays; 0 = 30 s, or Base where that is longer
	When func(error) bool // whether a call that failed with the error may be repeated; nil = always
}

// Retried returns a function of a Step that is called again when it fails, within the attempt: the
// lease is kept, the handler goes on afterwards, and no failure of the item is counted.
//
//	page, err := pawl.Step(ctx, "fetch", pawl.Retried(fetch, pawl.Tries{Most: 5}), url)
//
// Its error passes at once if it is Permanent, if it asks by RetryAfter for more than Max, or if it ends the
// attempt: the item was suspended or snoozed, the lease lost, the item cancelled, the worker stopped. So does the
// error of the last call, and that of any call once ctx has ended; the attempt then fails like any other. A
// RetryAfter of up to Max is waited for. Failed calls are not saved: an attempt after a crash has all its calls again.
// What a failed call reserved of a budget and did not settle, the next one goes on with; see Reserve.
//
// Do not write to a message inside the step: each call writes its words again.
// A MessageStep cannot be tried again like this, since what it wrote has been read; its error is ErrInvalid.
func Retried[T any](fn func(context.Context) (T, error), t Tries) func(context.Context) (T, error) {
	return func(ctx context.Context) (out T, err error) {
		if err := t.check(ctx); err != nil {
			return out, err
		}
		rewind := recount(ctx)
		for n := 1; ; n++ {
			rewind()
			out, err = fn(ctx)
			if err == nil {
				return out, nil
			}
			wait, again := t.after(n, err)
			if !again || ctx.Err() != nil {
				return out, err
			}
			timer := time.NewTimer(wait)
			select {
			case <-timer.C:
			case <-ctx.Done():
				timer.Stop()
				return out, err
			}
		}
	}
}

// messageStepKey is the context key of the name of the message's step that the caller is in.
type messageStepKey struct{}

func (t Tries) check(ctx context.Context) error {
	step, _ := ctx.Value(stepKey{}).(string)
	switch {
	case t.Most < 0 || t.Most > MaxTries:
		return Permanent(Invalid("/tries/most", "must be from 0 to %d", MaxTries))
	case t.Base < 0 || t.Max < 0:
		return Permanent(Invalid("/tries", "a delay must not be negative"))
	case step != "" && ctx.Value(messageStepKey{}) == step:
		return Permanent(stepError(step, "a step of a message cannot be tried again within the attempt; return its error"))
	}
	return nil
}

// after returns the delay after a number of failed calls, and whether there is another call.
func (t Tries) after(failed int, err error) (wait time.Duration, again bool) {
	most, wait := t.Most, t.Base
	if most == 0 {
		most = DefaultTries
	}
	if wait == 0 {
		wait = TriesBase
	}
	longest := t.Max
	if longest == 0 {
		longest = max(TriesMax, wait)
	}
	for range failed - 1 {
		wait = min(2*wait, longest)
	}
	wait = time.Duration(float64(min(wait, longest)) * Backoff{}.Jitter())
	retryable, after := RetryOf(err)
	if after != nil {
		wait = max(wait, *after)
	}
	again = failed < most && retryable && !endsAttempt(err) && (after == nil || *after <= longest) && (t.When == nil || t.When(err))
	return wait, again
}

// endsAttempt reports whether an error says that the handler has to return.
func endsAttempt(err error) bool {
	for _, end := range []error{ErrSuspended, ErrLeaseLost, ErrCancelled, ErrStopped} {
		if errors.Is(err, end) {
			return true
		}
	}
	_, snoozed := SnoozeOf(err)
	return snoozed
}
