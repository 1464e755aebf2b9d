package postgres_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/store"
)

// An event that a newer program wrote is read with the names in the table of moves. A code
// that is not in the table is shown as a number.
func TestACodeOfANewerProgramIsRead(t *testing.T) {
	h := newDatabase(t)
	next := len(store.MoveCodes) + 1
	h.exec("ALTER TABLE task_events DROP CONSTRAINT task_events_move")
	h.exec(fmt.Sprintf("INSERT INTO moves VALUES (%d, 'task', 'renamed', NULL, NULL, NULL, NULL)", next))
	for _, code := range []int{next, next + 1} {
		h.exec(fmt.Sprintf("INSERT INTO task_events (namespace, task_id, move, actor, created_at) "+
			"VALUES ('default', '00000000-0000-0000-0000-000000000001', %d, 0, 1)", code))
	}
	var read []string
	h.auto(func(ctx context.Context, tx store.Tx, _ store.Hot) error {
		events, err := store.EventsAfter(ctx, tx, 0, 10)
		for _, e := range events {
			read = append(read, e.Event)
		}
		return err
	})
	if got, want := fmt.Sprint(read), fmt.Sprintf("[renamed move_%d]", next+1); got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

// A verb that finds an item in a state that does not fit fails: the event has no code.
func TestAStateThatDoesNotFitIsRefused(t *testing.T) {
	h := newDatabase(t)
	h.solo(1, nil)
	l := h.claim("w", 1, nil)[0]
	h.exec("ALTER TABLE leases DROP CONSTRAINT leases_state_check")
	h.exec("UPDATE leases SET state = 6")
	err := h.db.Auto(t.Context(), func(ctx context.Context, tx store.Tx) error {
		_, err := h.db.Dialect().Hot.Complete(ctx, tx, []store.Complete{{Fence: fence(l.ItemID, "w", l.Attempt), Result: "1"}})
		return err
	})
	if pawl.CodeOf(err) != pawl.CodeInternal {
		t.Errorf("got %v, want an internal error", err)
	}
}
