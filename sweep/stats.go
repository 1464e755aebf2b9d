package sweep

import (
	"context"
	"sync"
	"time"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/store"
)

// carry is what sweeps found that was not worth a row of its own: it goes into
// the next row, so that a house with many timers does not write a row for each.
type carry struct {
	mu           sync.Mutex
	due, givenUp int64
}

func (c *carry) add(s pawl.SweepStats) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.due += s.Due
	c.givenUp += s.GivenUp
}

func (c *carry) take() (due, givenUp int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	due, givenUp = c.due, c.givenUp
	c.due, c.givenUp = 0, 0
	return due, givenUp
}

// report keeps the pass's statistics.
func (p *pass) report(ctx context.Context) error {
	row := p.stats
	due, givenUp := p.carry.take()
	row.Due += due
	row.GivenUp += givenUp
	return p.do(ctx, func(ctx context.Context, tx store.Tx, now int64) error {
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
