package engine

import (
	"context"
	"fmt"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/engine/internal/rules"
	"github.com/pawl-work/pawl/internal/idform"
	"github.com/pawl-work/pawl/store"
)

// revokeBatch is how many leases of a revoked key end in one transaction.
const revokeBatch = 1000

// RevokeLeases ends leases; see pawl.LeaseKeeper.
func (e *Engine) RevokeLeases(ctx context.Context, calls []pawl.RevokeCall) ([]pawl.Result[pawl.Moved], error) {
	calls = idform.Calls(calls)
	return each(ctx, "revoke_lease", calls, e.revokeLease)
}

func (e *Engine) revokeLease(ctx context.Context, c *pawl.RevokeCall) (out pawl.Moved, err error) {
	const op = "revoke_lease"
	if err := checkRevoke(c); err != nil {
		return out, err
	}
	out, err = change(ctx, e, func(ctx context.Context, tx store.Tx) (out pawl.Moved, then effects, err error) {
		caller := pawl.CallerOf(ctx)
		attempt, worker, item, live, err := store.LiveLease(ctx, tx, caller.Namespace, c.ItemID)
		switch {
		case err != nil:
			return out, then, err
		case !live:
			return out, then, notLeased(ctx, tx, caller.Namespace, c.ItemID)
		case c.Attempt > 0 && c.Attempt != attempt:
			return out, then, &pawl.Error{Code: pawl.CodeConflict, Op: op, State: string(pawl.ItemLeased), Allowed: pawl.ItemLeased.Allowed(),
				Holder: worker, Attempt: attempt,
				Message: fmt.Sprintf("attempt %d of worker %s holds the lease, not attempt %d", attempt, worker, c.Attempt)}
		}
		held, due, err := store.RevokeLeases(ctx, tx, []string{c.ItemID}, actor(caller, pawl.ActorUser, ""), store.Text(c.Reason))
		if err != nil || len(held) != 1 {
			return out, then, err
		}
		item.StateRow = held[0]
		out = pawl.Moved{
			ID:       item.ItemID,
			TaskID:   item.TaskID,
			State:    pawl.ItemQueued,
			Attempt:  item.Attempt,
			Failures: item.Failures,
			Item:     item.Item(),
		}
		return out, effects{queued: due}, nil
	})
	if err == nil {
		e.blockReturned(ctx, &out)
	}
	return out, err
}

// notLeased returns why an item has no lease to end.
func notLeased(ctx context.Context, tx store.Tx, namespace, itemID string) error {
	now, err := tx.Now(ctx)
	if err != nil {
		return err
	}
	it, err := store.GetItem(ctx, tx, namespace, itemID, now)
	if err != nil {
		return err
	}
	no := rules.Conflict("revoke_lease", string(it.State), rules.Allowed(rules.Item(it))).(*pawl.Error)
	if it.State.Leased() {
		no.Message = "the lease has run out; the sweep queues the item"
	}
	return no
}

// revokeKey ends the leases that were claimed with a key, in batches.
func (e *Engine) revokeKey(ctx context.Context, id string, by store.Actor) error {
	for {
		n, err := change(ctx, e, func(ctx context.Context, tx store.Tx) (int, effects, error) {
			items, err := store.LeasesOfKey(ctx, tx, id, revokeBatch)
			if err != nil || len(items) == 0 {
				return 0, effects{}, err
			}
			_, queued, err := store.RevokeLeases(ctx, tx, items, by, store.EndedKey)
			return len(queued), effects{queued: queued}, err
		})
		if err != nil || n == 0 {
			return err
		}
	}
}
