package sqlite

import (
	"log/slog"
	"strings"
	"testing"
	"time"
)

// While the clock is behind the newest event, time passes slowly. Leases that last too
// long do not show the cause, so it is logged: once, and not for each transaction.
func TestAClockBehindTheRecordIsSaidOnce(t *testing.T) {
	var log strings.Builder
	clock := time.Date(2026, 1, 29, 10, 0, 0, 0, time.UTC)
	r := newMonotonicClock(func() time.Time { return clock }, slog.New(slog.NewTextHandler(&log, nil)))
	stamp := clock.Add(48 * time.Hour).UnixMicro()
	r.notBelow(clock.Add(30 * time.Second).UnixMicro()) // the usual difference between two clocks is not logged
	if log.Len() > 0 {
		t.Errorf("of half a minute it says %q", log.String())
	}
	for range 3 {
		if got := r.notBelow(stamp); got != stamp {
			t.Errorf("now %d, want the newest stamp %d", got, stamp)
		}
	}
	if said := log.String(); strings.Count(said, "behind=48h0m0s") != 1 {
		t.Errorf("two days behind, it says %q", said)
	}
	clock = clock.Add(50 * time.Hour)
	r.notBelow(stamp)
	clock = clock.Add(-time.Hour)
	r.notBelow(stamp)
	if said := log.String(); strings.Count(said, "\n") != 2 || !strings.Contains(said, "behind=1h0m0s") {
		t.Errorf("set back once more, it says %q", said)
	}
}

// The clock jumps ahead of the monotonic clock, for a moment or permanently.
func TestAJumpOfTheClockIsFollowedOnceItHasLasted(t *testing.T) {
	var log strings.Builder
	var elapsed, off time.Duration
	began := time.Now() // with a monotonic reading
	r := newMonotonicClock(func() time.Time { return began.Add(elapsed + off) }, slog.New(slog.NewTextHandler(&log, nil)))
	r.mono = func() time.Time { return began.Add(elapsed) }
	after := func(d time.Duration) time.Duration {
		elapsed += d
		return time.Duration(r.notBelow(0)-began.UnixMicro()) * time.Microsecond
	}
	for _, step := range []struct {
		what           string
		passes, offset time.Duration
		want           time.Duration // since the beginning
	}{
		{"at first", 0, 0, 0},
		{"a day ahead", time.Second, 24 * time.Hour, time.Second},
		{"put right", time.Second, 0, 2 * time.Second},
		{"ahead once more", 30 * time.Second, time.Hour, 32 * time.Second},
		{"not long enough", 59 * time.Second, time.Hour, 91 * time.Second},
		{"for good", time.Second, time.Hour, time.Hour + 92*time.Second},
		{"a small step is no jump", time.Second, time.Hour + 30*time.Second, time.Hour + 123*time.Second},
		{"back where it was", 10 * time.Second, 0, time.Hour + 128*time.Second},
		{"half as fast", 1000 * time.Second, 0, time.Hour + 628*time.Second},
		{"it has caught up", 3 * time.Hour, 0, 3*time.Hour + 1103*time.Second},
	} {
		off = step.offset
		if got := after(step.passes); got.Round(time.Millisecond) != step.want {
			t.Errorf("%s: %v, want %v", step.what, got, step.want)
		}
	}
	if n := strings.Count(log.String(), "jumped ahead"); n != 2 {
		t.Errorf("%d jumps are in the log:\n%s", n, log.String())
	}
}
