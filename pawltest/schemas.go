package pawltest

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/pawl-work/pawl/engine"
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

// Main runs a package's tests. Tests of one run reuse the same schemas one after the other,
// and copies of one SQLite file. That is twenty times as fast as creating each of them. The
// schemas are dropped at the end.
//
//	func TestMain(m *testing.M) { pawltest.Main(m) }
func Main(m *testing.M) {
	pool.kept = true
	code := m.Run()
	for _, s := range pool.free {
		if err := s.drop(); err != nil {
			fmt.Fprintln(os.Stderr, "pawltest:", err)
		}
	}
	os.Exit(code)
}

// pool keeps the schemas between the tests of a package that uses Main.
var pool struct {
	mu   sync.Mutex
	kept bool
	free []*schema
	file []byte // a migrated SQLite database; nil before the first is made
}

// freshFile returns the path of an SQLite database, or the path at which the engine creates
// one.
func freshFile(t testing.TB) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "pawl.db")
	pool.mu.Lock()
	defer pool.mu.Unlock()
	if !pool.kept {
		return path
	}
	if pool.file == nil {
		e, err := engine.Open(context.Background(), "sqlite:"+path)
		if err == nil {
			err = e.Close()
		}
		if err == nil {
			pool.file, err = os.ReadFile(path)
		}
		if err != nil {
			t.Fatalf("pawltest: %v", err)
		}
	}
	if err := os.WriteFile(path, pool.file, 0o600); err != nil {
		t.Fatalf("pawltest: %v", err)
	}
	return path
}

// schema is one schema of the server, with a connection that moves its clock, empties it and
// drops it.
type schema struct {
	name string
	conn *pgx.Conn
}

// freshSchema returns an empty schema, or the name of a schema for the engine to create.
func freshSchema(t testing.TB, url string) *schema {
	t.Helper()
	pool.mu.Lock()
	defer pool.mu.Unlock()
	if n := len(pool.free); n > 0 {
		s := pool.free[n-1]
		pool.free = pool.free[:n-1]
		return s
	}
	s, err := connect(url)
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

// release empties the schema for the next test, or drops it.
func (s *schema) release() error {
	pool.mu.Lock()
	defer pool.mu.Unlock()
	if pool.kept && s.empty() == nil {
		pool.free = append(pool.free, s)
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

func (s *schema) drop() error {
	defer func() { _ = s.conn.Close(context.Background()) }()
	return s.exec(`DROP SCHEMA IF EXISTS ` + s.name + ` CASCADE`)
}

// empty removes every row except those of the clock, the migrations, the moves, the secrets, the
// name of the log and the actor system.
func (s *schema) empty() error {
	return s.exec(`DO $$
		DECLARE r record;
		BEGIN
			INSERT INTO retention_gate VALUES ('pawltest');
			FOR r IN SELECT tablename FROM pg_tables WHERE schemaname = current_schema AND tablename NOT IN ('schema_migrations', ` +
		`'moves', 'secrets', 'retention_gate', 'test_clock', 'log_epochs') LOOP
				EXECUTE format('DELETE FROM %I', r.tablename);
			END LOOP;
			INSERT INTO actors (id, kind, name) VALUES (0, 'system', '');
			DELETE FROM retention_gate;
		END $$`)
}

// holdClock replaces the schema's now() with a clock that does not move by itself.
func (s *schema) holdClock(at int64) error {
	if err := s.exec(`CREATE TABLE IF NOT EXISTS test_clock (at bigint NOT NULL)`); err != nil {
		return err
	}
	if err := s.exec(`DELETE FROM test_clock`); err != nil {
		return err
	}
	if err := s.exec(`INSERT INTO test_clock VALUES ($1)`, at); err != nil {
		return err
	}
	return s.exec(
		`CREATE OR REPLACE FUNCTION ` + s.name + `.now() RETURNS bigint LANGUAGE sql VOLATILE PARALLEL SAFE AS 'SELECT at FROM ` + s.name +
			`.test_clock'`,
	)
}

// letClockRun makes the schema's now() read the machine's clock again.
func (s *schema) letClockRun() error {
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
	if which == SQLite {
		return "sqlite:" + filepath.Join(t.TempDir(), "pawl.db"), ""
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
