package engine

import (
	"context"
	"time"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/engine/internal/rules"
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
	if err := checkSeries(&q); err != nil {
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
		if err := spanSeries(&q, store.Stamp(now)); err != nil {
			return nil, err
		}
		out, err := store.Series(ctx, tx, ns, q, pawl.MaxSeriesPoints)
		if err == nil {
			err = checkPoints(out)
		}
		return out, err
	})
}

// putBacklog stores the backlog at the end of the last minute, once for each minute.
func (e *Engine) putBacklog(ctx context.Context) error {
	var minute int64
	err := e.k.Look(ctx, func(ctx context.Context, tx store.Tx) error {
		now, err := tx.Now(ctx)
		minute = now/time.Minute.Microseconds() - 1
		return err
	})
	if err != nil || minute <= e.backlogMinute {
		return err
	}
	if err = store.KeepBacklog(ctx, e.db, minute); err == nil {
		e.backlogMinute = minute
	}
	return err
}

// seriesPoints is how many points a series has at most when no step is given.
const seriesPoints = 120

// checkSeries checks a question for counters.
func checkSeries(q *pawl.SeriesQuery) error {
	var f rules.Fields
	f.Types(q.Types)
	if q.Step < 0 || q.Step%time.Minute != 0 {
		f.Add("/step", "must be whole minutes")
	}
	return f.Err("series")
}

// spanSeries sets what a question leaves open, and checks its span.
func spanSeries(q *pawl.SeriesQuery, now time.Time) error {
	if q.Until.IsZero() {
		q.Until = now.Add(time.Microsecond)
	}
	if q.Since.IsZero() {
		q.Since = q.Until.Add(-time.Hour)
	}
	span := q.Until.Sub(q.Since)
	var f rules.Fields
	if span <= 0 {
		f.Add("/since", "must lie before until")
	} else if span > pawl.MaxSeriesSpan {
		f.Add("/since", "lies more than %d days before until", pawl.MaxSeriesSpan/(24*time.Hour))
	}
	if q.Step == 0 {
		minutes := (span + time.Minute - 1) / time.Minute
		q.Step = max(1, (minutes+seriesPoints-1)/seriesPoints) * time.Minute
	}
	return f.Err("series")
}

// checkPoints refuses an answer that is too long.
func checkPoints(series []pawl.QueueSeries) error {
	n := 0
	for i := range series {
		n += len(series[i].Points)
	}
	var f rules.Fields
	if n > pawl.MaxSeriesPoints {
		f.Add("/step", "the answer has more than %d points; ask for a longer step, less time or fewer types", pawl.MaxSeriesPoints)
	}
	return f.Err("series")
}
