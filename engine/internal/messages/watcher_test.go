package messages

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/internal/watch"
	"github.com/pawl-work/pawl/store"
)

// fakeDB counts the checks; it has no messages.
type fakeDB struct {
	store.DB
	dialect store.Dialect
	views   atomic.Int64
}

func (d *fakeDB) Dialect() *store.Dialect { return &d.dialect }

func (d *fakeDB) View(context.Context, func(context.Context, store.Tx) error) error {
	d.views.Add(1)
	return nil
}

func fired(next <-chan struct{}) bool {
	select {
	case <-next:
		return true
	default:
		return false
	}
}

func watcherOf(t *testing.T, db *fakeDB, o watch.Options) *watcher {
	o.Log = slog.New(slog.DiscardHandler)
	hub := watch.New(o)
	w := watching(options{DB: db, Hub: hub, Log: o.Log})
	t.Cleanup(func() {
		w.close()
		hub.Close()
	})
	return w
}

// say passes on n chunks from a number on, with one call each.
func say(w *watcher, from, n int) {
	for i := from; i < from+n; i++ {
		call := pawl.AppendCall{
			MessageFence: pawl.MessageFence{MessageID: "m"},
			Offset:       int64(i),
			Chunks:       []pawl.Chunk{{Type: pawl.ChunkText, Text: pawl.Words(fmt.Sprint(i))}},
		}
		w.appended(&call, "body", false)
	}
}

// Chunks that this process appends reach readers without a check. The cache has the
// newest chunks; a reader further behind gets none from it.
func TestAppendedChunksAreCached(t *testing.T) {
	t.Parallel()
	w := watcherOf(t, &fakeDB{}, watch.Options{})
	leave, err := w.join(messageHead{ID: "m", State: string(pawl.MessageStreaming)})
	if err != nil {
		t.Fatal(err)
	}
	_, _, moved, _ := w.now("m", 0)
	if say(w, 0, 1); !fired(moved) {
		t.Error("the reader was not woken")
	}
	if head, rows, _, _ := w.now("m", 0); head.Chunks != 1 || len(rows) != 1 || rows[0].chunks[0].Text != "0" {
		t.Errorf("%d chunks, cached %v", head.Chunks, rows)
	}
	say(w, 1, 2*cacheRows)
	head, rows, moved, closed := w.now("m", 0)
	if head.Chunks != 1+2*cacheRows || rows != nil || closed {
		t.Errorf("%d chunks, %d cached for a reader far behind", head.Chunks, len(rows))
	}
	if _, rows, _, _ = w.now("m", head.Chunks-3); len(rows) != 3 {
		t.Errorf("%d rows for a reader 3 behind", len(rows))
	}
	if n := len(w.messages["m"].rows); n != cacheRows {
		t.Errorf("%d rows are cached", n)
	}
	if leave(); !fired(moved) || len(w.messages) != 0 {
		t.Error("the message is still watched after its last reader has left")
	}
	if _, _, _, closed := w.now("m", 0); !closed {
		t.Error("a message that is not watched is read")
	}
}

// Chunks of an attempt that takes the message over are not added: a cut comes before them.
func TestChunksAfterATakeOverAreRead(t *testing.T) {
	t.Parallel()
	w := watcherOf(t, &fakeDB{}, watch.Options{})
	leave, err := w.join(messageHead{ID: "m", State: string(pawl.MessageStreaming)})
	if err != nil {
		t.Fatal(err)
	}
	defer leave()
	w.appended(&pawl.AppendCall{MessageFence: pawl.MessageFence{MessageID: "m", WorkerID: "w", Attempt: 2},
		Chunks: []pawl.Chunk{{Type: pawl.ChunkText, Text: "x"}}}, "", true)
	if head, rows, _, _ := w.now("m", 0); head.Chunks != 0 || len(rows) != 0 {
		t.Errorf("%d chunks, cached %v", head.Chunks, rows)
	}
}

// Close wakes the readers and refuses later ones.
func TestCloseEndsReaders(t *testing.T) {
	t.Parallel()
	w := watcherOf(t, &fakeDB{}, watch.Options{})
	leave, err := w.join(messageHead{ID: "m"})
	if err != nil {
		t.Fatal(err)
	}
	defer leave()
	_, _, moved, _ := w.now("m", 0)
	w.close()
	if _, _, _, closed := w.now("m", 0); !fired(moved) || !closed {
		t.Errorf("woken: %v, closed: %v", fired(moved), closed)
	}
	if _, err := w.join(messageHead{ID: "n"}); !errors.Is(err, pawl.ErrUnavailable) {
		t.Error(err)
	}
}

// Without readers there are no checks. PostgreSQL is checked at an interval, and when
// this process changed a message that is read.
func TestMessagesAreCheckedWhileTheyAreRead(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		db := &fakeDB{}
		w := watcherOf(t, db, watch.Options{})
		w.wake()
		if time.Sleep(time.Minute); db.views.Load() != 0 {
			t.Errorf("%d checks without a reader", db.views.Load())
		}
		leave, err := w.join(messageHead{ID: "m"})
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second + poll/2)
		if n := db.views.Load(); n < 9 || n > 11 {
			t.Errorf("%d checks in a second", n)
		}
		before := db.views.Load()
		w.changed("another")
		synctest.Wait()
		if db.views.Load() != before {
			t.Error("a check for a message that is not read")
		}
		w.changed("m")
		if synctest.Wait(); db.views.Load() != before+1 {
			t.Error("no check for a message that is read")
		}
		leave()
		before = db.views.Load()
		if time.Sleep(time.Second); db.views.Load() != before {
			t.Error("checks after the last reader has left")
		}
	})
}

// If the hub detects every commit, messages are checked after each one, and rarely
// otherwise.
func TestMessagesAreCheckedAfterACommit(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var version atomic.Int64
		ask := func(context.Context) (int64, error) { return version.Load(), nil }
		db := &fakeDB{dialect: store.Dialect{DataVersion: true, Changed: ask}}
		w := watcherOf(t, db, watch.Options{Version: ask})
		leave, err := w.join(messageHead{ID: "m"})
		if err != nil {
			t.Fatal(err)
		}
		defer leave()
		time.Sleep(10 * time.Second)
		if n := db.views.Load(); n < 9 || n > 12 {
			t.Errorf("%d checks in 10 s without a commit", n)
		}
		before := db.views.Load()
		version.Add(1)
		time.Sleep(pollSQLite)
		if synctest.Wait(); db.views.Load() != before+1 {
			t.Errorf("%d checks after a commit", db.views.Load()-before)
		}
	})
}
