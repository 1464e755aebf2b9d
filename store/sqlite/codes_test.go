package sqlite

import (
	"database/sql"
	"path/filepath"
	"strings"
	"testing"
)

// A connection that is open while another process migrates takes the codes that the migration
// adds, and still refuses those that no migration has.
func TestAnOpenConnectionTakesTheNewCodes(t *testing.T) {
	text, err := newDatabase(t).Dialect().Migrator.SQL(0)
	if err != nil {
		t.Fatal(err)
	}
	first, second, found := strings.Cut(text, "\n-- 2: ")
	if !found {
		t.Fatal("there is no second migration")
	}
	path := filepath.Join(t.TempDir(), "work.db")
	open := func() *sql.DB {
		db, err := sql.Open("sqlite", path)
		if err != nil {
			t.Fatal(err)
		}
		db.SetMaxOpenConns(1)
		t.Cleanup(func() { db.Close() })
		return db
	}
	old, by := open(), open()
	if _, err := old.Exec(first); err != nil {
		t.Fatal(err)
	}
	insert, err := old.Prepare("INSERT INTO task_events (namespace, task_id, move, actor, created_at) VALUES ('a', x'01', ?, 0, 1)")
	if err != nil {
		t.Fatal(err)
	}
	defer insert.Close()
	if _, err := insert.Exec(144); err != nil {
		t.Fatal(err)
	}
	if _, err := insert.Exec(145); err == nil {
		t.Fatal("the first migration takes the code 145")
	}
	if _, err := by.Exec("--" + second); err != nil {
		t.Fatal(err)
	}
	var newest int
	if err := by.QueryRow("SELECT MAX(code) FROM moves").Scan(&newest); err != nil || newest <= 144 {
		t.Fatalf("the second migration has no codes: %d, %v", newest, err)
	}
	if _, err := insert.Exec(newest); err != nil {
		t.Errorf("an open connection refuses a new code: %v", err)
	}
	if _, err := insert.Exec(newest + 1); err == nil {
		t.Error("a code that no migration has was taken")
	}
	var state string
	if err := old.QueryRow("PRAGMA integrity_check").Scan(&state); err != nil || state != "ok" {
		t.Errorf("the integrity check says %q, %v", state, err)
	}
}
