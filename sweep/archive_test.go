package sweep_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/pawl-work/pawl/engine/archivetest"
	"github.com/pawl-work/pawl/pawltest"
	"github.com/pawl-work/pawl/store"
	"github.com/pawl-work/pawl/sweep"
)

// errCrash is the error of all transactions of a crashed server.
var errCrash = errors.New("crashed")

// crashingDB is a database whose server crashes before its nth transaction, after it has called a
// function.
type crashingDB struct {
	store.DB
	left int
	then func()
}

func (c *crashingDB) next() error {
	if c.left--; c.left >= 0 {
		return nil
	}
	if c.then == nil {
		return errCrash
	}
	then := c.then
	c.left, c.then = 1<<30, nil
	then()
	return nil
}

func (c *crashingDB) Do(ctx context.Context, fn func(ctx context.Context, tx store.Tx) error) error {
	if err := c.next(); err != nil {
		return err
	}
	return c.DB.Do(ctx, fn)
}

func (c *crashingDB) View(ctx context.Context, fn func(ctx context.Context, tx store.Tx) error) error {
	if err := c.next(); err != nil {
		return err
	}
	return c.DB.View(ctx, fn)
}

// server returns another server over the same database and archives.
func (h *fixture) server(db store.DB) *archivetest.Sweeper {
	return archivetest.New(&sweep.Sweeper{DB: db, Options: h.Options, NewID: h.NewID, Server: "another", Log: h.Sweeper.Log})
}

// Two servers retire the same task, which has more rows than one transaction removes. The first
// pauses before one of its transactions, each in turn. Meanwhile the second executes some of its
// own and crashes. Then the first continues, or crashes too. In every case the archive is
// complete.
// The short form divides the cases among the databases.
func TestTwoServersNeverLeaveAPartOfAnArchive(t *testing.T) {
	eachNew(t, func(h *fixture) {
		if h.Database == pawltest.SQLite { // files there, the table on PostgreSQL
			h.Options.ArchiveDir = filepath.Join(t.TempDir(), "archives")
		}
		task := createFullTask(h)
		h.exec(`INSERT INTO pawl.provenances (id, namespace, task_id, verb, created_at)
			WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 6000)
			SELECT 'prv_many_' || i, 'default', $1, 'create', 5 FROM n`, task.ID)
		before := h.dump(task.ID)
		odd := map[pawltest.Database]int{pawltest.SQLite: 0, pawltest.Postgres: 1}[h.Database]
		const most = 4 // transactions of one that nothing disturbs: write, remove twice
		for n := range most * most * 2 {
			first, second, dies := n/2/most, n/2%most, n%2 == 1
			if (first+second+n)%2 != odd && os.Getenv("PAWL_TORTURE") != "1" {
				continue // the other database takes it
			}
			h.interleave(task.ID, first, second, dies)
			if got := h.unpack(task.ID); !slices.Equal(got, before) {
				t.Fatalf("after %d and %d transactions (%v) the archive has %d rows of %d", first, second, dies, len(got), len(before))
			}
			h.OK(h.Restore(h.Context(), "default", task.ID))
		}
		files, err := filepath.Glob(filepath.Join(h.Options.ArchiveDir, "*", "*"))
		h.OK(err)
		if h.Options.ArchiveDir != "" && len(files) > most*most { // a crash may leave one that no row names
			t.Errorf("%d files are left: %v", len(files), files)
		}
	})
}

// interleave retires a task by two servers, then by a third without interruption.
func (h *fixture) interleave(taskID string, first, second int, dies bool) {
	h.Helper()
	one := &crashingDB{DB: h.DB, left: first}
	one.then = func() {
		if err := h.server(&crashingDB{DB: h.DB, left: second}).Retire(h.Context(), taskID); err != nil && !errors.Is(err, errCrash) {
			h.Fatal(err)
		}
		if dies {
			one.left = 2
		}
	}
	if err := h.server(one).Retire(h.Context(), taskID); err != nil && !errors.Is(err, errCrash) {
		h.Fatal(err)
	}
	h.OK(h.server(h.DB).Retire(h.Context(), taskID))
	if n := h.count("SELECT COUNT(*) FROM pawl.tasks"); n > 0 {
		h.Fatalf("after %d and %d transactions the task is still there", first, second)
	}
}
