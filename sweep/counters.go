package sweep

import (
	"context"

	"github.com/pawl-work/pawl/store"
)

// counters removes counters of minutes that are older than RetainCounters.
func (p *pass) counters(ctx context.Context) error {
	if p.Options.RetainCounters <= 0 {
		return nil
	}
	for {
		var n int64
		err := p.do(ctx, func(ctx context.Context, tx store.Tx, now int64) (err error) {
			n, err = removeOldMinutes(ctx, tx, ago(now, p.Options.RetainCounters), batch)
			return err
		})
		if err != nil || n < batch {
			return p.logError(ctx, "counters", err)
		}
	}
}
