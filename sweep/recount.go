package sweep

import (
	"context"

	"github.com/pawl-work/pawl/store"
)

// recountPages bounds the waiting items, in thousands, that one pass compares; the next
// pass continues there.
const recountPages = 10

// recount compares the counters of waiting items with the items that they wait for, and
// corrects wrong ones: such an item would wait for ever. No verb leaves a wrong counter;
// this repairs what a defect or a manual change of the database has left.
func (p *pass) recount(ctx context.Context) error {
	corrected := 0
	for range recountPages {
		var until string
		var found []store.Dependent
		err := p.DB.View(ctx, func(ctx context.Context, tx store.Tx) (err error) {
			if until, err = waitingUntil(ctx, tx, p.recounted, batch); err == nil {
				found, err = miscountedDependents(ctx, tx, p.recounted, until)
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
					corrected += n
				}
				return err
			}, func(d store.Dependent, err error) {
				p.Log.ErrorContext(ctx, "the sweep skipped the counters of a waiting item", "item_id", d.ItemID, "error", err)
			})
		}
		if err != nil {
			return err
		}
		if p.recounted = until; until == store.LastItem {
			p.recounted = ""
			break
		}
	}
	if corrected == 0 {
		return nil
	}
	p.Log.WarnContext(ctx, "wrong counters of waiting items were corrected", "items", corrected)
	if err := p.due(ctx); err != nil {
		return err
	}
	return p.giveUp(ctx)
}
