package worker

import (
	"context"
	"time"

	"github.com/pawl-work/pawl"
)

// reportTries is how often a report about an effect is sent at most when the lease is over.
const reportTries = 8

// longestWait is the longest Retry-After that a report waits for: its handler waits with it.
const longestWait = 2 * time.Minute

// OpenEffect implements pawl.EffectSession. It is sent once: the answer to a repetition would not say that
// the handler is to send.
func (s *session) OpenEffect(ctx context.Context, call pawl.OpenEffectCall) (pawl.OpenedEffect, error) {
	call.ItemID, call.WorkerID, call.Attempt = s.j.fence.ItemID, s.j.fence.WorkerID, s.j.fence.Attempt
	return s.w.claimer.OpenEffect(ctx, call)
}

// EffectDone implements pawl.EffectSession.
func (s *session) EffectDone(ctx context.Context, id string, call pawl.EffectDoneCall) (out pawl.EffectRecord, err error) {
	call.ItemID, call.WorkerID, call.Attempt = s.j.fence.ItemID, s.j.fence.WorkerID, s.j.fence.Attempt
	return out, s.report(ctx, func(ctx context.Context) (err error) {
		out, err = s.w.claimer.EffectDone(ctx, id, call)
		return err
	})
}

// EffectFailed implements pawl.EffectSession.
func (s *session) EffectFailed(ctx context.Context, id string, call pawl.EffectFailedCall) (out pawl.EffectRecord, err error) {
	call.ItemID, call.WorkerID, call.Attempt = s.j.fence.ItemID, s.j.fence.WorkerID, s.j.fence.Attempt
	return out, s.report(ctx, func(ctx context.Context) (err error) {
		out, err = s.w.claimer.EffectFailed(ctx, id, call)
		return err
	})
}

// EffectUnknown implements pawl.EffectSession.
func (s *session) EffectUnknown(ctx context.Context, id string, call pawl.EffectUnknownCall) (out pawl.EffectRecord, err error) {
	call.ItemID, call.WorkerID, call.Attempt = s.j.fence.ItemID, s.j.fence.WorkerID, s.j.fence.Attempt
	return out, s.report(ctx, func(ctx context.Context) (err error) {
		out, err = s.w.claimer.EffectUnknown(ctx, id, call)
		return err
	})
}

// report sends a report about an effect while the lease may be valid, and some times when it is over: it is never
// refused for that. That of a probe names no sending: all tries have one idempotency key, so that one that comes late
// is not about a later sending.
func (s *session) report(ctx context.Context, do func(context.Context) error) (err error) {
	ctx = pawl.OneCall(ctx)
	for n := 1; n <= reportTries || s.w.mayHold(s.j); n++ {
		err = withTimeout(ctx, callTimeout, do)
		if err == nil || !isTransient(err) || retryAfter(err) > longestWait || !sleep(ctx, retryBackoff.after(n, err)) {
			break
		}
	}
	return err
}
