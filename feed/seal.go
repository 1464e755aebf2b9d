package feed

import (
	"context"
	"time"

	"github.com/pawl-work/pawl/internal/clock"
	"github.com/pawl-work/pawl/store"
)

const (
	// sealEvery is the pause between two batches when there is no backlog.
	sealEvery = 500 * time.Millisecond
	// With a backlog, the sealer pauses pauseFactor times as long as the last batch took,
	// so that it leaves processor time to a burst of work. When the backlog is older than
	// sealLag it pauses latePauseFactor times as long, so that it catches up.
	pauseFactor, latePauseFactor = 4, 1
	sealLag                      = time.Minute
	// takeoverAfter is how long another process is assumed to go on with sealing. No pause is
	// longer than half of it.
	takeoverAfter = 10 * time.Second
)

// Seal seals all events that were committed before the call: it adds each task's events
// to its hash chain, in feed order. It returns when all are sealed, by this process or
// another.
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

// seal seals the next batch if ours accepts it. sealed is false if another process was
// first.
func (f *Feed) seal(ctx context.Context, accept func(*store.Batch) bool) (b store.Batch, sealed bool, err error) {
	err = f.db.View(ctx, func(ctx context.Context, tx store.Tx) error {
		b, err = store.NextBatch(ctx, tx, f.commits)
		return err
	})
	if err != nil || b.Through == b.After || !accept(&b) {
		return b, false, err
	}
	err = f.db.Do(ctx, func(ctx context.Context, tx store.Tx) error {
		if f.commits != nil {
			if _, err := f.commits.Drawn(ctx, tx); err != nil { // a process that is frozen here loses its connection
				return err
			}
		}
		sealed, err = store.PutBatch(ctx, tx, &b)
		return err
	})
	return b, sealed, err
}

// sealable is the newest position that this process knows of.
func (f *Feed) sealable(ctx context.Context) (int64, error) {
	if f.commits == nil {
		return f.Head(ctx)
	}
	return f.Newest(), nil // Run keeps it current
}

// sealLoop seals new events until ctx ends. One of several processes continues; the
// others take over when it has not sealed for a while.
func (f *Feed) sealLoop(ctx context.Context) {
	var sealedThrough int64 = -1
	wait, failed := sealEvery, false
	for pause(ctx, wait, nil) {
		wait = sealEvery
		if head, err := f.sealable(ctx); err == nil && sealedThrough >= 0 && head <= sealedThrough {
			if head < sealedThrough {
				sealedThrough = -1 // the database went back in time
			}
			continue // nothing new
		}
		began := clock.Now()
		b, sealed, err := f.seal(ctx, func(b *store.Batch) bool {
			return b.After == sealedThrough || b.Age > takeoverAfter.Microseconds()
		})
		if err != nil && !failed && ctx.Err() == nil {
			f.opts.Log.WarnContext(ctx, "events cannot be sealed; retrying", "error", err)
		}
		failed = err != nil
		if sealed {
			sealedThrough = b.Through
		}
		if sealed && b.More {
			factor := time.Duration(pauseFactor)
			if b.Lag > sealLag.Microseconds() {
				factor = latePauseFactor
			}
			wait = min(factor*clock.Now().Sub(began), takeoverAfter/2)
		}
	}
}
