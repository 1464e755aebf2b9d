package sweep

import (
	"context"

	"github.com/pawl-work/pawl/store"
)

// due queues scheduled and waiting items whose time has come, and waiting ones
// whose dependencies have completed.
func (p *pass) due(ctx context.Context) error {
	return p.runBatches(ctx, "due", dueItems, func(ctx context.Context, limit int, only []string) (int, error) {
		var out []store.DueItem
		err := p.DB.Auto(ctx, func(ctx context.Context, tx store.Tx) (err error) {
			out, err = p.DB.Dialect().Timed.Due(ctx, tx, limit, only)
			return err
		})
		if err != nil {
			return 0, err
		}
		p.stats.Due += int64(len(out))
		p.itemsReady(out)
		return len(out), nil
	})
}

// runBatches runs a timed verb in batches until a batch is not full. If a batch fails, the
// items that list returns are processed in halves, so that each failing item fails
// alone, is counted and stays as it is.
func (p *pass) runBatches(ctx context.Context, what string,
	list func(ctx context.Context, tx store.Tx, now int64, limit int) ([]string, error),
	run func(ctx context.Context, limit int, only []string) (int, error)) error {
	for size := batch / 16; ; size = batch {
		n, err := run(ctx, size, nil)
		if err != nil {
			if stopsStep(ctx, err) {
				return err
			}
			if locked(err) {
				ctx = store.WithLockWait(ctx, lockWait)
			}
			return p.runSingly(ctx, what, list, run)
		}
		if n < size {
			return nil
		}
	}
}

func (p *pass) runSingly(ctx context.Context, what string,
	list func(ctx context.Context, tx store.Tx, now int64, limit int) ([]string, error),
	run func(ctx context.Context, limit int, only []string) (int, error)) error {
	var items []string
	err := p.DB.View(ctx, func(ctx context.Context, tx store.Tx) error {
		now, err := tx.Now(ctx)
		if err != nil {
			return err
		}
		items, err = list(ctx, tx, now, 100*batch)
		return err
	})
	if err != nil {
		return err
	}
	for len(items) > 0 {
		some := items[:min(batch, len(items))]
		items = items[len(some):]
		err := halve(ctx, p, some, func(ctx context.Context, only []string) error {
			_, err := run(ctx, len(only), only)
			return err
		}, func(id string, err error) {
			p.Log.ErrorContext(ctx, "the sweep skipped an item", "step", what, "item_id", id, "error", err)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// dueItems returns up to limit items that are due.
func dueItems(ctx context.Context, tx store.Tx, now int64, limit int) ([]string, error) {
	return store.ItemIDs(ctx, tx, sweepSQL["due items"], now, limit)
}
