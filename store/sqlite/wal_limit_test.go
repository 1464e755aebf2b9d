package sqlite

import (
	"context"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/pawl-work/pawl/store"
)

// Overlapping readers, of this process and of another one, keep SQLite from restarting its
// log. The log must not grow without bound.
func TestTheLogStaysBoundedUnderOverlappingReaders(t *testing.T) {
	h := newDatabase(t)
	other := h.open()
	h.DB.(*db).wal.bound = 1 << 20
	write := func(query string) {
		t.Helper()
		if err := h.Do(t.Context(), func(ctx context.Context, tx store.Tx) error {
			_, err := tx.Exec(ctx, query)
			return err
		}); err != nil {
			t.Fatal(err)
		}
	}
	write("CREATE TABLE filler (x BLOB)")
	ctx, stop := context.WithCancel(t.Context())
	var reading, readers sync.WaitGroup
	reading.Add(4)
	for n := range 4 {
		readers.Go(func() {
			from, first := []store.DB{h.DB, other}[n%2], sync.OnceFunc(reading.Done)
			for ctx.Err() == nil {
				_ = from.View(ctx, func(ctx context.Context, tx store.Tx) error {
					var rows int
					_, err := store.Row(ctx, tx, []any{&rows}, "SELECT COUNT(*) FROM filler")
					first()
					time.Sleep(time.Duration(10+3*n) * time.Millisecond) // the snapshot stays open
					return err
				})
			}
		})
	}
	reading.Wait()
	largest := int64(0)
	for range 100 {
		h.DB.(*db).wal.wait = walWaitMax // the machine may be slow
		write("INSERT INTO filler VALUES (zeroblob(262144))")
		info, err := os.Stat(h.path + "-wal")
		if err != nil {
			t.Fatal(err)
		}
		largest = max(largest, info.Size())
	}
	stop()
	readers.Wait()
	if largest > 4<<20 {
		t.Errorf("the log of 25 MiB of writes grew to %d MiB", largest>>20)
	}
}
