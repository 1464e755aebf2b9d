package engine

import (
	"context"
	"time"

	"github.com/pawl-work/pawl/store"
)

// waitForLocks has the rest of a transaction wait for locks as long as one without WithLockWait does at most: 3 s.
func waitForLocks(ctx context.Context, tx store.Tx) error {
	return store.BoundLockWait(ctx, tx, 3*time.Second)
}
