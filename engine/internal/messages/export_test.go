package messages

import (
	"context"
	"math"

	"github.com/pawl-work/pawl/store"
)

// EndOrphans ends the open messages whose items need no more work.
func EndOrphans(ctx context.Context, db store.DB) error { return endOrphans(ctx, db, nil, "") }

// Retired lists messages that have ended and whose chunks may be removed.
func Retired(ctx context.Context, tx store.Tx) ([]string, error) {
	ids, _, err := removal{endedBy: math.MaxInt64}.list(ctx, tx, 100)
	return ids, err
}
