package sweep

import (
	"context"

	"github.com/pawl-work/pawl/store"
)

// uniqueBatches bounds how many batches of unique keys one pass looks at. The next pass goes on
// where it ended.
const uniqueBatches = 20

// uniques removes the keys of tasks that have ended or are gone, if their windows are over.
func (p *pass) uniques(ctx context.Context) error {
	for range uniqueBatches {
		var over []store.Holding
		var n int
		last := p.uniquesSeen
		err := p.DB.View(ctx, func(ctx context.Context, tx store.Tx) error {
			now, err := tx.Now(ctx)
			if err == nil {
				over, last, n, err = store.KeysAfter(ctx, tx, now, p.uniquesSeen, batch)
			}
			return err
		})
		if err == nil && len(over) > 0 {
			err = p.do(ctx, func(ctx context.Context, tx store.Tx, _ int64) error { return store.ReleaseKeys(ctx, tx, over) })
		}
		if err != nil {
			return p.logError(ctx, "uniques", err)
		}
		if p.uniquesSeen = last; n < batch {
			p.uniquesSeen = store.UniqueKey{} // from the start in the next pass
			return nil
		}
	}
	return nil
}
