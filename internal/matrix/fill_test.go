package matrix

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/pawl-work/pawl/pawltest"
	"github.com/pawl-work/pawl/store"
)

// filled makes a database in which each feature was used.
func filled(t testing.TB, which pawltest.Database) *subject {
	s := newDatabase(t, which)
	s.fill()
	return s
}

// fill uses each feature, with values that are not those of a call that leaves things out.
func (s *subject) fill() {
	s.timetable()
	s.old()
	s.durations()
	s.besides()
	for n, r := range rooms {
		s.typ, s.create = fmt.Sprint(subjectType, n), nil
		s.make(r)
	}
	s.worn()
	s.family()
	s.effectful()
	s.money()
	s.planned()
	s.talk()
	s.sweep()
	s.removed()
}

// unset are the tables without rows, and the columns without a value, with the reason.
var unset = map[string]string{
	"archives.body":            "of SQLite, whose archives are in a directory",
	"segments.body":            "of SQLite, whose archives are in a directory",
	"archives.path":            "of PostgreSQL, whose archives are in the database",
	"segments.path":            "of PostgreSQL, whose archives are in the database",
	"child_cancels":            "the call that ends a wait carries its cancels out",
	"child_links.doomed":       "the call that cancels a parent carries it out",
	"parents.delete_by":        "the call that deletes a parent carries it out",
	"parents.todo":             "the call that cancels a parent carries it out",
	"signals.waking":           "of a signal that is being sent to more items than one transaction takes",
	"waiting.broken":           "the call that fails an item fails those that need it",
	"gate_hints.at":            "of a key whose rate is used up while it has work",
	"gate_hints.tx":            "SQLite has none",
	"log_epochs":               "of a database that goes on from a copy",
	"log_pages":                "the newest pages stay in the feed, and SQLite's are all new",
	"log_tiles.level":          "of 65,536 leaves",
	"parked_items.evidence":    "no statement names it: evidence is in the event",
	"parked_items.notes":       "no statement writes it: notes are in the event",
	"task_events.trace_parent": "no statement writes it: the trace is that of the task",
	"places":                   "has rows only where a database is not trusted",
	"queue_minutes.queued":     "Run counts it each minute, and nothing runs here",
	"queue_minutes.leased":     "Run counts it each minute, and nothing runs here",
	"queue_minutes.waiting":    "Run counts it each minute, and nothing runs here",
	"queue_minutes.scheduled":  "Run counts it each minute, and nothing runs here",
	"relocations":              "of a move",
	"relocation_changes":       "of a move",
	"relocation_numbers":       "of a move",
	"retention_gate":           "has a row during a removal only",
	"sweeps.errors":            "of a step that fails",
	"type_hooks":               "has rows only where an engine has hooks",
	"uploads.place":            "here blobs are in the database",
}

// A filled database has a value in each column that is not the one of a row that says nothing.
func TestFill(t *testing.T) {
	ran, left := 0, maps.Clone(unset)
	for _, which := range pawltest.Databases {
		t.Run(string(which), func(t *testing.T) {
			defer reported(t)
			s := filled(t, which)
			ran++
			for _, c := range s.emptyColumns() {
				table, _, _ := strings.Cut(c, ".")
				if unset[c] == "" && unset[table] == "" {
					t.Errorf("%s is NULL, 0, empty or its default in all rows", c)
				}
				delete(left, c)
				delete(left, table)
			}
		})
	}
	if ran == len(pawltest.Databases) && len(left) > 0 {
		t.Errorf("these have values, and are listed as if they had none: %v", left)
	}
}

// emptyColumns returns the columns of tables with rows which are in all rows NULL, 0, empty or their default.
func (s *subject) emptyColumns() (out []string) {
	of := "SELECT m.name, c.name, coalesce(c.dflt_value, '') FROM sqlite_schema m JOIN pragma_table_info(m.name) c " +
		"WHERE m.type = 'table' AND m.name NOT LIKE 'sqlite_%'"
	if s.p.Database == pawltest.Postgres {
		of = "SELECT c.table_name, c.column_name, coalesce(c.column_default, '') FROM information_schema.columns c JOIN pg_tables t " +
			"ON t.schemaname = c.table_schema AND t.tablename = c.table_name WHERE c.table_schema = '" + s.p.Schema + "'"
	}
	err := s.p.Engine.DB().View(s.ctx, func(ctx context.Context, tx store.Tx) error {
		columns, err := store.All(ctx, tx, of, nil, func(rows store.Rows, c *[3]string) error { return rows.Scan(&c[0], &c[1], &c[2]) })
		if err != nil {
			return err
		}
		for _, c := range columns {
			var values int64
			query := fmt.Sprintf(`SELECT count(CASE WHEN CAST(%s AS text) NOT IN ('', '0', '\x', $1) THEN 1 END) FROM pawl.%s`, c[1], c[0])
			if _, err := store.Row(ctx, tx, []any{&values}, query, c[2]); err != nil {
				return fmt.Errorf("%v: %w", c, err)
			}
			if values == 0 {
				out = append(out, c[0]+"."+c[1])
			}
		}
		return nil
	})
	if err != nil {
		s.Fatal(err)
	}
	slices.Sort(out)
	return out
}
