package engine_test

import (
	"context"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/engine"
	"github.com/pawl-work/pawl/pawltest"
)

// What `pawl migrate sql` prints may run again: on a schema that has all migrations it changes
// nothing, and on a new one, twice, it makes what opening makes.
func TestPrintedMigrationsMayRunAgain(t *testing.T) {
	p := pawltest.OpenReal(t, pawltest.Postgres)
	ctx := t.Context()
	conn := need[*pgx.Conn](t)(pgx.Connect(ctx, p.URL))
	defer conn.Close(context.WithoutCancel(ctx))
	fresh := p.Schema + "_again"
	exec := func(query string) {
		t.Helper()
		if _, err := conn.Exec(ctx, query, pgx.QueryExecModeSimpleProtocol); err != nil {
			t.Fatal(err)
		}
	}
	defer func() { _, _ = conn.Exec(context.WithoutCancel(ctx), "DROP SCHEMA IF EXISTS "+fresh+" CASCADE") }()
	columns := func(schema string) (n int) {
		t.Helper()
		if err := conn.QueryRow(ctx, "SELECT COUNT(*) FROM information_schema.columns WHERE table_schema = $1", schema).Scan(&n); err != nil {
			t.Fatal(err)
		}
		return n
	}
	task := need[pawl.Task](t)(pawl.Create(ctx, p.Engine, pawl.NewTask{Type: "a"}))
	want := columns(p.Schema)
	for _, schema := range []string{p.Schema, fresh, fresh} {
		exec(need[string](t)(engine.SchemaScript("postgres", schema, 0)))
		if got := columns(schema); got != want {
			t.Errorf("%s has %d columns, want %d", schema, got, want)
		}
	}
	need[pawl.Task](t)(p.Engine.GetTask(ctx, task.ID))
	e := need[*engine.Engine](t)(engine.OpenWith(ctx, p.URL, engine.Options{Schema: fresh, Migrate: "off"}))
	defer e.Close()
	need[pawl.Task](t)(pawl.Create(ctx, e, pawl.NewTask{Type: "a"}))
	if found := need[[]engine.Breach](t)(e.Check(ctx)); len(found) > 0 {
		t.Errorf("%+v", found)
	}
}
