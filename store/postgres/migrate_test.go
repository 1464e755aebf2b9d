package postgres

import (
	"context"
	"fmt"
	"os"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/pawl-work/pawl/internal/clock"
	"github.com/pawl-work/pawl/store"
)

// A migration beside a program that works may lose a deadlock, and runs again.
func TestAMigrationRunsAgainAfterADeadlock(t *testing.T) {
	ctx, schema := t.Context(), fmt.Sprintf("pawl_deadlock_%d_%d", os.Getpid(), clock.Now().UnixMicro())
	opened, err := Open(ctx, urlOf(t), Options{Schema: schema})
	if err != nil {
		t.Fatal(err)
	}
	defer opened.Close()
	conn, err := pgx.Connect(ctx, urlOf(t))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.Background())
	exec := func(query string) {
		t.Helper()
		if _, err := conn.Exec(context.Background(), query); err != nil {
			t.Fatalf("%s: %v", query, err)
		}
	}
	exec("CREATE SCHEMA " + schema + "; SET search_path = " + schema + "; CREATE TABLE a (); CREATE TABLE b ()")
	defer exec("DROP SCHEMA " + schema + " CASCADE")
	exec("SET deadlock_timeout = '1min'") // so that the migration is the one that loses
	exec("BEGIN; LOCK TABLE b IN ACCESS SHARE MODE")
	done := make(chan error, 1)
	go func() {
		script := fmt.Sprintf("BEGIN;\nALTER TABLE %[1]s.a ADD COLUMN x int;\nALTER TABLE %[1]s.b ADD COLUMN x int;\nCOMMIT;\n", schema)
		done <- migrationDB{of: opened.(*db), schema: schema}.Apply(ctx, []string{"", "SELECT 1"}, []store.Script{{SQL: script}})
	}()
	for waits := 0; waits == 0; {
		row := conn.QueryRow(ctx, "SELECT count(*) FROM pg_locks WHERE NOT granted AND relation = 'b'::regclass")
		if err := row.Scan(&waits); err != nil {
			t.Fatal(err)
		}
	}
	exec("LOCK TABLE a IN ACCESS SHARE MODE") // granted when the migration has lost
	exec("COMMIT")
	if err := <-done; err != nil {
		t.Error(err)
	}
	exec("SELECT x FROM a, LATERAL (SELECT b.x AS y FROM b) c")
}
