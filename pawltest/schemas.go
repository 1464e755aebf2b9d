package pawltest

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pawl-work/pawl/engine"
	"github.com/pawl-work/pawl/internal/clock"
	"github.com/pawl-work/pawl/store"
)

// Server returns the URL of the PostgreSQL server for tests. Without a server the test is
// skipped, or fails if CI=true.
func Server(t testing.TB) string {
	t.Helper()
	url := os.Getenv("PAWL_TEST_POSTGRES")
	if url == "" {
		const why = "PAWL_TEST_POSTGRES names no PostgreSQL server"
		if os.Getenv("CI") == "true" {
			t.Fatal(why)
		}
		t.Skip(why)
	}
	return url
}

// Main runs a package's tests. Tests of one run use the same databases one after the other, with
// the connections and prepared statements of the test before: its rows are removed in between. A
// test that fails, changes the schema or leaves a transaction open has its database to itself. Everything is removed at the
// end. Then each of last is called; an error of one fails the run. The variable PAWL_IDENTITY is trust, unless it is set.
//
//	func TestMain(m *testing.M) { pawltest.Main(m) }
func Main(m *testing.M, last ...func() error) {
	if os.Getenv("PAWL_IDENTITY") == "" { // its databases are copies, and tests reach them under several names
		_ = os.Setenv("PAWL_IDENTITY", engine.IdentityTrust)
	}
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(gcPercent)
	}
	pool.kept, pool.free, pool.made = true, map[kind][]*kept{}, map[Database][]byte{}
	code := m.Run()
	if err := empty(); err != nil {
		fmt.Fprintln(os.Stderr, "pawltest:", err)
	}
	for _, check := range last {
		if err := check(); err != nil && code == 0 {
			fmt.Fprintln(os.Stderr, "pawltest:", err)
			code = 1
		}
	}
	os.Exit(code)
}

// gcPercent is GOGC of tests: their heaps are small, and to collect the garbage of each took a fifth of their processor time.
const gcPercent = 400

// pool keeps databases between the tests of a package that uses Main.
var pool struct {
	mu      sync.Mutex
	kept    bool
	free    map[kind][]*kept
	schemas []*schema // without connections, for engines that open their own
	dir     string    // of the SQLite files of free
	files   int
	made    map[Database][]byte // migrated SQLite databases
}

// empty removes the databases of the pool.
func empty() (err error) {
	for _, all := range pool.free {
		for _, k := range all {
			err = errors.Join(err, k.drop())
		}
	}
	for _, s := range pool.schemas {
		err = errors.Join(err, s.drop())
	}
	if pool.dir != "" {
		err = errors.Join(err, os.RemoveAll(pool.dir))
	}
	return err
}

// migratedFile returns the content of a migrated SQLite database. The first is made at path.
func migratedFile(path string, which Database) (file []byte, err error) {
	if file = pool.made[which]; file != nil {
		return file, nil
	}
	if err = which.migrate(path); err == nil {
		file, err = os.ReadFile(path)
	}
	pool.made[which] = file
	return file, err
}

// freshFile returns the path of an SQLite database, or the path at which the engine creates
// one.
func freshFile(t testing.TB, which Database) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "pawl.db")
	pool.mu.Lock()
	defer pool.mu.Unlock()
	if !pool.kept {
		return path
	}
	file, err := migratedFile(path, which)
	if err == nil {
		err = os.WriteFile(path, file, 0o600)
	}
	if err != nil {
		t.Fatalf("pawltest: %v", err)
	}
	return path
}

// schema is one schema of the server, with a connection that moves its clock, resets its rows and
// drops it.
type schema struct {
	name  string
	conn  *pgx.Conn
	print string   // see fingerprint; "" = it is not learned
	holds bool     // its clock is the one of holdClock
	db    store.DB // see checks
}

// freshSchema returns an empty schema that is migrated. Only one that returns to the pool learns how it is at first.
func freshSchema(t testing.TB, url string, returns bool) *schema {
	t.Helper()
	pool.mu.Lock()
	if n := len(pool.schemas); n > 0 {
		s := pool.schemas[n-1]
		pool.schemas = pool.schemas[:n-1]
		pool.mu.Unlock()
		return s
	}
	pool.mu.Unlock()
	s, err := connect(url)
	if err == nil {
		err = s.migrate(url)
	}
	if err == nil && returns && pool.kept {
		err = s.learn()
	}
	if err != nil {
		t.Fatalf("pawltest: %v", err)
	}
	return s
}

// connect connects to the server and makes up the name of a schema that does not exist yet.
func connect(url string) (*schema, error) {
	var id [6]byte
	_, _ = rand.Read(id[:])
	s := &schema{name: "pawl_test_" + hex.EncodeToString(id[:])}
	var err error
	if s.conn, err = pgx.Connect(context.Background(), url); err != nil {
		return nil, err
	}
	for _, setting := range []string{"client_min_messages = warning", "lock_timeout = '20s'", "search_path = " + s.name} {
		if err := s.exec("SET " + setting); err != nil {
			return nil, err
		}
	}
	return s, nil
}

func (s *schema) migrate(url string) error {
	db, err := engine.OpenDB(context.Background(), url, engine.Options{Schema: s.name})
	if err != nil {
		return err
	}
	return db.Close()
}

// release resets the schema for the next test, or drops it.
func (s *schema) release(sound bool) error {
	if pool.kept && sound && s.clean() == nil {
		pool.mu.Lock()
		defer pool.mu.Unlock()
		pool.schemas = append(pool.schemas, s)
		return nil
	}
	return s.drop()
}

func (s *schema) exec(query string, args ...any) error {
	if _, err := s.conn.Exec(context.Background(), query, args...); err != nil {
		return fmt.Errorf("%s: %w", query, err)
	}
	return nil
}

// checks returns the options of an engine that checks the database of an engine with o. Its
// connections stay with the schema: to plan the statements of a check costs more than most tests.
func (s *schema) checks(t testing.TB, url string, o engine.Options) engine.Options {
	t.Helper()
	if !pool.kept {
		return engine.Options{}
	}
	db := s.checked(t, url)
	o.DB, o.Types, o.Statement = lend(db), nil, nil
	return o
}

// checked returns the same database with connections that only checks use: on each connection, the statements of a check
// are planned anew.
func (s *schema) checked(t testing.TB, url string) store.DB {
	t.Helper()
	if s.db == nil {
		var err error
		if s.db, err = engine.OpenDB(context.Background(), url, engine.Options{Schema: s.name}); err != nil {
			t.Fatalf("pawltest: %v", err)
		}
	}
	s.db.Dialect().Forget()
	return s.db
}

func (s *schema) drop() error {
	defer func() { _ = s.conn.Close(context.Background()) }()
	if s.db != nil {
		if err := s.db.Close(); err != nil {
			return err
		}
	}
	return s.exec(`DROP SCHEMA IF EXISTS ` + s.name + ` CASCADE`)
}

// learn makes the function that resets the rows, when the schema has just been migrated. What the
// migrations inserted is kept in temporary tables of the connection.
func (s *schema) learn() error {
	err := s.exec(`DO $$
		DECLARE r record; filled boolean; body text := 'INSERT INTO retention_gate VALUES (''pawltest''); '; seeds text := '';
		BEGIN
			FOR r IN SELECT tablename AS name FROM pg_tables WHERE schemaname = current_schema AND tablename NOT IN ('` +
		strings.Join(fixed, "', '") + `') ORDER BY tablename <> 'effects', tablename = 'gate_hints' LOOP
				-- The end of a lease ends its effects, and adds a hint.
				IF r.name <> 'retention_gate' THEN
					body := body || format('DELETE FROM %I; GET DIAGNOSTICS n = ROW_COUNT; rows := rows + n; ', r.name);
				END IF;
				EXECUTE format('SELECT EXISTS (SELECT FROM %I)', r.name) INTO filled;
				IF filled THEN
					EXECUTE format('CREATE TEMP TABLE first_%s AS SELECT * FROM %I', r.name, r.name);
					seeds := seeds || format('INSERT INTO %I SELECT * FROM pg_temp.first_%s; ', r.name, r.name);
				END IF;
			END LOOP;
			body := body || 'DELETE FROM retention_gate; ' || seeds;
			FOR r IN SELECT sequencename AS name, start_value AS first FROM pg_sequences WHERE schemaname = current_schema LOOP
				body := body || format('PERFORM setval(%L, %s, false); ', current_schema || '.' || r.name, r.first);
			END LOOP;
			EXECUTE format('CREATE FUNCTION pg_temp.reset() RETURNS bigint LANGUAGE plpgsql AS %L',
				'DECLARE n bigint; rows bigint := 0; BEGIN ' || body || 'RETURN rows; END');
		END $$`)
	if err != nil {
		return err
	}
	if err := s.exec(printer(s.name)); err != nil {
		return err
	}
	s.print, err = s.fingerprint()
	return err
}

// clean makes the rows those that the migrations insert. An error says that more than a few rows was
// changed, or that another transaction has rows.
func (s *schema) clean() error {
	var rows int
	if err := s.conn.QueryRow(context.Background(), "SELECT pg_temp.reset()").Scan(&rows); err != nil {
		return err
	}
	if rows > mostRows {
		return errMany
	}
	print, err := s.fingerprint()
	if err == nil && print != s.print {
		err = errChanged
	}
	return errors.Join(err, s.unused())
}

// unused waits until no transaction of another connection has used a table.
func (s *schema) unused() error {
	for end := clock.Now().Add(closeWait); ; time.Sleep(20 * time.Millisecond) {
		var open int
		err := s.conn.QueryRow(context.Background(), `SELECT COUNT(*) FROM pg_locks WHERE database = (SELECT oid FROM pg_database
			WHERE datname = current_database()) AND pid <> pg_backend_pid() AND relation IN (SELECT oid FROM pg_class
			WHERE relnamespace = $1::regnamespace)`, s.name).Scan(&open)
		switch {
		case err != nil || open == 0:
			return err
		case clock.Now().After(end):
			return errors.New("a transaction is open")
		}
	}
}

// printer makes the function of fingerprint. It finds the rows of the schema's relations by indexes: the catalogs have those
// of all tests that run beside.
func printer(schema string) string {
	const changes = "concat_ws(' ', COUNT(*), COUNT(*) FILTER (WHERE age(x.xmin) < learned)) FROM "
	namespace := "'" + schema + "'::regnamespace"
	inSchema := "pg_depend d WHERE d.refclassid = 'pg_namespace'::regclass AND d.refobjid = " + namespace
	// A trigger that was disabled and enabled again is as before, in a new version of its row.
	parts := "(SELECT SUM(hashtextextended(x::text, 0)) FROM first_relations r, pg_trigger x WHERE x.tgrelid = r.oid), " +
		"(SELECT concat_ws(' ', COUNT(*), SUM(d.objid::bigint)) FROM " + inSchema +
		" AND d.objid IS DISTINCT FROM to_regclass('" + schema + ".test_clock'))"
	for _, of := range []string{
		"first_relations r, pg_class x WHERE x.oid = r.oid",
		"first_relations r, pg_attribute x WHERE x.attrelid = r.oid",
		"first_relations r, pg_index x WHERE x.indrelid = r.oid",
		"first_relations r, pg_constraint x WHERE x.conrelid = r.oid",
		"pg_proc x WHERE proname <> 'now' AND x.oid IN (SELECT d.objid FROM " + inSchema + " AND d.classid = 'pg_proc'::regclass)",
		"moves x",
		"schema_migrations x",
	} {
		parts += ", (SELECT " + changes + of + ")"
	}
	return "CREATE TEMP TABLE first_relations AS SELECT oid, pg_current_xact_id()::xid AS tx FROM pg_class WHERE relnamespace = " + namespace +
		" AND relkind IN ('r', 'v', 'S') AND relname <> 'test_clock'; ANALYZE first_relations; " +
		"CREATE FUNCTION pg_temp.print() RETURNS text LANGUAGE plpgsql SET enable_hashjoin = off SET enable_mergejoin = off AS $$ " +
		"DECLARE learned int := (SELECT age(tx) FROM first_relations LIMIT 1); BEGIN RETURN (SELECT concat_ws(' ', " + parts + ")); END $$"
}

// fingerprint returns a text that differs when the schema or a fixed table differs, except for the
// function that is the clock.
func (s *schema) fingerprint() (print string, err error) {
	err = s.conn.QueryRow(context.Background(), "SELECT pg_temp.print()").Scan(&print)
	return print, err
}

// holdClock replaces the schema's now() with a clock that does not move by itself.
func (s *schema) holdClock(at int64) error {
	if s.holds {
		return s.exec(`WITH gone AS (DELETE FROM test_clock) INSERT INTO test_clock VALUES ($1)`, at)
	}
	s.holds = true
	if err := s.exec(`CREATE TABLE IF NOT EXISTS test_clock (at bigint NOT NULL)`); err != nil {
		return err
	}
	if err := s.exec(`DELETE FROM test_clock`); err != nil {
		return err
	}
	if err := s.exec(`INSERT INTO test_clock VALUES ($1)`, at); err != nil {
		return err
	}
	// A function in SQL would be planned at each call.
	return s.exec(`CREATE OR REPLACE FUNCTION ` + s.name + `.now() RETURNS bigint LANGUAGE plpgsql VOLATILE PARALLEL SAFE AS
		'BEGIN RETURN (SELECT at FROM ` + s.name + `.test_clock); END'`)
}

// letClockRun makes the schema's now() read the machine's clock again.
func (s *schema) letClockRun() error {
	if !s.holds {
		return nil
	}
	s.holds = false
	return s.exec(
		`CREATE OR REPLACE FUNCTION ` + s.name +
			`.now() RETURNS bigint LANGUAGE sql VOLATILE PARALLEL SAFE AS 'SELECT (date_part(''epoch'', clock_timestamp()) * 1000000)::bigint'`,
	)
}

// Place returns a place for a database that does not exist yet, for tests of opening and
// migrating: a URL and, on PostgreSQL, the name of a schema, which is dropped when the test
// ends.
func Place(t testing.TB, which Database) (url, schema string) {
	t.Helper()
	if which.local() {
		return which.sqliteURL(filepath.Join(t.TempDir(), "pawl.db")), ""
	}
	url = Server(t)
	s, err := connect(url)
	if err != nil {
		t.Fatalf("pawltest: %v", err)
	}
	t.Cleanup(func() {
		if err := s.drop(); err != nil {
			t.Errorf("pawltest: %v", err)
		}
	})
	return url, s.name
}
