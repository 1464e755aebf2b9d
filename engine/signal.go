package engine

import (
	"context"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/engine/internal/rules"
	"github.com/pawl-work/pawl/store"
)

// SendSignals sends signals; see pawl.Signaller.
func (e *Engine) SendSignals(ctx context.Context, calls []pawl.SignalCall) ([]pawl.Result[pawl.Signalled], error) {
	if err := e.acts(ctx, "signal"); err != nil {
		return nil, err
	}
	if err := rules.CheckBatch("signal", len(calls)); err != nil {
		return nil, err
	}
	out := make([]pawl.Result[pawl.Signalled], len(calls))
	for i := range calls {
		out[i].Value, out[i].Err = e.sendSignal(ctx, &calls[i])
	}
	return out, nil
}

func (e *Engine) sendSignal(ctx context.Context, call *pawl.SignalCall) (pawl.Signalled, error) {
	if err := checkSignal(call); err != nil {
		return pawl.Signalled{}, err
	}
	c := pawl.CallerOf(ctx)
	by := actor(c, pawl.ActorUser, "")
	sent, err := change(ctx, e, func(ctx context.Context, tx store.Tx) (store.Sent, effects, error) {
		if used := blobsIn(call.Payload); len(used) > 0 {
			now, err := tx.Now(ctx)
			if err == nil {
				err = useIn(ctx, tx, now, "signal", used)
			}
			if err != nil {
				return store.Sent{}, effects{}, err
			}
		}
		sent, err := store.SendSignal(ctx, tx, store.Signal{Namespace: c.Namespace, Name: call.Name, Key: call.Key},
			rules.OrNull(call.Payload), by)
		return sent, effects{queued: sent.Woken, waking: sent.Left > 0}, err
	})
	if err != nil {
		return pawl.Signalled{}, err
	}
	return pawl.Signalled{Name: call.Name, Key: call.Key, SentAt: stamp(sent.At), Woken: len(sent.Woken) + sent.Left,
		Replaced: sent.Before}, nil
}
