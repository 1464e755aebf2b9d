package postgres_test

import (
	"context"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/pawl-work/pawl/store"
)

var (
	scan = regexp.MustCompile(`Index(?: Only)? Scan.* using (\w+) on`)
	// The indexes that may be read without a condition: that of the leases, in the sweep
	// (their end has no index, because heartbeats would have to update it), and the partial
	// index of items that have become ready.
	walked = map[string]string{"expire": "leases_pkey", "due": "waiting_ready"}
)

// TestHotPlans reads the plans that the hot verbs get in an empty database. These plans
// are kept while the tables fill, so each row must be found by its key even then.
func TestHotPlans(t *testing.T) {
	h := newDatabase(t)
	files, _ := filepath.Glob("hot/*.sql")
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".sql")
		raw, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		plan := append(h.plan(string(raw)), h.plan(strings.ReplaceAll(string(raw), "--bytes ", ""))...)
		if name != "create" && name != "tail" && len(plan) < 20 {
			t.Errorf("%s: no plan: %v", name, plan)
		}
		for i, line := range plan {
			for _, bad := range []string{"Seq Scan", "Hash Join", "Merge Join", "Bitmap"} {
				if strings.Contains(line, bad) {
					t.Errorf("%s: %s", name, line)
				}
			}
			if m := scan.FindStringSubmatch(line); m != nil && walked[name] != m[1] &&
				(i+1 == len(plan) || !strings.Contains(plan[i+1], "Index Cond")) {
				t.Errorf("%s walks the whole of %s", name, m[1])
			}
		}
	}
}

// plan explains a statement on one of the hot connections.
func (h *database) plan(text string) (plan []string) {
	h.Helper()
	err := h.db.Auto(h.Context(), func(ctx context.Context, tx store.Tx) error {
		if _, err := tx.Exec(ctx, "PREPARE hot AS "+text); err != nil {
			return err
		}
		var count int
		if _, err := store.Row(ctx, tx, []any{&count},
			"SELECT cardinality(parameter_types) FROM pg_prepared_statements WHERE name = 'hot'"); err != nil {
			return err
		}
		var err error
		if plan, err = store.Strings(ctx, tx, "EXPLAIN (COSTS OFF) EXECUTE hot(NULL"+strings.Repeat(", NULL", count-1)+")"); err != nil {
			return err
		}
		_, err = tx.Exec(ctx, "DEALLOCATE hot")
		return err
	})
	if err != nil {
		h.Fatal(err)
	}
	return plan
}
