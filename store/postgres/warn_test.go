package postgres

import (
	"strings"
	"testing"
	"time"
)

// A clock of the database's host that differs causes a warning in both directions. The
// time that the answer took does not count as a difference.
func TestWarningOfTheClock(t *testing.T) {
	asked := time.Date(2026, 11, 22, 9, 0, 0, 0, time.UTC)
	answered := asked.Add(5 * time.Second) // a slow server
	for now, want := range map[time.Time]string{
		asked.Add(-clockApart):                      "",
		asked.Add(-clockApart - time.Millisecond):   "the database's clock is 1.001s from",
		asked.Add(-time.Hour):                       "the database's clock is 1h0m0s from",
		asked.Add(2 * time.Second):                  "",
		answered.Add(clockApart):                    "",
		answered.Add(clockApart + time.Millisecond): "the database's clock is 1.001s from",
		answered.Add(90 * time.Second):              "the database's clock is 1m30s from",
	} {
		got := setup{asked: asked, now: now, answered: answered, commit: "on"}.warnings()
		switch {
		case want == "" && len(got) > 0:
			t.Errorf("%v: %+v", now.Sub(asked), got)
		case want != "" && (len(got) != 1 || got[0].Code != "clock_skew" || !strings.HasPrefix(got[0].Detail, want)):
			t.Errorf("%v: %+v, want %q", now.Sub(asked), got, want)
		}
	}
}
