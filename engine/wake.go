package engine

import (
	"context"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/store"
)

// wakeAfter goes on, after the commit, with signals that were sent to more items than one transaction queues. What it
// leaves is done by advanceAll.
func (e *Engine) wakeAfter(ctx context.Context) {
	if e.scope != nil {
		e.after(func() { e.root.wakeAfter(ctx) })
		return
	}
	if err := e.wakeRest(store.WithLockWait(context.WithoutCancel(ctx), lockedRow)); err != nil {
		e.leftAside(ctx, "items that wait for a signal are queued by the next pass", err)
	}
}

// wakeRest queues the items of all signals that have some left to queue, each batch in a transaction of its own.
func (e *Engine) wakeRest(ctx context.Context) error {
	var s store.Signal
	for {
		after, found := s, false
		err := e.k.Look(ctx, func(ctx context.Context, tx store.Tx) (err error) {
			s, found, err = after.NextToWake(ctx, tx)
			return err
		})
		if err != nil || !found || e.acts(ctx, "signal") != nil {
			return err
		}
		err = e.wakeAll(pawl.As(ctx, pawl.Caller{Namespace: s.Namespace}), s)
		if err != nil && stopsAll(ctx, err) {
			return err
		}
		if err != nil {
			e.leftAside(ctx, "items that wait for a signal are queued by the next pass", err, "signal", s.Name)
		}
	}
}

func (e *Engine) wakeAll(ctx context.Context, s store.Signal) error {
	for more := true; more; {
		var woken []store.DueItem
		err := e.db.Do(ctx, func(ctx context.Context, tx store.Tx) (err error) {
			woken, more, err = s.WakeRest(ctx, tx)
			return err
		})
		if err != nil {
			return err
		}
		e.itemsQueued(woken)
	}
	return nil
}
