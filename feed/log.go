package feed

import (
	"context"
	"time"

	"github.com/pawl-work/pawl/internal/clock"
	"github.com/pawl-work/pawl/store"
)

// The pause between two looks for what is not in the transparency log. Where events get positions, only removals can be
// missing.
const (
	logEvery      = 500 * time.Millisecond
	removalsEvery = time.Second
	untoldEvery   = 30 * time.Second // if Options.Lags tells of them
)

// Log adds everything that was committed before the call to the transparency log. It
// returns when all is in it, by this process or another.
func (f *Feed) Log(ctx context.Context) error {
	for more := true; more; {
		var err error
		if more, err = f.logMore(ctx); err != nil {
			return err
		}
	}
	if f.commits == nil {
		return nil
	}
	for at := int64(-1); ; { // events get their leaves with their positions
		_, err := f.Head(ctx)
		if err == nil || ctx.Err() != nil {
			return err
		}
		was := at
		viewed := f.db.View(ctx, func(ctx context.Context, tx store.Tx) error {
			s, err := store.ReadFeed(ctx, tx)
			at = s.Top
			return err
		})
		if viewed != nil || at == was { // with many events, one query is too short
			return err
		}
	}
}

// logMore adds a page to the log if it lacks removals, or events where their numbers are in
// the order of commit. more reports whether it may lack more.
func (f *Feed) logMore(ctx context.Context) (more bool, err error) {
	err = f.db.Dialect().Look(ctx, func(ctx context.Context, tx store.Tx) (err error) {
		more, err = store.LogLags(ctx, tx, f.commits == nil)
		return err
	})
	if err != nil || !more {
		return false, err
	}
	if f.commits != nil {
		f.lags.Store(true)
		_, err := f.Head(ctx)
		return err == nil, err
	}
	var counted *store.Tally
	err = f.db.Do(ctx, func(ctx context.Context, tx store.Tx) error {
		s, err := store.LockFeedToCount(ctx, tx)
		if err != nil {
			return err
		}
		ids, err := store.TakeRemovals(ctx, tx, &s)
		if err != nil {
			return err
		}
		newest, err := store.NewestNumber(ctx, tx)
		if err != nil {
			return err
		}
		fresh, err := store.Numbers(ctx, tx, s.Top, newest, pageIDs)
		if err != nil {
			return err
		}
		if len(fresh) > 0 {
			s.Top = fresh[len(fresh)-1]
		}
		counted, err = store.Position(ctx, tx, &s, append(ids, fresh...))
		return err
	})
	if err == nil {
		f.count(counted)
	}
	return true, err
}

// countsAtOnce bounds the transactions that count old events between two looks.
const countsAtOnce = 10

// countEvery is the pause between two looks for such events once all are counted.
const countEvery = time.Minute

// CountOld adds events that have had positions since before there were totals to them, in at most
// most transactions.
func (f *Feed) CountOld(ctx context.Context, most int) error {
	_, err := f.countOld(ctx, most)
	return err
}

// countOld is CountOld. more reports whether some are left.
func (f *Feed) countOld(ctx context.Context, most int) (more bool, err error) {
	var s store.FeedState
	err = f.db.View(ctx, func(ctx context.Context, tx store.Tx) (err error) {
		s, err = store.ReadFeed(ctx, tx)
		return err
	})
	for more = !s.Counting.Complete(); more && err == nil && most > 0; most-- {
		err = f.db.Do(ctx, func(ctx context.Context, tx store.Tx) (err error) {
			more, err = store.CountOld(ctx, tx)
			return err
		})
	}
	return more, err
}

// logLoop keeps the log up to date until ctx ends. Where events get positions, polling adds
// them.
func (f *Feed) logLoop(ctx context.Context) {
	failed, every, told := false, logEvery, (<-chan struct{})(nil)
	switch {
	case f.commits != nil && f.opts.Lags != nil:
		every, told = untoldEvery, f.opts.Lags
	case f.commits != nil:
		every = removalsEvery
	}
	var countAt time.Time
	for pause(ctx, every, told) {
		var err error
		for more := true; more && err == nil; {
			more, err = f.logMore(ctx)
		}
		if err == nil && clock.Now().After(countAt) {
			var more bool
			if more, err = f.countOld(ctx, countsAtOnce); err == nil && !more {
				countAt = clock.Now().Add(countEvery)
			}
		}
		if err != nil && !failed && ctx.Err() == nil {
			f.opts.Log.WarnContext(ctx, "the transparency log cannot be written; retrying", "error", err)
		}
		failed = err != nil
	}
}
