package sweep_test

import (
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/pawltest"
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

func (h *fixture) gone(id string) {
	h.Helper()
	if _, err := h.Service.GetTask(h.Context(), id); pawl.CodeOf(err) != pawl.CodeNotFound {
		h.Errorf("the task is still there: %v", err)
	}
}
