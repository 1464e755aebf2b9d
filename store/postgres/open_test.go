package postgres_test

import (
	"context"
	"errors"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"go.uber.org/goleak"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/store"
	"github.com/pawl-work/pawl/store/postgres"
)

func TestManyMigrateAtOnce(t *testing.T) {
	h := emptyDatabase(t)
	var applied atomic.Int64
	var all sync.WaitGroup
	for range 4 {
		db := h.open()
		all.Go(func() {
			done, err := db.Dialect().Migrator.Up(t.Context())
			if err != nil {
				t.Error(err)
			}
			applied.Add(int64(len(done)))
		})
	}
	all.Wait()
	known, err := h.open().Dialect().Migrator.Status(t.Context())
	if err != nil || len(known) == 0 || applied.Load() != int64(len(known)) {
		t.Fatalf("%d of %d applied, %v", applied.Load(), len(known), err)
	}
	if m := known[0]; m.ID != 1 || m.Description != "schema" || !m.Known || m.ExecutedAt == 0 || m.Oldest != 1 {
		t.Errorf("%+v", m)
	}
	h.want("(1,schema,t,1)", "SELECT id, description, abs(executed_at - "+h.schema+".now()) < 60000000, oldest "+
		"FROM schema_migrations WHERE id = 1")
}

// A role that may not create schemas migrates in one that was created for it.
func TestASchemaThatWasCreatedForTheRole(t *testing.T) {
	h := emptyDatabase(t)
	role := "role_" + h.schema
	h.exec("CREATE ROLE " + role + " LOGIN PASSWORD 'plain'")
	h.exec("CREATE SCHEMA " + h.schema + " AUTHORIZATION " + role)
	t.Cleanup(func() { h.exec("DROP OWNED BY " + role + "; DROP ROLE " + role) })
	u, err := url.Parse(server(t))
	if err != nil {
		t.Fatal(err)
	}
	u.User = url.UserPassword(role, "plain")
	db, err := postgres.Open(t.Context(), u.String(), postgres.Options{Schema: h.schema, Log: quiet})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if done, err := db.Dialect().Migrator.Up(t.Context()); err != nil || len(done) == 0 {
		t.Fatalf("%v %v", done, err)
	}
}

func TestRollingUpgrade(t *testing.T) {
	h := emptyDatabase(t)
	m := h.open().Dialect().Migrator
	if err := store.Verify(t.Context(), m); !errors.Is(err, pawl.ErrUnavailable) {
		t.Errorf("an empty schema: %v", err)
	}
	if _, err := m.Up(t.Context()); err != nil {
		t.Fatal(err)
	}
	h.exec("INSERT INTO schema_migrations VALUES (9000, 'from tomorrow', 1, 1)")
	if done, err := m.Up(t.Context()); err != nil || len(done) != 0 {
		t.Errorf("%v %v", done, err)
	}
	all, err := m.Status(t.Context())
	if last := all[len(all)-1]; err != nil || last.Known || last.ID != 9000 || store.Verify(t.Context(), m) != nil {
		t.Errorf("%v %v", all, err)
	}
	h.exec("UPDATE schema_migrations SET oldest = 9000 WHERE id = 9000")
	_, up := m.Up(t.Context())
	for _, err := range []error{up, store.Verify(t.Context(), m)} {
		if !errors.Is(err, pawl.ErrUnavailable) || !strings.Contains(err.Error(), "too new") {
			t.Errorf("%v", err)
		}
	}
}

// A schema that its table of migrations does not describe is refused, and not reported as
// an internal error.
func TestATableOfMigrationsThatIsNotTrue(t *testing.T) {
	for name, statement := range map[string]string{
		"another's":   "DROP TABLE schema_migrations; CREATE TABLE schema_migrations (version text)",
		"gone":        "DROP TABLE schema_migrations",
		"empty":       "DELETE FROM schema_migrations",
		"with a gap":  "UPDATE schema_migrations SET id = id + 90",
		"of nonsense": "ALTER TABLE schema_migrations ALTER id TYPE text USING 'x' || id",
	} {
		t.Run(name, func(t *testing.T) {
			h := newDatabase(t)
			h.exec(statement)
			if _, err := h.open().Dialect().Migrator.Up(t.Context()); pawl.CodeOf(err) != pawl.CodeInvalid ||
				!strings.Contains(err.Error(), "schema_migrations") {
				t.Errorf("up: %v", err)
			}
		})
	}
}

// The tables whose rows come and go with every item are vacuumed when a twentieth of their
// rows is dead, and at full speed.
func TestHotTablesAreVacuumedEarly(t *testing.T) {
	h := newDatabase(t)
	h.want("(gate_hints) (leases) (ready) (scheduled) (task_counters) (waiting)",
		`SELECT relname FROM pg_class WHERE relnamespace = '`+h.schema+`'::regnamespace
		AND reloptions @> ARRAY['autovacuum_vacuum_scale_factor=0.05', 'autovacuum_vacuum_cost_delay=0'] ORDER BY relname`)
}

// TestMigrationSQL runs the printed SQL by hand. Up then has nothing to do.
func TestMigrationSQL(t *testing.T) {
	h := emptyDatabase(t)
	m := h.open().Dialect().Migrator
	text, err := m.SQL(0)
	if err != nil {
		t.Fatal(err)
	}
	h.exec(text)
	if done, err := m.Up(t.Context()); err != nil || len(done) != 0 || store.Verify(t.Context(), m) != nil {
		t.Errorf("%v %v", done, err)
	}
	if rest, _ := m.SQL(1); strings.Contains(rest, "CREATE TABLE pawl") || strings.Contains(rest, "CREATE SCHEMA") {
		t.Error("SQL(1) has what comes before 2")
	}
}

func TestOpenSaysWhatIsWrong(t *testing.T) {
	for url, want := range map[string]error{
		"postgres://%zz": pawl.ErrInvalid,
		"postgres://nobody@127.0.0.1:1/none?connect_timeout=2": pawl.ErrUnavailable,
		"postgres://127.0.0.1:1/none?schema=Not-One":           pawl.ErrInvalid,
	} {
		db, err := postgres.Open(t.Context(), url, postgres.Options{Log: quiet})
		if !errors.Is(err, want) || want == pawl.ErrUnavailable && !strings.Contains(err.Error(), "127.0.0.1:1: ") {
			t.Errorf("%s: %v", url, err)
		}
		if err == nil {
			db.Close()
		}
	}
	config, err := pgx.ParseConfig(server(t))
	if err != nil {
		t.Fatal(err)
	}
	_, err = postgres.Open(t.Context(), strings.Replace(server(t), "/"+config.Database, "/no_such_database", 1), postgres.Options{Log: quiet})
	if !errors.Is(err, pawl.ErrUnavailable) {
		t.Error(err)
	}
}

func TestViewIsOneSnapshot(t *testing.T) {
	h := newDatabase(t)
	h.solo(1, nil)
	err := h.db.View(t.Context(), func(ctx context.Context, tx store.Tx) error {
		var before, after int
		var first, second int64
		if _, err := store.Row(ctx, tx, []any{&before}, "SELECT COUNT(*) FROM pawl.tasks"); err != nil {
			return err
		}
		first, _ = tx.Now(ctx)
		h.solo(2, nil)
		second, _ = tx.Now(ctx)
		if _, err := store.Row(ctx, tx, []any{&after}, "SELECT COUNT(*) FROM pawl.tasks"); err != nil {
			return err
		}
		if before != 1 || after != 1 || first != second {
			t.Errorf("%d, then %d; %d, then %d", before, after, first, second)
		}
		_, err := tx.Exec(ctx, "DELETE FROM pawl.tasks")
		return err
	})
	if !errors.Is(err, pawl.ErrUnavailable) {
		t.Errorf("a view that writes: %v", err)
	}
}

// A query by keys of a view has settings of its own, also if its rows are not all read.
func TestQueriesByKeys(t *testing.T) {
	h := newDatabase(t)
	look := func(ctx context.Context, tx store.Tx, want string) error {
		var plans, scans string
		_, err := store.Row(ctx, tx, []any{&plans, &scans},
			"SELECT current_setting('plan_cache_mode'), current_setting('enable_seqscan') FROM generate_series(1, 10000)")
		if got := plans + " " + scans; got != want {
			t.Errorf("the settings are %q, want %q", got, want)
		}
		return err
	}
	all := func(ctx context.Context, tx store.Tx, others, byKeys string) error {
		return errors.Join(look(ctx, tx, others), look(store.ByKeys(ctx), tx, byKeys), look(ctx, tx, others))
	}
	own := "" // what the server is configured with
	err := h.db.View(t.Context(), func(ctx context.Context, tx store.Tx) error {
		_, err := store.Row(ctx, tx, []any{&own}, "SELECT reset_val FROM pg_settings WHERE name = 'plan_cache_mode'")
		return err
	})
	err = errors.Join(err,
		h.db.View(t.Context(), func(ctx context.Context, tx store.Tx) error {
			return all(ctx, tx, own+" on", "force_generic_plan off")
		}),
		h.db.Do(t.Context(), func(ctx context.Context, tx store.Tx) error {
			return all(ctx, tx, own+" off", own+" off")
		}),
		h.db.Whole(t.Context(), func(ctx context.Context, tx store.Tx) error {
			return all(ctx, tx, "force_generic_plan off", "force_generic_plan off")
		}))
	if err != nil {
		t.Fatal(err)
	}
	err = h.db.View(t.Context(), func(ctx context.Context, tx store.Tx) error {
		_, err := store.Row(store.ByKeys(ctx), tx, []any{new(int)}, "SELECT 1 / $1", 0)
		return err
	})
	if failed := (*pgconn.PgError)(nil); !errors.As(err, &failed) || failed.Code != "22012" { // division by zero
		t.Errorf("a query that fails: %v", err)
	}
}

func TestArguments(t *testing.T) {
	h := newDatabase(t)
	var none *int64
	five := 5
	err := h.db.Do(t.Context(), func(ctx context.Context, tx store.Tx) error {
		n, err := tx.Exec(ctx, "INSERT INTO pawl.workers (namespace, worker_id, name, version, started_at, last_seen_at) "+
			"VALUES ($1, $2, $3, $4, $5, $5)", "default", "w", store.Text(""), store.Text("v"), five)
		if err != nil || n != 1 {
			t.Errorf("%d %v", n, err)
		}
		var name, version store.Text
		var started *int64
		var seen *int
		found, err := store.Row(ctx, tx, []any{&name, &version, &started, &seen},
			"SELECT name, version, started_at, NULL FROM pawl.workers WHERE worker_id IN @list($1) @lock", store.List([]string{"v", "w"}))
		if err != nil || !found || name != "" || version != "v" || *started != 5 || seen != nil {
			t.Errorf("%v %q %q %v %v %v", found, name, version, started, seen, err)
		}
		rows := make([][]any, 2500)
		for i := range rows {
			rows[i] = []any{"default", string(rune('a'+i%26)) + strings.Repeat("x", i), none}
		}
		return tx.ExecEach(ctx, "INSERT INTO pawl.signals (namespace, name, sent_at, created_at) VALUES ($1, $2, $3, 0)", rows)
	})
	if err != nil {
		t.Fatal(err)
	}
	h.want("(,v)", "SELECT name, version FROM workers")
	h.want("(2500,0)", "SELECT count(*), count(sent_at) FROM signals")
}

func TestErrorsByCode(t *testing.T) {
	h := newDatabase(t)
	h.solo(1, nil)
	const id = "@id('0000000000000000000000000000000"
	for query, want := range map[string]error{
		"INSERT INTO pawl.task_counters (task_id, namespace) VALUES (" + id + "1'), 'x'), (" + id + "1'), 'x')": pawl.ErrConflict,
		"INSERT INTO pawl.task_counters (task_id, namespace, open) VALUES (" + id + "2'), 'x', -1)":             pawl.ErrInternal,
		"SELECT nonsense":                  pawl.ErrInternal,
		"SELECT chr(0)":                    pawl.ErrInternal,
		"SELECT '\"\\u0000\"'::jsonb->>0":  pawl.ErrInvalid,
		"SELECT pg_sleep(5)":               pawl.ErrUnavailable,
		"UPDATE pawl.task_events SET id=1": pawl.ErrInternal,
	} {
		err := h.db.Do(t.Context(), func(ctx context.Context, tx store.Tx) error {
			if strings.Contains(query, "sleep") {
				if _, err := tx.Exec(ctx, "SET LOCAL statement_timeout = 20"); err != nil {
					return err
				}
			}
			_, err := tx.Exec(ctx, query)
			return err
		})
		var mine *pawl.Error
		if !errors.Is(err, want) || !errors.As(err, &mine) || strings.Contains(mine.Message, "SQLSTATE") {
			t.Errorf("%s: %v", query, err)
		}
	}
}

func TestNULIsInvalid(t *testing.T) {
	h := newDatabase(t)
	task, item := solo(1)
	item.Input = "\"a\x00b\""
	err := h.db.Auto(t.Context(), func(ctx context.Context, tx store.Tx) error {
		_, err := h.db.Dialect().Hot.Create(ctx, tx, []store.NewTask{task}, []store.NewItem{item})
		return err
	})
	if !errors.Is(err, pawl.ErrInvalid) {
		t.Error(err)
	}
	h.want("(0)", "SELECT count(*) FROM tasks")
}

// TestKilledBackend ends every connection of the test in the middle of a call.
func TestKilledBackend(t *testing.T) {
	h := newDatabase(t)
	kill := func(ctx context.Context, tx store.Tx) {
		var pid int
		if _, err := store.Row(ctx, tx, []any{&pid}, "SELECT pg_backend_pid()"); err != nil {
			t.Error(err)
		}
		h.want("(t)", "SELECT pg_terminate_backend($1, 5000)", pid)
	}
	for name, run := range map[string]func(context.Context, func(context.Context, store.Tx) error) error{"Do": h.db.Do, "View": h.db.View,
		"Auto": h.db.Auto} {
		calls := 0
		err := run(t.Context(), func(ctx context.Context, tx store.Tx) error {
			calls++
			kill(ctx, tx)
			_, err := tx.Query(ctx, "SELECT 1")
			return err
		})
		if !errors.Is(err, pawl.ErrUnavailable) {
			t.Errorf("%s: %v", name, err)
		}
		if err := run(t.Context(), func(ctx context.Context, tx store.Tx) error { _, err := tx.Now(ctx); return err }); err != nil {
			t.Errorf("%s does not recover: %v", name, err)
		}
	}
	err := h.db.Do(t.Context(), func(ctx context.Context, tx store.Tx) error {
		_, err := tx.Exec(ctx, "INSERT INTO pawl.retention_gate VALUES ('x')")
		kill(ctx, tx)
		return err
	})
	if !errors.Is(err, pawl.ErrUnavailable) {
		t.Errorf("commit on a dead connection: %v", err)
	}
	h.want("(0)", "SELECT count(*) FROM retention_gate")
}

func TestContexts(t *testing.T) {
	h := newDatabase(t)
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(30*time.Millisecond, cancel)
	slow := func(ctx context.Context, tx store.Tx) error {
		_, err := tx.Exec(ctx, "SELECT pg_sleep(10)")
		return err
	}
	if err := h.db.Do(ctx, slow); !errors.Is(err, context.Canceled) || pawl.CodeOf(err) == pawl.CodeUnavailable {
		t.Errorf("cancelled: %v", err)
	}
	ctx, cancel = context.WithTimeout(t.Context(), 30*time.Millisecond)
	defer cancel()
	if err := h.db.Auto(ctx, slow); !errors.Is(err, pawl.ErrUnavailable) {
		t.Errorf("out of time: %v", err)
	}
	// Every connection is in use: waiting for one ends with unavailable.
	db, err := postgres.Open(t.Context(), server(t), postgres.Options{Schema: h.schema, MaxConns: 4, Log: quiet})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	hold, held := make(chan struct{}), make(chan struct{})
	var all sync.WaitGroup
	for range 2 { // one of four listens, and one is for heartbeats
		all.Go(func() {
			_ = db.Auto(t.Context(), func(context.Context, store.Tx) error { held <- struct{}{}; <-hold; return nil })
		})
		<-held
	}
	ctx, cancel = context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if err := db.Auto(ctx, slow); !errors.Is(err, pawl.ErrUnavailable) {
		t.Errorf("no connection: %v", err)
	}
	close(hold)
	all.Wait()
}

// TestDeadlockRunsAgain has two transactions lock two rows in opposite orders.
func TestDeadlockRunsAgain(t *testing.T) {
	h := newDatabase(t)
	h.exec("INSERT INTO signals (namespace, name, created_at) VALUES ('n', 'a', 0), ('n', 'b', 0)")
	var runs atomic.Int64
	met := make(chan struct{}, 2)
	var all sync.WaitGroup
	for _, order := range [][2]string{{"a", "b"}, {"b", "a"}} {
		all.Go(func() {
			err := h.db.Do(t.Context(), func(ctx context.Context, tx store.Tx) error {
				first := runs.Add(1) <= 2
				for i, name := range order {
					if i == 1 && first {
						met <- struct{}{}
						for len(met) < 2 {
							time.Sleep(time.Millisecond)
						}
					}
					if _, err := tx.Exec(ctx, "UPDATE pawl.signals SET created_at = created_at + 1 WHERE name = $1", name); err != nil {
						return err
					}
				}
				return nil
			})
			if err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	h.want("(2) (2)", "SELECT created_at FROM signals")
	if runs.Load() < 3 { // the loser may be first again, and lose again
		t.Errorf("%d runs", runs.Load())
	}
}

// TestCloseLeavesNothing checks that neither a goroutine nor a connection is left.
func TestCloseLeavesNothing(t *testing.T) {
	h := emptyDatabase(t)
	before := goleak.IgnoreCurrent()
	db, err := postgres.Open(t.Context(), server(t), postgres.Options{Schema: h.schema, Log: quiet})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := db.Dialect().Migrator.Up(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Error(err)
	}
	goleak.VerifyNone(t, before)
	if err := db.Do(t.Context(), func(context.Context, store.Tx) error { return nil }); !errors.Is(err, pawl.ErrUnavailable) {
		t.Errorf("after Close: %v", err)
	}
}

func TestWrappedTransaction(t *testing.T) {
	h := newDatabase(t)
	task, item := solo(1)
	for _, commit := range []bool{false, true} {
		tx, err := h.conn.Begin(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := h.db.Dialect().Hot.Create(t.Context(), postgres.WrapTx(tx, h.schema), []store.NewTask{task},
			[]store.NewItem{item}); err != nil {
			t.Fatal(err)
		}
		if commit {
			err = tx.Commit(t.Context())
		} else {
			err = tx.Rollback(t.Context())
		}
		if err != nil {
			t.Fatal(err)
		}
		h.want(map[bool]string{false: "(0)", true: "(1)"}[commit], "SELECT count(*) FROM ready")
	}
}
