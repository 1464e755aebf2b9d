package engine

import (
	"context"
	"slices"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/engine/internal/kernel"
	"github.com/pawl-work/pawl/store"
)

// childrenTogether is how many children are cancelled, or removed, in one transaction.
const childrenTogether = 100

// cancelTogether cancels those of some children that are tasks of one item with nothing beside it,
// in one transaction, and returns the others. It waits for no lock for long: if another transaction
// has one, all are cancelled one by one.
func (e *Engine) cancelTogether(ctx context.Context, ids []string, reason string) (rest []string, err error) {
	c := pawl.CallerOf(ctx)
	done, err := change(store.WithLockWait(ctx, lockedRow), e, func(ctx context.Context, tx store.Tx) (store.PlainApplied, effects, error) {
		var done store.PlainApplied
		held, err := store.LockTasks(ctx, tx, c.Namespace, ids)
		if err != nil || len(held) == 0 {
			return done, effects{}, err
		}
		now, err := store.NowAgain(ctx, tx)
		if err != nil {
			return done, effects{}, err
		}
		done, err = store.ApplyToPlain(ctx, tx, now, store.Change{Namespace: c.Namespace, Verb: "cancel", Actor: actor(c, pawl.ActorUser, ""),
			Reason: store.Text(reason), Data: e.origin.Data()}, held)
		return done, effects{queued: done.Released, children: done.Children}, err
	})
	if err != nil {
		if kernel.StopsAll(ctx, err) {
			return nil, err
		}
		return ids, nil
	}
	return slices.DeleteFunc(slices.Clone(ids), func(id string) bool { _, plain := done.Tasks[id]; return plain }), nil
}
