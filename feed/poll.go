package feed

import (
	"context"
	"time"

	"github.com/pawl-work/pawl/internal/clock"
	"github.com/pawl-work/pawl/internal/watch"
)

// recentReaderTime is how long the newest events stay cached after the last reader left: a
// reader that alternates between reading and waiting comes back soon.
const recentReaderTime = 10 * time.Second

// startPolling starts the polling goroutine if it is not running; readers make it poll faster.
func (f *Feed) startPolling(readers int) {
	f.mu.Lock()
	f.pollers++
	f.waiting += readers
	first := f.pollers == 1 && !f.closed
	if first {
		ctx, stop := context.WithCancel(context.Background())
		f.stop = stop
		woken := f.hub.Next(watch.Commits())
		f.work.Go(func() { f.poll(ctx, woken) })
	}
	f.mu.Unlock()
	f.hub.Wake(watch.Commits()) // poll may be in a long pause
}

func (f *Feed) stopPolling(readers int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.waiting -= readers; readers > 0 {
		f.recentUntil = clock.Now().Add(recentReaderTime)
	}
	if f.pollers--; f.pollers == 0 && f.stop != nil {
		f.stop()
		f.stop = nil
	}
}

// poll looks for new events when it is woken, and at an interval.
func (f *Feed) poll(ctx context.Context, woken <-chan struct{}) {
	failed := false
	for {
		gap, poll := f.pollTimes()
		if gap == minGapIdle {
			f.cache.drop()
		}
		if !pause(ctx, poll, woken) {
			return
		}
		woken = f.hub.Next(watch.Commits())
		if err := f.refresh(ctx); err != nil && ctx.Err() == nil {
			if !failed {
				f.opts.Log.WarnContext(ctx, "the event feed cannot be read; retrying", "error", err)
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

func (f *Feed) pollTimes() (gap, poll time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case !f.isRead():
		return minGapIdle, pollIdle
	case f.commits == nil && !f.hub.Complete():
		return minGapReading, pollSQLite
	}
	return minGapReading, f.opts.Poll
}

// isRead reports whether the feed is being read.
func (f *Feed) isRead() bool { return f.waiting > 0 || clock.Now().Before(f.recentUntil) }

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
