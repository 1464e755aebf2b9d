package engine

import (
	"context"
	"fmt"
	"strings"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/engine/internal/kernel"
	"github.com/pawl-work/pawl/engine/internal/rules"
	"github.com/pawl-work/pawl/internal/idform"
	"github.com/pawl-work/pawl/store"
)

// revokeBatch is how many leases of a revoked key end in one transaction.
const revokeBatch = 1000

// RevokeLeases ends leases; see pawl.LeaseKeeper.
func (e *Engine) RevokeLeases(ctx context.Context, calls []pawl.RevokeCall) ([]pawl.Result[pawl.Moved], error) {
	calls = idform.Calls(calls)
	return kernel.Each(ctx, "revoke_lease", calls, e.revokeLease)
}

func (e *Engine) revokeLease(ctx context.Context, c *pawl.RevokeCall) (out pawl.Moved, err error) {
	const op = "revoke_lease"
	if err := checkRevoke(c); err != nil {
		return out, err
	}
	out, err = change(ctx, e, func(ctx context.Context, tx store.Tx) (out pawl.Moved, then effects, err error) {
		caller := pawl.CallerOf(ctx)
		attempt, worker, item, live, err := leaseIsLive(ctx, tx, caller.Namespace, c.ItemID)
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
			items, err := leasesOfKey(ctx, tx, id, revokeBatch)
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

var liveLease = strings.Replace(revokeSQL["lease"], " /* item */", ", "+store.ReturnItem("l.item_id", "l.", ""), 1)

// leaseIsLive locks an item's lease and returns its attempt and worker. found is false when
// there is no lease, or when it has expired by the database's clock. item is the item as
// it will be after the lease has ended, except for the values of its row.
func leaseIsLive(ctx context.Context, tx store.Tx, namespace, itemID string) (
	attempt int, workerID string, item *store.Returned, found bool, err error,
) {
	var until int64
	var columns store.ReturnedColumns
	if found, err = store.Row(ctx, tx, append([]any{&attempt, &workerID, &until}, columns.Targets()...), liveLease, store.ItemID(itemID),
		namespace); err != nil ||
		!found {
		return attempt, workerID, nil, false, err
	}
	now, err := store.NowAgain(ctx, tx)
	if err != nil {
		return attempt, workerID, nil, false, err
	}
	item, err = store.NewReturned(store.Fence{Namespace: namespace, ItemID: itemID, WorkerID: workerID, Attempt: attempt}, "", 0, columns)
	return attempt, workerID, item, until > now, err
}

// leasesOfKey locks up to limit live leases that were claimed with an API key. It leaves out those that another
// transaction locks.
func leasesOfKey(ctx context.Context, tx store.Tx, keyID string, limit int) ([]string, error) {
	now, err := tx.Now(ctx)
	if err != nil {
		return nil, err
	}
	return store.ItemIDs(ctx, tx, revokeSQL["leases of key"], keyID, now, limit)
}
