package feed

import (
	"context"
	"time"

	"github.com/pawl-work/pawl/store"
)

// logEvery is the pause between two looks for what is not in the transparency log.
const logEvery = 500 * time.Millisecond

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
	_, err := f.Head(ctx) // events get their leaves with their positions
	return err
}

// logMore adds a page to the log if it lacks removals, or events where their numbers are in
// the order of commit. more reports whether it may lack more.
func (f *Feed) logMore(ctx context.Context) (more bool, err error) {
	err = f.db.View(ctx, func(ctx context.Context, tx store.Tx) (err error) {
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
		s, err := store.LockFeed(ctx, tx)
		if err != nil {
			return err
		}
		ids, err := store.TakeRemovals(ctx, tx, s.Position)
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

// logLoop keeps the log up to date until ctx ends. Where events get positions, polling adds
// them.
func (f *Feed) logLoop(ctx context.Context) {
	failed := false
	for pause(ctx, logEvery, nil) {
		var err error
		for more := true; more && err == nil; {
			more, err = f.logMore(ctx)
		}
		if err != nil && !failed && ctx.Err() == nil {
			f.opts.Log.WarnContext(ctx, "the transparency log cannot be written; retrying", "error", err)
		}
		failed = err != nil
	}
}
