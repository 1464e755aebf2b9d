// Package matrix lets the features of Pawl meet on one task. A room is what one feature leaves on a task; a verb is
// something that happens to a whole task. In each cell some rooms are on a task, a verb happens to it, and then workers,
// people and the clock go on: doctor and the log must be clean, what was archived must come back as it was, a copy must
// not change its original, nothing may wait for ever, and after retention no row may be left over.
package matrix

import (
	"os"
	"slices"
	"testing"
	"time"

	"github.com/pawl-work/pawl/pawltest"
)

func TestMain(m *testing.M) { pawltest.Main(m) }

// whole says that the cells are run which take too long for each change.
var whole = os.Getenv("PAWL_TORTURE") == "1"

// Each room alone, under each verb; short, under some of them, fewer on PostgreSQL.
func TestRooms(t *testing.T) {
	for d, which := range pawltest.Databases {
		every := 2 + 9*d
		t.Run(string(which), func(t *testing.T) {
			for n, r := range rooms {
				t.Run(r.name, func(t *testing.T) {
					t.Parallel()
					for m, v := range verbs {
						if whole || (n+m)%every == 0 {
							t.Run(v.name, func(t *testing.T) { cell(t, which, v, r) })
						}
					}
				})
			}
		})
	}
}

// Each pair of rooms on one task, under each verb; short, every fifth pair under one verb, on SQLite alone.
func TestPairs(t *testing.T) {
	for d, which := range pawltest.Databases {
		if !whole && d > 0 {
			break
		}
		t.Run(string(which), func(t *testing.T) {
			for n, a := range rooms {
				for m, b := range rooms[n+1:] {
					if a.excludes(b) || !whole && (n+m)%5 > 0 {
						continue
					}
					t.Run(a.name+" and "+b.name, func(t *testing.T) {
						t.Parallel()
						for k, v := range verbs {
							if whole || k == (n+m/5)%len(verbs) {
								t.Run(v.name, func(t *testing.T) { cell(t, which, v, a, b) })
							}
						}
					})
				}
			}
		})
	}
}

// excludes reports whether the rooms cannot be on one task.
func (r room) excludes(o room) bool {
	return r.one != "" && r.one == o.one || r.not != "" && r.not == o.one || o.not != "" && o.not == r.one
}

// Each table is filled by a room, or belongs to no task. A new table needs a room.
func TestEveryTableHasARoom(t *testing.T) {
	left := map[string]bool{}
	for n, r := range rooms {
		for table, rows := range newSubject(t, pawltest.SQLite, r).rows() {
			if n == 0 {
				left[table] = true
			}
			if rows > 0 {
				delete(left, table)
			}
		}
	}
	for table := range left {
		if !slices.Contains(ofNoTask, table) {
			t.Errorf("no room leaves a row of %s", table)
		}
	}
}

// cell is one cell of the matrix.
func cell(t *testing.T, which pawltest.Database, v verb, rooms ...room) {
	defer reported(t)
	s := newSubject(t, which, rooms...)
	v.do(s)
	s.sound()
	s.drive()
	s.retire()
	s.sound()
}

// retire lets time pass until nothing is left of the tasks.
func (s *subject) retire() {
	s.Helper()
	for range 5 {
		s.p.Advance(100 * 24 * time.Hour)
		s.sweep()
	}
	for table, n := range s.rows() {
		if n > 0 && !slices.Contains(stays, table) {
			s.Errorf("%d rows of %s are left over", n, table)
		}
	}
}

// stays are the tables whose rows are not of tasks, or are of archives.
var stays = []string{
	"actors", "archives", "feed_pages", "log_checkpoints", "log_epochs", "log_removals", "log_runs", "moves", "queues",
	"relay_cursors", "schema_migrations", "secrets", "segments", "sweeps", "totals", "test_clock", "queue_limits", "gates", "budgets",
	"budget_totals", "types", "blob_refs", "uploads", "uploaded_blobs", "upload_pieces",
}

// ofNoTask are the tables of which no row belongs to a task that is there, and task_results, which a task has when it ends.
var ofNoTask = []string{
	"api_keys", "archives", "budget_totals", "child_cancels", "feed_pages", "firings", "log_checkpoints", "log_pages",
	"log_removals", "log_runs", "log_tiles", "paused_namespaces", "places", "queue_minutes", "relay_cursors", "relocation_changes",
	"relocation_numbers", "relocations", "retention_gate",
	"schedules", "segments", "sweeps", "task_results", "tombstones", "totals", "type_hooks", "workers",
}
