package rabbitmq

import (
	"context"
	"errors"
	"time"

	"github.com/pawl-work/pawl"
)

// settleEnded settles the messages of calls that ended their attempt: calls that succeeded,
// and calls that were refused permanently.
func settleEnded[C, V any](
	ctx context.Context,
	d *driven,
	calls []C,
	fence func(C) pawl.Fence,
	pause time.Duration,
	rs []pawl.Result[V],
	err error,
) ([]pawl.Result[V], error) {
	if err != nil {
		return rs, err
	}
	for i, r := range rs {
		if r.Err == nil || errors.Is(r.Err, pawl.ErrLeaseLost) || errors.Is(r.Err, pawl.ErrConflict) || errors.Is(r.Err, pawl.ErrNotFound) {
			d.settleAttempt(ctx, fence(calls[i]), pause)
		}
	}
	return rs, nil
}

// Complete implements pawl.Finisher.
func (d *driven) Complete(ctx context.Context, calls []pawl.CompleteCall) ([]pawl.Result[pawl.Moved], error) {
	rs, err := d.Service.Complete(ctx, calls)
	return settleEnded(ctx, d, calls, func(c pawl.CompleteCall) pawl.Fence { return c.Fence }, 0, rs, err)
}

// Fail implements pawl.Finisher.
func (d *driven) Fail(ctx context.Context, calls []pawl.FailCall) ([]pawl.Result[pawl.Moved], error) {
	rs, err := d.Service.Fail(ctx, calls)
	return settleEnded(ctx, d, calls, func(c pawl.FailCall) pawl.Fence { return c.Fence }, d.o.Pause, rs, err)
}

// Release implements pawl.Leaser.
func (d *driven) Release(ctx context.Context, calls []pawl.ReleaseCall) ([]pawl.Result[pawl.Moved], error) {
	rs, err := d.Service.Release(ctx, calls)
	return settleEnded(ctx, d, calls, func(c pawl.ReleaseCall) pawl.Fence { return c.Fence }, 0, rs, err)
}

// Suspend implements pawl.Leaser.
func (d *driven) Suspend(ctx context.Context, calls []pawl.SuspendCall) ([]pawl.Result[pawl.Moved], error) {
	rs, err := d.Service.Suspend(ctx, calls)
	return settleEnded(ctx, d, calls, func(c pawl.SuspendCall) pawl.Fence { return c.Fence }, d.o.Pause, rs, err)
}

// Heartbeat implements pawl.Leaser. A lost lease or a cancelled item ends the attempt
// too.
func (d *driven) Heartbeat(ctx context.Context, calls []pawl.HeartbeatCall) ([]pawl.Result[pawl.Beat], error) {
	rs, err := d.Service.Heartbeat(ctx, calls)
	for i, r := range rs {
		if err == nil && (r.Value.Cancelled || errors.Is(r.Err, pawl.ErrLeaseLost) || errors.Is(r.Err, pawl.ErrNotFound)) {
			d.settleAttempt(ctx, calls[i].Fence, d.o.Pause)
		}
	}
	return rs, err
}
