package sqlite

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/pawl-work/pawl/store"
)

// Calls that read for a long time delay neither look-ups of API keys nor sweeps.
func TestReadersAreReserved(t *testing.T) {
	h := newDatabase(t)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	end := make(chan struct{})
	var began, over sync.WaitGroup
	for range cap(h.DB.(*db).readers[store.Calls].turns) {
		began.Add(1)
		over.Go(func() {
			if err := h.View(ctx, func(context.Context, store.Tx) error {
				began.Done()
				<-end
				return nil
			}); err != nil {
				t.Error(err)
			}
		})
	}
	began.Wait()
	for _, p := range []store.Purpose{store.Heartbeats, store.Background} {
		if err := h.View(store.For(ctx, p), func(ctx context.Context, tx store.Tx) error {
			_, err := tx.Now(ctx)
			return err
		}); err != nil {
			t.Errorf("purpose %d: %v", p, err)
		}
	}
	close(end)
	over.Wait()
}
