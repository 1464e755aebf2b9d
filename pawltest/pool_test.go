package pawltest

import (
	"sync"
	"sync/atomic"
	"testing"
)

// Tests that begin and end at the same time never have the same database.
func TestThePoolLendsADatabaseOnce(t *testing.T) {
	const callers = 8
	of := kind{which: "none"}
	pool.mu.Lock()
	was := pool.kept
	pool.kept = false // an empty pool makes no new database
	pool.mu.Unlock()
	t.Cleanup(func() {
		pool.mu.Lock()
		defer pool.mu.Unlock()
		pool.kept = was
		delete(pool.free, of)
	})
	for range callers {
		put(&kept{kind: of})
	}
	var held sync.Map
	var twice atomic.Bool
	var all sync.WaitGroup
	for range callers {
		all.Go(func() {
			for range 20_000 {
				k := take(t, of)
				if k == nil {
					continue
				}
				if _, loaded := held.LoadOrStore(k, true); loaded {
					twice.Store(true)
					return
				}
				held.Delete(k)
				put(k)
			}
		})
	}
	all.Wait()
	if twice.Load() {
		t.Error("two tests have one database")
	}
}

// On PostgreSQL, each change of a schema is seen before a further test has it. The clock of the tests is none.
func TestEveryChangeOfASchemaIsSeen(t *testing.T) {
	s := freshSchema(t, Server(t), true)
	t.Cleanup(func() { _ = s.drop() })
	for _, change := range []string{
		"CREATE TABLE more (id bigint)", "DROP TABLE relay_cursors CASCADE", "CREATE VIEW more AS SELECT 1 AS one", "CREATE SEQUENCE more",
		"CREATE INDEX more ON tasks (created_at, id)", "ALTER TABLE tasks ADD COLUMN more text", "ALTER TABLE tasks DROP COLUMN title CASCADE",
		"ALTER TABLE tasks ALTER COLUMN title SET STATISTICS 10", "ALTER TABLE tasks ALTER COLUMN title SET DEFAULT 'a'",
		"ALTER TABLE tasks ADD CONSTRAINT more CHECK (title <> 'b')", "ALTER TABLE tasks SET (fillfactor = 50)",
		"ALTER TABLE task_events DISABLE TRIGGER USER", "CREATE FUNCTION more() RETURNS int LANGUAGE sql AS 'SELECT 1'",
		"ALTER FUNCTION task_id(uuid) COST 7", "UPDATE moves SET event = event WHERE code = 1", "DELETE FROM schema_migrations",
	} {
		var print string
		err := s.exec("BEGIN")
		if err == nil {
			err = s.exec(change)
		}
		if err == nil {
			print, err = s.fingerprint()
		}
		if err != nil || print == s.print {
			t.Errorf("%s: not seen, %v", change, err)
		}
		if err := s.exec("ROLLBACK"); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.holdClock(1); err != nil {
		t.Fatal(err)
	}
	if print, err := s.fingerprint(); err != nil || print != s.print {
		t.Errorf("the clock is a change, %v", err)
	}
}
