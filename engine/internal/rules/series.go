package rules

import (
	"time"

	"github.com/pawl-work/pawl"
)

// seriesPoints is how many points a series has at most when no step is given.
const seriesPoints = 120

// CheckTypesAsked checks the types that a question names.
func CheckTypesAsked(op string, types []string) error {
	var f Fields
	f.types(types)
	return f.Err(op)
}

func (f *Fields) types(types []string) {
	if len(types) > pawl.MaxSeriesTypes {
		f.Add("/type", "has %d types; at most %d are allowed", len(types), pawl.MaxSeriesTypes)
	}
}

// CheckSeries checks a question for counters.
func CheckSeries(q *pawl.SeriesQuery) error {
	var f Fields
	f.types(q.Types)
	if q.Step < 0 || q.Step%time.Minute != 0 {
		f.Add("/step", "must be whole minutes")
	}
	return f.Err("series")
}

// SpanSeries sets what a question leaves open, and checks its span.
func SpanSeries(q *pawl.SeriesQuery, now time.Time) error {
	if q.Until.IsZero() {
		q.Until = now.Add(time.Microsecond)
	}
	if q.Since.IsZero() {
		q.Since = q.Until.Add(-time.Hour)
	}
	span := q.Until.Sub(q.Since)
	var f Fields
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

// CheckPoints refuses an answer that is too long.
func CheckPoints(series []pawl.QueueSeries) error {
	n := 0
	for i := range series {
		n += len(series[i].Points)
	}
	var f Fields
	if n > pawl.MaxSeriesPoints {
		f.Add("/step", "the answer has more than %d points; ask for a longer step, less time or fewer types", pawl.MaxSeriesPoints)
	}
	return f.Err("series")
}
