package sweep

import (
	"context"
	"sync"
	"time"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/store"
)

// carry is what sweeps did that has no row yet: timers alone are not worth one,
// and a pass that the database cut off could not write it. It goes into the next.
type carry struct {
	mu  sync.Mutex
	sum pawl.SweepStats
}

func (c *carry) add(s pawl.SweepStats) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for i, n := range numbers(&c.sum) {
		*n += *numbers(&s)[i]
	}
}

func (c *carry) take() pawl.SweepStats {
	c.mu.Lock()
	defer c.mu.Unlock()
	sum := c.sum
	c.sum = pawl.SweepStats{}
	return sum
}

// numbers are all that a sweep counts.
func numbers(s *pawl.SweepStats) []*int64 {
	return []*int64{&s.ExpiredFound, &s.Recovered, &s.Failed, &s.CheckpointsCreated, &s.Errors, &s.ScanDurationMS,
		&s.Due, &s.GivenUp, &s.Buried, &s.Stale, &s.TasksPruned, &s.KeysPruned, &s.Checkpoints}
}

// report keeps the pass's statistics, and what the ones before it could not.
func (p *pass) report(ctx context.Context) error {
	p.carry.add(p.stats)
	row := p.carry.take()
	err := p.do(ctx, func(ctx context.Context, tx store.Tx, now int64) error {
		at, ok, err := store.NextDue(ctx, tx)
		if err != nil {
			return err
		}
		if p.stats.StartedAt.IsZero() {
			p.stats.StartedAt = time.UnixMicro(now).UTC()
		}
		if ok {
			p.stats.NextExpiryAt = time.UnixMicro(max(at, now)).UTC()
		}
		row.StartedAt, row.NextExpiryAt = p.stats.StartedAt, p.stats.NextExpiryAt
		return store.RecordSweep(ctx, tx, p.Server, row)
	})
	if err != nil {
		p.carry.add(row)
	}
	return err
}

// fold adds up statistics older than RetainSweeps, so that the totals stay.
func (p *pass) fold(ctx context.Context) error {
	if p.Options.RetainSweeps <= 0 {
		return nil
	}
	for {
		var n int
		err := p.do(ctx, func(ctx context.Context, tx store.Tx, now int64) (err error) {
			n, err = store.FoldSweeps(ctx, tx, ago(now, p.Options.RetainSweeps), batch)
			return err
		})
		if err != nil || n < batch {
			return p.mishap(ctx, "statistics", err)
		}
	}
}

// workers forgets workers that were not seen for long, and those beyond the bound
// of a namespace: whoever may claim may invent names without end.
func (p *pass) workers(ctx context.Context) error {
	for {
		var n int64
		err := p.do(ctx, func(ctx context.Context, tx store.Tx, now int64) (err error) {
			n, err = store.ForgetWorkers(ctx, tx, ago(now, pawl.RetainWorkers), pawl.MaxWorkers, batch)
			return err
		})
		if err != nil || n < batch {
			return p.mishap(ctx, "workers", err)
		}
	}
}

// mishap counts what a broom could not do; the pass goes on with the next broom
// unless there is no point in it.
func (p *pass) mishap(ctx context.Context, what string, err error) error {
	if err == nil || gone(ctx, err) {
		return err
	}
	p.stats.Errors++
	p.Log.ErrorContext(ctx, "a broom of the sweep stopped", "broom", what, "error", err)
	return nil
}
