package dashboard

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/internal/clock"
)

// maxSparks is how many queues the overview draws, those with the most work first.
const maxSparks = 8

// sparkSpans are the times that the overview draws, by their name in its address.
var sparkSpans = map[string]sparkSpan{
	"hour": {"hour", "the last hour", time.Hour, 2 * time.Minute},
	"day":  {"day", "the last day", 24 * time.Hour, 48 * time.Minute},
}

type sparkSpan struct {
	Name, Text   string
	length, step time.Duration
}

// points is how many steps have begun in the time.
func (s sparkSpan) points() int { return int(s.length / s.step) }

// queueSparks are the sparklines of a queue.
type queueSparks struct {
	Type                              string
	Throughput, Wait, Failed, Backlog spark
	busy                              int64
}

// spark is a line with its present or total value. Points are those of a viewBox of 100 × 24.
type spark struct{ Title, Value, Points, Class string }

// sparks draws what happened in the queues of the namespace.
func (d *server) sparks(ctx context.Context, span sparkSpan, types []typeCounts) ([]queueSparks, error) {
	until := clock.Now().Truncate(time.Minute).Add(time.Minute)
	q := pawl.SeriesQuery{Since: until.Add(-span.length), Until: until, Step: span.step}
	series, err := d.svc.Series(ctx, q)
	if pawl.CodeOf(err) == pawl.CodeInvalid { // there are too many queues: those with the most items
		types = slices.SortedFunc(slices.Values(types), func(a, b typeCounts) int { return cmp.Compare(b.all(), a.all()) })
		for _, t := range types[:min(len(types), pawl.MaxSeriesTypes)] {
			q.Types = append(q.Types, t.Type)
		}
		series, err = d.svc.Series(ctx, q)
	}
	if err != nil {
		return nil, err
	}
	out := make([]queueSparks, len(series))
	for i, s := range series {
		out[i] = drawQueue(s, span, q.Since)
	}
	slices.SortStableFunc(out, func(a, b queueSparks) int { return cmp.Compare(b.busy, a.busy) })
	return out[:min(len(out), maxSparks)], nil
}

func (t typeCounts) all() (n int64) {
	for _, count := range t.Counts {
		n += count
	}
	return n
}

// drawQueue draws the counters of a queue. A step without a point had no event, and the backlog
// of the step before it.
func drawQueue(s pawl.QueueSeries, span sparkSpan, since time.Time) queueSparks {
	n := span.points()
	ended, wait, failed, backlog := make([]float64, n), make([]float64, n), make([]float64, n), make([]float64, n)
	known := make([]bool, n)
	var all pawl.SeriesPoint
	waits := make([]int64, len(pawl.TimingBounds)+1)
	for _, p := range s.Points {
		i := min(max(int(p.At.Sub(since)/span.step), 0), n-1)
		bad := p.Failed + p.Expired
		all.Completed, all.Failed, all.Claimed = all.Completed+p.Completed, all.Failed+bad, all.Claimed+p.Claimed
		ended[i] += float64(p.Completed) / span.step.Minutes()
		wait[i] = max(wait[i], p.Wait.P95)
		failed[i] = max(failed[i], rate(bad, p.Completed))
		for b, count := range p.Wait.Buckets {
			waits[b] += count
		}
		if b := p.Backlog; b != nil {
			backlog[i], known[i] = float64(b.Queued+b.Leased+b.Waiting), true
		}
	}
	for i := 1; i < n; i++ {
		if !known[i] {
			backlog[i] = backlog[i-1]
		}
	}
	p95 := pawl.NewTiming(0, waits).P95
	return queueSparks{
		Type: s.Type, busy: all.Completed + all.Failed + all.Claimed + int64(backlog[n-1]),
		Throughput: draw(ended, "completed per minute", "", perMinute, float64(all.Completed)/span.length.Minutes()),
		Wait:       draw(wait, "95 % were claimed within", "pending", shortSeconds, p95),
		Failed:     draw(failed, "attempts that failed or expired", "ill", percentOf, rate(all.Failed, all.Completed)),
		Backlog:    draw(backlog, "queued, leased or waiting", "pending", whole, backlog[n-1]),
	}
}

// rate is the part of the attempts that failed, in percent.
func rate(failed, completed int64) float64 { return float64(percent(failed, failed+completed)) }

func perMinute(v float64) string {
	if v > 0 && v < 0.1 {
		return "< 0.1/min"
	}
	return strconv.FormatFloat(v, 'f', map[bool]int{true: 0, false: 1}[v >= 10 || v == 0], 64) + "/min"
}

func percentOf(v float64) string { return whole(v) + " %" }

func whole(v float64) string { return strconv.FormatFloat(v, 'f', 0, 64) }

// shortSeconds writes a duration with two digits.
func shortSeconds(v float64) string {
	switch {
	case v == 0:
		return "–"
	case v < 1:
		return fmt.Sprintf("%.0f ms", v*1000)
	case v < 120:
		return fmt.Sprintf("%.2g s", v)
	case v < 7200:
		return fmt.Sprintf("%.0f min", v/60)
	}
	return fmt.Sprintf("%.1f h", v/3600)
}

// draw draws values from 0 to the largest.
func draw(values []float64, what, class string, text func(float64) string, value float64) spark {
	top := slices.Max(values)
	var points strings.Builder
	for i, v := range values {
		fmt.Fprintf(&points, "%d,%d ", 100*i/(len(values)-1), 23-int(22*v/max(top, 1e-9)+.5))
	}
	return spark{fmt.Sprintf("%s: now %s, at most %s", what, text(values[len(values)-1]), text(top)), text(value),
		strings.TrimSpace(points.String()), class}
}
