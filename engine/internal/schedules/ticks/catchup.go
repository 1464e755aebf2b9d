package ticks

import (
	"time"

	"github.com/pawl-work/pawl"
)

// Plan is what a schedule does about its due ticks.
type Plan struct {
	Fire   []time.Time // oldest first
	Missed []time.Time // oldest first; they are older than those of Fire
	// Earlier: also missed are all ticks from the first one up to the oldest of the others.
	Earlier bool
}

// Plan decides about the due ticks from first on. A tick is missed if a newer one is due too,
// or if it is later than pawl.ScheduleGrace; how says which of those fire nevertheless. If the
// rule no longer has first, which is due, that is missed.
func (r *Rule) Plan(first, now time.Time, how pawl.CatchUp) Plan {
	due := r.Newest(first, now, pawl.MaxCatchUp)
	n := len(due.Ticks)
	switch {
	case n == 0 && !r.Due(first).After(now):
		return Plan{Missed: []time.Time{first}}
	case n == 0:
		return Plan{}
	case how == pawl.CatchUpAll:
		return Plan{Fire: due.Ticks, Earlier: due.Earlier}
	case how == pawl.CatchUpLast || now.Sub(r.Due(due.Ticks[n-1])) <= pawl.ScheduleGrace:
		return Plan{Fire: due.Ticks[n-1:], Missed: due.Ticks[:n-1], Earlier: due.Earlier}
	}
	return Plan{Missed: due.Ticks, Earlier: due.Earlier}
}

// Oldest is the oldest tick of the plan. It has one.
func (p *Plan) Oldest() time.Time {
	if len(p.Missed) > 0 {
		return p.Missed[0]
	}
	return p.Fire[0]
}

// Newest is the newest tick of the plan; the zero time = it has none.
func (p *Plan) Newest() (t time.Time) {
	if n := len(p.Fire); n > 0 {
		return p.Fire[n-1]
	}
	if n := len(p.Missed); n > 0 {
		return p.Missed[n-1]
	}
	return t
}
