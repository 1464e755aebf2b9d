package sqlite

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/pawl-work/pawl/internal/clock"
	"github.com/pawl-work/pawl/store"
)

// The size of a jump of the clock, and how long it must last before Pawl follows it. The
// clock of a suspended machine jumps too.
const (
	clockJump = time.Minute
	jumpLasts = time.Minute
)

// monotonicClock never goes backwards: not below a value that this process has returned,
// nor below the newest timestamp in the database. It compares the system clock with the
// monotonic clock. A jump ahead counts once it has lasted for jumpLasts; a jump that is
// corrected earlier has no effect. While the system clock is behind the newest timestamp,
// time passes at half speed. A clock without a monotonic reading, as in tests, is followed
// directly.
type monotonicClock struct {
	clock func() time.Time
	mono  func() time.Time // any clock with a monotonic reading
	log   *slog.Logger     // nil = the clock of one transaction; it does not log

	mu     sync.Mutex
	last   int64     // the last value returned, in microseconds
	read   time.Time // when it was returned, by mono
	jumped time.Time // when the clock was first seen ahead, by mono; zero = it is not ahead
	slow   bool      // the warning about slow time was logged
}

func newMonotonicClock(wall func() time.Time, log *slog.Logger) *monotonicClock {
	return &monotonicClock{clock: wall, mono: clock.Now, log: log}
}

func (r *monotonicClock) notBelow(stamp int64) int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	wall, mono := r.clock(), r.mono()
	now := wall.UnixMicro()
	if r.last > 0 && wall != wall.Round(0) { // the clock has a monotonic reading
		passed := mono.Sub(r.read).Microseconds()
		now = max(r.trusted(now, r.last+passed, mono), r.last+passed/2)
	}
	now = max(now, r.last, stamp)
	r.warnIfBehind(wall.UnixMicro(), now)
	r.last, r.read = now, mono
	return now
}

// forget lets the next time be below those that were returned.
func (r *monotonicClock) forget() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.last, r.read, r.jumped, r.slow = 0, time.Time{}, time.Time{}, false
}

// trusted returns the system clock's time. While that clock is ahead of the expected time,
// and has not been for jumpLasts, it returns the expected time.
func (r *monotonicClock) trusted(wall, expected int64, mono time.Time) int64 {
	ahead := time.Duration(wall-expected) * time.Microsecond
	switch {
	case ahead < clockJump:
		r.jumped = time.Time{}
		return wall
	case r.jumped.IsZero():
		r.jumped = mono
		if r.log != nil {
			r.log.Warn("the system clock jumped ahead; Pawl follows it if it stays there", "by", ahead.Round(time.Second), "for", jumpLasts)
		}
	case mono.Sub(r.jumped) >= jumpLasts:
		r.jumped = time.Time{}
		return wall
	}
	return expected
}

// warnIfBehind logs that time passes slowly, once each time that the clock falls behind.
// Without it, leases that last too long would not show their cause.
func (r *monotonicClock) warnIfBehind(wall, now int64) {
	behind := time.Duration(now-wall) * time.Microsecond
	switch {
	case r.log == nil:
	case behind < time.Second:
		r.slow = false
	case behind > time.Minute && !r.slow:
		r.slow = true
		r.log.Warn("the system clock is behind the newest event; until it catches up, leases and due times take twice as long", "behind",
			behind.Round(time.Second))
	}
}

// now returns the time of a transaction. It reads the newest event.
func (r *monotonicClock) now(ctx context.Context, tx store.Tx) (int64, error) {
	var newest int64
	if _, err := store.Row(ctx, tx, []any{&newest}, "SELECT created_at FROM pawl.task_events ORDER BY id DESC LIMIT 1"); err != nil {
		return 0, err
	}
	return r.notBelow(newest), nil
}
