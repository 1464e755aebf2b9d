package feed

import (
	"context"
	"time"

	"github.com/pawl-work/pawl/internal/clock"
	"github.com/pawl-work/pawl/store"
)

const (
	// sealEvery is the pause between looks for what is to be sealed.
	sealEvery = 500 * time.Millisecond
	// While there is more to seal than that, the sealer rests easyShare times as
	// long as it has worked: a burst has the machine for itself. One that goes on
	// for longer than sealLag is followed at hardShare, so that it is caught up with.
	easyShare, hardShare = 4, 1
	sealLag              = time.Minute
	// sealTurn is how long another process's sealing is taken to go on; none rests
	// longer than half of it.
	sealTurn = 10 * time.Second
)

// Seal seals the events that were committed when it was called: each task's as a
// chain, in feed order. It returns when all are sealed, also by other processes.
func (f *Feed) Seal(ctx context.Context) error {
	head, err := f.Head(ctx)
	if err != nil {
		return err
	}
	for {
		b, _, err := f.seal(ctx, func(*store.Batch) bool { return true })
		if err != nil || b.After >= head || b.Through == b.After {
			return err
		}
	}
}

// seal seals the next batch if ours accepts it. sealed is false when another process
// was first.
func (f *Feed) seal(ctx context.Context, ours func(*store.Batch) bool) (b store.Batch, sealed bool, err error) {
	err = f.db.View(ctx, func(ctx context.Context, tx store.Tx) error {
		b, err = store.NextBatch(ctx, tx, f.commits)
		return err
	})
	if err != nil || b.Through == b.After || !ours(&b) {
		return b, false, err
	}
	err = f.db.Do(ctx, func(ctx context.Context, tx store.Tx) error {
		if f.commits != nil {
			if _, err := f.commits.Drawn(ctx, tx); err != nil { // one that stands still loses its connection
				return err
			}
		}
		sealed, err = store.PutBatch(ctx, tx, &b)
		return err
	})
	return b, sealed, err
}

// sealable is the newest position as far as this process is told of it.
func (f *Feed) sealable(ctx context.Context) (int64, error) {
	if f.commits == nil {
		return f.Head(ctx)
	}
	return f.Newest(), nil // Run keeps it new
}

// keepSealed seals what comes until ctx ends. Of several processes one goes on and
// the others look after it: they seal when it has not for a while.
func (f *Feed) keepSealed(ctx context.Context) {
	var mine int64 = -1
	wait, failed := sealEvery, false
	for f.pause(ctx, wait, false) {
		wait = sealEvery
		if head, err := f.sealable(ctx); err == nil && mine >= 0 && head <= mine {
			if head < mine {
				mine = -1 // the database went back in time
			}
			continue // nothing has come
		}
		began := clock.Now()
		b, sealed, err := f.seal(ctx, func(b *store.Batch) bool {
			return b.After == mine || b.Age > sealTurn.Microseconds()
		})
		if err != nil && !failed && ctx.Err() == nil {
			f.opts.Log.WarnContext(ctx, "sealing stands still; it is tried again", "error", err)
		}
		failed = err != nil
		if sealed {
			mine = b.Through
		}
		if sealed && b.More {
			share := time.Duration(easyShare)
			if b.Lag > sealLag.Microseconds() {
				share = hardShare
			}
			wait = min(share*clock.Now().Sub(began), sealTurn/2)
		}
	}
}
