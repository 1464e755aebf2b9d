package sqlite

import (
	"context"
	"strings"
	"testing"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/store"
)

// The claim reads its stretch of the one index of ready and sorts nothing; what
// names a row goes to it by key.
func TestPlansOfTheHotStatements(t *testing.T) {
	h := newHouse(t)
	for query, want := range map[string]string{
		"SELECT item_id FROM pawl.ready WHERE namespace = $1 AND type = $2 AND rank = $3 AND item_id >= $4 ORDER BY item_id LIMIT $5":      "SEARCH ready USING PRIMARY KEY (namespace=? AND type=? AND rank=? AND item_id>?)",
		"SELECT item_id FROM pawl.waiting WHERE needs = 0 AND until IS NULL AND signal IS NULL ORDER BY item_id LIMIT $1":                  "waiting_ready",
		"SELECT item_id FROM pawl.waiting WHERE until <= $1 ORDER BY until, item_id LIMIT $2":                                              "waiting_until",
		"SELECT item_id FROM pawl.scheduled WHERE run_at <= $1 ORDER BY run_at, item_id LIMIT $2":                                          "scheduled_due",
		"UPDATE pawl.waiting SET needs = needs - 1 WHERE item_id IN (SELECT item_id FROM pawl.item_deps WHERE needs_id = $1)":              "SEARCH waiting USING PRIMARY KEY",
		"DELETE FROM pawl.leases WHERE item_id = $1 AND namespace = $2 AND worker_id = $3 AND attempt = $4 AND lease_expires_at > $5":      "SEARCH leases USING PRIMARY KEY",
		"SELECT created_at FROM pawl.task_events ORDER BY id DESC LIMIT 1":                                                                 "SCAN task_events",
		"DELETE FROM pawl.ready WHERE namespace = $1 AND type = $2 AND rank = $3 AND item_id IN (SELECT item_id FROM pawl.ready LIMIT $4)": "SEARCH ready USING PRIMARY KEY (namespace=? AND type=? AND rank=? AND item_id=?)",
	} {
		plan := h.table("EXPLAIN QUERY PLAN "+query, 1, 1, 1, 1, 1)
		if !strings.Contains(plan, want) || strings.Contains(plan, "TEMP B-TREE") {
			t.Errorf("%s\n%s", query, plan)
		}
	}
}

// What is not in a list is refused: also nothing, and what runs over from one
// word into the next.
func TestListsOfTheChecks(t *testing.T) {
	h := newHouse(t)
	insert := func(event string, from, to any) error {
		return h.Do(t.Context(), func(ctx context.Context, tx store.Tx) error {
			_, err := tx.Exec(ctx, "INSERT INTO pawl.task_events (namespace, task_id, item_id, event, from_state, to_state, actor_type, created_at) VALUES ('n', 't', 'i', $1, $2, $3, 'api', 1)", event, from, to)
			return err
		})
	}
	for _, bad := range []struct {
		event    string
		from, to any
	}{
		{"", "queued", "leased"}, {"lease", "queued", "leased"}, {"due ready", "queued", "leased"}, {"leased", "queued", "completed"}, {"leased", nil, "leased"}, {"leased", "queued", nil}, {"leased", "", ">queued"},
	} {
		h.wantCode(insert(bad.event, bad.from, bad.to), pawl.CodeInternal)
	}
	if err := insert("leased", "queued", "leased"); err != nil {
		t.Error(err)
	}
}
