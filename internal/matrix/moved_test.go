package matrix

import (
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/pawl-work/pawl/engine"
	"github.com/pawl-work/pawl/pawltest"
)

const (
	// ofADatabase are the tables that a move leaves where they are.
	ofADatabase = "moves schema_migrations places retention_gate relocations relocation_numbers relocation_changes gate_hints test_clock"
	// ofNoNamespace are the tables that a namespace leaves where they are.
	ofNoNamespace = "secrets actors workers sweeps type_hooks queue_minutes totals feed_pages log_pages log_removals log_runs log_tiles " +
		"log_epochs log_checkpoints relay_cursors"
	// numbers are the columns that a namespace gets anew in another database, or that have such numbers in their texts.
	numbers = "queues.id gates.id gates.queue_id queue_limits.queue_id tasks.queue_id items.queue_id ready.queue_id ready.worker ready.gate " +
		"scheduled.queue_id scheduled.worker scheduled.gate waiting.queue_id waiting.worker waiting.gate leases.queue_id leases.worker " +
		"leases.gate parked_items.queue_id parked_items.worker parked_items.gate finished_items.queue_id finished_items.worker " +
		"task_events.id task_events.actor task_events.queue_id tombstones.event_id provenances.event_id segments.id " +
		"archives.path archives.body archives.bytes archives.sha256 segments.path segments.body segments.bytes segments.sha256 " +
		"segments.contents"
	// ofFiles are the columns that say where an archive is: in a file, or here.
	ofFiles = "archives.path archives.body segments.path segments.body"
)

func lists(list, name string) bool { return slices.Contains(strings.Fields(list), name) }

// A filled database, and a filled namespace, are the same after a move, column by column.
func TestFilledMoves(t *testing.T) {
	for _, from := range shortly(pawltest.Databases) {
		for _, to := range shortly(pawltest.Databases) {
			for _, namespace := range []string{"", "default"} {
				t.Run(fmt.Sprint(from, " to ", to, " ", namespace), func(t *testing.T) {
					defer reported(t)
					moves(t, from, to, namespace)
				})
			}
		}
	}
}

func moves(t *testing.T, from, to pawltest.Database, namespace string) {
	open := func(which pawltest.Database) *subject {
		o := engine.Options{TransparencyLog: engine.LogOptions{Key: filepath.Join(t.TempDir(), "key")}}
		return newSubjectIn(t, pawltest.OpenNew(t, which, o))
	}
	s, there := open(from), open(to)
	s.fill()
	must(0, s.p.Engine.Log(s.ctx)) // as the move does
	s.p.Moved()
	there.p.Advance(s.p.Now().Sub(there.p.Now()))
	wanted := func(table string) bool {
		return !lists(ofADatabase, table) && (namespace == "" || !lists(ofNoNamespace, table))
	}
	before := s.read(wanted)
	must(s.p.Engine.Relocate(s.ctx, there.p.Engine, engine.Move{Namespace: namespace}))
	after := there.read(wanted)
	if namespace == "" {
		for column, found := range before.differs(after) {
			if table, _, _ := strings.Cut(column, "."); table != "relay_cursors" && !lists(ofFiles, column) {
				t.Errorf("%s: %s", column, found)
			}
		}
	} else {
		for table, rows := range before {
			was, is := unnumbered(table, namespace, rows), unnumbered(table, namespace, after[table])
			for row, n := range was {
				if is[row] != n {
					t.Errorf("%s has %d instead of %d of\n%.500s", table, is[row], n, row)
					break
				}
			}
		}
	}
	there.sound()
}

// unnumbered counts the rows of a namespace, without numbers that differ between databases.
func unnumbered(table, namespace string, rows map[string]map[string]string) map[string]int {
	out := map[string]int{}
	for _, row := range rows {
		if of, has := row["namespace"]; has && of != namespace {
			continue
		}
		text := ""
		for _, column := range slices.Sorted(maps.Keys(row)) {
			if !lists(numbers, table+"."+column) {
				text += column + "=" + row[column] + " "
			}
		}
		out[text]++
	}
	return out
}
