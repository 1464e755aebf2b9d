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

func TestOpenRefusesWhatIsNotOurs(t *testing.T) {
	dir := t.TempDir()
	file := func(name, content string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
		return path
	}
	foreign := func(name string, statements ...string) string {
		path := filepath.Join(dir, name)
		db, err := sql.Open("sqlite", path)
		if err != nil {
			t.Fatal(err)
		}
		defer db.Close()
		for _, s := range statements {
			if _, err := db.Exec(s); err != nil {
				t.Fatal(err)
			}
		}
		return path
	}
	for name, c := range map[string]struct {
		path string
		code pawl.Code
		says string
	}{
		"no path":          {"", pawl.CodeInvalid, "path"},
		"memory":           {":memory:", pawl.CodeInvalid, "memory"},
		"memory by URI":    {"file::memory:?cache=shared", pawl.CodeInvalid, "memory"},
		"NUL":              {"a\x00b", pawl.CodeInvalid, "NUL"},
		"no directory":     {filepath.Join(dir, "none", "work.db"), pawl.CodeInvalid, "does not exist"},
		"a directory":      {dir, pawl.CodeInvalid, "regular file"},
		"under a file":     {filepath.Join(file("plain", "x"), "work.db"), pawl.CodeInvalid, "directory"},
		"a short text":     {file("short.db", "hello"), pawl.CodeInvalid, "not a SQLite database"},
		"a long text":      {file("long.db", strings.Repeat("hello\n", 10_000)), pawl.CodeInvalid, "not a SQLite database"},
		"another's tables": {foreign("tables.db", "CREATE TABLE t (a)"), pawl.CodeInvalid, "another program"},
		"another's number": {foreign("number.db", "PRAGMA application_id = 252006674"), pawl.CodeInvalid, "another program"},
		"nothing can be":   {"/proc/work.db", pawl.CodeUnavailable, "cannot be opened"},
	} {
		t.Run(name, func(t *testing.T) {
			before, _ := os.ReadFile(c.path)
			db, err := Open(t.Context(), c.path, Options{})
			if err == nil {
				db.Close()
			}
			if pawl.CodeOf(err) != c.code || !strings.Contains(err.Error(), c.says) {
				t.Errorf("got %v, want %s: … %s …", err, c.code, c.says)
			}
			if after, _ := os.ReadFile(c.path); string(after) != string(before) {
				t.Error("the file was changed")
			}
		})
	}
}

func TestOpenMakesAndReopensAFile(t *testing.T) {
	for _, name := range []string{"work.db", "with blank ?#%41 and ü.db"} {
		path := filepath.Join(t.TempDir(), name)
		for range 2 {
			db, err := Open(t.Context(), path, Options{})
			if err != nil {
				t.Fatal(err)
			}
			if _, err := db.Dialect().Migrator.Up(t.Context()); err != nil {
				t.Fatal(err)
			}
			if err := db.Close(); err != nil {
				t.Fatal(err)
			}
		}
		left, err := os.ReadDir(filepath.Dir(path))
		if err != nil || len(left) != 1 || left[0].Name() != name {
			t.Errorf("%q left %v (%v)", name, left, err)
		}
		head := make([]byte, 72)
		if f, err := os.Open(path); err != nil {
			t.Error(err)
		} else if _, err := f.Read(head); err != nil || string(head[68:]) != "pawl" {
			t.Errorf("application id %q (%v)", head[68:], err)
		} else {
			f.Close()
		}
	}
}

func TestOpenTakesAnEmptyFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "work.db")
	if err := os.WriteFile(path, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	db, err := Open(t.Context(), path, Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
}

func TestOpenTakesWhatTheMigratorPrinted(t *testing.T) {
	h := newDatabase(t)
	text, err := h.Dialect().Migrator.SQL(0)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "by-hand.db")
	byHand, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := byHand.Exec(text); err != nil {
		t.Fatal(err)
	}
	if err := byHand.Close(); err != nil {
		t.Fatal(err)
	}
	db, err := Open(t.Context(), path, Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	done, err := db.Dialect().Migrator.Up(t.Context())
	if err != nil || len(done) != 0 {
		t.Errorf("still to do: %v (%v)", done, err)
	}
}

func TestOpenOnAFullOrReadOnlyPlaceIsUnavailable(t *testing.T) {
	if os.Getuid() == 0 {
		t.Skip("root may write everywhere")
	}
	path := filepath.Join(t.TempDir(), "work.db")
	if err := os.Chmod(filepath.Dir(path), 0o555); err != nil {
		t.Fatal(err)
	}
	_, err := Open(t.Context(), path, Options{})
	if pawl.CodeOf(err) != pawl.CodeUnavailable {
		t.Errorf("got %v", err)
	}
}

// Only the owner can read a file and its log, from the first byte on.
func TestAFileIsCreatedForItsOwner(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("Windows has no such permissions")
	}
	path := filepath.Join(t.TempDir(), "work.db")
	db, err := Open(t.Context(), path, Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if _, err := db.Dialect().Migrator.Up(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{path, path + "-wal", path + "-shm"} {
		info, err := os.Stat(name)
		if err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v, %v", name, info, err)
		}
	}
}
