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
	insert := func(actor string) error {
		return h.Do(t.Context(), func(ctx context.Context, tx store.Tx) error {
			_, err := tx.Exec(ctx, "INSERT INTO pawl.actors (kind, name) VALUES ($1, 'anna')", actor)
			return err
		})
	}
	for _, bad := range []string{"", "work", "user agent"} {
		h.wantCode(insert(bad), pawl.CodeInternal)
	}
	for _, good := range pawl.ActorTypes {
		if err := insert(good); err != nil {
			t.Error(err)
		}
	}
}
