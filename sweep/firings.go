package sweep

import (
	"context"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/store"
)

// firings removes the records of ticks of schedules that are older than
// pawl.DefaultRetainFirings.
func (p *pass) firings(ctx context.Context) error {
	for {
		var n int64
		err := p.do(ctx, func(ctx context.Context, tx store.Tx, now int64) (err error) {
			n, err = store.RemoveFirings(ctx, tx, ago(now, pawl.DefaultRetainFirings), batch)
			return err
		})
		if err != nil || n < batch {
			return p.logError(ctx, "firings", err)
		}
	}
}
