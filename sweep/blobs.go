package sweep

import (
	"context"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/store"
)

// blobs removes blobs that nothing refers to, a day after their last use. A pass looks at
// 1,000 blobs at most; the next one continues there.
func (p *pass) blobs(ctx context.Context) error {
	return p.logError(ctx, "blobs", p.do(ctx, func(ctx context.Context, tx store.Tx, now int64) error {
		next, _, err := store.RemoveBlobs(ctx, tx, now, pawl.DefaultRetainBlobs, p.blobPlace, batch)
		if err == nil {
			p.blobPlace = next
		}
		return err
	}))
}
