package engine_test

import (
	"context"
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/pawltest"
	"github.com/pawl-work/pawl/store"
)

// plannedTx keeps the plans of all statements. Those that write are planned by SQLite alone: it
// does not carry out what it explains.
type plannedTx struct {
	store.Tx
	lite       bool
	statements int
	plans      []string
}

func (x *plannedTx) plan(ctx context.Context, query string, args []any) error {
	x.statements++
	if !x.lite {
		return nil
	}
	plan, err := explain(ctx, x.Tx, true, query, args)
	x.plans = append(x.plans, plan...)
	return err
}

func (x *plannedTx) Query(ctx context.Context, query string, args ...any) (store.Rows, error) {
	if err := x.plan(ctx, query, args); err != nil {
		return nil, err
	}
	return x.Tx.Query(ctx, query, args...)
}

func (x *plannedTx) Exec(ctx context.Context, query string, args ...any) (int64, error) {
	if err := x.plan(ctx, query, args); err != nil {
		return 0, err
	}
	return x.Tx.Exec(ctx, query, args...)
}

// tableScan matches a step of a SQLite plan that reads all of a table or an index of it. The leases (l)
// are read for a task that has not ended alone.
var tableScan = regexp.MustCompile(`^SCAN ([a-km-z]|awaited_children|child_[a-z]+|task[a-z_]+|items)( USING|$)`)

// costOfAnEnd returns the statements and, on PostgreSQL, the rows that the end of one child of n
// reads and writes.
func costOfAnEnd(t *testing.T, p *pawltest.Pawl, n int) (statements int, rows int64) {
	t.Helper()
	typ := fmt.Sprint("parent", n)
	l, ids := spawned(t, p.Engine, typ, n)
	ok(t, awaitChildren(p.Engine, l, pawl.ChildWait{IDs: ids}))
	c := leases(t, p.Engine, pawl.ClaimRequest{WorkerID: "w", Types: []string{"child of " + typ}}, 1)[0]
	ok(t, p.Exec("UPDATE pawl.awaited_children SET state = 'completed', error = 'not yet' WHERE state IS NULL")) // nothing is counted
	need[pawl.Moved](t)(first(p.Engine.Complete(t.Context(), []pawl.CompleteCall{{Fence: c.Fence()}})))
	ok(t, p.Exec("UPDATE pawl.awaited_children SET state = NULL, error = NULL WHERE error = 'not yet'"))
	lite := p.Database == pawltest.SQLite
	if !lite { // SQLite would read a table of one row as a whole
		ok(t, p.Exec("ANALYZE"))
	}
	const touched = `SELECT CAST(COALESCE(sum(seq_tup_read + COALESCE(idx_tup_fetch, 0) + n_tup_ins + n_tup_upd + n_tup_del), 0) AS bigint)
		FROM pg_stat_xact_user_tables WHERE schemaname = $1`
	ok(t, p.Engine.DB().Do(t.Context(), func(ctx context.Context, tx store.Tx) error {
		x := &plannedTx{Tx: tx, lite: lite}
		count := func() (n int64) { // with what earlier transactions of the connection have not reported yet
			if !lite {
				_, err := store.Row(ctx, tx, []any{&n}, touched, p.Schema)
				ok(t, err)
			}
			return n
		}
		before := count()
		if _, err := store.EndTasks(ctx, x, []string{c.TaskID}, nil); err != nil {
			return err
		}
		for _, line := range x.plans {
			if tableScan.MatchString(line) {
				t.Errorf("%d children: the end of one reads a whole table: %s in\n%s", n, line, strings.Join(x.plans, "\n"))
			}
		}
		statements, rows = x.statements, count()-before
		return nil
	}))
	state := need[pawl.ResumeState](t)(p.Engine.Resume(t.Context(), l.ID))
	if state.Children.Ended != 1 {
		t.Errorf("%d ended", state.Children.Ended)
	}
	return statements, rows
}

// The end of a child costs the same, however many children its parent waits for.
func TestTheEndOfAChildCostsTheSameAmongMany(t *testing.T) {
	pawltest.Each(t, func(t *testing.T, p *pawltest.Pawl) {
		many, manyRows := costOfAnEnd(t, p, times(1000, 10_000)) // first: small tables are read as a whole
		few, fewRows := costOfAnEnd(t, p, 20)
		t.Logf("statements: %d among 20, %d among many; rows: %d and %d", few, many, fewRows, manyRows)
		if many != few || manyRows > fewRows+10 {
			t.Errorf("among 20 children %d statements and %d rows, among many %d and %d", few, fewRows, many, manyRows)
		}
	})
}

// A million children: those above the limit are refused, also those of one call together, and by
// every verb that makes children.
func TestATaskHasABoundedNumberOfChildren(t *testing.T) {
	pawltest.Each(t, func(t *testing.T, p *pawltest.Pawl) {
		l, ids := spawned(t, p.Engine, "parent", 1)
		ok(t, p.Exec(fmt.Sprintf("UPDATE pawl.parents SET children = %d", pawl.MaxChildren-1)))
		rs := need[[]pawl.Result[pawl.Task]](t)(p.Engine.CreateTasks(t.Context(),
			[]pawl.NewTask{{Type: "a", ParentID: l.TaskID}, {Type: "a", ParentID: l.TaskID}}))
		for _, r := range rs {
			if pawl.CodeOf(r.Err) != pawl.CodeLimit {
				t.Errorf("two more than the limit allows: %v", r.Err)
			}
		}
		spawn := func(key string) error {
			_, err := first(p.Engine.Spawn(t.Context(), []pawl.SpawnCall{{Fence: l.Fence(), Key: key, Task: pawl.NewTask{Type: "a"}}}))
			return err
		}
		ok(t, spawn("last"))
		if err := spawn("more"); pawl.CodeOf(err) != pawl.CodeLimit {
			t.Errorf("one more: %v", err)
		}
		ok(t, spawn("last")) // the same child again
		if err := awaitChildren(p.Engine, l, pawl.ChildWait{IDs: make([]string, pawl.MaxAwaited+1)}); pawl.CodeOf(err) != pawl.CodeInvalid {
			t.Errorf("a wait for too many: %v", err)
		}
		ok(t, awaitChildren(p.Engine, l, pawl.ChildWait{IDs: ids}))
	})
}
