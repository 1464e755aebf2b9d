package engine_test

import (
	"database/sql"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

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
		task := need[pawl.Task](t)(in.Submit(ctx, pawl.NewTask{Type: "a"}))
		if err := commit(); err != nil {
			t.Fatal(err)
		}
		rows := need[pawl.List[pawl.ProvenanceRecord]](t)(p.Engine.ListProvenance(t.Context(), pawl.ProvenanceFilter{TaskID: task.ID})).Items
		if len(rows) != 1 || rows[0].AgentName != "research-bot" || rows[0].EventID == "" {
			t.Errorf("provenance: %+v", rows)
		}
	})
}
