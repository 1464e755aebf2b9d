package engine

import (
	"context"

	"github.com/pawl-work/pawl/store"
)

// allLeases locks up to limit leases, expired ones too.
func allLeases(ctx context.Context, tx store.Tx, limit int) ([]string, error) {
	return store.ItemIDs(ctx, tx, placeSQL["all leases"], limit)
}

// renewTokenSecret replaces the secret that signs task tokens: all tokens end.
func renewTokenSecret(ctx context.Context, tx store.Tx, secret string) error {
	_, err := tx.Exec(ctx, placeSQL["new secret"], secret)
	return err
}
