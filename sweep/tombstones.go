package sweep

import (
	"context"
	"time"

	"github.com/pawl-work/pawl/store"
)

// tombstones removes the rows that deleted tasks left, after the longest retention of
// any task: then no task of the same time is kept.
func (p *pass) tombstones(ctx context.Context) error {
	own, err := p.retentions(ctx)
	if err != nil {
		return p.logError(ctx, "tombstones", err)
	}
	age := p.Options.RetainTasks
	for _, d := range []time.Duration{p.Options.RetainTasks, p.Options.RetainFailed, p.Options.RetainDead} {
		if d <= 0 {
			return nil // for ever
		}
		age = max(age, d)
	}
	for _, r := range own {
		age = max(age, time.Duration(max(r.TaskSeconds, r.FailedSeconds, r.DeadSeconds))*time.Second)
	}
	return p.logError(ctx, "tombstones", p.removeTombstones(ctx, age))
}

func (p *pass) removeTombstones(ctx context.Context, age time.Duration) error {
	for {
		var n int
		err := p.do(ctx, func(ctx context.Context, tx store.Tx, now int64) (err error) {
			n, err = store.RemoveTombstones(ctx, tx, ago(now, age), batch)
			return err
		})
		if err != nil || n < batch {
			return err
		}
	}
}
