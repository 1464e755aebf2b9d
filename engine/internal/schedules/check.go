package schedules

import (
	"time"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/engine/internal/rules"
)

// check checks the definition of a schedule, except for its rule and its task. It sets
// the defaults.
func check(s *pawl.NewSchedule) error {
	var f rules.Fields
	f.Text("/name", s.Name, 1, pawl.MaxKeyLen)
	f.Text("/cron", s.Cron, 0, pawl.MaxCronLen)
	f.Text("/zone", s.Zone, 0, pawl.MaxKeyLen)
	given := 0
	for _, is := range []bool{s.Cron != "", s.EverySeconds != 0, s.At != nil} {
		if is {
			given++
		}
	}
	if given != 1 {
		f.Add("", "has %d of cron, every_seconds and at; exactly one is needed", given)
	}
	if s.EverySeconds != 0 {
		f.Number("/every_seconds", s.EverySeconds, 1, int(pawl.MaxDelay.Seconds()))
	}
	f.Number("/jitter_seconds", s.JitterSeconds, 0, pawl.MaxJitterSeconds)
	rules.Choice(&f, "/overlap", s.Overlap, pawl.Overlaps...)
	rules.Choice(&f, "/catch_up", s.CatchUp, pawl.CatchUps...)
	if s.Task.RunAt != nil {
		f.Add("/task/run_at", "is one time; the schedule says when its tasks run")
	}
	if s.Task.Deadline != nil {
		f.Add("/task/deadline", "is one time; give schedule_to_start_seconds or start_to_close_seconds")
	}
	if s.Task.DryRun {
		f.Add("/task/dry_run", "creates nothing")
	}
	if s.Overlap == "" {
		s.Overlap = pawl.OverlapSkip
	}
	if s.CatchUp == "" {
		s.CatchUp = pawl.CatchUpNone
	}
	if s.Zone == "" {
		s.Zone = "UTC"
	}
	if s.At != nil {
		at := s.At.UTC().Truncate(time.Microsecond)
		s.At = &at
	}
	return f.Err("create schedule")
}

// checkFirst refuses a schedule that never fires. next is its first tick after now.
func checkFirst(s *pawl.NewSchedule, next time.Time, ok bool, now time.Time) error {
	var f rules.Fields
	switch {
	case s.At != nil && !ok:
		f.Add("/at", "lies in the past")
	case !ok:
		f.Add("/cron", "never fires: no day until the year 2100 matches it")
	case s.At != nil:
		f.Ahead("/at", &next, now)
	}
	return f.Err("create schedule")
}
