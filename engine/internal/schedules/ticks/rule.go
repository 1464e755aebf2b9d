// Package ticks computes the times of a schedule: of a cron expression in a time zone, of an
// interval, or one time. It does no I/O, except that Go reads the data of a time zone.
package ticks

import (
	"errors"
	"fmt"
	"time"
	_ "time/tzdata" // for machines without data of time zones

	"github.com/pawl-work/pawl"
)

// Rule says when a schedule fires. Its times are whole seconds, except for that of At.
type Rule struct {
	cron   *cron
	every  time.Duration
	anchor time.Time
	at     time.Time
	jitter time.Duration
	seed   string
}

// Of returns the rule of a definition. anchor is the time from which an interval counts. seed
// tells the jitter of schedules apart. The error says what is wrong, as faults with JSON
// Pointers into the definition.
func Of(s *pawl.NewSchedule, anchor time.Time, seed string) (*Rule, []pawl.Field) {
	r := &Rule{jitter: time.Duration(s.JitterSeconds) * time.Second, seed: seed, anchor: anchor.UTC().Truncate(time.Second)}
	zone, err := loadZone(s.Zone)
	if err != nil {
		return nil, []pawl.Field{{Pointer: "/zone", Message: err.Error()}}
	}
	switch {
	case s.Cron != "":
		if r.cron, err = parse(s.Cron, zone); err != nil {
			return nil, []pawl.Field{{Pointer: "/cron", Message: err.Error()}}
		}
	case s.EverySeconds > 0:
		r.every = time.Duration(s.EverySeconds) * time.Second
	case s.At != nil:
		r.at = s.At.UTC().Truncate(time.Microsecond) // as firings are stored
	default:
		return nil, []pawl.Field{{Message: "has no cron, every_seconds or at"}}
	}
	return r, nil
}

// loadZone returns the time zone of a name of the IANA database; "" = UTC.
func loadZone(name string) (*time.Location, error) {
	if name == "Local" {
		return nil, errors.New(`is "Local", which differs from machine to machine; name a zone, for example Europe/Berlin`)
	}
	zone, err := time.LoadLocation(name)
	if err != nil {
		return nil, fmt.Errorf("is %q, which is no time zone; name one of the IANA database, for example Europe/Berlin", name)
	}
	return zone, nil
}

// Next returns the first tick after a time. ok is false if there is none.
func (r *Rule) Next(after time.Time) (tick time.Time, ok bool) {
	switch {
	case r.cron != nil:
		tick = r.cron.next(after)
	case r.every > 0:
		n := after.Sub(r.anchor) / r.every
		if after.Before(r.anchor) {
			n = 0
		}
		tick = r.anchor.Add((n + 1) * r.every)
	case r.at.After(after):
		tick = r.at
	}
	return tick.UTC(), !tick.IsZero()
}

// List returns the first n ticks after a time.
func (r *Rule) List(after time.Time, n int) []time.Time {
	out := make([]time.Time, 0, n)
	for len(out) < n {
		tick, ok := r.Next(after)
		if !ok {
			break
		}
		out = append(out, tick)
		after = tick
	}
	return out
}

// Due is the time at which a tick fires: the tick and its jitter. The jitter depends on the
// schedule and the tick alone, and is shorter than the time to the next tick, so that ticks
// fire in their order.
func (r *Rule) Due(tick time.Time) time.Time {
	if r.jitter <= 0 {
		return tick
	}
	span := r.jitter
	if next, ok := r.Next(tick); ok {
		span = min(span, next.Sub(tick))
	}
	return tick.Add(spread(r.seed, tick, span))
}

// Missed are the due ticks of a schedule that nothing has fired yet.
type Missed struct {
	Ticks []time.Time // the newest, oldest first
	// Earlier says that there are older ones: from the tick on at which the search began, to
	// the first of Ticks.
	Earlier bool
}

// Newest returns the due ticks from first on, at most n of them. first is a tick. now is the
// present. Ticks whose jitter is not over are not due. The search takes few steps, however
// long ago first is.
func (r *Rule) Newest(first, now time.Time, n int) Missed {
	for span := time.Minute; ; span *= 4 {
		from := now.Add(-span)
		if span <= 0 || !from.After(first) {
			return r.newest(first.Add(-1), now, n, false)
		}
		// One more than asked for: the first of them is not the first of all.
		if out := r.newest(from, now, n, true); len(out.Ticks) == n {
			return out
		}
	}
}

// newest reads the due ticks after a time and keeps the last n.
func (r *Rule) newest(after, now time.Time, n int, earlier bool) Missed {
	out := Missed{Earlier: earlier}
	for {
		tick, ok := r.Next(after)
		if !ok || tick.After(now) || r.jitter > 0 && r.Due(tick).After(now) {
			return out
		}
		if len(out.Ticks) == n {
			out.Ticks, out.Earlier = append(out.Ticks[:0], out.Ticks[1:]...), true
		}
		out.Ticks = append(out.Ticks, tick)
		after = tick
	}
}
