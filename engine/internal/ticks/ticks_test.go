package ticks

import (
	"testing"
	"time"

	"github.com/pawl-work/pawl"
)

func TestX(t *testing.T) {
	for _, c := range []struct{ zone, cron, from string }{
		{"America/New_York", "30 2 * * *", "2026-03-07T12:00:00Z"},
		{"America/New_York", "30 1 * * *", "2026-10-31T12:00:00Z"},
		{"America/New_York", "*/30 * * * *", "2026-11-01T04:30:00Z"},
		{"America/New_York", "*/30 * * * *", "2026-03-08T05:30:00Z"},
		{"Australia/Lord_Howe", "0 * * * *", "2026-10-03T13:30:00Z"},
		{"Australia/Lord_Howe", "15 2 * * *", "2026-10-02T13:30:00Z"},
		{"Australia/Lord_Howe", "45 1 * * *", "2026-04-03T12:30:00Z"},
		{"Pacific/Apia", "0 9 * * *", "2011-12-28T12:30:00Z"},
	} {
		from, _ := time.Parse(time.RFC3339, c.from)
		r, bad := Of(&pawl.NewSchedule{Cron: c.cron, Zone: c.zone}, from, "")
		if bad != nil {
			t.Fatal(bad)
		}
		z, _ := time.LoadLocation(c.zone)
		t.Log(c)
		for _, x := range r.List(from, 5) {
			t.Log("   ", x.Format(time.RFC3339), x.In(z).Format(time.RFC3339))
		}
	}
}

func BenchmarkParse(b *testing.B) {
	for b.Loop() {
		r, _ := Of(&pawl.NewSchedule{Cron: "*/5 3 * * 1-5", Zone: "Europe/Berlin"}, time.Now(), "")
		x, _ := r.Next(time.Now())
		r.Next(x)
	}
}
