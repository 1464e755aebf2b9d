package engine_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/pawltest"
)

// tablesWithRows returns the tables of the schema that have rows.
func tablesWithRows(t *testing.T, p *pawltest.Pawl) (out []string) {
	t.Helper()
	conn := need[*pgx.Conn](t)(pgx.Connect(t.Context(), p.URL))
	defer conn.Close(context.Background())
	rows := need[pgx.Rows](t)(conn.Query(t.Context(), "SELECT tablename::text FROM pg_tables WHERE schemaname = $1 ORDER BY 1", p.Schema))
	for _, name := range need[[]string](t)(pgx.CollectRows(rows, pgx.RowTo[string])) {
		var some bool
		ok(t, conn.QueryRow(t.Context(), fmt.Sprintf("SELECT EXISTS (SELECT FROM %s.%s)", p.Schema, name)).Scan(&some))
		if some {
			out = append(out, name)
		}
	}
	return out
}

// fill makes tasks of one item and of many, a parent with children, and items in every state, some
// of them of a queue with limits. The names of its types begin with typ.
func fill(t *testing.T, p *pawltest.Pawl, typ string) {
	t.Helper()
	ctx, e := t.Context(), p.Engine
	need[pawl.Queue](t)(e.SetQueue(ctx, typ+"-keys", pawl.QueuePatch(`{"per_key":{"pointer":"/k","concurrency":2}}`)))
	keyed(t, e, typ+"-keys", 2, "x", "y")
	keyed(t, e, typ+"-plain", 3, "x")
	need[pawl.Task](t)(pawl.Create(ctx, e, pawl.NewTask{Type: typ + "-many", Items: []pawl.NewItem{{Key: "a", Input: []byte(`1`)},
		{Key: "b", Input: []byte(`2`)}, {Key: "c", Input: []byte(`3`), After: []string{"a"}}}}))
	need[pawl.Task](t)(pawl.Create(ctx, e, pawl.NewTask{Type: typ + "-unique", Unique: &pawl.Unique{By: pawl.UniqueByKey, Key: typ}}))
	l, ids := spawned(t, e, typ+"-parent", 2)
	ok(t, awaitChildren(e, l, pawl.ChildWait{IDs: ids}))
	held := leases(t, e, pawl.ClaimRequest{WorkerID: typ, Types: []string{typ + "-plain", typ + "-keys"}, Limit: 2, LeaseSeconds: 600}, 2)
	no := false
	_, err := first(e.Fail(ctx, []pawl.FailCall{{Fence: held[0].Fence(), Retryable: &no, Error: pawl.Failure{Message: "no"}}}))
	ok(t, err)
	_, err = first(e.Release(ctx, []pawl.ReleaseCall{{Fence: held[1].Fence(), DelaySeconds: 600}}))
	ok(t, err)
	held = leases(t, e, pawl.ClaimRequest{WorkerID: typ, Types: []string{typ + "-plain", typ + "-keys"}, Limit: 2, LeaseSeconds: 600}, 2)
	_, err = first(e.Suspend(ctx, []pawl.SuspendCall{{Fence: held[0].Fence(), Signal: typ}}))
	ok(t, err)
}

// A transaction that holds one row of any table stops only what needs that row: claims of every kind,
// creates, ends of attempts, cancels and sweeps go on for everything else.
func TestALockedRowOfAnyTableStopsNothingElse(t *testing.T) {
	t.Parallel()
	p := pawltest.OpenReal(t, pawltest.Postgres)
	fill(t, p, "held")
	ctx := t.Context()
	need[pawl.TypeRef](t)(first(p.Engine.PutTypes(ctx, []pawl.Type{{Name: "typed"}})))
	need[pawl.Schedule](t)(p.Engine.CreateSchedule(ctx, pawl.NewSchedule{Name: "tick", EverySeconds: 1, Task: pawl.NewTask{Type: "tick"}}))
	need[pawl.Blob](t)(p.Engine.PutBlob(ctx, pawl.BlobUpload{Content: noise(1, 100)}))
	_, err := pawl.Signal(ctx, p.Engine, "nobody", "", nil)
	ok(t, err)
	need[pawl.SweepStats](t)(p.Engine.Sweep(ctx)) // fills the log and the statistics
	// The sweeps meet the locked rows: these items are due.
	ok(t, p.Exec("UPDATE pawl.scheduled SET run_at = 1"))
	ok(t, p.Exec("UPDATE pawl.leases SET lease_expires_at = 1"))
	for i, table := range tablesWithRows(t, p) {
		t.Run(table, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			typ := fmt.Sprint("free", i)
			fill(t, p, fmt.Sprint("before", i)) // earlier sweeps may have left no row
			unlock := stranger(t, p, "SELECT FROM "+table+" WHERE ctid = (SELECT min(ctid) FROM "+table+") FOR UPDATE")
			defer unlock()
			fill(t, p, typ)
			e := p.Engine
			l := leases(t, e, pawl.ClaimRequest{WorkerID: typ, Types: []string{typ + "-keys", typ + "-many"}, Limit: 2}, 2)
			for _, l := range l {
				_, err := first(e.Heartbeat(ctx, []pawl.HeartbeatCall{{Fence: l.Fence()}}))
				ok(t, err)
				need[pawl.Moved](t)(pawl.Complete(ctx, e, l.Fence(), nil))
			}
			for range 2 {
				c := leases(t, e, pawl.ClaimRequest{WorkerID: typ, Types: []string{"child of " + typ + "-parent"}}, 1)[0]
				need[pawl.Moved](t)(pawl.Complete(ctx, e, c.Fence(), nil))
			}
			parent := leases(t, e, pawl.ClaimRequest{WorkerID: typ, Types: []string{typ + "-parent"}}, 1)[0]
			ok(t, cancelTask(e, parent.TaskID))
			_, err := pawl.Signal(ctx, e, typ, "", nil)
			ok(t, err)
			ok(t, p.Exec("UPDATE pawl.scheduled SET run_at = 1 WHERE queue_id IN (SELECT id FROM pawl.queues WHERE type LIKE $1)", typ+"-%"))
			stats := need[pawl.SweepStats](t)(e.Sweep(ctx))
			if stats.Due == 0 {
				t.Error("no item that was due was queued")
			}
		})
	}
}
