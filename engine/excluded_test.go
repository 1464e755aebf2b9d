package engine_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/engine"
	"github.com/pawl-work/pawl/pawltest"
)

const exclude = `INSERT INTO pawl.schema_migrations (id, description, executed_at, oldest) VALUES (9000, 'from tomorrow', 1, 9000)`

// A program that a migration has excluded stops: Run ends, and every call is refused from
// then on. A program that the migration allows keeps running.
func TestAnExcludedProgramStops(t *testing.T) {
	for _, which := range pawltest.Databases {
		t.Run(string(which), func(t *testing.T) {
			t.Parallel()
			p := newcomer(t, which)
			e := p.Another(engine.Options{})
			ended := make(chan error, 1)
			go func() { ended <- e.Run(t.Context()) }()
			alter(t, p, strings.Replace(exclude, "9000)", "1)", 1))
			need[pawl.Task](t)(pawl.Create(t.Context(), e, pawl.NewTask{Type: "t"}))
			select {
			case err := <-ended:
				t.Fatalf("it ended with %v, though it may go on", err)
			case <-time.After(6 * time.Second): // Run checks every 5 s
			}
			alter(t, p, "UPDATE pawl.schema_migrations SET oldest = 9000 WHERE id = 9000")
			select {
			case err := <-ended:
				tooNew(t, "Run", err)
			case <-time.After(60 * time.Second):
				t.Fatal("it goes on")
			}
			_, err := pawl.Create(t.Context(), e, pawl.NewTask{Type: "t"})
			tooNew(t, "create", err)
			_, err = e.Claim(t.Context(), pawl.ClaimRequest{WorkerID: "w"})
			tooNew(t, "claim", err)
			_, err = e.ListTasks(t.Context(), pawl.TaskFilter{})
			tooNew(t, "read", err)
		})
	}
}

// Without Run, the program learns of it when it makes a connection.
func TestAnExcludedProgramLearnsWhenItReconnects(t *testing.T) {
	p := newcomer(t, pawltest.Postgres)
	e := p.Another(engine.Options{})
	need[pawl.Task](t)(pawl.Create(t.Context(), e, pawl.NewTask{Type: "t"}))
	alter(t, p, exclude)
	e.DB().Dialect().Commits.Reset() // as after a failover
	for _, what := range []string{"the first call", "a later one"} {
		_, err := pawl.Create(t.Context(), e, pawl.NewTask{Type: "t"})
		tooNew(t, what, err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 60*time.Second)
	defer cancel()
	tooNew(t, "Run", e.Run(ctx))
}

// On SQLite the program learns of it at its next write.
func TestAnExcludedProgramLearnsWhenItWrites(t *testing.T) {
	p := newcomer(t, pawltest.SQLite)
	e := p.Another(engine.Options{})
	need[pawl.Task](t)(pawl.Create(t.Context(), e, pawl.NewTask{Type: "t"}))
	alter(t, p, strings.Replace(exclude, "9000)", "1)", 1))
	need[pawl.Task](t)(pawl.Create(t.Context(), e, pawl.NewTask{Type: "t"})) // this program is still allowed
	alter(t, p, "UPDATE pawl.schema_migrations SET oldest = 9000 WHERE id = 9000")
	_, err := pawl.Create(t.Context(), e, pawl.NewTask{Type: "t"})
	tooNew(t, "the first write", err)
	_, err = e.ListTasks(t.Context(), pawl.TaskFilter{})
	tooNew(t, "a read after it", err)
}

// In a caller's own transaction, which is on no connection of the program, it learns of it at its first call there.
func TestAnExcludedProgramLearnsInATransaction(t *testing.T) {
	for _, which := range pawltest.Databases {
		t.Run(string(which), func(t *testing.T) {
			p := newcomer(t, which)
			writes, reads := p.Another(engine.Options{}), p.Another(engine.Options{})
			alter(t, p, exclude)
			tx := beginOwnIn(t, p, writes)
			_, err := tx.Create(t.Context(), pawl.NewTask{Type: "t"})
			tooNew(t, "create", err)
			tx.rollback()
			_, err = writes.ListTasks(t.Context(), pawl.TaskFilter{})
			tooNew(t, "a read after it, outside", err)
			tx = beginOwnIn(t, p, reads)
			_, err = tx.ListTasks(t.Context(), pawl.TaskFilter{})
			tooNew(t, "a read", err)
			_, err = tx.Claim(t.Context(), pawl.ClaimRequest{WorkerID: "w"})
			tooNew(t, "claim", err)
			tx.rollback()
		})
	}
}

// Also in a transaction whose snapshot is older than the migration.
func TestAnExcludedProgramLearnsBesideASnapshot(t *testing.T) {
	p := newcomer(t, pawltest.Postgres)
	e := p.Another(engine.Options{})
	conn := need[*pgx.Conn](t)(pgx.Connect(t.Context(), p.URL))
	defer conn.Close(context.WithoutCancel(t.Context()))
	tx := need[pgx.Tx](t)(conn.BeginTx(t.Context(), pgx.TxOptions{IsoLevel: pgx.RepeatableRead}))
	_, err := tx.Exec(t.Context(), "SELECT 1") // takes the snapshot
	ok(t, err)
	alter(t, p, exclude)
	_, err = pawl.Create(t.Context(), e.In(tx), pawl.NewTask{Type: "t"})
	tooNew(t, "create", err)
	ok(t, tx.Rollback(t.Context()))
}

// newcomer has a schema that no other test uses afterwards: its migrations are not
// put back.
func newcomer(t *testing.T, which pawltest.Database) *pawltest.Pawl {
	t.Helper()
	p := pawltest.OpenReal(t, which)
	t.Cleanup(func() { alter(t, p, "DELETE FROM pawl.schema_migrations WHERE id = 9000") })
	return p
}

// alter changes the table of migrations on a separate connection.
func alter(t *testing.T, p *pawltest.Pawl, query string) {
	t.Helper()
	if p.Database == pawltest.SQLite {
		if err := p.Exec(query); err != nil {
			t.Fatal(err)
		}
		return
	}
	c, err := pgx.Connect(context.Background(), p.URL)
	if err == nil {
		defer c.Close(context.Background())
		_, err = c.Exec(context.Background(), strings.ReplaceAll(query, "pawl.", p.Schema+"."))
	}
	if err != nil {
		t.Fatal(err)
	}
}

func tooNew(t *testing.T, what string, err error) {
	t.Helper()
	if !errors.Is(err, pawl.ErrUnavailable) || !strings.Contains(err.Error(), "too new for this program") {
		t.Errorf("%s: %v", what, err)
	}
}
