package engine

import (
	"context"
	"time"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/engine/internal/rules"
	"github.com/pawl-work/pawl/internal/clock"
	"github.com/pawl-work/pawl/store"
)

// catchUp bounds how long a reader of counters waits until events that were committed before
// are counted.
const catchUp = 500 * time.Millisecond

// count adds the events that no engine has counted yet to the counters. It gives up after
// catchUp: then the engines that run have not counted everything yet.
func (e *Engine) count(ctx context.Context) {
	ctx, stop := context.WithTimeout(ctx, catchUp)
	defer stop()
	_ = e.feed.Log(ctx) // a database that cannot be written answers with what was counted before
}

// Series reads counters of queues; see pawl.SeriesReader.
func (e *Engine) Series(ctx context.Context, q pawl.SeriesQuery) ([]pawl.QueueSeries, error) {
	if err := rules.CheckSeries(&q); err != nil {
		return nil, err
	}
	if e.notInTx("series") == nil {
		e.count(ctx)
	}
	return view(ctx, e, func(ctx context.Context, tx store.Tx, ns string) ([]pawl.QueueSeries, error) {
		now, err := tx.Now(ctx)
		if err != nil {
			return nil, err
		}
		if err := rules.SpanSeries(&q, store.Stamp(now)); err != nil {
			return nil, err
		}
		out, err := store.Series(ctx, tx, ns, q, pawl.MaxSeriesPoints)
		if err == nil {
			err = rules.CheckPoints(out)
		}
		return out, err
	})
}

// putBacklog stores the backlog at the end of the last minute, once for each minute.
func (e *Engine) putBacklog(ctx context.Context) error {
	if clock.Now().Before(e.backlogNext) {
		return nil
	}
	var queues []store.QueueBacklog
	var minute, now int64
	err := e.k.Look(ctx, func(ctx context.Context, tx store.Tx) (err error) {
		if now, err = tx.Now(ctx); err != nil {
			return err
		}
		if minute = now/time.Minute.Microseconds() - 1; minute <= e.backlogMinute {
			return nil
		}
		queues, err = store.ReadBacklog(ctx, tx, minute)
		return err
	})
	if err == nil && len(queues) > 0 {
		err = e.db.Do(ctx, func(ctx context.Context, tx store.Tx) error { return store.PutBacklog(ctx, tx, minute, queues) })
	}
	if err == nil {
		e.backlogMinute = minute
		e.backlogNext = clock.Now().Add(time.Duration((minute+2)*time.Minute.Microseconds()-now) * time.Microsecond)
	}
	return err
}
