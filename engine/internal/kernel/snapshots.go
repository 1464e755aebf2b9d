package kernel

import (
	"context"

	"github.com/pawl-work/pawl/store"
)

// Snapshots are how the snapshots of checkpoints are stored.
type Snapshots interface {
	// OfItem returns the snapshot of an item's checkpoint as it is to be stored: the text, or a blob.
	OfItem(ctx context.Context, k *Kernel, itemID, name string, text store.Text) (store.Snapshot, error)
}
