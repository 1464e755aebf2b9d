package store

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

var archiveSQL = Texts(sqlFiles, "archive.sql")

// taskTables are the tables with rows of a task whose items have no work left. The order
// is the one in which the rows can be inserted again.
var taskTables = []string{
	"tasks",
	"task_counters",
	"items",
	"item_deps",
	"parked_items",
	"finished_items",
	"deadlines",
	"item_parts",
	"blobs",
	"checkpoints",
	"task_events",
	"task_results",
	"provenances",
	"messages",
	"message_chunks",
	"parents",
	"child_links",
	"child_waits",
	"awaited_children",
	"effects",
}

// columns returns the names in an archive of the columns of a table of taskTables, in the
// order in which its statement selects them.
func columns(table string) []string {
	_, list, _ := strings.Cut(ExpandColumns(archiveSQL["rows "+table]), "SELECT ")
	list, _, _ = strings.Cut(list, "\nFROM")
	names := strings.Split(list, ", ")
	for i, name := range names {
		if _, as, named := strings.Cut(name, " AS "); named {
			names[i] = as
		}
	}
	return names
}

// actorColumns are the columns of tables that have numbers of actors, by the names that an
// archive has for them: an archive has no numbers, which differ between databases.
var actorColumns = map[string]map[string]string{
	"parked_items":   {"worker_id": "worker"},
	"finished_items": {"worker_id": "worker"},
	"task_events":    {"actor_type": "", "actor_id": "actor"},
}

// queued are the tables of items whose rows have the number of a queue, with its value for
// an archived row. That of an ended item has no type.
var queued = map[string]string{
	"items":          "@queue($2, $4)",
	"parked_items":   "@queue($2, $4)",
	"finished_items": "(SELECT w.queue_id FROM pawl.all_items w WHERE w.id = $1 AND w.namespace IN ($2, '*'))",
}

// insertion returns the statement that inserts an archived row of a table.
func insertion(table string, names []string) string {
	var into, values []string
	for i, name := range names {
		value := fmt.Sprintf("$%d", i+1)
		if queued[table] != "" && table != "items" && (name == "namespace" || name == "type") {
			continue
		}
		switch column, special := actorColumns[table][name]; {
		case !special:
			into, values = append(into, name), append(values, value)
		case column == "worker":
			into, values = append(into, column), append(values, "@worker("+value+")")
		case column == "actor": // behind its kind
			into, values = append(into, column), append(values, fmt.Sprintf("@actor($%d, %s)", i, value))
		}
	}
	queue := queued[table]
	if table == "tasks" {
		at := func(name string) int { return slices.Index(names, name) + 1 }
		queue = fmt.Sprintf("CASE CAST($%d AS smallint) WHEN 1 THEN @queue($%d, COALESCE($%d, $%d)) END",
			at("solo"), at("namespace"), at("item_type"), at("type"))
	}
	if queue != "" {
		into, values = append(into, "queue_id"), append(values, queue)
	}
	statement := "INSERT INTO pawl." + table + " (" + strings.Join(into, ", ") + ")\nVALUES (" + strings.Join(values, ", ") + ")"
	if table == "child_links" || table == "effects" { // it is there as long as the other task is; another task has the key by now
		statement += "\nON CONFLICT DO NOTHING"
	}
	return statement
}

// actorsOf returns the actors that archived rows of a table name.
func actorsOf(table string, names []string, rows [][]any) (out []ActorName) {
	for i, name := range names {
		column := actorColumns[table][name]
		if column == "" {
			continue
		}
		for _, row := range rows {
			id, given := row[i].(string)
			switch {
			case column == "worker" && given:
				out = append(out, Worker(id))
			case column == "actor":
				kind, _ := row[i-1].(string)
				out = append(out, ActorName{kind, id})
			}
		}
	}
	return out
}

// queuesOf returns the queues that archived rows of items, or of tasks, name.
func queuesOf(names []string, rows [][]any) []QueueName {
	namespace, kind, own := slices.Index(names, "namespace"), slices.Index(names, "type"), slices.Index(names, "item_type")
	out := make([]QueueName, 0, len(rows))
	solo := slices.Index(names, "solo")
	for _, row := range rows {
		if solo >= 0 && row[solo] != int64(1) { // its items name their queues
			continue
		}
		var q QueueName
		q.Namespace, _ = row[namespace].(string)
		q.Type, _ = row[kind].(string)
		if own >= 0 {
			if name, given := row[own].(string); given {
				q.Type = name
			}
		}
		if len(out) == 0 || out[len(out)-1] != q {
			out = append(out, q)
		}
	}
	return out
}

// nounOf returns the noun of a column of ids that are not kept as text; nil = another column.
func nounOf(table, column string) *noun {
	switch {
	case column == "task_id" || column == "parent_id" || column == "child_id" || column == "forked_from" || table == "tasks" && column == "id":
		return &tasks
	case column == "item_id" || column == "needs_id" || table == "items" && column == "id":
		return &items
	}
	return nil
}

func encodeRow(table string, names []string, values []any) ([]byte, error) {
	b, err := appendColumns(openRow(make([]byte, 0, 512), table), table, names, values)
	return append(b, "}\n"...), err
}

func openRow(b []byte, table string) []byte {
	return append(append(append(b, `{"table":"`...), table...), '"')
}

// appendColumns adds columns to a row.
func appendColumns(b []byte, table string, names []string, values []any) (_ []byte, err error) {
	for i, name := range names {
		if name == "move" {
			if b, err = encodeMove(b, values[i]); err != nil {
				return nil, err
			}
			continue
		}
		v := values[i]
		if raw, ok := v.([]byte); ok && !hasBytes(table, name) {
			v = string(raw)
		}
		b = append(append(append(b, `,"`...), name...), `":`...)
		if b, err = encodeValue(b, v); err != nil {
			return nil, err
		}
	}
	return b, nil
}

// encodeValue encodes a value as encoding/json does, without a call of it for the usual ones.
func encodeValue(b []byte, v any) ([]byte, error) {
	if n, is := wholeNumber(v); is {
		return strconv.AppendInt(b, n, 10), nil
	}
	switch v := v.(type) {
	case nil:
		return append(b, "null"...), nil
	case string:
		at := len(b)
		b = append(b, '"')
		for i := range len(v) {
			switch c := v[i]; {
			case c == '"' || c == '\\':
				b = append(b, '\\', c)
			case c < ' ' || c > '~':
				return encodeAny(b[:at], v)
			default:
				b = append(b, c)
			}
		}
		return append(b, '"'), nil
	}
	return encodeAny(b, v)
}

// wholeNumber returns an integer of any of the sizes that columns have.
func wholeNumber(v any) (n int64, is bool) {
	switch v := v.(type) {
	case int64:
		return v, true
	case int32:
		return int64(v), true
	case int16:
		return int64(v), true
	}
	return 0, false
}

func encodeAny(b []byte, v any) ([]byte, error) {
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	err := enc.Encode(v)
	return append(b, bytes.TrimSuffix(out.Bytes(), []byte("\n"))...), err
}

// hasBytes says whether a column has bytes; in an archive they are base64.
func hasBytes(table, column string) bool {
	return table == "blobs" && (column == "address" || column == "base" || column == "body") || table == "checkpoints" && column == "blob"
}

// namesOfMove are the columns that archives have in place of an event's code.
var namesOfMove = []string{"class", "event", "from_state", "to_state", "task_from", "task_to"}

// withCode replaces the names of an archived event by its code.
func withCode(table string, row map[string]any) error {
	if table != "task_events" {
		return nil
	}
	text := func(name string) string {
		s, _ := row[name].(string)
		return s
	}
	code, err := codeOf(MoveCode{Class: text("class"), Event: text("event"), From: text("from_state"), To: text("to_state"),
		TaskFrom: text("task_from"), TaskTo: text("task_to")})
	for _, name := range namesOfMove {
		delete(row, name)
	}
	row["move"] = json.Number(strconv.Itoa(code))
	return err
}

// restored returns the columns that the rows of an archived table are inserted into.
func restored(table string) []string {
	out := columns(table)
	if table == "task_events" {
		out = append(slices.DeleteFunc(out, func(name string) bool { return slices.Contains(namesOfMove, name) }), "move")
	}
	return out
}
