package store

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/pawl-work/pawl"
)

var archiveSQL = Texts(sqlFiles, "archive.sql")

// taskTables are the tables with rows of a task whose items have no work left. The order
// is the one in which the rows can be inserted again.
var taskTables = []string{"tasks", "task_live", "work_items", "item_deps", "rests", "ends", "work_item_parts", "checkpoints", "task_events",
	"task_results", "provenances", "messages", "message_chunks", "seals"}

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
	if out := rows["rests"] + rows["ends"]; rows["work_items"] != out {
		return &pawl.Error{Code: pawl.CodeConflict, Op: "archive", Message: fmt.Sprintf("task %s has %d items and %d are out of work", taskID, rows["work_items"], out)}
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
		err := gated(ctx, tx, "restore", func() error { // the seal of an earlier deletion has the key of the chain's seal
			_, err := tx.Exec(ctx, archiveSQL["remove seals"], r.TaskID, 1)
			return err
		})
		if err != nil {
			return err
		}
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

// NamespaceOfTask returns the namespace of a task, or "" when there is no such task.
func NamespaceOfTask(ctx context.Context, tx Tx, taskID string) (string, error) {
	var ns string
	_, err := Row(ctx, tx, []any{&ns}, archiveSQL["namespace of task"], taskID)
	return ns, err
}

// LockTaskLast locks the rows of an ended task until the transaction ends. Every move of
// the task locks or changes one of these rows. It returns false when the task does not
// exist.
func LockTaskLast(ctx context.Context, tx Tx, taskID string) (bool, error) {
	for _, step := range []string{"lock task", "lock task_live", "lock rests"} {
		found, err := Strings(ctx, tx, archiveSQL[step], taskID)
		if err != nil || step == "lock task" && len(found) == 0 {
			return false, err
		}
	}
	return true, nil
}

// NewestEvent returns the id of a task's newest event, or 0 when it has none.
func NewestEvent(ctx context.Context, tx Tx, taskID string) (int64, error) {
	var id int64
	_, err := Row(ctx, tx, []any{&id}, archiveSQL["newest event"], taskID)
	return id, err
}

// removal is the order in which the rows of a task are removed. Rows that lead to other
// rows are removed after them; the events and the task itself come last.
var removal = []string{"unlink keys of task", "unlink keys of items", "remove message_chunks", "remove messages", "remove provenances",
	"remove ready", "remove scheduled", "remove waiting", "remove leases", "remove rests", "remove ends", "remove item_deps",
	"remove work_item_parts", "remove work_items", "remove checkpoints", "remove task_results", "remove task_events", "remove seals", "remove task_live", "remove tasks"}

// DeleteTask removes up to batch rows of a task. done says that nothing is left.
// Idempotency keys stay; their links become NULL.
//
// When by is set, an event `deleted` with the contents of by stays and gets a seal of its
// own. When by is nil, retention removes the task. If the task is too large for one batch,
// it then has an event `deleted` until the last batch, so that an interrupted deletion is
// resumed.
func DeleteTask(ctx context.Context, tx Tx, namespace, taskID string, by *Deletion, batch int) (done bool, err error) {
	ns, err := NamespaceOfTask(ctx, tx, taskID)
	if err != nil || ns != namespace {
		return true, err
	}
	if there, err := LockTaskLast(ctx, tx, taskID); err != nil || !there {
		return true, err
	}
	if by != nil {
		if err := putTombstone(ctx, tx, namespace, taskID, by); err != nil {
			return false, err
		}
	}
	err = gated(ctx, tx, "delete", func() error {
		left := int64(batch)
		for _, step := range removal {
			if step == "remove seals" { // the task's events are not sealed during its deletion
				if _, err := LockCursor(ctx, tx, sealCursor); err != nil {
					return err
				}
			}
			n, err := tx.Exec(ctx, archiveSQL[step], taskID, left)
			if err != nil {
				return err
			}
			if left -= n; left <= 0 && step != "remove tasks" {
				return nil
			}
		}
		done = true
		return sealTombstone(ctx, tx, namespace, taskID)
	})
	if err != nil || done {
		return done, err
	}
	if marked, err := BeingDeleted(ctx, tx, taskID); err != nil || marked {
		return false, err
	}
	now, err := tx.Now(ctx)
	if err != nil {
		return false, err
	}
	return false, Record(ctx, tx, now, []Event{{Namespace: namespace, TaskID: taskID, Event: "deleted", Actor: Actor{Type: pawl.ActorSystem}}})
}

// Archived is a row of archives. Body is the archive itself if the table holds it.
type Archived struct {
	pawl.Archive
	Body []byte
}

// KeepArchive stores the row of an archive. It replaces the row of an older archive of the
// same task.
func KeepArchive(ctx context.Context, tx Tx, namespace string, a Archived) error {
	_, err := tx.Exec(ctx, archiveSQL["keep archive"], a.TaskID, namespace, Text(a.Path), a.Body, a.Bytes, a.SHA256, a.CreatedAt.UnixMicro())
	return err
}

// ArchivePath returns the file of a task's archive, or "" when there is none.
func ArchivePath(ctx context.Context, tx Tx, taskID string) (string, error) {
	var path Text
	_, err := Row(ctx, tx, []any{&path}, archiveSQL["path of archive"], taskID)
	return string(path), err
}

// RestoredBy lists up to limit tasks that were restored by the given time, have not been
// archived again, and are in one of the states or no longer exist.
func RestoredBy(ctx context.Context, tx Tx, by int64, states []string, limit int) ([]string, error) {
	return Strings(ctx, tx, archiveSQL["restored by"], by, List(states), limit)
}

// RestingSince returns those of the given tasks that are in the state and have no event
// after the given time.
func RestingSince(ctx context.Context, tx Tx, taskIDs []string, state string, by int64) ([]string, error) {
	return Strings(ctx, tx, archiveSQL["resting since"], List(taskIDs), state, by)
}

// ForgetRestored removes a task that no longer exists from the list that RestoredBy reads.
func ForgetRestored(ctx context.Context, tx Tx, taskID string) error {
	_, err := tx.Exec(ctx, archiveSQL["forget restored"], taskID)
	return err
}

// GetArchive reads a task's archive.
func GetArchive(ctx context.Context, tx Tx, namespace, taskID string) (Archived, error) {
	var a Archived
	found, err := Row(ctx, tx, append(archiveDest(&a.Archive), &a.Body), archiveSQL["archive"], taskID, namespace)
	if err == nil && !found {
		err = pawl.NotFound("archive of task", taskID)
	}
	return a, err
}

// ListArchives reads up to limit archives of a namespace, newest task first. It starts
// behind the task id before; "" starts at the newest.
func ListArchives(ctx context.Context, tx Tx, namespace, before string, limit int) ([]pawl.Archive, error) {
	if before == "" {
		before = EndOfTime
	}
	rows, err := tx.Query(ctx, archiveSQL["archives before"], namespace, before, limit)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var out []pawl.Archive
	for rows.Next() {
		var a pawl.Archive
		if err := rows.Scan(archiveDest(&a)...); err != nil {
			return nil, err
		}
		out = append(out, a)
	}
	return out, rows.Err()
}

func archiveDest(a *pawl.Archive) []any {
	return []any{&a.TaskID, (*Text)(&a.Path), &a.Bytes, &a.SHA256, stampDest{&a.CreatedAt}, stampOrNil{&a.RestoredAt}}
}

// stampDest and stampOrNil scan microseconds into times.
type stampDest struct{ t *time.Time }

func (d stampDest) Scan(v any) error {
	n, ok := v.(int64)
	if !ok {
		return fmt.Errorf("a stamp is %T", v)
	}
	*d.t = time.UnixMicro(n).UTC()
	return nil
}

type stampOrNil struct{ t **time.Time }

func (d stampOrNil) Scan(v any) error {
	if v == nil {
		*d.t = nil
		return nil
	}
	*d.t = new(time.Time)
	return stampDest{*d.t}.Scan(v)
}
