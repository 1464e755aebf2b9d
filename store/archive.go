package store

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"slices"
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
	"item_parts",
	"checkpoints",
	"task_events",
	"task_results",
	"provenances",
	"messages",
	"message_chunks",
}

// columns returns the columns of a table of taskTables, in the order in which its
// statement selects them.
func columns(table string) []string {
	_, list, _ := strings.Cut(expandColumns(archiveSQL["rows "+table]), "SELECT ")
	list, _, _ = strings.Cut(list, "\nFROM")
	return strings.Split(list, ", ")
}

// ReadTask reads all rows of a task, one JSON object for each row; the first member is its
// table. A task with items that still have work left is a conflict.
func ReadTask(ctx context.Context, tx Tx, taskID string, line func([]byte) error) error {
	rows := map[string]int{}
	for _, table := range taskTables {
		n, err := readTable(ctx, tx, table, taskID, line)
		if err != nil {
			return err
		}
		rows[table] = n
	}
	if out := rows["parked_items"] + rows["finished_items"]; rows["items"] != out {
		return &pawl.Error{Code: pawl.CodeConflict, Op: "archive",
			Message: fmt.Sprintf("task %s has %d items, and only %d of them have no work left", taskID, rows["items"], out)}
	}
	return nil
}

func readTable(ctx context.Context, tx Tx, table, taskID string, line func([]byte) error) (int, error) {
	names := columns(table)
	values, dest := make([]any, len(names)), make([]any, len(names))
	for i := range values {
		dest[i] = &values[i]
	}
	rows, err := tx.Query(ctx, archiveSQL["rows "+table], taskID)
	if err != nil {
		return 0, err
	}
	defer rows.Close()
	n := 0
	for ; rows.Next(); n++ {
		if err := rows.Scan(dest...); err != nil {
			return n, err
		}
		b, err := encodeRow(table, names, values)
		if err != nil {
			return n, err
		}
		if err := line(b); err != nil {
			return n, err
		}
	}
	return n, rows.Err()
}

func encodeRow(table string, names []string, values []any) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	fmt.Fprintf(&b, `{"table":%q`, table)
	for i, name := range names {
		v := values[i]
		if raw, ok := v.([]byte); ok {
			v = string(raw)
		}
		fmt.Fprintf(&b, `,%q:`, name)
		if err := enc.Encode(v); err != nil {
			return nil, err
		}
		b.Truncate(b.Len() - 1) // Encode's line feed
	}
	b.WriteString("}\n")
	return b.Bytes(), nil
}

// Restorer restores an archived task, line by line, in one transaction.
type Restorer struct {
	TaskID, Namespace string
	table             string
	names             []string
	rows              [][]any
	seen              bool
}

// addedColumns has the values of columns that archives of older programs do not have. It
// lists only columns that are not NULL then and are in no list of columns.
var addedColumns = map[string]any{"ignores_failures": 0}

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
		if err := keepDedupe(ctx, tx, row); err != nil {
			return err
		}
	}
	r.table, r.names = table, columns(table)
	values := make([]any, len(r.names))
	for i, name := range r.names {
		if v, written := row[name]; written {
			values[i] = v
		} else {
			values[i] = absent(name)
		}
		if n, ok := values[i].(json.Number); ok {
			v, err := n.Int64()
			if err != nil {
				return damaged(r.TaskID, err)
			}
			values[i] = v
		}
		delete(row, name)
	}
	if len(row) > 0 { // written by a newer program: without these columns the task would not be restored as it was
		return damaged(r.TaskID, fmt.Errorf("table %s has columns this program does not know", table))
	}
	r.rows = append(r.rows, values)
	return nil
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
	marks := make([]string, len(r.names))
	for i := range marks {
		marks[i] = fmt.Sprintf("$%d", i+1)
	}
	text := "INSERT INTO pawl." + r.table + " (" + strings.Join(r.names, ", ") + ")\nVALUES (" + strings.Join(marks, ", ") + ")"
	rows := r.rows
	r.rows = nil
	return tx.ExecEach(ctx, text, rows)
}

// Done inserts the remaining rows and marks the archive as restored.
func (r *Restorer) Done(ctx context.Context, tx Tx) error {
	if err := r.Flush(ctx, tx); err != nil {
		return err
	}
	if !r.seen {
		return damaged(r.TaskID, fmt.Errorf("it has no task"))
	}
	now, err := tx.Now(ctx)
	if err != nil {
		return err
	}
	if _, err := tx.Exec(ctx, archiveSQL["mark restored"], r.TaskID, now); err != nil {
		return err
	}
	_, err = tx.Exec(ctx, tombstoneSQL["mark tombstones restored"], r.TaskID, now)
	return err
}

func damaged(taskID string, err error) error {
	return &pawl.Error{Code: pawl.CodeInternal, Op: "restore", Message: "the archive of " + taskID + " cannot be read", Err: err}
}
