package postgres_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestEveryStatementPrepares prepares every statement, so that a misspelt column is found
// before a caller uses it.
func TestEveryStatementPrepares(t *testing.T) {
	h := newDatabase(t)
	cold, _ := filepath.Glob("../*.sql")
	ours, _ := filepath.Glob("*.sql")
	hot, _ := filepath.Glob("hot/*.sql")
	rooms, _ := filepath.Glob("../../engine/internal/*/*.sql")
	sweep, _ := filepath.Glob("../../sweep/*.sql")
	engine, _ := filepath.Glob("../../engine/*.sql")
	if len(cold) == 0 || len(sweep) == 0 || len(rooms) == 0 || len(engine) == 0 || len(hot) != 18 {
		t.Fatalf("found %d files of cold SQL and %d hot verbs", len(cold), len(hot))
	}
	for _, file := range slices.Concat(cold, ours, hot, rooms, engine, sweep) {
		raw, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if file == "fence.sql" {
			continue // parts of the hot verbs' statements
		}
		blocks := strings.Split("\n"+string(raw), "\n-- name: ")
		if len(blocks) > 1 {
			blocks = blocks[1:]
		}
		for _, block := range blocks {
			name, text, named := strings.Cut(block, "\n")
			if !named || strings.HasPrefix(block, "\n") {
				name, text = "", block
			}
			verb, _, _ := strings.Cut(strings.TrimSpace(text), " ")
			parts := []string{"WHERE", "FROM", "JOIN", "EXISTS", "PRAGMA"}
			if expression := strings.ContainsAny(verb, ".("); expression || slices.Contains(parts, verb) {
				continue // a part of a statement, or a statement for SQLite
			}
			if _, err := h.conn.Prepare(t.Context(), "", h.db.Dialect().Rewrite(text)); err != nil {
				t.Errorf("%s %s: %v", file, name, err)
			}
		}
	}
}
