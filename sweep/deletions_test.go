package sweep_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/store"
)

// heldDB is a database in which another transaction holds the items of a task for as long as held says so.
type heldDB struct {
	store.DB
	held bool
}

func (d *heldDB) Do(ctx context.Context, fn func(ctx context.Context, tx store.Tx) error) error {
	return d.DB.Do(ctx, func(ctx context.Context, tx store.Tx) error { return fn(ctx, &heldTx{tx, d}) })
}

type heldTx struct {
	store.Tx
	db *heldDB
}

func (t *heldTx) Exec(ctx context.Context, query string, args ...any) (int64, error) {
	if t.db.held && strings.Contains(query, "DELETE FROM pawl.finished_items") {
		return 0, store.ErrLocked
	}
	return t.Tx.Exec(ctx, query, args...)
}

// A deletion that was interrupted is carried on by the next passes until it has ended, also where no task is ever stale.
func TestAnInterruptedDeletionIsCarriedOn(t *testing.T) {
	for name, staleAfter := range map[string]time.Duration{"": day, " where no task is stale": 0} {
		t.Run("after a try that failed"+name, func(t *testing.T) {
			each(t, func(h *fixture) {
				h.Options.StaleAfter = staleAfter
				for range 2 {
					task := h.many(500, 3)
					h.complete(h.claim(500)...)
					by := &store.Deletion{Actor: store.Actor{Type: pawl.ActorSystem}}
					h.OK(h.DB.Do(h.Context(), func(ctx context.Context, tx store.Tx) error {
						done, err := store.DeleteTask(ctx, tx, "default", task.ID, by, 400)
						h.same(done, false, "gone after one batch")
						return err
					}))
				}
				db := &heldDB{DB: h.DB, held: true}
				s := h.server(db)
				h.Advance(day + time.Second)
				for _, left := range []int64{2, 2, 0} {
					db.held = left > 0
					_, err := s.Pass(h.Context())
					h.OK(err)
					h.same(h.count("SELECT COUNT(*) FROM pawl.tasks"), left, "tasks that are left")
				}
			})
		})
	}
}
