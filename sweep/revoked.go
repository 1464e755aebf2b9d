package sweep

import (
	"context"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/store"
)

// revoked ends leases of API keys that have expired, or that are revoked: a server may have granted
// them in the second before it learned of the revocation, or another transaction locked them then.
func (p *pass) revoked(ctx context.Context) error {
	for {
		var queued []store.DueItem
		held := false
		err := p.DB.View(ctx, func(ctx context.Context, tx store.Tx) (err error) {
			held, err = store.EndedKeysHold(ctx, tx)
			return err
		})
		if err == nil && held {
			err = p.DB.Do(ctx, func(ctx context.Context, tx store.Tx) error {
				items, err := store.LeasesOfEndedKeys(ctx, tx, batch)
				if err != nil || len(items) == 0 {
					return err
				}
				_, queued, err = store.RevokeLeases(ctx, tx, items, store.Actor{Type: pawl.ActorSystem}, store.EndedKey)
				return err
			})
		}
		if err != nil && !stopsStep(ctx, err) {
			p.stats.Errors++
			p.Log.WarnContext(ctx, "leases of ended API keys could not be ended; retrying", "error", err)
			return nil
		}
		if err != nil || len(queued) == 0 {
			return err
		}
		p.itemsReady(queued)
	}
}
