package pawl

import "time"

// Ticked is what a tick did, and when to call again.
type Ticked struct {
	Did TickStats `json:"did"`
	// NextAt is when something falls due next, by the database's clock: a lease, a time of an
	// item or a task, a schedule, a delivery that failed. It is in the past if a tick left
	// something, and when a call to a worker has ended, because that may have queued other items.
	// Nil = nothing falls due by time. Retention by age is not in it: call at least once a day.
	NextAt *time.Time `json:"next_at"`
}

// TickStats are the numbers of a tick.
type TickStats struct {
	SweepStats
	Fired   int64 `json:"fired"`   // schedules that were due
	Relayed int64 `json:"relayed"` // events that sinks of relays have accepted
	Pushed  int64 `json:"pushed"`  // items that workers were called with
}

// Again brings NextAt forward. The zero time changes nothing.
func (t *Ticked) Again(at time.Time) {
	if at = at.UTC(); !at.IsZero() && (t.NextAt == nil || at.Before(*t.NextAt)) {
		t.NextAt = &at
	}
}
