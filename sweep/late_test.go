package sweep_test

import (
	"context"
	"path/filepath"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/pawltest"
	"github.com/pawl-work/pawl/store"
)

// Numbers of events are drawn before the transaction ends. A task that ended in a transaction which
// took longer than its retention is removed, and one that was made in such a transaction gets stale.
func TestALongTransactionHidesNoEventFromTheSweep(t *testing.T) {
	each(t, func(h *fixture) {
		if h.Database != pawltest.Postgres {
			return // transactions follow each other
		}
		ctx := h.Context()
		h.Options.RetainTasks, h.Options.StaleAfter = time.Hour, time.Hour
		ids := h.solos(3, 3)
		leases := h.claim(2)
		conn, err := pgx.Connect(ctx, h.URL)
		h.OK(err)
		defer conn.Close(ctx)
		tx, err := conn.Begin(ctx)
		h.OK(err)
		in := h.Engine.In(tx)
		_, err = pawl.Complete(ctx, in, leases[0].Fence(), nil)
		h.OK(err)
		made, err := pawl.Create(ctx, in, pawl.NewTask{Type: "b"})
		h.OK(err)
		_, err = pawl.Complete(ctx, h.Service, leases[1].Fence(), nil)
		h.OK(err)
		h.Advance(2 * time.Hour)
		for range 3 {
			h.pass() // passes the numbers of the open transaction
		}
		h.gone(ids[1])
		h.OK(tx.Commit(ctx))
		h.pass()
		h.gone(ids[0])
		h.same(len(h.events(pawl.EventFilter{Event: "stale", TaskID: made.ID})), 1, "stale")
		// Other transactions of the server may have begun before the numbers were passed.
		for end := time.Now().Add(time.Minute); h.count("SELECT COUNT(*) FROM pawl.relay_cursors WHERE detail LIKE '%unseen%'") > 0; h.pass() {
			if time.Now().After(end) {
				t.Fatal("the cursors wait for events that cannot come any more")
			}
		}
	})
}

// What retention writes beside a row that another transaction holds does not stay: each file in the directory of
// archives is one that the database knows.
func TestNoFileStaysBesideARowThatIsHeld(t *testing.T) {
	for name, large := range map[string]bool{"in segments": false, "in archives of their own": true} {
		t.Run(name, func(t *testing.T) {
			each(t, func(h *fixture) {
				if h.Database != pawltest.Postgres {
					return // transactions follow each other
				}
				ctx := h.Context()
				h.Options.ArchiveDir = filepath.Join(t.TempDir(), "archives")
				ids := h.solos(4, 3)
				if large { // tasks with children have archives of their own
					for _, id := range ids {
						h.exec("INSERT INTO pawl.parents (task_id, namespace, depth, children, todo) VALUES ($1, 'default', 1, 1, 0)", store.TaskID(id))
					}
				}
				h.complete(h.claim(4)...)
				h.Advance(31 * day)
				conn, err := pgx.Connect(ctx, h.URL)
				h.OK(err)
				defer conn.Close(ctx)
				_, err = conn.Exec(ctx, "SET search_path = "+h.Schema)
				h.OK(err)
				tx, err := conn.Begin(ctx)
				h.OK(err)
				_, err = tx.Exec(ctx, "SELECT 1 FROM tasks ORDER BY id LIMIT 1 FOR UPDATE")
				h.OK(err)
				h.same(h.pass().TasksPruned, 3, "pruned beside it")
				h.same(h.pass().TasksPruned, 0, "pruned by the next pass")
				h.OK(tx.Rollback(ctx))
				h.same(h.pass().TasksPruned, 1, "pruned after it")
				var known []string
				h.OK(h.DB.View(ctx, func(ctx context.Context, tx store.Tx) (err error) {
					known, err = store.Strings(ctx, tx, "SELECT path FROM pawl.archives UNION ALL SELECT path FROM pawl.segments ORDER BY 1")
					return err
				}))
				files, err := filepath.Glob(filepath.Join(h.Options.ArchiveDir, "*", "*"))
				h.OK(err)
				h.same(files, known, "files")
			})
		})
	}
}

func (h *fixture) gone(id string) {
	h.Helper()
	if _, err := h.Service.GetTask(h.Context(), id); pawl.CodeOf(err) != pawl.CodeNotFound {
		h.Errorf("the task is still there: %v", err)
	}
}
