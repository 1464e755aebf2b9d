package sweep

import (
	"context"
	"time"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/store"
)

// Interval is how often a whole pass is made.
func (s *Sweeper) Interval() time.Duration {
	if s.Options.ScanIntervalSeconds <= 0 {
		return pawl.DefaultSweepInterval
	}
	return time.Duration(s.Options.ScanIntervalSeconds) * time.Second
}

// Tick makes a pass unless another server made one within the interval; did says
// which. Correctness does not depend on it: it saves the others the work.
func (s *Sweeper) Tick(ctx context.Context) (stats pawl.SweepStats, did bool, err error) {
	err = s.DB.Do(ctx, func(ctx context.Context, tx store.Tx) (err error) {
		did, err = store.TakeTick(ctx, tx, tickCursor, s.Interval()*19/20) // timers are not exact
		return err
	})
	if err != nil || !did {
		return stats, did, err
	}
	stats, err = s.Pass(ctx)
	return stats, did, err
}

// Keep ticks until ctx ends: at once, then every interval. What goes wrong is
// logged and left to the next tick.
func (s *Sweeper) Keep(ctx context.Context) {
	timer := time.NewTicker(s.Interval())
	defer timer.Stop()
	for ctx.Err() == nil {
		if _, _, err := s.Tick(ctx); err != nil && ctx.Err() == nil {
			s.Log.WarnContext(ctx, "the sweep did not work; it is tried again", "error", err)
		}
		select {
		case <-ctx.Done():
		case <-timer.C:
		}
	}
}
