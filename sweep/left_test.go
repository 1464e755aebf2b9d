package sweep_test

import (
	"context"
	"errors"
	"testing"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/store"
)

// The look at what falls due also finds what other processes have left: the loops of Run do not look by themselves.
func TestWhatOthersHaveLeftIsSeen(t *testing.T) {
	each(t, func(h *fixture) {
		task := h.Create(pawl.NewTask{Type: "a"})
		item := store.ItemID(h.claim(1)[0].ID)
		for _, c := range []struct {
			insert string
			args   []any
			want   store.Due
		}{
			{"DELETE FROM pawl.relocations", nil, store.Due{}},
			{"INSERT INTO pawl.relocations (id, side, namespace, step, peer, created_at, changed_at) VALUES ('m', 'source', 'n', 'done', 'p', 1, 1)",
				nil, store.Due{Moves: true}},
			{"INSERT INTO pawl.log_removals (ids, created_at) VALUES ($1, 1)", []any{[]byte{1}}, store.Due{Removals: true}},
			{"INSERT INTO pawl.child_cancels (item_id, child_id, namespace, task_id) VALUES ($1, $2, 'n', $2)",
				[]any{item, store.TaskID(task.ID)}, store.Due{Children: true}},
			{"INSERT INTO pawl.parents (task_id, namespace, depth, children, todo) VALUES ($1, 'default', 1, 1, 1)",
				[]any{store.TaskID(task.ID)}, store.Due{Children: true}},
			{"INSERT INTO pawl.task_counters (task_id, namespace, todo) SELECT id, namespace, 1 FROM pawl.tasks", nil, store.Due{Steps: true}},
			{"INSERT INTO pawl.task_counters (task_id, namespace, decide_by) SELECT id, namespace, 1 FROM pawl.tasks", nil, store.Due{Steps: true}},
			{"INSERT INTO pawl.signals (namespace, name, key, created_at, sent_at, waking) VALUES ('n', 's', 'k', 1, 1, 1)",
				nil, store.Due{Steps: true}},
			{"INSERT INTO pawl.queue_limits (queue_id, namespace, rules, changed_at) SELECT id, 'default', '{}', 1 FROM pawl.queues", nil,
				store.Due{Limits: true}},
			{"INSERT INTO pawl.places (kind, place, how, created_at) VALUES ('asked', 'p', '', 1)", nil, store.Due{Asked: true}},
		} {
			err := h.DB.Do(h.Context(), func(ctx context.Context, tx store.Tx) error {
				if _, err := tx.Exec(ctx, c.insert, c.args...); err != nil {
					return err
				}
				got, err := store.NextDue(ctx, tx)
				if err != nil {
					return err
				}
				if got.At == nil {
					t.Error("the lease is not due at any time")
				}
				got.At = nil
				h.same(got, c.want, c.insert)
				return errCrash // nothing of it stays
			})
			if !errors.Is(err, errCrash) {
				t.Fatal(err)
			}
		}
	})
}
