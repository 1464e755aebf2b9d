package stats

import (
	"context"
	"time"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/engine/internal/kernel"
	"github.com/pawl-work/pawl/engine/internal/rules"
	"github.com/pawl-work/pawl/store"
)

// Series reads counters of queues; see pawl.SeriesReader.
func (r *Stats) Series(ctx context.Context, q pawl.SeriesQuery) ([]pawl.QueueSeries, error) {
	if err := checkSeries(&q); err != nil {
		return nil, err
	}
	if !r.k.InTx() {
		r.k.CountEvents(ctx)
	}
	return kernel.Read(ctx, r.k, func(ctx context.Context, tx store.Tx, ns string) ([]pawl.QueueSeries, error) {
		now, err := tx.Now(ctx)
		if err != nil {
			return nil, err
		}
		if err := spanSeries(&q, store.Stamp(now)); err != nil {
			return nil, err
		}
		out, err := readSeries(ctx, tx, ns, q)
		if err == nil {
			err = checkPoints(out)
		}
		return out, err
	})
}

// readSeries reads the counters of the queues of a namespace. Since, Until and Step of the query are set. It returns at most
// one point more than pawl.MaxSeriesPoints.
func readSeries(ctx context.Context, tx store.Tx, namespace string, q pawl.SeriesQuery) ([]pawl.QueueSeries, error) {
	out := []pawl.QueueSeries{}
	err := store.EachRow(ctx, tx, func(rows store.Rows) error {
		var kind string
		var minute int64
		var p pawl.SeriesPoint
		var backlog [4]*int64
		dest := []any{&kind, &minute, &backlog[0], &backlog[1], &backlog[2], &backlog[3],
			&p.Created, &p.Claimed, &p.Completed, &p.Failed, &p.Expired, &p.Retried, &p.Cancelled, &p.DeadLettered}
		var times [2][]int64 // of Wait and Run: the sum, and the buckets
		for i := range times {
			times[i] = make([]int64, len(pawl.TimingBounds)+2)
			for n := range times[i] {
				dest = append(dest, &times[i][n])
			}
		}
		if err := rows.Scan(dest...); err != nil {
			return err
		}
		if len(out) == 0 || out[len(out)-1].Type != kind {
			out = append(out, pawl.QueueSeries{Type: kind, Step: int(q.Step / time.Second)})
		}
		p.At = time.Unix(minute*60, 0).UTC()
		for i, to := range []*pawl.Timing{&p.Wait, &p.Run} {
			*to = pawl.NewTiming(float64(times[i][0])/1e6, times[i][1:])
		}
		if backlog[0] != nil {
			p.Backlog = &pawl.Backlog{Queued: *backlog[0], Leased: *backlog[1], Waiting: *backlog[2], Scheduled: *backlog[3]}
		}
		last := &out[len(out)-1]
		last.Points = append(last.Points, p)
		return nil
	}, texts["series"], namespace, minuteOf(q.Since), minuteOf(q.Until.Add(time.Minute-time.Microsecond)),
		int64(q.Step/time.Minute), len(q.Types) == 0, store.List(q.Types), pawl.MaxSeriesPoints+1, int64(1e10))
	return out, err
}

func minuteOf(t time.Time) int64 { return t.UnixMicro() / time.Minute.Microseconds() }

// backlog stores what is in the queues.
type backlog struct {
	k      *kernel.Kernel
	stored int64 // the last minute
}

// keep stores the backlog at the end of the last minute, once for each minute.
func (b *backlog) keep(ctx context.Context) error {
	var minute int64
	err := b.k.Look(ctx, func(ctx context.Context, tx store.Tx) error {
		now, err := tx.Now(ctx)
		minute = now/time.Minute.Microseconds() - 1
		return err
	})
	if err != nil || minute <= b.stored {
		return err
	}
	if err = store.KeepBacklog(ctx, b.k.DB, minute); err == nil {
		b.stored = minute
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
