package signals

import (
	"context"
	"slices"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/store"
)

// lockedBatch is how many signals one transaction locks.
const lockedBatch = 100

// ofEngine are the names of the signals that the engine sends. They go sooner: what they tell can be asked for.
func ofEngine() []string { return []string{pawl.BudgetSignal, pawl.EffectSignal} }

// removeOld removes signals that were sent longer than RetainSignals ago and that no item waits
// for. Those that the engine sends go sooner.
func removeOld(ctx context.Context, p store.Sweeping) error {
	for _, names := range [][]string{ofEngine(), nil} {
		for n := int64(1); n > 0 && p.Options.RetainSignals > 0; {
			err := p.In(ctx, func(ctx context.Context, tx store.Tx, now int64) (err error) {
				before, ofTheEngine := ages(&p.Options, now)
				if names != nil {
					before = ofTheEngine
				}
				n, err = removeOf(ctx, tx, before, names)
				return err
			})
			if err != nil {
				return err
			}
			p.Stats.SignalsPruned += n
		}
	}
	return nil
}

// ages returns before when a signal was sent that is old, and one of the engine.
func ages(o *pawl.SweepOptions, now int64) (before, ofTheEngine int64) {
	before = now - o.RetainSignals.Microseconds()
	return before, max(before, now-pawl.RetainBudgetSignals.Microseconds())
}

// countOld counts the signals that are old.
func countOld(ctx context.Context, tx store.Tx, o *pawl.SweepOptions, out *pawl.Prunable) error {
	now, err := tx.Now(ctx)
	if err != nil || o.RetainSignals <= 0 {
		return err
	}
	before, ofTheEngine := ages(o, now)
	_, err = store.Row(ctx, tx, []any{&out.Signals}, texts["count old signals"], before, ofTheEngine, store.List(ofEngine()))
	return err
}

// removeOf removes up to lockedBatch signals that were last sent before a time and that no
// item waits for. It locks each signal before it looks for items: a suspend locks it too, so no
// item begins to wait for a signal that is being removed. names are those of the signals; none = any.
func removeOf(ctx context.Context, tx store.Tx, before int64, names []string) (removed int64, err error) {
	text, args := texts["old signals"], []any{before, lockedBatch}
	if len(names) > 0 {
		text, args = texts["old signals of names"], append(args, store.List(names))
	}
	signals, err := store.All(ctx, tx, text, args, func(rows store.Rows, s *signal) error {
		return rows.Scan(&s.namespace, &s.name, &s.key)
	})
	slices.SortFunc(signals, signal.compare) // all transactions lock signals in the same order
	for _, s := range signals {
		var n int64
		if err == nil {
			_, _, err = s.lockIfThere(ctx, tx)
		}
		if err == nil {
			n, err = tx.Exec(ctx, texts["remove old signal"], s.namespace, s.name, s.key, before)
		}
		removed += n
	}
	return removed, err
}

// unsentBatches bounds the batches of signals that one pass looks at.
const unsentBatches = 20

// removeUnsent removes what is left of signals that items waited for and that were never sent, from the signal after s on.
func (s *signal) removeUnsent(ctx context.Context, p store.Sweeping) error {
	for range unsentBatches {
		if p.Options.RetainSignals <= 0 {
			return nil
		}
		var unsent []signal
		var n int
		var last signal
		err := p.View(ctx, func(ctx context.Context, tx store.Tx) error {
			now, err := tx.Now(ctx)
			if err == nil {
				unsent, last, n, err = s.unsent(ctx, tx, now-p.Options.RetainSignals.Microseconds(), p.Limit)
			}
			return err
		})
		for some := range slices.Chunk(unsent, lockedBatch) {
			if err == nil {
				err = p.Do(ctx, func(ctx context.Context, tx store.Tx) error { return forgetAll(ctx, tx, some) })
			}
		}
		if err != nil {
			return err
		}
		if *s = last; n < p.Limit {
			*s = signal{} // from the start in the next pass
			return nil
		}
	}
	return nil
}

// unsent reads up to limit signals after this one, in order, and returns those of them that were never sent,
// are older than a time, and that no item waits for.
func (s signal) unsent(ctx context.Context, tx store.Tx, before int64, limit int) (unsent []signal, last signal, n int, err error) {
	last = s
	err = store.EachRow(ctx, tx, func(rows store.Rows) error {
		var over int
		err := rows.Scan(&last.namespace, &last.name, &last.key, &over)
		if n++; over == 1 {
			unsent = append(unsent, last)
		}
		return err
	}, texts["signals after"], s.namespace, s.name, s.key, before, limit)
	return unsent, last, n, err
}

// forgetAll removes those of the signals, which are in order, that were never sent and that no item waits for.
// It locks each one before it looks, as removeOf does.
func forgetAll(ctx context.Context, tx store.Tx, signals []signal) error {
	for _, s := range signals {
		_, _, err := s.lockIfThere(ctx, tx)
		if err == nil {
			err = s.forget(ctx, tx)
		}
		if err != nil {
			return err
		}
	}
	return nil
}
