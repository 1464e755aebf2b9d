package feed

import (
	"context"
	"time"

	"github.com/pawl-work/pawl/internal/clock"
	"github.com/pawl-work/pawl/internal/watch"
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
		woken := f.hub.Next(watch.Commits())
		f.work.Go(func() { f.drive(ctx, woken) })
	}
	f.mu.Unlock()
	f.hub.Wake(watch.Commits()) // the driver may be in a long pause
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
func (f *Feed) drive(ctx context.Context, woken <-chan struct{}) {
	failed := false
	for {
		gap, poll := f.pace()
		if gap == gapAlone {
			f.cache.drop()
		}
		if !pause(ctx, poll, woken) {
			return
		}
		woken = f.hub.Next(watch.Commits())
		if err := f.refresh(ctx); err != nil && ctx.Err() == nil {
			if !failed {
				f.opts.Log.WarnContext(ctx, "the feed cannot be read; it is tried again", "error", err)
			}
			failed, gap = true, max(gap, time.Second)
		} else {
			failed = false
		}
		if !pause(ctx, gap, nil) {
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
	case f.commits == nil && !f.hub.Complete():
		return gapAwaited, pollSQLite
	}
	return gapAwaited, f.opts.Poll
}

// read reports whether the feed is being read.
func (f *Feed) read() bool { return f.waiting > 0 || clock.Now().Before(f.recent) }

// pause waits for d or until woken is closed; false = ctx has ended.
func pause(ctx context.Context, d time.Duration, woken <-chan struct{}) bool {
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
