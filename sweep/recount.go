package sweep

import (
	"context"

	"github.com/pawl-work/pawl/store"
)

// recountPages bounds how many thousand waiting items one pass compares; the next
// pass goes on behind them.
const recountPages = 10

// recount compares the counts of waiting items with the items that they wait for,
// and mends those that are wrong: such an item would wait for ever. No verb leaves
// a wrong count; this is for what a defect, or a hand in the database, has left.
func (p *pass) recount(ctx context.Context) error {
	mended := 0
	for range recountPages {
		var until string
		var found []store.Dependent
		err := p.DB.View(ctx, func(ctx context.Context, tx store.Tx) (err error) {
			if until, err = store.WaitingUntil(ctx, tx, p.recounted, batch); err == nil {
				found, err = store.MiscountedDependents(ctx, tx, p.recounted, until)
			}
			return err
		})
		if err == nil {
			err = halve(ctx, p, found, func(ctx context.Context, some []store.Dependent) error {
				n := 0
				err := p.do(ctx, func(ctx context.Context, tx store.Tx, now int64) error {
					n = 0
					for _, d := range some {
						changed, err := store.Recount(ctx, tx, now, d)
						if err != nil {
							return err
						}
						if changed {
							n++
						}
					}
					return nil
				})
				if err == nil {
					mended += n
				}
				return err
			}, func(d store.Dependent, err error) {
				p.Log.ErrorContext(ctx, "the sweep left the counts of a waiting item alone", "item_id", d.ItemID, "error", err)
			})
		}
		if err != nil {
			return err
		}
		if p.recounted = until; until == store.EndOfTime {
			p.recounted = ""
			break
		}
	}
	if mended == 0 {
		return nil
	}
	p.Log.WarnContext(ctx, "wrong counts of what items wait for were mended", "items", mended)
	if err := p.due(ctx); err != nil {
		return err
	}
	return p.giveUp(ctx)
}
