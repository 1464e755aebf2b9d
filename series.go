package pawl

import "time"

// SeriesQuery selects counters. The zero value selects those of all types in the last hour.
type SeriesQuery struct {
	Types []string      // at most MaxSeriesTypes; none = all
	Since time.Time     // the first minute begins at or before it; zero = an hour before Until
	Until time.Time     // the minute after the last; zero = now, and the current minute is included
	Step  time.Duration // the length of a point, in whole minutes; 0 = such that there are at most 120 points
}

// QueueSeries has the counters of one queue. A step in which nothing happened and nothing was
// in the queue has no point.
type QueueSeries struct {
	Type   string        `json:"type"`
	Step   int           `json:"step"` // the length of a point in seconds
	Points []SeriesPoint `json:"points"`
}

// SeriesPoint is what happened to the items of a queue in one step. An item that fails twice
// and then completes counts as three claimed, two failed and one completed.
type SeriesPoint struct {
	At           time.Time `json:"at"` // when the step begins
	Created      int64     `json:"created"`
	Claimed      int64     `json:"claimed"`
	Completed    int64     `json:"completed"`
	Failed       int64     `json:"failed"`  // attempts that a worker reported as failed, and items that failed without an attempt
	Expired      int64     `json:"expired"` // leases that ran out
	Retried      int64     `json:"retried"` // by an operator
	Cancelled    int64     `json:"cancelled"`
	DeadLettered int64     `json:"dead_lettered"`
	// Backlog is what was in the queue at the end of the step; absent in the current
	// minute, and when no engine ran that could count it.
	Backlog *Backlog `json:"backlog,omitempty"`
	Wait    Timing   `json:"wait"` // of the claimed items: how long they were queued
	Run     Timing   `json:"run"`  // of the attempts that completed, submitted a result or failed: from claim to end
}

// Backlog counts the items of a queue by place. An item whose lease has run out counts as leased
// until it is swept.
type Backlog struct {
	Queued    int64 `json:"queued"`
	Leased    int64 `json:"leased"` // in progress too
	Waiting   int64 `json:"waiting"`
	Scheduled int64 `json:"scheduled"`
}

// Timing summarises durations, in seconds.
type Timing struct {
	Count int64   `json:"count"`
	Sum   float64 `json:"sum"`
	P50   float64 `json:"p50"` // interpolated within its bucket
	P95   float64 `json:"p95"`
	// Buckets has the number of durations up to each bound of TimingBounds and above the
	// bound before it; the last is of those above all bounds. It is empty without durations.
	Buckets []int64 `json:"buckets,omitempty"`
}

// NewTiming summarises durations whose sum is given in seconds. counts has a number for each
// bucket, as Timing.Buckets.
func NewTiming(sum float64, counts []int64) Timing {
	t := Timing{Sum: sum}
	for _, n := range counts {
		t.Count += n
	}
	if t.Count > 0 {
		t.Buckets = counts
		t.P50, t.P95 = quantile(counts, t.Count, 0.5), quantile(counts, t.Count, 0.95)
	}
	return t
}

// quantile interpolates within the bucket that has the q-th part of all. Of the last bucket it
// returns the lower bound.
func quantile(counts []int64, all int64, q float64) float64 {
	rank, below, low := q*float64(all), 0.0, 0.0
	for i, bound := range TimingBounds {
		if n := float64(counts[i]); n > 0 && below+n >= rank {
			return low + (bound-low)*(rank-below)/n
		}
		below, low = below+float64(counts[i]), bound
	}
	return low
}
