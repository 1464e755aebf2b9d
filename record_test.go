package pawl_test

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/pawltest"
	"github.com/pawl-work/pawl/store"
)

// The databases accept an event for every legal change of state, and for no other. Each pair of
// states is tried by SQL: for an item, for a task alone, and for the change of a task that its
// item caused.
func TestDatabasesRefuseIllegalMoves(t *testing.T) {
	pawltest.Each(t, func(t *testing.T, p *pawltest.Pawl) {
		tries := 0
		try := func(kind string, l lifecycle, row func(from, to any) []any) {
			legal := append(pawl.Pairs(l.moves), pawl.Pair{}) // an event that changes no state
			legal = append(legal, allowedStill[l.noun]...)
			for _, from := range stateNames(l) {
				for _, to := range stateNames(l) {
					tries++
					taken := takes(t, p, row(orNull(from), orNull(to)))
					if want := slices.Contains(legal, pawl.Pair{From: from, To: to}); taken != want {
						t.Errorf("%s %q > %q: taken %t, legal %t", kind, from, to, taken, want)
					}
				}
			}
		}
		items, tasks := lifecycles[0], lifecycles[1]
		id := store.ItemID("itm_00000000000000000000000001")
		try("item", items, func(from, to any) []any { return []any{id, from, to, nil, nil} })
		try("task", tasks, func(from, to any) []any { return []any{nil, from, to, nil, nil} })
		try("task by its item", tasks, func(from, to any) []any { return []any{id, "queued", "leased", from, to} })
		if takes(t, p, []any{nil, nil, nil, "open", "failed"}) {
			t.Error("a task's event holds its own change in from_state and to_state, not in task_from and task_to")
		}
		if tries < 3*13*13 {
			t.Errorf("tried %d pairs only", tries)
		}
	})
}

// stateNames are NULL, every state of a lifecycle, and one that does not exist.
func stateNames(l lifecycle) []string {
	names := []string{"", "nonsense"}
	for _, s := range l.states {
		names = append(names, s.Name)
	}
	return names
}

func orNull(state string) any {
	if state == "" {
		return nil
	}
	return state
}

var errUndo = errors.New("undo")

// takes reports whether the database accepts an event row; the insert is rolled back.
func takes(t *testing.T, p *pawltest.Pawl, row []any) bool {
	t.Helper()
	err := p.Engine.DB().Do(t.Context(), func(ctx context.Context, tx store.Tx) error {
		_, err := tx.Exec(ctx, `INSERT INTO pawl.task_events (namespace, task_id, event, actor, created_at, item_id, from_state, `+
			`to_state, task_from, task_to)
			VALUES ('default', @id('00000000000000000000000000000001'), 'updated', 0, 1, $1, $2, $3, $4, $5)`, row...)
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
