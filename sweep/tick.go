package sweep

import (
	"context"
	"time"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/store"
)

// Interval is the time between two whole passes.
func (s *Sweeper) Interval() time.Duration {
	if s.Options.ScanIntervalSeconds <= 0 {
		return pawl.DefaultSweepInterval
	}
	return time.Duration(s.Options.ScanIntervalSeconds) * time.Second
}

// Tick runs a pass unless a server ran one within the interval; did says whether this
// one did. It saves work; correctness does not depend on it.
func (s *Sweeper) Tick(ctx context.Context) (stats pawl.SweepStats, did bool, err error) {
	err = s.DB.Do(ctx, func(ctx context.Context, tx store.Tx) (err error) {
		interval := s.Interval() * 19 / 20 // timers are not exact
		o, err := s.InForce(ctx, tx)
		if err == nil && o.ArchiveDir != s.GivenDir { // it removes no tasks: those that may come first
			interval *= 3
		}
		if err == nil {
			did, err = takeTick(ctx, tx, tickCursor, interval)
		}
		return err
	})
	if err != nil || !did {
		return stats, did, err
	}
	stats, err = s.Pass(ctx)
	return stats, did, err
}

// Keep calls Tick until ctx ends: at once, then every interval. Errors are logged; the
// next tick tries again.
func (s *Sweeper) Keep(ctx context.Context) {
	timer := time.NewTicker(s.Interval())
	defer timer.Stop()
	for ctx.Err() == nil {
		err := s.Store(ctx) // what it was given counts from now on, whichever process makes the passes
		if err == nil {
			_, _, err = s.Tick(ctx)
		}
		if err != nil && ctx.Err() == nil {
			s.Log.WarnContext(ctx, "the sweep failed; retrying", "error", err)
		}
		select {
		case <-ctx.Done():
		case <-timer.C:
		}
	}
}
