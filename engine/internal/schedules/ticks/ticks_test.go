package ticks

import (
	"strconv"
	"testing"
	"time"

	"github.com/pawl-work/pawl"
)

// Ticks at changes of clocks, in the zone's own time.
func TestTicksWhenClocksChange(t *testing.T) {
	for _, c := range []struct {
		zone, cron, from string
		want             []string
	}{
		{"America/New_York", "30 2 * * *", "2026-03-07T12:00:00Z", []string{"03-08T03:00:00-04:00", "03-09T02:30:00-04:00"}},
		{"America/New_York", "30 1 * * *", "2026-10-31T12:00:00Z", []string{"11-01T01:30:00-04:00", "11-02T01:30:00-05:00"}},
		{"America/New_York", "*/30 * * * *", "2026-11-01T05:00:00Z", []string{"11-01T01:30:00-04:00", "11-01T01:00:00-05:00",
			"11-01T01:30:00-05:00", "11-01T02:00:00-05:00"}},
		{"America/New_York", "*/30 * * * *", "2026-03-08T06:00:00Z", []string{"03-08T01:30:00-05:00", "03-08T03:00:00-04:00",
			"03-08T03:30:00-04:00"}},
		{"America/New_York", "15 * * * *", "2026-03-08T06:00:00Z", []string{"03-08T01:15:00-05:00", "03-08T03:15:00-04:00",
			"03-08T04:15:00-04:00"}},
		{"America/New_York", "15,45 * * * *", "2026-11-01T05:00:00Z", []string{"11-01T01:15:00-04:00", "11-01T01:45:00-04:00",
			"11-01T01:15:00-05:00", "11-01T01:45:00-05:00"}},
		{"Australia/Lord_Howe", "15 * * * *", "2026-10-03T14:30:00Z", []string{"10-04T01:15:00+10:30", "10-04T03:15:00+11:00"}},
		{"Europe/Berlin", "15,45 2 * * *", "2026-03-28T12:00:00Z", []string{"03-29T03:00:00+02:00", "03-30T02:15:00+02:00"}},
		{"Europe/Berlin", "0 2 * * *", "2026-10-24T12:00:00Z", []string{"10-25T02:00:00+02:00", "10-26T02:00:00+01:00"}},
		{"Australia/Lord_Howe", "15 2 * * *", "2026-10-03T12:00:00Z", []string{"10-04T02:30:00+11:00", "10-05T02:15:00+11:00"}},
		{"Australia/Lord_Howe", "45 1 * * *", "2026-04-04T12:30:00Z", []string{"04-05T01:45:00+11:00", "04-06T01:45:00+10:30"}},
		{"Asia/Kolkata", "30 1 * * *", "2026-03-28T12:00:00Z", []string{"03-29T01:30:00+05:30", "03-30T01:30:00+05:30"}},
	} {
		from, _ := time.Parse(time.RFC3339, c.from)
		zone, err := time.LoadLocation(c.zone)
		r, bad := Of(&pawl.NewSchedule{Cron: c.cron, Zone: c.zone}, from, "")
		if err != nil || bad != nil {
			t.Fatal(err, bad)
		}
		for i, tick := range r.List(from, len(c.want)) {
			if got := tick.In(zone).Format("01-02T15:04:05Z07:00"); got != c.want[i] {
				t.Errorf("%s in %s, tick %d: %s, want %s", c.cron, c.zone, i, got, c.want[i])
			}
		}
	}
}

// Over a year, a daily time comes once a day, and an hourly one every hour, in each zone.
func TestAYearInFiveZones(t *testing.T) {
	begin := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	end := begin.AddDate(1, 0, 0)
	for _, zone := range []string{"America/New_York", "Europe/Berlin", "Australia/Lord_Howe", "Africa/Casablanca", "Asia/Kolkata"} {
		at, err := time.LoadLocation(zone)
		if err != nil {
			t.Fatal(err)
		}
		for _, cron := range []string{"30 1 * * *", "30 2 * * *", "0 0 * * *", "0 3 * * *"} {
			r, _ := Of(&pawl.NewSchedule{Cron: cron, Zone: zone}, begin, "")
			last, n := begin.In(at).YearDay()-1, 0
			for tick, ok := r.Next(begin); ok && tick.Before(end); tick, ok = r.Next(tick) {
				day := tick.In(at).YearDay()
				if day == last {
					t.Errorf("%s in %s fires twice on %s", cron, zone, tick.In(at))
				}
				last, n = day, n+1
			}
			if n != 365 {
				t.Errorf("%s in %s fired %d times in a year", cron, zone, n)
			}
		}
		r, _ := Of(&pawl.NewSchedule{Cron: "0 * * * *", Zone: zone}, begin, "")
		last := begin
		for tick, ok := r.Next(begin); ok && tick.Before(end); tick, ok = r.Next(tick) {
			if gap := tick.Sub(last); gap > 90*time.Minute {
				t.Errorf("hourly in %s: %s between %s and %s", zone, gap, last, tick)
			}
			last = tick
		}
	}
}

// The days of a week on which an expression has ticks; 0 is Sunday.
func TestDaysOfTheWeek(t *testing.T) {
	begin := time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC) // a Sunday
	for field, want := range map[string]string{
		"*": "0123456", "0": "0", "7": "0", "07": "0", "01": "1", "0-0": "0", "7-7": "0", "0-7": "0123456", "1-7": "0123456", "6-7": "06",
		"5-7": "056", "1-5": "12345", "0-2": "012", "7-2": "012", "1-7/2": "0135", "0-7/3": "036", "5-1/2": "05", "2/2": "246", "7/2": "0246",
		"*/2": "0246", "SUN": "0", "sunday": "0", "Friday-Sunday": "056", "FRI-MON": "0156", "mon,saturday-tuesday": "0126",
		"thursday,tue": "24", "thu-sat": "456", "sun-sat": "0123456", "sun-sun": "0", "1,3-4,7": "0134",
		"1#1": "1", "sunday#1": "0", "7#1": "0",
	} {
		r, bad := Of(&pawl.NewSchedule{Cron: "0 9 * * " + field}, begin, "")
		if bad != nil {
			t.Errorf("%s: %v", field, bad)
			continue
		}
		got := ""
		for tick, ok := r.Next(begin); ok && tick.Before(begin.AddDate(0, 0, 7)); tick, ok = r.Next(tick) {
			got += strconv.Itoa(int(tick.Weekday()))
		}
		if got != want {
			t.Errorf("%s: %s, want %s", field, got, want)
		}
	}
	r, bad := Of(&pawl.NewSchedule{Cron: "0 9 * * sundayL"}, begin, "")
	if bad != nil {
		t.Fatal(bad)
	}
	if tick, _ := r.Next(begin); tick.Day() != 29 {
		t.Errorf("the last Sunday is %s", tick)
	}
}

// What is no rule is refused, and a day that never comes has no tick.
func TestRulesThatAreRefused(t *testing.T) {
	for _, c := range []pawl.NewSchedule{{Cron: "* * * *"}, {Cron: "@reboot"}, {Cron: "60 * * * *"}, {Cron: "0 22-2 * * *"},
		{Cron: "0 0 * * MON-8"}, {Cron: "0 0 1 november-january *"}, {Cron: "0 0 * * 1-5/7"},
		{Cron: "TZ=UTC 0 0 * * *"}, {Cron: "*/0 * * * *"}, {Cron: "@daily", Zone: "Mars/Olympus"},
		{Cron: "@daily", Zone: "Local"}, {}} {
		if _, bad := Of(&c, time.Now(), ""); bad == nil {
			t.Errorf("%+v is a rule", c)
		}
	}
	r, bad := Of(&pawl.NewSchedule{Cron: "0 0 30 2 *"}, time.Now(), "")
	if bad != nil {
		t.Fatal(bad)
	}
	if tick, ok := r.Next(time.Now()); ok {
		t.Errorf("30 February is %s", tick)
	}
}

// The due ticks are found in few steps, however many there are. Jitter is the same each time and
// ends before the next tick.
func TestDueTicks(t *testing.T) {
	begin := time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)
	r, _ := Of(&pawl.NewSchedule{EverySeconds: 1}, begin, "")
	now := begin.AddDate(26, 0, 0)
	p := r.Plan(begin.Add(time.Second), now, pawl.CatchUpAll)
	if len(p.Fire) != pawl.MaxCatchUp || !p.Earlier || !p.Newest().Equal(now) {
		t.Errorf("all: %d ticks, earlier %v, newest %s", len(p.Fire), p.Earlier, p.Newest())
	}
	if p = r.Plan(now.Add(-2*time.Second), now, pawl.CatchUpLast); len(p.Fire) != 1 || len(p.Missed) != 2 || p.Earlier {
		t.Errorf("last: %+v", p)
	}
	if p = r.Plan(now, now.Add(500*time.Millisecond), pawl.CatchUpNone); len(p.Fire) != 1 {
		t.Errorf("in time: %+v", p)
	}
	j, _ := Of(&pawl.NewSchedule{EverySeconds: 10, JitterSeconds: 60}, begin, "seed")
	different := map[time.Duration]bool{}
	for _, tick := range j.List(begin, 20) {
		wait := j.Due(tick).Sub(tick)
		if different[wait] = true; wait < 0 || wait >= 10*time.Second || j.Due(tick).Sub(tick) != wait {
			t.Errorf("a jitter of %s", wait)
		}
	}
	if len(different) < 10 {
		t.Errorf("%d different jitters of 20", len(different))
	}
}

// Rare ticks are found far beyond the changes that the data of a zone list, in leap years too.
func TestTicksOfLeapYears(t *testing.T) {
	for _, zone := range []string{"UTC", "America/New_York", "Europe/Berlin", "Australia/Sydney", "America/Santiago", "Asia/Tokyo"} {
		loc, err := time.LoadLocation(zone)
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range []struct {
			text              string
			month, day, every int
		}{{"30 12 29 2 *", 2, 29, 4}, {"30 12 31 12 *", 12, 31, 1}, {"30 12 1 1 *", 1, 1, 1}} {
			rule, faults := Of(&pawl.NewSchedule{Cron: c.text, Zone: zone}, time.Time{}, "")
			if faults != nil {
				t.Fatal(faults)
			}
			after := time.Date(2028, time.Month(c.month), c.day, 12, 30, 0, 0, loc)
			for year := 2028 + c.every; year < 2100; year += c.every {
				want := time.Date(year, time.Month(c.month), c.day, 12, 30, 0, 0, loc)
				if after, _ = rule.Next(after); !after.Equal(want) {
					t.Fatalf("%s in %s: %v, want %v", c.text, zone, after, want)
				}
			}
		}
	}
}
