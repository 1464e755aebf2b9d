package sweep

import (
	"context"

	"github.com/pawl-work/pawl/store"
)

// effects makes unknown what a sender has left open: a gate whose lease is over, or an attempt whose lease
// an older program has ended.
func (p *pass) effects(ctx context.Context) error {
	return p.runBatches(ctx, "effects", abandonedEffects, func(ctx context.Context, limit int, only []string) (n int, err error) {
		ids := only
		if ids == nil {
			err = p.DB.View(ctx, func(ctx context.Context, tx store.Tx) error {
				now, err := tx.Now(ctx)
				if err == nil {
					ids, err = abandonedEffects(ctx, tx, now, limit)
				}
				return err
			})
		}
		for _, id := range ids {
			if err == nil {
				err = p.DB.Do(ctx, func(ctx context.Context, tx store.Tx) error { return store.AbandonEffect(ctx, tx, id) })
			}
		}
		return len(ids), err
	})
}

// effectKeys removes the keys of effects whose tasks are gone, once they are old.
func (p *pass) effectKeys(ctx context.Context) error {
	if p.Options.RetainEffects <= 0 {
		return nil
	}
	return p.repeat(ctx, "keys of effects", func(ctx context.Context, tx store.Tx, now int64) (int64, error) {
		return removeOldEffects(ctx, tx, ago(now, p.Options.RetainEffects), batch)
	})
}

// abandonedEffects returns up to limit open effects whose sender is gone.
func abandonedEffects(ctx context.Context, tx store.Tx, now int64, limit int) ([]string, error) {
	return store.Strings(ctx, tx, effectSQL["abandoned"], now, limit)
}

// removeOldEffects removes up to limit effects of tasks that are gone, which were made by the given time.
// Their keys are free then.
func removeOldEffects(ctx context.Context, tx store.Tx, by int64, limit int) (int64, error) {
	return tx.Exec(ctx, effectSQL["remove old"], by, limit)
}
