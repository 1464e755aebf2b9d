package store

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/pawl-work/pawl"
)

// Restorer restores an archived task, line by line: in one transaction, or in parts.
type Restorer struct {
	TaskID, Namespace string
	Log               *ArchiveLog   // what the archive says of the log; nil = nothing
	parts             *restoreParts // nil = in the transaction of each call
	rowsRead
	seen bool
}

// rowsRead are rows of one table that were read and are not inserted yet.
type rowsRead struct {
	table string
	names []string
	rows  [][]any
	bytes int
}

// column returns the place of a column in the rows.
func (r *rowsRead) column(name string) int { return slices.Index(r.names, name) }

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
	if r.parts.skips(table, row) {
		return nil
	}
	if table != r.table || len(r.rows) == 500 || r.parts != nil && r.bytes > copyStepBytes {
		if err := r.Flush(ctx, tx); err != nil {
			return err
		}
	}
	if table == "tasks" {
		if r.seen || row["id"] != r.TaskID || row["namespace"] != r.Namespace {
			return damaged(r.TaskID, fmt.Errorf("it is the archive of %v", row["id"]))
		}
		r.seen = true
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
	r.rows, r.bytes = append(r.rows, values), r.bytes+len(line)
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
func keepDedupe(ctx context.Context, tx Tx, task rowsRead) error {
	row, dedupes := task.rows[0], task.column("dedupes")
	hash := row[task.column("input_hash")]
	if hash == nil || row[dedupes] != int64(1) {
		return nil
	}
	var n int
	_, err := Row(ctx, tx, []any{&n}, archiveSQL["hash in use"], row[task.column("namespace")], row[task.column("type")], hash)
	if n > 0 {
		row[dedupes] = int64(0)
	}
	return err
}

// Flush inserts the rows read so far.
func (r *Restorer) Flush(ctx context.Context, tx Tx) error {
	read := r.rowsRead
	r.rows, r.bytes = nil, 0
	switch {
	case len(read.rows) == 0:
		return nil
	case r.parts != nil:
		return r.insertPart(ctx, read)
	case read.table == "tasks":
		if err := keepDedupe(ctx, tx, read); err != nil {
			return err
		}
	}
	return r.insert(ctx, tx, read)
}

func (r *Restorer) insert(ctx context.Context, tx Tx, read rowsRead) error {
	switch read.table {
	case "blobs":
		return r.keepBlobs(ctx, tx, read.rows)
	case "effects": // what was kept of them is in the archive
		ids := make([][]any, len(read.rows))
		for i, row := range read.rows {
			ids[i] = []any{row[read.column("id")]}
		}
		if err := tx.ExecEach(ctx, effectSQL["forget gone"], ids); err != nil {
			return err
		}
	case "tasks", "items":
		if err := EnsureQueues(ctx, tx, queuesOf(read.names, read.rows)...); err != nil {
			return err
		}
	}
	if err := EnsureActors(ctx, tx, actorsOf(read.table, read.names, read.rows)...); err != nil {
		return err
	}
	return tx.ExecEach(ctx, insertion(read.table, read.names), read.rows)
}

// keepBlobs inserts the blobs read so far, in the order in which they are based on each
// other. Some may be there.
func (r *Restorer) keepBlobs(ctx context.Context, tx Tx, rows [][]any) error {
	now, err := tx.Now(ctx)
	if err != nil {
		return err
	}
	for _, v := range rows {
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
	if r.parts != nil {
		if err := r.publish(ctx, tx); err != nil {
			return err
		}
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
