package sweep

import (
	"context"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/store"
)

// revoked ends leases of API keys that have expired, or that are revoked: a server may have granted
// them in the second before it learned of the revocation, or another transaction locked them then.
func (p *pass) revoked(ctx context.Context) error {
	ctx = store.WithLockWait(ctx, lockWait)
	for {
		var leased []string
		err := p.DB.View(ctx, func(ctx context.Context, tx store.Tx) (err error) {
			leased, err = leasesOfEndedKeys(ctx, tx, batch)
			return err
		})
		ended := 0
		end := func(ctx context.Context, some []string) error {
			var queued []store.DueItem
			err := p.DB.Do(ctx, func(ctx context.Context, tx store.Tx) error {
				items, err := lockOfEndedKeys(ctx, tx, some)
				if err != nil || len(items) == 0 {
					return err
				}
				_, queued, err = store.RevokeLeases(ctx, tx, items, store.Actor{Type: pawl.ActorSystem}, store.EndedKey)
				return err
			})
			if err == nil {
				ended += len(queued)
				p.itemsReady(queued)
			}
			return err
		}
		if err == nil && len(leased) > 0 {
			err = halve(ctx, p, leased, end, func(item string, err error) {
				p.Log.WarnContext(ctx, "the lease of an ended API key could not be ended; retrying", "item_id", item, "error", err)
			})
		}
		if err != nil || ended == 0 {
			return p.logError(ctx, "leases of ended keys", err)
		}
	}
}

// leasesOfEndedKeys returns up to limit live leases of API keys that are revoked or have expired. It locks none.
func leasesOfEndedKeys(ctx context.Context, tx store.Tx, limit int) ([]string, error) {
	now, err := tx.Now(ctx)
	if err != nil {
		return nil, err
	}
	return store.ItemIDs(ctx, tx, revokeSQL["leases of ended keys"], now, limit)
}

// lockOfEndedKeys locks those of the leases that leasesOfEndedKeys still returns, bar those that another transaction
// locks.
func lockOfEndedKeys(ctx context.Context, tx store.Tx, itemIDs []string) ([]string, error) {
	now, err := tx.Now(ctx)
	if err != nil {
		return nil, err
	}
	return store.ItemIDs(ctx, tx, revokeSQL["leases of ended keys among"], now, store.ItemList(itemIDs))
}
