package sweep

import (
	"context"
	"time"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/store"
)

// blobsEvery is how often a process looks at all blobs. They are kept for a day after their
// last use, so more often is of no use.
const blobsEvery = time.Hour

// blobs removes blobs that nothing refers to, a day after their last use: snapshots, and
// blobs that were uploaded. It looks at all of them, 1,000 in a transaction that reads, and
// again an hour later. Only what it finds is removed in a transaction that writes.
func (p *pass) blobs(ctx context.Context) error {
	var began int64
	err := p.DB.View(ctx, func(ctx context.Context, tx store.Tx) (err error) {
		began, err = tx.Now(ctx)
		return err
	})
	if err != nil || began < p.blobsAt+blobsEvery.Microseconds() && began >= p.blobsAt {
		return p.logError(ctx, "blobs", err)
	}
	by := began - pawl.DefaultRetainBlobs.Microseconds()
	kinds := []store.UnusedBlobs{{List: store.IdleBlobs, Remove: store.RemoveBlobs}}
	for _, of := range p.Unused {
		kinds = append(kinds, of())
	}
	for _, kind := range kinds {
		for place, first := (store.BlobPlace{}), true; first || place.Address != nil; first = false {
			var idle []store.BlobPlace
			err := p.DB.View(ctx, func(ctx context.Context, tx store.Tx) error {
				found, next, err := kind.List(ctx, tx, by, place, batch)
				if err == nil {
					idle, place = found, next
				}
				return err
			})
			if err == nil && len(idle) > 0 {
				err = halve(ctx, p, idle, func(ctx context.Context, idle []store.BlobPlace) error {
					return p.do(ctx, func(ctx context.Context, tx store.Tx, _ int64) error {
						_, err := kind.Remove(ctx, tx, by, idle)
						return err
					})
				}, func(b store.BlobPlace, err error) {
					p.Log.ErrorContext(ctx, "a blob could not be removed and stays", "namespace", b.Namespace, "error", err)
				})
			}
			if err != nil {
				return p.logError(ctx, "blobs", err)
			}
		}
	}
	p.blobsAt = began
	return nil
}
