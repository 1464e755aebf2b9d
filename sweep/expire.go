package sweep

import (
	"context"

	"github.com/pawl-work/pawl/store"
)

// expire ends expired leases: their items are queued again or fail, each with its event
// and, if CreateCheckpoints is set, an error_boundary.
func (p *pass) expire(ctx context.Context) error {
	return p.runBatches(ctx, "expire", expiredLeases, func(ctx context.Context, limit int, only []string) (int, error) {
		var ids []string
		if p.Options.CreateCheckpoints {
			for range limit {
				ids = append(ids, p.NewID("ckp"))
			}
		}
		var out []store.Expired
		err := p.DB.Auto(ctx, func(ctx context.Context, tx store.Tx) (err error) {
			out, err = p.DB.Dialect().Timed.Expire(ctx, tx, limit, only, p.Options.CreateCheckpoints, ids)
			return err
		})
		if err != nil {
			return 0, err
		}
		var queued []store.DueItem
		var children []string
		for _, e := range out {
			p.stats.ExpiredFound++
			if e.Checkpoint {
				p.stats.CheckpointsCreated++
			}
			if e.Child {
				children = append(children, e.TaskID)
			}
			if e.State == "failed" {
				p.stats.Failed++
				continue
			}
			p.stats.Recovered++
			if e.State == "queued" {
				queued = append(queued, store.DueItem{Namespace: e.Namespace, ItemID: e.ItemID, Type: e.Type, Rank: e.Rank})
			}
		}
		p.itemsReady(queued)
		p.ended(ctx, children)
		return len(out), nil
	})
}

// expiredLeases returns up to limit items whose lease has expired.
func expiredLeases(ctx context.Context, tx store.Tx, now int64, limit int) ([]string, error) {
	return store.ItemIDs(ctx, tx, sweepSQL["expired leases"], now, limit)
}
