package feed

import (
	"context"
	"time"

	"github.com/pawl-work/pawl/internal/clock"
)

// recently is how long the newest events stay cached after the last reader left: a
// reader that alternates between reading and waiting comes back soon.
const recently = 10 * time.Second

// join starts the driver if it is not running; readers make it poll faster.
func (f *Feed) join(readers int) {
	f.mu.Lock()
	f.drivers++
	f.waiting += readers
	first := f.drivers == 1 && !f.closed
	if first {
		ctx, stop := context.WithCancel(context.Background())
		f.stop = stop
		f.work.Go(func() { f.drive(ctx) })
	}
	f.mu.Unlock()
	f.Wake() // the driver may be in a long pause
}

func (f *Feed) leave(readers int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.waiting -= readers; readers > 0 {
		f.recent = clock.Now().Add(recently)
	}
	if f.drivers--; f.drivers == 0 && f.stop != nil {
		f.stop()
		f.stop = nil
	}
}

// drive looks for new events when it is woken, and at an interval.
func (f *Feed) drive(ctx context.Context) {
	failed := false
	for {
		gap, poll := f.pace()
		if gap == gapAlone {
			f.cache.drop()
		}
		if !f.pause(ctx, poll, true) {
			return
		}
		if err := f.refresh(ctx); err != nil && ctx.Err() == nil {
			if !failed {
				f.opts.Log.WarnContext(ctx, "the feed cannot be read; it is tried again", "error", err)
			}
			failed, gap = true, max(gap, time.Second)
		} else {
			failed = false
		}
		if !f.pause(ctx, gap, false) {
			return
		}
	}
}

func (f *Feed) pace() (gap, poll time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case !f.read():
		return gapAlone, pollAlone
	case f.commits == nil:
		return gapAwaited, pollSQLite
	}
	return gapAwaited, f.opts.Poll
}

// read reports whether the feed is being read.
func (f *Feed) read() bool { return f.waiting > 0 || clock.Now().Before(f.recent) }

// pause waits; it returns false when ctx ends.
func (f *Feed) pause(ctx context.Context, d time.Duration, wakes bool) bool {
	var woken chan struct{}
	if wakes {
		woken = f.woken
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-woken:
	case <-timer.C:
	}
	return true
}
