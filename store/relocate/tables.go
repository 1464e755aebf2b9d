// Package relocate moves the rows of a database, or of one namespace, to another database while the
// source is used. Triggers in the source note the key of each row that changes. All rows are copied; then
// the rows whose keys were noted are copied again, until none is left while the source refuses changes.
package relocate

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// table is what a move does with a table.
type table struct {
	name string
	do   what
	// of is how a row belongs to a namespace: "namespace" = by its column, else one of owners; "" = it moves with the whole
	// database only.
	of string
	// stay is why the rows stay where they are when a namespace moves, if of is "".
	stay string
	// fixed rows never change; they are only inserted and removed.
	fixed bool
	// numbered says that the column id is a number that new rows draw.
	numbered bool
	// late rows are written by the process that gives events their positions and leaves. That goes on while
	// the source is fenced.
	late bool
	// acts says that rows let something happen by themselves. Those of a namespace appear in the
	// target in the moment when it has all.
	acts bool
	// rests says of rows that appear so that nothing acts on them alone.
	rests bool
	// maps are columns whose numbers the target gives anew when a namespace moves, and the
	// dictionary that they refer to.
	maps map[string]string
}

// what is done with a table.
type what int

const (
	copied what = iota
	seeded      // copied; an empty target has rows, which are removed
	stays       // of the database, and not of what is in it
)

// owners are the rows that say what namespace a row belongs to, by table.of: those with its column as their id. The only
// item of a task has the task's id.
var owners = map[string]struct {
	column string
	tables []string
}{
	"queue":   {"queue_id", []string{"queues"}},
	"item":    {"item_id", []string{"items", "tasks"}},
	"message": {"message_id", []string{"messages"}},
	"upload":  {"upload_id", []string{"uploads"}},
}

// belongs is the condition by which a row belongs to a namespace.
func belongs(of, row, namespace string) string {
	if of == "namespace" {
		return row + ".namespace = " + namespace
	}
	return "(" + owned(of, row, "EXISTS", " AND o.namespace = "+namespace, " OR ") + ")"
}

// orphaned is the condition by which the row that says what namespace a row belongs to is gone; "" = there is none.
func orphaned(of, row string) string { return owned(of, row, "NOT EXISTS", "", " AND ") }

func owned(of, row, exists, and, join string) string {
	var all []string
	for _, name := range owners[of].tables {
		all = append(all, fmt.Sprintf("%s (SELECT 1 FROM pawl.%s o WHERE o.id = %s.%s%s)", exists, name, row, owners[of].column, and))
	}
	return strings.Join(all, join)
}

// frees says of the tables with a unique index over some of their rows whether a row is not in it. Such rows are written
// first: the ones that take their place may be among the same changes.
var frees = map[string]func(of func(column string) any) bool{
	"item_parts":          func(of func(string) any) bool { return of("superseded_at") != nil },
	"budget_reservations": func(of func(string) any) bool { return of("item_id") == nil },
	"tasks":               func(of func(string) any) bool { return of("dedupes") == int64(0) },
}

// stage is the name of the table where the rows of an acting table of a namespace wait.
func (t table) stage(namespace string) string {
	if namespace == "" || !t.acts {
		return t.name
	}
	return "moved_" + t.name
}

// Every table of the schema has a row here, in an order in which each row comes after those that
// it refers to. Archives come after the events: numbers of events that are there are drawn with them. A
// test compares the list with the schema.
var tables = []table{
	{name: "moves", do: stays, stay: "the codes of the program"},
	{name: "schema_migrations", do: stays, stay: "the same on both sides"},
	{name: "places", do: stays, stay: "where the database is"},
	{name: "retention_gate", do: stays, stay: "of one transaction"},
	{name: "relocations", do: stays, stay: "moves"},
	{name: "relocation_numbers", do: stays, stay: "of a move"},
	{name: "relocation_changes", do: stays, stay: "of a move"},
	{name: "gate_hints", do: stays, stay: "the target's triggers make them"},
	{name: "secrets", do: seeded, stay: "of all namespaces; tokens get the target's with the next heartbeat"},
	{name: "api_keys", of: "namespace"},
	{name: "actors", do: seeded, numbered: true, stay: "of all namespaces; rows that refer to one take it along"},
	{name: "queues", do: seeded, of: "namespace", numbered: true, maps: map[string]string{"id": "queues"}},
	{name: "workers", do: seeded, stay: "a worker is registered when it claims"},
	{name: "sweeps", do: seeded, numbered: true, stay: "of the processes that sweep"},
	{name: "paused_namespaces", of: "namespace"},
	{name: "types", of: "namespace"},
	{name: "type_hooks", do: seeded, stay: "of all namespaces; receive adds those of the types that move"},
	{name: "queue_limits", of: "namespace", maps: byQueue},
	{name: "gates", of: "namespace", numbered: true, maps: map[string]string{"id": "gates", "queue_id": "queues"}},
	{name: "budgets", of: "namespace"},
	{name: "schedules", of: "namespace", acts: true},
	{name: "tasks", of: "namespace", maps: byQueue},
	{name: "items", of: "namespace", maps: byQueue},
	{name: "task_counters", of: "namespace", acts: true},
	{name: "task_results", of: "namespace"},
	{name: "parents", of: "namespace", acts: true},
	{name: "child_links", of: "namespace", acts: true},
	{name: "child_waits", of: "namespace", acts: true},
	{name: "child_cancels", of: "namespace", acts: true},
	{name: "awaited_children", of: "item", acts: true},
	{name: "item_deps", of: "item", acts: true, rests: true},
	{name: "deadlines", of: "namespace", acts: true},
	{name: "uniques", of: "namespace"},
	{name: "uploads", of: "namespace"},
	{name: "upload_pieces", of: "upload"},
	{name: "uploaded_blobs", of: "namespace"},
	{name: "blobs", of: "namespace"},
	{name: "blob_refs", of: "namespace"},
	{name: "signals", of: "namespace", acts: true},
	{name: "firings", of: "namespace", acts: true},
	{name: "budget_reservations", of: "namespace", acts: true},
	{name: "budget_totals", of: "namespace"},
	{name: "budget_questions", of: "namespace", acts: true},
	{name: "effects", of: "namespace", acts: true},
	{name: "item_parts", of: "namespace"},
	{name: "messages", of: "namespace"},
	{name: "message_chunks", of: "message"},
	{name: "checkpoints", of: "namespace", fixed: true},
	{name: "ready", of: "queue", acts: true, maps: ofState},
	{name: "scheduled", of: "queue", acts: true, maps: ofState},
	{name: "waiting", of: "queue", acts: true, maps: ofState},
	{name: "parked_items", of: "queue", acts: true, maps: ofState},
	{name: "finished_items", of: "queue", fixed: true, acts: true, rests: true,
		maps: map[string]string{"queue_id": "queues", "worker": "actors"}},
	{name: "leases", of: "namespace", acts: true, maps: ofState},
	{name: "task_events", of: "namespace", fixed: true, numbered: true,
		maps: map[string]string{"id": "task_events", "actor": "actors", "queue_id": "queues"}},
	{name: "tombstones", of: "namespace", maps: map[string]string{"event_id": "task_events"}},
	{name: "provenances", of: "namespace", maps: map[string]string{"event_id": "task_events"}},
	{name: "archives", of: "namespace"},
	{name: "segments", of: "namespace", numbered: true, maps: map[string]string{"id": "segments"}},
	{name: "idempotency_keys", of: "namespace", acts: true},
	{name: "queue_minutes", late: true, stay: "what a queue has done here"},
	{name: "totals", late: true, stay: "counted from the log"},
	{name: "feed_pages", late: true, stay: "the order of the events of all namespaces"},
	{name: "log_pages", late: true, stay: "the log of all namespaces"},
	{name: "log_removals", late: true, numbered: true, stay: "the log of all namespaces"},
	{name: "log_runs", late: true, stay: "the log of all namespaces"},
	{name: "log_tiles", late: true, fixed: true, stay: "the log of all namespaces"},
	{name: "log_epochs", do: seeded, late: true, stay: "the log of all namespaces"},
	{name: "log_checkpoints", do: seeded, late: true, stay: "the log of all namespaces"},
	{name: "relay_cursors", do: seeded, late: true, stay: "relays send the events of all namespaces"},
}

// events is the table of events.
const events = "task_events"

var (
	byQueue = map[string]string{"queue_id": "queues"}
	ofState = map[string]string{"queue_id": "queues", "worker": "actors", "gate": "gates"}
)

// ofEvents reports whether rows have numbers of events, which a namespace gets anew.
func (t table) ofEvents() bool {
	return t.name == "archives" || t.name == "segments" || slices.Contains(slices.Collect(maps.Values(t.maps)), events)
}

// Unanswered lists the tables of a schema without a row in tables, the rows without a table, and those that do not say what
// becomes of them when a namespace moves.
func Unanswered(schema []string) (out []string) {
	for _, name := range schema {
		if strings.HasPrefix(name, "moved_") {
			continue // of a move that is not over
		}
		if !slices.ContainsFunc(tables, func(t table) bool { return t.name == name }) {
			out = append(out, name)
		}
	}
	for _, t := range tables {
		if !slices.Contains(schema, t.name) || (t.of == "") == (t.stay == "") {
			out = append(out, t.name)
		}
	}
	return out
}

// Moved lists the tables that move with a whole database, or with a namespace.
func Moved(namespace string) (out []string) {
	for _, t := range moved(namespace) {
		out = append(out, t.name)
	}
	return out
}

func moved(namespace string) (out []table) {
	for _, t := range tables {
		if t.do != stays && (namespace == "" || t.of != "") {
			out = append(out, t)
		}
	}
	return out
}
