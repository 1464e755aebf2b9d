package engine_test

import (
	"database/sql"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	_ "github.com/jackc/pgx/v5/stdlib" // the driver of database/sql

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/engine"
	"github.com/pawl-work/pawl/pawltest"
)

// Work made in the caller's own transaction is there with its commit, and who
// asked for it too.
func TestInsideKeepsProvenance(t *testing.T) {
	t.Parallel()
	pawltest.Each(t, func(t *testing.T, p *pawltest.Pawl) {
		ctx := pawl.WithProvenance(t.Context(), pawl.Provenance{AgentName: "research-bot"})
		var in *engine.Inside
		var commit func() error
		if p.Database == pawltest.SQLite {
			db, err := sql.Open("sqlite", strings.TrimPrefix(p.URL, "sqlite:"))
			if err != nil {
				t.Fatal(err)
			}
			defer db.Close()
			tx, err := db.BeginTx(ctx, nil)
			if err != nil {
				t.Fatal(err)
			}
			in, commit = p.Engine.In(tx), tx.Commit
		} else {
			c, err := pgx.Connect(ctx, p.URL)
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close(t.Context())
			tx, err := c.Begin(ctx)
			if err != nil {
				t.Fatal(err)
			}
			in, commit = p.Engine.In(tx), func() error { return tx.Commit(ctx) }
		}
		task := need[pawl.Task](t)(in.Create(ctx, pawl.NewTask{Type: "a"}))
		if err := commit(); err != nil {
			t.Fatal(err)
		}
		rows := need[pawl.List[pawl.ProvenanceRecord]](t)(p.Engine.ListProvenance(t.Context(), pawl.ProvenanceFilter{TaskID: task.ID})).Items
		if len(rows) != 1 || rows[0].AgentName != "research-bot" || rows[0].EventID == "" {
			t.Errorf("provenance: %+v", rows)
		}
	})
}

// On PostgreSQL a transaction of database/sql does as well as one of pgx, with
// tasks of one and of many, dedupe and a rollback; another database's is refused.
func TestInsideSQL(t *testing.T) {
	t.Parallel()
	p := pawltest.Open(t, pawltest.Postgres)
	ctx := t.Context()
	db, err := sql.Open("pgx", p.URL)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	begin := func() *sql.Tx { return need[*sql.Tx](t)(db.BeginTx(ctx, nil)) }

	tx := begin()
	gone := need[pawl.Task](t)(p.Engine.In(tx).Create(ctx, pawl.NewTask{Type: "a"}))
	if err := tx.Rollback(); err != nil {
		t.Fatal(err)
	}
	if _, err := p.Engine.GetTask(ctx, gone.ID); pawl.CodeOf(err) != pawl.CodeNotFound {
		t.Errorf("after the rollback: %v", err)
	}

	runAt := p.Now().Add(time.Hour)
	tx = begin()
	in := p.Engine.In(tx)
	one := need[pawl.Task](t)(in.Create(ctx, pawl.NewTask{Type: "a", Title: "one", Payload: []byte(`{"n": 1}`), Dedupe: pawl.Dedupe{All: true}, RunAt: &runAt}))
	many := need[pawl.Task](t)(in.Create(ctx, pawl.NewTask{Type: "a", Items: []pawl.NewItem{{Key: "x", Input: []byte(`1`)}, {Key: "y", Input: []byte(`2`), After: []string{"x"}}}}))
	again := need[pawl.Task](t)(in.Create(ctx, pawl.NewTask{Type: "a", Payload: []byte(`{"n": 1}`), Dedupe: pawl.Dedupe{All: true}}))
	if err := tx.Commit(); err != nil {
		t.Fatal(err)
	}
	if again.ID != one.ID || !again.Deduplicated {
		t.Errorf("the same input made %s beside %s", again.ID, one.ID)
	}
	if got := need[pawl.Task](t)(p.Engine.GetTask(ctx, one.ID)); got.Title != "one" || string(got.Payload) != `{"n": 1}` || got.Stage != "Scheduled" {
		t.Errorf("%+v", got)
	}
	l := leases(t, p.Engine, pawl.ClaimRequest{WorkerID: "w", TaskID: many.ID}, 1)[0]
	need[pawl.Moved](t)(first(p.Engine.Complete(ctx, []pawl.CompleteCall{{Fence: l.Fence()}})))
	leases(t, p.Engine, pawl.ClaimRequest{WorkerID: "w", TaskID: many.ID}, 1)

	if _, err := p.Engine.In("no transaction").Create(ctx, pawl.NewTask{Type: "a"}); pawl.CodeOf(err) != pawl.CodeInvalid {
		t.Errorf("of no transaction: %v", err)
	}
}
