package store

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/pawl-work/pawl"
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
	"finished_items": "(SELECT w.queue_id FROM pawl.all_items w WHERE w.id = $1 AND w.namespace = $2)",
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
	code, err := CodeOf(pawl.MoveCode{Class: text("class"), Event: text("event"), From: text("from_state"), To: text("to_state"),
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

// Restorer restores an archived task, line by line, in one transaction.
type Restorer struct {
	TaskID, Namespace string
	Log               *ArchiveLog // what the archive says of the log; nil = nothing
	table             string
	names             []string
	rows              [][]any
	seen              bool
}

// addedColumns has the values of columns that archives of older programs do not have. It
// lists only columns that are not NULL then and are in no list of columns.
var addedColumns = map[string]any{"ignores_failures": 0, "bytes": 0}

// absent returns the value of a column that an archive of an older program does not have.
func absent(name string) any {
	for _, list := range []string{"carried", "new_task"} {
		for _, c := range columnLists[list] {
			if c.Name == name {
				return valueAt(c.At)
			}
		}
	}
	return addedColumns[name]
}

// Line reads the next line of an archive.
func (r *Restorer) Line(ctx context.Context, tx Tx, line []byte) error {
	dec := json.NewDecoder(bytes.NewReader(line))
	dec.UseNumber()
	var row map[string]any
	if err := dec.Decode(&row); err != nil {
		return damaged(r.TaskID, err)
	}
	table, _ := row["table"].(string)
	delete(row, "table")
	if table == logLine {
		return r.readLog(line)
	}
	if !slices.Contains(taskTables, table) {
		return damaged(r.TaskID, fmt.Errorf("a row of table %q", table))
	}
	if table != r.table || len(r.rows) == 500 {
		if err := r.Flush(ctx, tx); err != nil {
			return err
		}
	}
	if table == "tasks" {
		if r.seen || row["id"] != r.TaskID || row["namespace"] != r.Namespace {
			return damaged(r.TaskID, fmt.Errorf("it is the archive of %v", row["id"]))
		}
		r.seen = true
		if _, err := tx.Exec(ctx, effectSQL["forget gone"], TaskID(r.TaskID)); err != nil { // the archive has them
			return err
		}
		if err := keepDedupe(ctx, tx, row); err != nil {
			return err
		}
	}
	if table == "parked_items" || table == "finished_items" {
		if name, given := row["state"].(string); given {
			row["state"] = StateCode(name)
		}
	}
	if err := withCode(table, row); err != nil {
		return damaged(r.TaskID, err)
	}
	r.table, r.names = table, restored(table)
	values := make([]any, len(r.names))
	var err error
	for i, name := range r.names {
		if v, written := row[name]; written {
			values[i] = v
		} else {
			values[i] = absent(name)
		}
		if values[i], err = decodeValue(table, name, values[i]); err != nil {
			return damaged(r.TaskID, err)
		}
		delete(row, name)
	}
	if len(row) > 0 { // written by a newer program: without these columns the task would not be restored as it was
		return damaged(r.TaskID, fmt.Errorf("table %s has columns this program does not know", table))
	}
	r.rows = append(r.rows, values)
	return nil
}

// readLog reads the line of an archive that proves its events.
func (r *Restorer) readLog(line []byte) error {
	r.Log = &ArchiveLog{}
	if err := json.Unmarshal(line, r.Log); err != nil {
		return damaged(r.TaskID, err)
	}
	return nil
}

// decodeValue returns the value of a column as the database takes it.
func decodeValue(table, column string, v any) (any, error) {
	switch v := v.(type) {
	case json.Number:
		return v.Int64()
	case string:
		if hasBytes(table, column) {
			return base64.StdEncoding.DecodeString(v)
		}
		if noun := nounOf(table, column); noun != nil {
			id := noun.id(v)
			if _, ok := id.Bytes(); !ok {
				return nil, fmt.Errorf("%q in column %s of table %s is no id", v, column, table)
			}
			return id, nil
		}
	}
	return v, nil
}

// keepDedupe clears dedupes of the task when another task holds its input hash by now.
func keepDedupe(ctx context.Context, tx Tx, task map[string]any) error {
	if task["input_hash"] == nil || task["dedupes"] != json.Number("1") {
		return nil
	}
	var n int
	if _, err := Row(ctx, tx, []any{&n}, archiveSQL["hash in use"], task["namespace"], task["type"], task["input_hash"]); err != nil {
		return err
	}
	if n > 0 {
		task["dedupes"] = json.Number("0")
	}
	return nil
}

// Flush inserts the rows read so far.
func (r *Restorer) Flush(ctx context.Context, tx Tx) error {
	if len(r.rows) == 0 {
		return nil
	}
	if r.table == "blobs" {
		return r.keepBlobs(ctx, tx)
	}
	rows := r.rows
	r.rows = nil
	if err := EnsureActors(ctx, tx, actorsOf(r.table, r.names, rows)...); err != nil {
		return err
	}
	if r.table == "items" || r.table == "tasks" {
		if err := EnsureQueues(ctx, tx, queuesOf(r.names, rows)...); err != nil {
			return err
		}
	}
	return tx.ExecEach(ctx, insertion(r.table, r.names), rows)
}

// keepBlobs inserts the blobs read so far, in the order in which they are based on each
// other. Some may be there.
func (r *Restorer) keepBlobs(ctx context.Context, tx Tx) error {
	now, err := tx.Now(ctx)
	if err != nil {
		return err
	}
	for _, v := range r.rows {
		namespace, _ := v[0].(string)
		depth, _ := v[3].(int64)
		b := Blob{BlobHead: BlobHead{Depth: int(depth)}}
		b.Address, _ = v[1].([]byte)
		b.Base, _ = v[2].([]byte)
		b.Chain, _ = v[4].(int64)
		b.Size, _ = v[5].(int64)
		if b.Body, _ = v[6].([]byte); namespace != r.Namespace || !b.intact() || !b.sized() {
			return damaged(r.TaskID, BadBlob(b.Address, "was changed"))
		}
		if err := putBlob(ctx, tx, namespace, now, b); err != nil {
			return err
		}
	}
	r.rows = nil
	return nil
}

// Done inserts the remaining rows and marks the archive as restored.
func (r *Restorer) Done(ctx context.Context, tx Tx) error {
	if err := r.Flush(ctx, tx); err != nil {
		return err
	}
	if !r.seen {
		return damaged(r.TaskID, fmt.Errorf("it has no task"))
	}
	for _, step := range []string{"plan again", "remove links to none", "link again", "count links again"} {
		if _, err := tx.Exec(ctx, archiveSQL[step], TaskID(r.TaskID)); err != nil {
			return err
		}
	}
	now, err := tx.Now(ctx)
	if err != nil {
		return err
	}
	if _, err := tx.Exec(ctx, archiveSQL["mark restored"], TaskID(r.TaskID), r.Namespace, now); err != nil {
		return err
	}
	_, err = tx.Exec(ctx, tombstoneSQL["mark tombstones restored"], TaskID(r.TaskID), now)
	return err
}

func damaged(taskID string, err error) error {
	return &pawl.Error{Code: pawl.CodeInternal, Op: "restore", Message: "the archive of " + taskID + " cannot be read", Err: err}
}
