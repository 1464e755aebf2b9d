package store

import (
	"context"
	"fmt"
	"slices"

	"github.com/pawl-work/pawl"
)

// ReadTasks reads all rows of tasks that exist, one JSON object for each row; the first member is its table. line gets
// them with their task, those of a task in the order in which they can be inserted again. A task with items that still
// have work left is a conflict.
func ReadTasks(ctx context.Context, tx Tx, taskIDs []string, line func(taskID string, row []byte) error) error {
	r, query := rowsOfMany(taskIDs), tablesThereOfMany
	if len(taskIDs) == 1 { // a plan of its own: the task may be large
		r, query = rowsOf(taskIDs[0]), tablesThere
	}
	tables, err := there(ctx, tx, taskTables, query, r.arg)
	if err != nil {
		return err
	}
	out := make(map[string]int, len(taskIDs)) // items that have no work left
	for _, table := range tables {
		counted := line
		if table == "parked_items" || table == "finished_items" {
			counted = func(taskID string, row []byte) error {
				out[taskID]++
				return line(taskID, row)
			}
		}
		if err := r.readTable(ctx, tx, table, counted); err != nil {
			return err
		}
	}
	return EachRow(ctx, tx, func(rows Rows) error {
		var task string
		var items int
		if err := rows.Scan((*TaskID)(&task), &items); err != nil || items == out[task] {
			return err
		}
		return workLeft(task, items, out[task])
	}, r.sql["count items"], r.arg)
}

func workLeft(task string, items, out int) error {
	return &pawl.Error{Code: pawl.CodeConflict, Op: "archive",
		Message: fmt.Sprintf("task %s has %d items, and only %d of them have no work left", task, items, out)}
}

// tablesThere is a query that says for each of taskTables whether it has rows of a task.
var tablesThere = exists(taskTables, func(table string) string { return archiveSQL["rows "+table] })

var tablesThereOfMany = ofMany(tablesThere)

// readTable reads the rows of a table. Few tasks have rows in a table that does not name their task: it is read task by
// task.
func (r taskRows) readTable(ctx context.Context, tx Tx, table string, line func(taskID string, row []byte) error) error {
	names := columns(table)
	owner := slices.Index(names, "task_id")
	if table == "tasks" {
		owner = slices.Index(names, "id")
	}
	if owner >= 0 {
		return readRows(ctx, tx, table, names, r.sql["rows "+table], r.arg, func(values []any, row []byte) error {
			task, _ := values[owner].(string)
			return line(task, row)
		})
	}
	for _, id := range r.ids {
		err := readRows(ctx, tx, table, names, archiveSQL["rows "+table], TaskID(id), func(_ []any, row []byte) error { return line(id, row) })
		if err != nil {
			return err
		}
	}
	return nil
}

func readRows(ctx context.Context, tx Tx, table string, names []string, query string, arg any, line func([]any, []byte) error) error {
	return scanRows(ctx, tx, table, names, query, arg, func(values []any) error {
		b, err := encodeRow(table, names, values)
		if err != nil {
			return err
		}
		return line(values, b)
	})
}

// scanRows reads rows of columns, their ids as text.
func scanRows(ctx context.Context, tx Tx, table string, names []string, query string, arg any, row func([]any) error) error {
	values, dest := make([]any, len(names)), make([]any, len(names))
	for i, name := range names {
		dest[i] = &values[i]
		if noun := nounOf(table, name); noun != nil {
			dest[i] = noun.target()
		}
	}
	return EachRow(ctx, tx, func(rows Rows) error {
		if err := rows.Scan(dest...); err != nil {
			return err
		}
		for i := range dest {
			switch id := dest[i].(type) {
			case *TaskID:
				values[i] = nullID(string(*id))
			case *ItemID:
				values[i] = nullID(string(*id))
			}
		}
		return row(values)
	}, query, arg)
}

func nullID(id string) any {
	if id == "" {
		return nil
	}
	return id
}
