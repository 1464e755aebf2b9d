package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/store"
)

const note = "INSERT INTO pawl.task_results (task_id, namespace, payload, created_at) VALUES (CAST($1 AS BLOB), $2, $2, $3)"

func (h *database) notes() string {
	return h.table("SELECT CAST(task_id AS TEXT) FROM pawl.task_results ORDER BY task_id")
}

func TestPlaceholdersAndLists(t *testing.T) {
	h := newDatabase(t)
	h.want("a parameter twice, out of order", h.table("SELECT $2, $1, $2 + 1, $3", 1, 2, store.Text("")), "2 1 3 -")
	h.want("a list", h.table("SELECT 'b' IN @list($1), 'z' IN @list($1) @lock @skip", store.List([]string{"a", "b"})), "1 0")
}

func TestDoCommitsWholeOrNotAtAll(t *testing.T) {
	h := newDatabase(t)
	ctx := t.Context()
	boom := errors.New("boom")
	if err := h.Do(ctx, func(ctx context.Context, tx store.Tx) error {
		if _, err := tx.Exec(ctx, note, "a", "x", 1); err != nil {
			return err
		}
		return boom
	}); err != boom {
		t.Errorf("got %v", err)
	}
	func() {
		defer func() {
			if recover() != boom {
				t.Error("the panic was swallowed")
			}
		}()
		_ = h.Do(ctx, func(ctx context.Context, tx store.Tx) error {
			if _, err := tx.Exec(ctx, note, "b", "x", 1); err != nil {
				return err
			}
			panic(boom)
		})
	}()
	cancelled, cancel := context.WithCancel(ctx)
	err := h.Do(cancelled, func(ctx context.Context, tx store.Tx) error {
		_, err := tx.Exec(ctx, note, "c", "x", 1)
		cancel()
		return err
	})
	h.wantCode(err, pawl.CodeUnavailable)
	if !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	h.want("nothing is left", h.notes(), "")
	h.do(func(ctx context.Context, tx store.Tx) error {
		return tx.ExecEach(ctx, note, [][]any{{"d", "x", 1}, {"e", "x", 2}})
	})
	h.want("all of it", h.notes(), "d\ne")
}

func TestAConflictUndoesOnlyItsStatement(t *testing.T) {
	h := newDatabase(t)
	h.do(func(ctx context.Context, tx store.Tx) error {
		if _, err := tx.Exec(ctx, note, "a", "x", 1); err != nil {
			return err
		}
		_, err := tx.Exec(ctx, note, "a", "x", 1)
		h.wantCode(err, pawl.CodeConflict)
		_, err = tx.Exec(ctx, note, "b", "x", 1)
		return err
	})
	h.want("notes", h.notes(), "a\nb")
}

func TestADatabaseErrorCannotBeIgnored(t *testing.T) {
	h := newDatabase(t)
	err := h.Do(t.Context(), func(ctx context.Context, tx store.Tx) error {
		_, err := tx.Exec(ctx, "INSERT INTO nowhere VALUES (1)")
		h.wantCode(err, pawl.CodeInternal)
		_, err = tx.Exec(ctx, note, "a", "x", 1)
		h.wantCode(err, pawl.CodeInternal)
		return nil
	})
	h.wantCode(err, pawl.CodeInternal)
	h.want("notes", h.notes(), "")
}

func TestViewCannotWriteAndSeesOneMoment(t *testing.T) {
	h := newDatabase(t)
	h.wantCode(h.View(t.Context(), func(ctx context.Context, tx store.Tx) error {
		_, err := tx.Exec(ctx, note, "a", "x", 1)
		return err
	}), pawl.CodeUnavailable)
	count := func(ctx context.Context, tx store.Tx) (n int) {
		if _, err := store.Row(ctx, tx, []any{&n}, "SELECT COUNT(*) FROM pawl.task_results"); err != nil {
			t.Error(err)
		}
		return n
	}
	if err := h.View(t.Context(), func(ctx context.Context, tx store.Tx) error {
		before := count(ctx, tx)
		h.do(func(ctx context.Context, tx store.Tx) error {
			_, err := tx.Exec(ctx, note, "a", "x", 1)
			return err
		})
		if after := count(ctx, tx); before != 0 || after != 0 {
			t.Errorf("saw %d, then %d", before, after)
		}
		return nil
	}); err != nil {
		t.Error(err)
	}
	h.want("notes", h.notes(), "a")
}

func TestOneTextMayBeReadTwiceAtOnce(t *testing.T) {
	h := newDatabase(t)
	const numbers = "SELECT value FROM json_each('[1,2,3]')"
	pairs := 0
	read := func(ctx context.Context, tx store.Tx) error {
		outer, err := tx.Query(ctx, numbers)
		if err != nil {
			return err
		}
		for outer.Next() {
			inner, err := tx.Query(ctx, numbers)
			if err != nil {
				return err
			}
			for inner.Next() {
				pairs++
			}
			inner.Close()
			inner.Close()
		}
		return outer.Err() // left open: closed at the end
	}
	h.do(read)
	if err := h.View(t.Context(), read); err != nil {
		t.Error(err)
	}
	h.do(read)
	if pairs != 27 {
		t.Errorf("%d pairs", pairs)
	}
}

func TestViewStopsWithItsContext(t *testing.T) {
	h := newDatabase(t)
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	err := h.View(ctx, func(ctx context.Context, tx store.Tx) error {
		_, err := store.Row(ctx, tx, []any{new(int)}, "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT COUNT(*) FROM n")
		return err
	})
	h.wantCode(err, pawl.CodeUnavailable)
	h.want("the connection is fit", h.table("SELECT 1"), "1")
}

func TestNowNeverTurnsBack(t *testing.T) {
	h := newDatabase(t)
	now := func(db store.DB) (n int64) {
		err := db.Do(t.Context(), func(ctx context.Context, tx store.Tx) (err error) {
			n, err = tx.Now(ctx)
			h.advance(time.Second)
			if again, _ := tx.Now(ctx); again != n {
				t.Errorf("two times in one transaction: %d, %d", n, again)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	first := now(h.DB)
	if want := start.UnixMicro(); first != want {
		t.Errorf("now %d, want %d", first, want)
	}
	h.advance(-time.Hour)
	if got := now(h.DB); got != first {
		t.Errorf("the clock went back, and now from %d to %d", first, got)
	}
	h.advance(2 * time.Hour)
	h.solo()
	stamp := h.stamp()
	h.advance(-3 * time.Hour)
	if got := now(h.open()); got != stamp {
		t.Errorf("another process is at %d, the newest stamp is %d", got, stamp)
	}
}

func TestGoroutinesTakeTurns(t *testing.T) {
	h := newDatabase(t)
	other := h.open()
	h.do(func(ctx context.Context, tx store.Tx) error {
		_, err := tx.Exec(ctx, note, "counter", "x", 0)
		return err
	})
	var wg sync.WaitGroup
	const goroutines, turns = 32, 10
	for g := range goroutines {
		db := h.DB
		if g%2 == 1 {
			db = other
		}
		wg.Go(func() {
			for range turns {
				if err := db.Do(t.Context(), func(ctx context.Context, tx store.Tx) error {
					var n int
					if _, err := store.Row(ctx, tx, []any{&n}, "SELECT created_at FROM pawl.task_results WHERE task_id = $1",
						[]byte("counter")); err != nil {
						return err
					}
					_, err := tx.Exec(ctx, "UPDATE pawl.task_results SET created_at = $1", n+1)
					return err
				}); err != nil {
					t.Error(err)
				}
				if err := db.View(t.Context(), func(ctx context.Context, tx store.Tx) error {
					_, err := store.Row(ctx, tx, []any{new(int)}, "SELECT created_at FROM pawl.task_results")
					return err
				}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	h.want("turns", h.table("SELECT created_at FROM pawl.task_results"), fmt.Sprint(goroutines*turns))
}

func TestABusyDatabaseIsWaitedFor(t *testing.T) {
	h := newDatabase(t)
	conn := h.hold()
	ctx, cancel := context.WithTimeout(t.Context(), 150*time.Millisecond)
	defer cancel()
	err := h.Do(ctx, func(context.Context, store.Tx) error { t.Error("it ran"); return nil })
	h.wantCode(err, pawl.CodeUnavailable)
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v", err)
	}
	waited := make(chan error, 1)
	go func() { // waits behind the call that has the writer's connection
		waited <- h.Do(t.Context(), func(ctx context.Context, tx store.Tx) error {
			_, err := tx.Exec(ctx, note, "a", "x", 1)
			return err
		})
	}()
	time.Sleep(100 * time.Millisecond)
	impatient, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	h.wantCode(h.Do(impatient, func(context.Context, store.Tx) error { return nil }), pawl.CodeUnavailable)
	h.want("readers do not wait", h.notes(), "")
	if _, err := conn.ExecContext(t.Context(), "COMMIT"); err != nil {
		t.Fatal(err)
	}
	if err := <-waited; err != nil {
		t.Error(err)
	}
	h.want("notes", h.notes(), "a")
}

// hold takes SQLite's write lock with a connection that is not Pawl's.
func (h *database) hold() *sql.Conn {
	h.Helper()
	other, err := sql.Open("sqlite", dsn(h.path, "rw"))
	if err != nil {
		h.Fatal(err)
	}
	conn, err := other.Conn(h.Context())
	if err == nil {
		_, err = conn.ExecContext(h.Context(), "BEGIN IMMEDIATE")
	}
	if err != nil {
		h.Fatal(err)
	}
	h.Cleanup(func() { conn.Close(); other.Close() })
	return conn
}

func TestAFullDiskLosesNothingAndTheEngineGoesOn(t *testing.T) {
	h := newDatabase(t)
	limit := func(pages int) {
		h.do(func(ctx context.Context, tx store.Tx) error {
			_, err := store.Row(ctx, tx, []any{new(int)}, fmt.Sprintf("PRAGMA max_page_count = %d", pages))
			return err
		})
	}
	h.do(func(ctx context.Context, tx store.Tx) error {
		_, err := tx.Exec(ctx, note, "before", "x", 1)
		return err
	})
	limit(1)
	big := strings.Repeat("x", 100_000)
	err := h.Do(t.Context(), func(ctx context.Context, tx store.Tx) error {
		for i := range 100 {
			if _, err := tx.Exec(ctx, note, fmt.Sprint("n", i), big, 1); err != nil {
				_, again := tx.Exec(ctx, note, "after", "x", 1)
				h.wantCode(again, pawl.CodeUnavailable)
				return nil // the error is ignored here; Do still fails
			}
		}
		return nil
	})
	h.wantCode(err, pawl.CodeUnavailable)
	if !strings.Contains(fmt.Sprint(err), "full") {
		t.Errorf("got %v", err)
	}
	h.want("notes", h.notes(), "before")
	limit(1_000_000)
	h.do(func(ctx context.Context, tx store.Tx) error {
		_, err := tx.Exec(ctx, note, "later", big, 1)
		return err
	})
	h.want("notes", h.notes(), "before\nlater")
}

func TestAFileThatIsGoneIsUnavailableUntilItIsBack(t *testing.T) {
	h := newDatabase(t)
	write := func() error {
		return h.Do(t.Context(), func(ctx context.Context, tx store.Tx) error {
			_, err := tx.Exec(ctx, "INSERT INTO pawl.task_results (task_id, namespace, payload, created_at) "+
				"SELECT CAST('n' || COUNT(*) AS BLOB), 'n', '1', 1 "+
				"FROM pawl.task_results")
			return err
		})
	}
	look := func() error { return h.View(t.Context(), func(context.Context, store.Tx) error { return nil }) }
	if err := errors.Join(write(), os.Rename(h.path, h.path+".away")); err != nil {
		t.Fatal(err)
	}
	h.wantCode(write(), pawl.CodeUnavailable)
	h.wantCode(look(), pawl.CodeUnavailable)
	if err := os.WriteFile(h.path, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	h.wantCode(write(), pawl.CodeUnavailable)
	if err := errors.Join(os.Rename(h.path+".away", h.path), write()); err != nil {
		t.Fatal(err)
	}
	h.want("notes", h.notes(), "n0\nn1")
}

func TestChangedSeesOtherHandles(t *testing.T) {
	h := newDatabase(t)
	other := h.open()
	version := func() int64 {
		v, err := h.Dialect().Changed(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
	before := version()
	if version() != before {
		t.Error("it changed by itself")
	}
	if err := other.Do(t.Context(), func(ctx context.Context, tx store.Tx) error {
		_, err := tx.Exec(ctx, note, "a", "x", 1)
		return err
	}); err != nil {
		t.Fatal(err)
	}
	if version() == before {
		t.Error("the other's write was not seen")
	}
}

func TestClosedIsUnavailable(t *testing.T) {
	h := newDatabase(t)
	db := h.open()
	if err := errors.Join(db.Close(), db.Close()); err != nil {
		t.Fatal(err)
	}
	nothing := func(context.Context, store.Tx) error { return nil }
	h.wantCode(db.Do(t.Context(), nothing), pawl.CodeUnavailable)
	h.wantCode(db.View(t.Context(), nothing), pawl.CodeUnavailable)
	_, err := db.Dialect().Changed(t.Context())
	h.wantCode(err, pawl.CodeUnavailable)
}

func TestWrapTxWorksInTheCallersTransaction(t *testing.T) {
	h := newDatabase(t)
	id := h.solo()
	theirs, err := sql.Open("sqlite", dsn(h.path, "rw")+"&_txlock=immediate")
	if err != nil {
		t.Fatal(err)
	}
	defer theirs.Close()
	for _, commit := range []bool{false, true} {
		sqlTx, err := theirs.BeginTx(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		tx := WrapTx(sqlTx, func() time.Time { return start.Add(-time.Hour) })
		if now, err := tx.Now(t.Context()); err != nil || now != start.UnixMicro() {
			t.Errorf("now %d (%v)", now, err)
		}
		got, err := h.Dialect().Hot.Claim(t.Context(), tx,
			store.Claim{Namespace: "default", Claimants: []store.Claimant{{WorkerID: "w", Limit: 1, LeaseSeconds: 60}},
				Queues: []store.Queue{{Type: "t", Rank: 1}}})
		if err != nil || len(got) != 1 || got[0].ItemID != id {
			t.Fatalf("claimed %v (%v)", got, err)
		}
		_, err = tx.Exec(t.Context(), "INSERT INTO nowhere VALUES (1)")
		h.wantCode(err, pawl.CodeInternal)
		if commit {
			err = sqlTx.Commit()
		} else {
			err = sqlTx.Rollback()
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	h.want("leases", h.table("SELECT @item_text(item_id), attempt FROM pawl.leases"), id+" 1")
}
