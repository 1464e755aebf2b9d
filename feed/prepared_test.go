package feed_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pawl-work/pawl/pawltest"
)

// preparing returns a connection to a server that allows prepared transactions.
func preparing(t *testing.T, p *pawltest.Pawl) *pgx.Conn {
	t.Helper()
	c := connect(t, p, "")
	var most int
	if err := c.QueryRow(t.Context(), "SELECT current_setting('max_prepared_transactions')::int").Scan(&most); err != nil {
		t.Fatal(err)
	}
	if most == 0 {
		t.Skip("the server has max_prepared_transactions=0")
	}
	return c
}

// waitUntil reads, which queries the transactions in progress from time to time, until done
// returns true.
func waitUntil(t *testing.T, p *pawltest.Pawl, after int64, done func() bool) {
	t.Helper()
	for begun := time.Now(); !done(); time.Sleep(20 * time.Millisecond) {
		if got := read(t, p.Engine.Feed(), after); len(got) != 0 {
			t.Fatalf("from nowhere: %v", ids(got))
		}
		if time.Since(begun) > 30*time.Second {
			t.Fatal("it does not come about")
		}
	}
}

// The events of a transaction that is prepared after its gap was found are in the feed when it
// commits, and the event log is intact at all times. The gap of a transaction that is rolled back
// is dropped. Later gaps wait for neither.
func TestAPreparedTransactionIsFound(t *testing.T) {
	for name, c := range map[string]struct{ early, numbered bool }{ // prepared before the gap is found; with a number of its own by then
		"late":          {},
		"late numbered": {numbered: true},
		"early":         {early: true},
	} {
		t.Run(name, func(t *testing.T) {
			p := pawltest.Open(t, pawltest.Postgres)
			conn, other := preparing(t, p), connect(t, p, "")
			f, gid := p.Engine.Feed(), p.Schema
			task := p.Create(aTask).ID
			var drawn int64
			exec(t, conn, "BEGIN")
			if c.numbered {
				exec(t, conn, "SELECT pg_current_xact_id()")
			}
			if err := conn.QueryRow(t.Context(), "SELECT nextval('task_events_id_seq')").Scan(&drawn); err != nil {
				t.Fatal(err)
			}
			write := func() {
				exec(
					t,
					conn,
					"INSERT INTO task_events (id, namespace, task_id, move, actor, message, created_at) VALUES ($1, 'default', id($2), "+
						"(SELECT code FROM moves WHERE event = 'stale'), 0, 'late', 1769680800000000)",
					drawn,
					task,
				)
				exec(t, conn, "PREPARE TRANSACTION '"+gid+"'")
			}
			if c.early {
				write()
			}
			t.Cleanup(func() { _, _ = other.Exec(context.Background(), "ROLLBACK PREPARED '"+gid+"'") })
			p.Create(aTask)
			got := read(t, f, 0)
			after := got[len(got)-1].Position
			waitUntil(t, p, after, func() bool { return f.PendingGaps() > 0 })
			if !c.early {
				write()
			}
			gap := func() (before string) {
				before = gaps(t, other)
				lost := begin(t, connect(t, p, ""))
				addEvent(t, lost, task, "lost")
				end(t, lost.Rollback(t.Context()))
				p.Create(aTask)
				got := read(t, f, after)
				after = got[len(got)-1].Position
				if gaps(t, other) == before {
					t.Fatal("no gap")
				}
				return before
			}
			only := gap()
			waitUntil(t, p, after, func() bool { return f.PendingGaps() > 1 }) // the prepared transaction is seen
			// A gap that comes later is given up: as many looks were enough for that.
			before := gap()
			waitUntil(t, p, after, func() bool { return gaps(t, other) == before || gaps(t, other) == only })
			if err := f.Log(t.Context()); err != nil {
				t.Fatal(err)
			}
			for _, committed := range []bool{false, true} {
				if committed {
					exec(t, other, "COMMIT PREPARED '"+gid+"'")
				}
				if got, err := p.Engine.VerifyTask(t.Context(), task, nil); err != nil || !got.Intact {
					t.Errorf("committed %v: %+v, %v", committed, got.Faults, err)
				}
			}
			if got, want := ids(read(t, f, after)), []string{fmt.Sprintf("evt_%d", drawn)}; !slices.Equal(got, want) {
				t.Errorf("after the commit: %v, want %v", got, want)
			}
			waitUntil(t, p, after+1, func() bool { return gaps(t, other) == "" })
		})
	}
}
