package worker

import (
	"context"

	"github.com/pawl-work/pawl"
)

// reportTries is how often a report about an effect is sent at most.
const reportTries = 8

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

// report sends a report about an effect, also when the lease is over: it is never refused for that.
func (s *session) report(ctx context.Context, do func(context.Context) error) (err error) {
	for n := 1; n <= reportTries; n++ {
		if err = withTimeout(ctx, callTimeout, do); err == nil || !isTransient(err) || !sleep(ctx, retryBackoff.after(n, err)) {
			break
		}
	}
	return err
}
