package sweep

import (
	"context"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/store"
)

// signalBatch is how many signals one transaction locks.
const signalBatch = 100

// signals removes signals that were sent longer than RetainSignals ago and that no item waits
// for. Those that the engine sends for budgets go sooner.
func (p *pass) signals(ctx context.Context) error {
	if p.Options.RetainSignals <= 0 {
		return nil
	}
	for _, ofBudgets := range []bool{true, false} {
		for n := int64(1); n > 0; {
			err := p.do(ctx, func(ctx context.Context, tx store.Tx, now int64) (err error) {
				before := ago(now, p.Options.RetainSignals)
				if ofBudgets {
					before = max(before, ago(now, pawl.RetainBudgetSignals))
				}
				n, err = store.RemoveOldSignals(ctx, tx, before, ofBudgets, signalBatch)
				return err
			})
			if err != nil {
				return p.logError(ctx, "old signals", err)
			}
			p.stats.SignalsPruned += n
		}
	}
	return nil
}
