package sqlite

import (
	"context"
	"testing"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/store"
)

// A value that is not in a list is refused, also an empty one and one that joins the end
// of a word with the start of the next.
func TestListsOfTheChecks(t *testing.T) {
	h := newDatabase(t)
	insert := func(event string, from, to any) error {
		return h.Do(t.Context(), func(ctx context.Context, tx store.Tx) error {
			_, err := tx.Exec(ctx, "INSERT INTO pawl.task_events (namespace, task_id, item_id, event, from_state, to_state, actor, "+
				"created_at) VALUES ('n', x'01', x'02', $1, $2, $3, 0, 1)", event, from, to)
			return err
		})
	}
	for _, bad := range []struct {
		event    string
		from, to any
	}{
		{"", "queued", "leased"}, {"lease", "queued", "leased"}, {"due ready", "queued", "leased"}, {"leased", "queued", "completed"}, {"leased",
			nil, "leased"}, {"leased", "queued", nil}, {"leased", "", ">queued"},
	} {
		h.wantCode(insert(bad.event, bad.from, bad.to), pawl.CodeInternal)
	}
	if err := insert("leased", "queued", "leased"); err != nil {
		t.Error(err)
	}
	if err := insert("lease_revoked", "leased", "queued"); err != nil { // a word that a later migration added
		t.Error(err)
	}
}
