package sqlite

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
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
	for _, in := range []string{"../*.sql", "hot/*.sql", "../../engine/internal/*/*.sql"} {
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
