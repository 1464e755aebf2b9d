package sqlite

import (
	"log/slog"
	"strings"
	"testing"
	"time"
)

// A clock that is behind the record stops time. Nobody would guess it from leases
// that do not end, so it is said; once, or each transaction would say it.
func TestAClockBehindTheRecordIsSaidOnce(t *testing.T) {
	var log strings.Builder
	clock := time.Date(2026, 1, 29, 10, 0, 0, 0, time.UTC)
	r := &ratchet{clock: func() time.Time { return clock }, log: slog.New(slog.NewTextHandler(&log, nil))}
	stamp := clock.Add(48 * time.Hour).UnixMicro()
	r.notBelow(clock.Add(30 * time.Second).UnixMicro()) // two clocks' usual difference is not worth a word
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
