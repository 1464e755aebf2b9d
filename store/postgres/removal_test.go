package postgres_test

import "testing"

// A retirement removes thousands of rows with a statement: no trigger runs for each.
func TestRemovalsAreCheckedOnceAStatement(t *testing.T) {
	h := newDatabase(t)
	got := h.one("SELECT count(*) FROM pg_trigger WHERE tgrelid IN ('" + h.schema + ".task_events'::regclass, '" +
		h.schema + ".finished_items'::regclass, '" + h.schema + ".checkpoints'::regclass) AND tgtype & 8 > 0 AND tgtype & 1 = 1 AND NOT tgisinternal")
	if got != "(0)" {
		t.Errorf("triggers that run for each row that is removed: %s", got)
	}
	for _, table := range []string{"task_events", "finished_items", "checkpoints"} {
		if _, err := h.conn.Exec(t.Context(), "DELETE FROM "+h.schema+"."+table); err == nil {
			t.Errorf("rows of %s can be removed", table)
		}
	}
}
