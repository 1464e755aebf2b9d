package sqlite

import (
	"database/sql"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/pawl-work/pawl"
)

// withPrefix opens a file with Pawl's tables behind a prefix, and migrates it.
func withPrefix(t *testing.T, path string) *db {
	t.Helper()
	s, err := Open(t.Context(), path, Options{Prefix: "pawl_"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	if _, err := s.Dialect().Migrator.Up(t.Context()); err != nil {
		t.Fatal(err)
	}
	return s.(*db)
}

// Every statement names Pawl's tables with the mark pawl., so that it finds them behind a prefix.
func TestEveryStatementPreparesWithAPrefix(t *testing.T) {
	d := withPrefix(t, filepath.Join(t.TempDir(), "app.db"))
	c, err := d.open(readerPragmas)
	if err != nil {
		t.Fatal(err)
	}
	defer c.close()
	plain, err := newDatabase(t).DB.(*db).open(readerPragmas)
	if err != nil {
		t.Fatal(err)
	}
	defer plain.close()
	prepared := 0
	for _, in := range []string{"../*.sql", "hot/*.sql", "../../engine/*.sql", "../../engine/internal/*/*.sql", "../../sweep/*.sql"} {
		files, err := filepath.Glob(in)
		if err != nil || len(files) == 0 {
			t.Fatal(in, err)
		}
		for _, file := range files {
			raw, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			blocks := strings.Split("\n"+string(raw), "\n-- name: ")
			for _, block := range blocks[min(1, len(blocks)-1):] {
				name, text, _ := strings.Cut(block, "\n")
				if s, err := plain.prepare(text, false); err != nil {
					continue // a part of a statement, or one for PostgreSQL
				} else {
					s.end()
				}
				prepared++
				s, err := c.prepare(text, false)
				if err != nil {
					t.Errorf("%s %s: %v", file, name, err)
					continue
				}
				s.end()
			}
		}
	}
	if prepared < 800 {
		t.Errorf("only %d statements were prepared", prepared)
	}
}

// application makes the file of an application with tables of the names of Pawl's, and returns what
// describes all that is in it.
func application(t *testing.T, path string) (describe func(path string) string) {
	t.Helper()
	run(t, path, "PRAGMA auto_vacuum = FULL", "PRAGMA journal_mode = WAL", "PRAGMA user_version = 7", "PRAGMA application_id = 99",
		"CREATE TABLE tasks (a UNIQUE, b CHECK (b > 0))", "CREATE TABLE items (z REFERENCES tasks (a))", "CREATE TABLE events (x)",
		"CREATE TABLE pawl_notes (n)", "CREATE TABLE numbered (id INTEGER PRIMARY KEY AUTOINCREMENT)",
		"CREATE VIEW v_tasks AS SELECT a FROM tasks", "CREATE VIEW broken AS SELECT * FROM missing",
		"CREATE TRIGGER tasks_insert AFTER INSERT ON tasks BEGIN INSERT INTO events VALUES (NEW.a); END",
		"INSERT INTO tasks VALUES (1, 2), (3, 4)", "DELETE FROM tasks WHERE a = 1", "INSERT INTO numbered VALUES (40)",
		"PRAGMA ignore_check_constraints = 1", "INSERT INTO tasks VALUES (5, -1)")
	if err := os.Chmod(path, 0o640); err != nil {
		t.Fatal(err)
	}
	return func(path string) string {
		var out strings.Builder
		for _, query := range []string{
			"SELECT type || name || tbl_name || sql FROM sqlite_schema WHERE tbl_name NOT LIKE 'sqlite%' " +
				"AND (tbl_name NOT LIKE 'pawl%' OR tbl_name = 'pawl_notes') ORDER BY name",
			"SELECT rowid || '|' || a || '|' || b FROM tasks", "SELECT rowid || '|' || x FROM events", "SELECT a FROM v_tasks",
			"SELECT seq FROM sqlite_sequence WHERE name = 'numbered'",
			"PRAGMA user_version", "PRAGMA application_id", "PRAGMA journal_mode", "PRAGMA auto_vacuum"} {
			out.WriteString(strings.Join(run(t, path, query), "\n") + "\n")
		}
		return out.String()
	}
}

// run runs statements as an application does, and returns the first column of the last one's rows.
func run(t *testing.T, path string, statements ...string) (out []string) {
	t.Helper()
	app, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	defer app.Close()
	app.SetMaxOpenConns(1)
	for _, s := range statements {
		rows, err := app.Query(s)
		if err != nil {
			t.Fatal(s, err)
		}
		for out = nil; rows.Next(); {
			var v sql.NullString
			if err := rows.Scan(&v); err != nil {
				t.Fatal(s, err)
			}
			out = append(out, v.String)
		}
		if err := rows.Close(); err != nil {
			t.Fatal(s, err)
		}
	}
	return out
}

func TestAnApplicationsFileIsLeftAlone(t *testing.T) {
	dir := t.TempDir()
	path, copied := filepath.Join(dir, "app.db"), filepath.Join(dir, "copy.db")
	describe := application(t, path)
	before := describe(path)
	d := withPrefix(t, path)
	if _, err := d.compact(t.Context()); pawl.CodeOf(err) != pawl.CodeInvalid || !strings.Contains(err.Error(), "VACUUM") {
		t.Errorf("compact: %v", err)
	}
	if err := Backup(t.Context(), d, copied, nil); err != nil {
		t.Fatal(err)
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	for _, file := range []string{path, copied} {
		if after := describe(file); after != before {
			t.Errorf("%s:\n%s\nwas\n%s", file, after, before)
		}
	}
	if info, err := os.Stat(path); err != nil || runtime.GOOS != "windows" && info.Mode().Perm() != 0o640 {
		t.Error(info.Mode(), err)
	}
	for _, file := range []string{path, copied} { // its tables are there, and nothing has to be migrated
		again, err := Open(t.Context(), file, Options{Prefix: "pawl_", Existing: true})
		if err != nil {
			t.Fatal(err)
		}
		if done, err := again.Dialect().Migrator.Up(t.Context()); err != nil || len(done) > 0 {
			t.Error(done, err)
		}
		if err := again.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

func TestPrefixesThatAreRefused(t *testing.T) {
	wal := "PRAGMA journal_mode = WAL"
	for name, c := range map[string]struct {
		prefix string
		says   string
		file   []string
	}{
		"capitals":              {"Pawl_", "is not one", nil},
		"a blank":               {"pa wl", "is not one", nil},
		"a digit first":         {"1_", "is not one", nil},
		"long":                  {strings.Repeat("p", 31), "is not one", nil},
		"SQLite's":              {"sqlite_pawl_", "is not one", nil},
		"a rollback journal":    {"pawl_", "the journal mode of", []string{"CREATE TABLE t (a)"}},
		"UTF-16":                {"pawl_", "UTF-8", []string{"PRAGMA encoding = 'UTF-16le'", wal, "CREATE TABLE t (a)"}},
		"a table of that name":  {"pawl_", "PAWL_Tasks", []string{wal, "CREATE TABLE PAWL_Tasks (a)"}},
		"a view of that name":   {"pawl_", "pawl_v_tasks", []string{wal, "CREATE VIEW pawl_v_tasks AS SELECT 1"}},
		"a table of a move":     {"pawl_", "pawl_moved_items", []string{wal, "CREATE TABLE pawl_moved_items (a)"}},
		"somebody's migrations": {"pawl_", "pawl_schema_migrations", []string{wal, "CREATE TABLE pawl_schema_migrations (version)"}},
		"a file of Pawl's":      {"pawl_", "is Pawl's own file", []string{"PRAGMA application_id = 1885435756", wal}},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "app.db")
			run(t, path, append(c.file, "SELECT 1")...)
			before, _ := os.ReadFile(path)
			s, err := Open(t.Context(), path, Options{Prefix: c.prefix})
			if err == nil {
				s.Close()
			}
			if pawl.CodeOf(err) != pawl.CodeInvalid || !strings.Contains(strings.ToLower(err.Error()), strings.ToLower(c.says)) {
				t.Errorf("got %v, want … %s …", err, c.says)
			}
			if after, _ := os.ReadFile(path); string(after) != string(before) {
				t.Error("the file was changed")
			}
		})
	}
	path := filepath.Join(t.TempDir(), "app.db")
	withPrefix(t, path)
	_, err := Open(t.Context(), path, Options{Prefix: "pawl"})
	if pawl.CodeOf(err) != pawl.CodeInvalid || !strings.Contains(err.Error(), "?prefix=pawl_") {
		t.Errorf("a second prefix: %v", err)
	}
	if _, err = Open(t.Context(), path, Options{}); pawl.CodeOf(err) != pawl.CodeInvalid || !strings.Contains(err.Error(), "?prefix=pawl_") {
		t.Errorf("no prefix: %v", err)
	}
}

func TestURLsOfFiles(t *testing.T) {
	for url, want := range map[string][3]string{
		"sqlite:app.db":                         {"app.db", "", ""},
		"sqlite://app.db?prefix=pawl_":          {"app.db", "pawl_", ""},
		"sqlite:/a/we?ird#%41.db":               {"/a/we?ird#%41.db", "", ""},
		"sqlite:/a/we?ird.db?prefix=pawl_":      {"/a/we?ird.db", "pawl_", ""},
		"sqlite:app.db?prefix=":                 {"app.db", "", "empty"},
		"sqlite:app.db?prefx=pawl_":             {"app.db", "", "the only parameter"},
		"sqlite:app.db?prefix=pawl_&mode=ro":    {"app.db", "", "the only parameter"},
		"sqlite:app.db?prefix=pawl_;drop table": {"app.db", "", "the only parameter"},
		"sqlite:app.db?prefix=pawl-":            {"app.db", "", "is not one"},
		"sqlite:app.db?prefix=pawl_&prefix=b_":  {"app.db", "", "the only parameter"},
	} {
		path, prefix, local, err := SplitURL(url)
		if err != nil && want[2] != "" && strings.Contains(err.Error(), want[2]) && path == want[0] {
			continue
		}
		if !local || path != want[0] || prefix != want[1] || err != nil {
			t.Errorf("%s: %q %q %v %v", url, path, prefix, local, err)
		}
	}
}
