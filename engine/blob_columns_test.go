package engine_test

import (
	"context"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/pawl-work/pawl/engine"
	"github.com/pawl-work/pawl/pawltest"
	"github.com/pawl-work/pawl/store"
)

// referringColumns lists the columns that hold values which may refer to uploaded blobs, with
// what keeps the blobs: the rows of blob_refs of the task, or the text itself, which retention
// reads. Rooms declare theirs.
var referringColumns = map[string]string{
	"tasks.payload":                   "task",
	"tasks.input":                     "task",
	"items.input":                     "task",
	"parked_items.result":             "task",
	"parked_items.assembled_result":   "task",
	"finished_items.result":           "task",
	"finished_items.assembled_result": "task",
	"item_parts.payload":              "task",
	"task_results.payload":            "task",
	"effects.answer":                  "task",
}

// plainColumns lists, by table, the other columns of texts, except those of rooms: names, words of Pawl, and JSON in
// which an object with the member $blob is no reference.
var plainColumns = map[string]string{
	"actors":            "kind name",
	"queues":            "namespace type",
	"paused_namespaces": "namespace",
	"tasks": "namespace type title metadata requested_by_type requested_by_id input_hash thread trace_parent item_type " +
		"parts_required reasons schedule",
	"task_counters":      "namespace state failed_in error",
	"items":              "namespace type kind key after parts_required reasons",
	"ready":              "left_by error",
	"scheduled":          "left_by error",
	"waiting":            "signal signal_key left_by error",
	"leases":             "namespace stage error key_id stopped",
	"parked_items":       "left_by stage evidence notes error",
	"finished_items":     "left_by stage error",
	"item_parts":         "id namespace part_key status evidence notes errors checksum worker_id idempotency_key_hash",
	"blobs":              "namespace",
	"moves":              "class event from_state to_state task_from task_to",
	"task_events":        "namespace message data diff trace_parent key_id",
	"task_results":       "namespace",
	"provenances":        "id namespace verb scope idempotency_key agent_id agent_name agent_version model request_fingerprint extra",
	"sweeps":             "server detail",
	"tombstones":         "namespace",
	"secrets":            "name value",
	"retention_gate":     "reason",
	"relocations":        "id side namespace step peer url mover detail",
	"relocation_changes": "named key",
	"relocation_numbers": "kind",
	"places":             "kind place how",
	"queue_limits":       "namespace rules",
	"gates":              "namespace pointer key",
	"deadlines":          "namespace",
	"effects": "id namespace name key request_hash state sender worker_id key_id senders decided_by budget reservation outcome comment " +
		"answer_hash error late_report source",
}

// Every column of a text is listed as one that may refer to uploaded blobs, or as one that
// does not. A new one needs a decision: what keeps the blobs of its values?
func TestColumnsThatReferToBlobs(t *testing.T) {
	p := pawltest.Open(t, pawltest.SQLite)
	var columns []string
	err := p.Engine.DB().View(t.Context(), func(ctx context.Context, tx store.Tx) (err error) {
		columns, err = texts(ctx, tx, "SELECT m.name || '.' || c.name FROM sqlite_master m JOIN pragma_table_info(m.name) c "+
			"WHERE m.type = 'table' AND m.name NOT LIKE 'sqlite_%' AND m.name <> 'schema_migrations' AND c.type = 'TEXT'")
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	refers, plain := maps.Clone(referringColumns), maps.Clone(plainColumns)
	for _, r := range engine.Declared() {
		for _, table := range r.Tables {
			if _, twice := plain[table.Name]; twice {
				t.Errorf("%s is listed, and declared by the room %s", table.Name, r.Name)
			}
			if ofTask := table.Key == "task" || table.Key == "item"; ofTask != (table.Archive != "") || ofTask != (table.Copy != "") {
				t.Errorf("%s: what do archives and copies take of its rows of a %s?", table.Name, table.Key)
			}
			plain[table.Name] = strings.Join(table.Plain, " ")
			for _, col := range table.Values {
				refers[table.Name+"."+col] = table.Key
			}
		}
	}
	for _, name := range columns {
		table, col, _ := strings.Cut(name, ".")
		if slices.Contains(strings.Fields(plain[table]), col) == (refers[name] != "") {
			t.Errorf("%s is listed as neither or both", name)
		}
	}
	for name := range refers {
		if !slices.Contains(columns, name) {
			t.Errorf("there is no column %s", name)
		}
	}
	if len(columns) < 100 {
		t.Errorf("%d columns", len(columns))
	}
}
