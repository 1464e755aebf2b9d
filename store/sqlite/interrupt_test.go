package sqlite

import (
	"context"
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/store"
)

const endless = "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) "

// A read ends when its context ends, at any point, with the error of the context. Its
// connection serves the next read.
func TestReadsEndWithTheirContext(t *testing.T) {
	h := newDatabase(t)
	first := func(ctx context.Context, tx store.Tx) error {
		_, err := store.Row(ctx, tx, []any{new(int)}, endless+"SELECT COUNT(*) FROM n")
		return err
	}
	row := func(ctx context.Context, tx store.Tx) error {
		rows, err := tx.Query(ctx, endless+"SELECT i FROM n")
		if err != nil {
			return err
		}
		for rows.Next() {
		}
		return rows.Err()
	}
	inner := func(ctx context.Context, tx store.Tx) error { // a context for only one statement
		if _, err := store.Row(ctx, tx, []any{new(int)}, "SELECT 1"); err != nil {
			return err
		}
		ctx, cancel := context.WithTimeout(ctx, 20*time.Millisecond)
		defer cancel()
		return row(ctx, tx)
	}
	for name, read := range map[string]func(ctx context.Context, tx store.Tx) error{"in the first row": first, "in a later row": row,
		"in one statement": inner} {
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		err := h.View(ctx, read)
		cancel()
		h.wantCode(err, pawl.CodeUnavailable)
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%s: %v", name, err)
		}
		if n := len(h.DB.(*db).readers[store.Calls].idle); n != 1 {
			t.Errorf("%s: %d connections are kept", name, n)
		}
	}
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	h.wantCode(h.View(gone, first), pawl.CodeUnavailable)
	h.want("the connection can be used", h.table("SELECT 1"), "1")
}

// A context that ends at any moment interrupts its own read and no other one.
func TestAnInterruptHitsNoOtherRead(t *testing.T) {
	h := newDatabase(t)
	h.many(50)
	read := func(ctx context.Context, tx store.Tx) error {
		var n int64
		_, err := store.Row(ctx, tx, []any{&n}, "SELECT COUNT(*) FROM pawl.items a, pawl.items b WHERE a.id <> b.id")
		if err == nil && n != 50*49 {
			t.Errorf("read %d", n)
		}
		return err
	}
	var callers sync.WaitGroup
	for range 8 {
		callers.Go(func() {
			for range 200 {
				ctx, cancel := context.WithCancel(t.Context())
				time.AfterFunc(rand.N(300*time.Microsecond), cancel)
				if err := h.View(ctx, read); err != nil && !errors.Is(err, context.Canceled) {
					t.Errorf("a cancelled read: %v", err)
				}
				cancel()
				if err := h.View(t.Context(), read); err != nil {
					t.Errorf("the read after it: %v", err)
				}
			}
		})
	}
	callers.Wait()
}

// Close leaves no goroutine, and only the database on the disk.
func TestNothingIsLeftAfterClose(t *testing.T) {
	before := goleak.IgnoreCurrent()
	path := filepath.Join(t.TempDir(), "work.db")
	d, err := Open(t.Context(), path, Options{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := d.Dialect().Migrator.Up(t.Context()); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var callers sync.WaitGroup
	for range 20 {
		callers.Go(func() {
			look := func(ctx context.Context, tx store.Tx) error { _, err := tx.Now(ctx); return err }
			if err := errors.Join(d.View(ctx, look), d.Do(ctx, look)); err != nil {
				t.Error(err)
			}
		})
	}
	callers.Wait()
	if err := Backup(t.Context(), d, path+".copy", nil); err != nil {
		t.Error(err)
	}
	if err := d.Close(); err != nil {
		t.Error(err)
	}
	goleak.VerifyNone(t, before)
	left, err := os.ReadDir(filepath.Dir(path))
	if err != nil || len(left) != 2 {
		t.Errorf("left %v (%v)", left, err)
	}
}
