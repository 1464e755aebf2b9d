package pawl_test

import (
	"context"
	"errors"
	"testing"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/pawltest"
	"github.com/pawl-work/pawl/store"
)

// The databases accept an event for every code of the table of moves, and for no other.
func TestDatabasesRefuseUnknownCodes(t *testing.T) {
	pawltest.Each(t, func(t *testing.T, p *pawltest.Pawl) {
		last := len(store.MoveCodes)
		for _, code := range []any{nil, -1, 0, last + 1} {
			if takes(t, p, code) {
				t.Errorf("the database takes an event with code %v", code)
			}
		}
		for code := 1; code <= last; code++ {
			if !takes(t, p, code) {
				t.Errorf("the database refuses an event with code %d", code)
			}
		}
	})
}

var errUndo = errors.New("undo")

// takes reports whether the database accepts an event with the code; the insert is rolled back.
func takes(t *testing.T, p *pawltest.Pawl, code any) bool {
	t.Helper()
	err := p.Engine.DB().Do(t.Context(), func(ctx context.Context, tx store.Tx) error {
		_, err := tx.Exec(ctx, `INSERT INTO pawl.task_events (namespace, task_id, move, actor, created_at)
			VALUES ('default', @id('00000000000000000000000000000001'), $1, 0, 1)`, code)
		if err == nil {
			err = errUndo
		}
		return err
	})
	if pawl.CodeOf(err) == pawl.CodeUnavailable {
		t.Fatal(err)
	}
	return errors.Is(err, errUndo)
}
