package sqlite

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/pawl-work/pawl/internal/clock"
	"github.com/pawl-work/pawl/store"
)

// What a jump of the clock is, and how long it must last to be believed. A machine
// that was suspended jumps too.
const (
	clockJump = time.Minute
	jumpLasts = time.Minute
)

// monotonicClock is a clock that never turns back: not below what this process has
// used, nor below the newest stamp on record, whoever wrote it. The machine's clock
// is compared with the monotonic one. A jump ahead counts once it has lasted: one that
// is put right before does nothing. While the clock is behind the record, time goes
// on at half speed. A clock without a monotonic reading, a test's, is followed as it is.
type monotonicClock struct {
	clock func() time.Time
	mono  func() time.Time // any clock with a monotonic reading
	log   *slog.Logger     // nil = a clock of one transaction, which says nothing

	mu     sync.Mutex
	last   int64     // what was answered last, in microseconds
	read   time.Time // when that was, by mono
	jumped time.Time // when the clock was first seen ahead, by mono; zero = it is not
	slow   bool      // it was said that time goes slowly
}

func newMonotonicClock(wall func() time.Time, log *slog.Logger) *monotonicClock {
	return &monotonicClock{clock: wall, mono: clock.Now, log: log}
}

func (r *monotonicClock) notBelow(stamp int64) int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	wall, mono := r.clock(), r.mono()
	now := wall.UnixMicro()
	if r.last > 0 && wall != wall.Round(0) { // it has a monotonic reading
		passed := mono.Sub(r.read).Microseconds()
		now = max(r.trusted(now, r.last+passed, mono), r.last+passed/2)
	}
	now = max(now, r.last, stamp)
	r.warnIfBehind(wall.UnixMicro(), now)
	r.last, r.read = now, mono
	return now
}

// trusted is the clock's time, or the expected one while the clock is ahead of it
// and has not been for long.
func (r *monotonicClock) trusted(wall, expected int64, mono time.Time) int64 {
	ahead := time.Duration(wall-expected) * time.Microsecond
	switch {
	case ahead < clockJump:
		r.jumped = time.Time{}
		return wall
	case r.jumped.IsZero():
		r.jumped = mono
		if r.log != nil {
			r.log.Warn("the machine's clock jumped ahead: it is followed if it stays there", "by", ahead.Round(time.Second), "for", jumpLasts)
		}
	case mono.Sub(r.jumped) >= jumpLasts:
		r.jumped = time.Time{}
		return wall
	}
	return expected
}

// warnIfBehind says once, each time that the clock falls behind, that time goes slowly:
// leases that last too long look like anything but a clock.
func (r *monotonicClock) warnIfBehind(wall, now int64) {
	behind := time.Duration(now-wall) * time.Microsecond
	switch {
	case r.log == nil:
	case behind < time.Second:
		r.slow = false
	case behind > time.Minute && !r.slow:
		r.slow = true
		r.log.Warn("the machine's clock is behind the record: until it has caught up, leases and due times take twice as long", "behind", behind.Round(time.Second))
	}
}

// now is the time for a transaction: one look at the newest event.
func (r *monotonicClock) now(ctx context.Context, tx store.Tx) (int64, error) {
	var newest int64
	if _, err := store.Row(ctx, tx, []any{&newest}, "SELECT created_at FROM pawl.task_events ORDER BY id DESC LIMIT 1"); err != nil {
		return 0, err
	}
	return r.notBelow(newest), nil
}
