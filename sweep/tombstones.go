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

// tombstoned is a tombstone in the order of their age. There says that its task is there too: its deletion has not ended.
type tombstoned struct {
	At, Event         int64
	Namespace, TaskID string
	There             bool
}

// tombstonesAfter lists up to limit tombstones that follow one and were made by a time.
func tombstonesAfter(ctx context.Context, tx store.Tx, after tombstoned, by int64, limit int) (out []tombstoned, err error) {
	err = store.EachRow(ctx, tx, func(rows store.Rows) error {
		var t tombstoned
		var there int
		err := rows.Scan(&t.At, &t.Event, &t.Namespace, (*store.TaskID)(&t.TaskID), &there)
		t.There = there == 1
		out = append(out, t)
		return err
	}, tombstoneSQL["tombstones after"], after.At, after.Event, by, limit)
	return out, err
}
