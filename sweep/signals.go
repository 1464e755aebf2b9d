package sweep

import (
	"context"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/store"
)

// signalBatch is how many signals one transaction locks.
const signalBatch = 100

// signals removes signals that were sent longer than RetainSignals ago and that no item waits
// for. Those that the engine sends go sooner.
func (p *pass) signals(ctx context.Context) error {
	if p.Options.RetainSignals <= 0 {
		return nil
	}
	for _, names := range [][]string{ofEngine(), nil} {
		for n := int64(1); n > 0; {
			err := p.do(ctx, func(ctx context.Context, tx store.Tx, now int64) (err error) {
				before := ago(now, p.Options.RetainSignals)
				if names != nil {
					before = max(before, ago(now, pawl.RetainBudgetSignals))
				}
				n, err = store.RemoveOldSignals(ctx, tx, before, names, signalBatch)
				return err
			})
			if err != nil {
				return p.logError(ctx, "old signals", err)
			}
			p.stats.SignalsPruned += n
		}
	}
	return p.unsentSignals(ctx)
}

// unsentBatches bounds the signals that one pass looks at.
const unsentBatches = 20

// unsentSignals removes what is left of signals that items waited for and that were never sent.
func (p *pass) unsentSignals(ctx context.Context) error {
	for range unsentBatches {
		var unsent []store.Signal
		var n int
		last := p.signalsSeen
		err := p.DB.View(ctx, func(ctx context.Context, tx store.Tx) error {
			now, err := tx.Now(ctx)
			if err == nil {
				unsent, last, n, err = p.signalsSeen.Unsent(ctx, tx, ago(now, p.Options.RetainSignals), batch)
			}
			return err
		})
		for ; err == nil && len(unsent) > 0; unsent = unsent[min(signalBatch, len(unsent)):] {
			some := unsent[:min(signalBatch, len(unsent))]
			err = p.do(ctx, func(ctx context.Context, tx store.Tx, _ int64) error { return store.ForgetSignals(ctx, tx, some) })
		}
		if err != nil {
			return p.logError(ctx, "unsent signals", err)
		}
		if p.signalsSeen = last; n < batch {
			p.signalsSeen = store.Signal{} // from the start in the next pass
			return nil
		}
	}
	return nil
}

// ofEngine are the names of the signals that the engine sends. What they tell can be asked for.
func ofEngine() []string { return []string{pawl.BudgetSignal, pawl.EffectSignal} }

// countOldSignals counts the signals that were last sent before a time, and those of the engine
// before another.
func countOldSignals(ctx context.Context, tx store.Tx, before, ofTheEngine int64) (n int64, err error) {
	_, err = store.Row(ctx, tx, []any{&n}, signalSQL["count old signals"], before, ofTheEngine, store.List(ofEngine()))
	return n, err
}
