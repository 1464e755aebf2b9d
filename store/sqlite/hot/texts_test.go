package hot_test

import (
	"context"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pawl-work/pawl/store"
	"github.com/pawl-work/pawl/store/sqlite"
	"github.com/pawl-work/pawl/store/sqlite/hot"
)

func open(t *testing.T) store.DB {
	t.Helper()
	db, err := sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "work.db"), sqlite.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	if _, err := db.Dialect().Migrator.Up(t.Context()); err != nil {
		t.Fatal(err)
	}
	return db
}

// explain compiles a statement without running it, and returns the lines of the answer.
// Parameters are NULL.
func explain(t *testing.T, db store.DB, how, query string) string {
	t.Helper()
	var plan strings.Builder
	err := db.View(t.Context(), func(ctx context.Context, tx store.Tx) error {
		rows, err := tx.Query(ctx, how+" "+query, make([]any, 30)...)
		if err != nil {
			return err
		}
		defer rows.Close()
		for how == "EXPLAIN QUERY PLAN" && rows.Next() {
			var id, parent, unused int
			var detail string
			if err := rows.Scan(&id, &parent, &unused, &detail); err != nil {
				return err
			}
			fmt.Fprintln(&plan, detail)
		}
		return rows.Err()
	})
	if err != nil {
		t.Errorf("%v\n%s", err, query)
	}
	return plan.String()
}

func TestEveryTextPrepares(t *testing.T) {
	db := open(t)
	names, err := fs.Glob(hot.Files, "*.sql")
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, name := range names {
		for _, query := range store.Texts(hot.Files, name) {
			n++
			explain(t, db, "EXPLAIN", query)
		}
	}
	if n < 30 {
		t.Errorf("only %d texts were found", n)
	}
}

// A claim reads a range of the only index of ready. A statement that names a row finds it
// by its key. No statement sorts. Only the sweep reads all leases.
func TestPlans(t *testing.T) {
	db := open(t)
	for _, c := range []struct{ file, name, plan string }{
		{"claim", "Head", "SEARCH r USING PRIMARY KEY (queue_id=? AND rank=? AND item_id>?)"},
		{"claim", "Head", "SEARCH w USING INDEX sqlite_autoindex_items_1 (id=?)"},
		{"claim", "Take", "SEARCH ready USING PRIMARY KEY (queue_id=? AND rank=? AND item_id>? AND item_id<?)"},
		{"claim", "Pick", "SEARCH ready USING PRIMARY KEY (queue_id=? AND rank=? AND item_id=?)"},
		{"claim", "Peek", "SEARCH ready USING PRIMARY KEY (queue_id=? AND rank=? AND item_id>?)"},
		{"touch", "Look", "SEARCH leases USING PRIMARY KEY (item_id=?)"},
		{"complete", "Take", "SEARCH leases USING PRIMARY KEY (item_id=?)"},
		{"complete", "Feed", "SEARCH waiting USING PRIMARY KEY (item_id=?)"},
		{"complete", "Feed", "SEARCH item_deps USING PRIMARY KEY (needs_id=?)"},
		{"leave", "Take", "SEARCH leases USING PRIMARY KEY (item_id=?)"},
		{"places", "BreakDependents", "SEARCH waiting USING PRIMARY KEY (item_id=?)"},
		{"settle", "Submitted", "SEARCH w USING INDEX items_of_task (task_id=?)"},
		{"settle", "Submitted", "SEARCH r USING INDEX sqlite_autoindex_parked_items_1 (item_id=?)"},
		{"expire", "Over", "SCAN leases"},
		{"due", "Scheduled", "scheduled USING COVERING INDEX scheduled_due (run_at<?)"},
		{"due", "WaitingUntil", "q USING INDEX waiting_until (until<?)"},
		{"due", "WaitingReady", "INDEX waiting_ready"},
	} {
		plan := explain(t, db, "EXPLAIN QUERY PLAN", store.Texts(hot.Files, c.file+".sql")[c.name])
		if !strings.Contains(plan, c.plan) || strings.Contains(plan, "TEMP B-TREE") {
			t.Errorf("%s %s does not %s:\n%s", c.file, c.name, c.plan, plan)
		}
	}
}
