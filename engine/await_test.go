package engine_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/engine"
	"github.com/pawl-work/pawl/pawltest"
)

// Work without a notice is found by all claims that wait for it, although only one of
// them polls.
func TestWorkWithoutAWordIsFoundByAllWhoWait(t *testing.T) {
	pawltest.Each(t, func(t *testing.T, p *pawltest.Pawl) {
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
		defer cancel()
		const callers = 8
		got := make(chan string, callers)
		for i := range callers {
			go func() {
				ls, err := p.Engine.Claim(ctx, pawl.ClaimRequest{WorkerID: fmt.Sprint("w", i), Types: []string{"quiet"}, WaitSeconds: 60})
				if err != nil || len(ls) != 1 {
					t.Errorf("claimed %d, %v", len(ls), err)
					got <- fmt.Sprint("nothing for ", i)
					return
				}
				got <- ls[0].ID
			}()
		}
		time.Sleep(300 * time.Millisecond) // until all of them wait
		quietly(t, ctx, p, callers)
		seen := map[string]bool{}
		for range callers {
			id := <-got
			if seen[id] {
				t.Errorf("%s was claimed twice", id)
			}
			seen[id] = true
		}
	})
}

// A claim whose connection is cut while it polls goes on waiting on another connection.
func TestAWaitingClaimOutlivesItsConnection(t *testing.T) {
	t.Parallel()
	p := pawltest.OpenReal(t, pawltest.Postgres, engine.Options{})
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	conn := need[*pgx.Conn](t)(pgx.Connect(ctx, p.URL))
	defer conn.Close(context.Background())
	killer := need[*pgx.Conn](t)(pgx.Connect(ctx, p.URL))
	defer killer.Close(context.Background())
	blocker := need[pgx.Tx](t)(conn.Begin(ctx))
	need[pgconn.CommandTag](t)(blocker.Exec(ctx, "LOCK TABLE "+pgx.Identifier{p.Schema, "ready"}.Sanitize()+" IN ACCESS EXCLUSIVE MODE"))
	const callers = 3
	got := make(chan error, callers)
	for i := range callers {
		go func() {
			ls, err := p.Engine.Claim(ctx, pawl.ClaimRequest{WorkerID: fmt.Sprint("w", i), Types: []string{fmt.Sprint("t", i)}, WaitSeconds: 60})
			if err == nil && len(ls) != 1 {
				err = fmt.Errorf("claimed %d", len(ls))
			}
			got <- err
		}()
	}
	for cut := 0; cut < 2*callers; { // each of them more than once, or all that share a connection
		var n int
		if err := killer.QueryRow(ctx, `SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity
			WHERE application_name = 'pawl' AND wait_event_type = 'Lock' AND query LIKE '%' || $1 || '%'`, p.Schema).Scan(&n); err != nil {
			t.Fatal(err)
		}
		cut += n
		select {
		case err := <-got:
			t.Fatalf("a claim ended after %d cuts: %v", cut, err)
		case <-time.After(10 * time.Millisecond):
		}
	}
	if err := blocker.Rollback(ctx); err != nil {
		t.Fatal(err)
	}
	other := p.Another(engine.Options{})
	for i := range callers {
		need[pawl.Task](t)(pawl.Create(ctx, other, pawl.NewTask{Type: fmt.Sprint("t", i)}))
	}
	for range callers {
		if err := <-got; err != nil {
			t.Error(err)
		}
	}
}

// quietly creates tasks without a notice to the engine's claims: in a transaction of
// another client, or by another engine on a file.
func quietly(t *testing.T, ctx context.Context, p *pawltest.Pawl, n int) {
	t.Helper()
	task := pawl.NewTask{Type: "quiet"}
	if p.Database == pawltest.SQLite {
		other := p.Another(engine.Options{})
		for range n {
			need[pawl.Task](t)(pawl.Create(ctx, other, task))
		}
		return
	}
	conn := need[*pgx.Conn](t)(pgx.Connect(ctx, p.URL))
	defer conn.Close(context.WithoutCancel(ctx))
	tx := need[pgx.Tx](t)(conn.Begin(ctx))
	for range n {
		need[pawl.Task](t)(p.Engine.In(tx).Create(ctx, task))
	}
	if err := tx.Commit(ctx); err != nil {
		t.Fatal(err)
	}
}
