package engine

import (
	"context"
	"time"

	"github.com/pawl-work/pawl/store"
)

// Now reads the database's clock. It is the only clock that counts for what is stored.
func (e *Engine) Now(ctx context.Context) (at time.Time, err error) {
	err = e.db.View(ctx, func(ctx context.Context, tx store.Tx) error {
		now, err := tx.Now(ctx)
		at = store.Stamp(now)
		return err
	})
	return at, err
}
