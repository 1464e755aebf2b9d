package store

import (
	"context"
	"errors"
	"slices"
	"strings"
)

// seldom are the tables in which tasks of one item seldom have rows, with the column that names the task, or
// its only item, which has the same bytes. A task that has rows in none of them is plain: all that it has is
// its own row, that of its ended item, and its events. An ended item has no rows in the tables of open ones.
var seldom = []struct{ table, column string }{
	{"items", "task_id"}, {"task_counters", "task_id"}, {"task_results", "task_id"}, {"checkpoints", "task_id"}, {"messages", "task_id"},
	{"provenances", "task_id"}, {"effects", "task_id"}, {"budget_reservations", "task_id"}, {"idempotency_keys", "task_id"},
	{"uniques", "task_id"}, {"blob_refs", "task_id"}, {"parents", "task_id"}, {"child_links", "child_id"}, {"child_links", "parent_id"},
	{"child_cancels", "child_id"}, {"child_cancels", "task_id"}, // of work that is still to come, so they have few rows
	{"parked_items", "item_id"}, {"deadlines", "item_id"}, {"item_deps", "item_id"}, {"item_deps", "needs_id"}, {"item_parts", "item_id"},
	{"child_waits", "item_id"}, {"awaited_children", "item_id"}, {"idempotency_keys", "item_id"}, {"archives", "task_id"},
}

// seldomBetween says of each whether it has rows of tasks from $1 to $2: by the first row from $1, which is one
// look at an index, however many rows there are.
var seldomBetween = func() string {
	cols := make([]string, len(seldom))
	for i, s := range seldom {
		cols[i] = "CASE WHEN (SELECT x." + s.column + " FROM pawl." + s.table + " x WHERE x." + s.column + " >= $1 ORDER BY x." +
			s.column + " LIMIT 1) <= $2 THEN 1 ELSE 0 END"
	}
	return "SELECT " + strings.Join(cols, ",\n")
}()

// NotPlain returns those of the tasks that are not plain, in order. A range of ids tells most often that there are none.
func NotPlain(ctx context.Context, tx Tx, taskIDs []string) ([]string, error) {
	if len(taskIDs) == 0 {
		return nil, nil
	}
	is, into := make([]int, len(seldom)), make([]any, len(seldom))
	for i := range is {
		into[i] = &is[i]
	}
	if _, err := Row(ctx, tx, into, seldomBetween, TaskID(slices.Min(taskIDs)), TaskID(slices.Max(taskIDs))); err != nil {
		return nil, err
	}
	var out []string
	for i, s := range seldom {
		if is[i] == 0 {
			continue
		}
		some, err := TaskIDs(ctx, tx, "SELECT x."+s.column+" FROM pawl."+s.table+" x WHERE x."+s.column+" @among_ids($1)", TaskList(taskIDs))
		if err != nil {
			return nil, err
		}
		out = append(out, some...)
	}
	slices.Sort(out)
	return slices.Compact(out), nil
}

// LockPlain locks plain tasks and returns those that exist: see LockTasksLast. A move of an ended task changes its row.
func LockPlain(ctx context.Context, tx Tx, taskIDs []string) ([]string, error) {
	return TaskIDs(ctx, tx, manySQL["lock task"], TaskList(taskIDs))
}

// ReadPlain is ReadTasks for plain tasks. It returns the events of each.
func ReadPlain(ctx context.Context, tx Tx, taskIDs []string, line func(taskID string, row []byte) error) (map[string][]int64, error) {
	ended, events := make(map[string]bool, len(taskIDs)), make(map[string][]int64, len(taskIDs))
	for _, table := range []string{"tasks", "finished_items", "task_events"} {
		names := columns(table)
		query := manySQL["rows "+table]
		switch table {
		case "finished_items":
			query = plainSQL["rows of ended items"]
		case "task_events":
			names, query = plainEvents, plainSQL["rows of events"]
		}
		owner, id := slices.Index(names, "task_id"), slices.Index(names, "id")
		if table == "tasks" {
			owner = id
		}
		err := readRows(ctx, tx, table, names, query, TaskList(taskIDs), func(values []any, row []byte) error {
			task, _ := values[owner].(string)
			switch table {
			case "finished_items":
				ended[task] = true
			case "task_events":
				n, _ := values[id].(int64)
				events[task] = append(events[task], n)
			}
			return line(task, row)
		})
		if err != nil {
			return nil, err
		}
	}
	for _, id := range taskIDs {
		if !ended[id] {
			return nil, workLeft(id, 1, 0)
		}
	}
	return events, nil
}

// RemovePlain removes locked plain tasks whose deletion has not begun, with their ends and events: in all as many rows as
// were read. gone is false if there were others, and the transaction must not commit.
func RemovePlain(ctx context.Context, tx Tx, taskIDs []string, events []int64) (gone bool, err error) {
	if err := logRemoval(ctx, tx, taskIDs, events); err != nil {
		return false, err
	}
	gone = true
	err = gated(ctx, tx, "delete", func() error {
		for _, step := range []struct {
			name string
			rows int
		}{{"remove events", len(events)}, {"remove ended items", len(taskIDs)}, {"remove tasks", len(taskIDs)}} {
			n, err := tx.Exec(ctx, plainSQL[step.name], TaskList(taskIDs))
			if err != nil {
				return err
			}
			gone = gone && n == int64(step.rows)
		}
		return nil
	})
	return gone, err
}

// plainEvents are the columns of the rows of events, with the code in place of its names: see encodeMove.
var plainEvents = func() []string {
	names := columns("task_events")
	at := slices.Index(names, namesOfMove[0])
	return slices.Replace(names, at, at+len(namesOfMove), "move")
}()

// encodeMove encodes the code of an event as the names that archives have.
func encodeMove(b []byte, code any) ([]byte, error) {
	n, _ := wholeNumber(code)
	m, known := moveOf(int(n))
	if !known {
		return nil, errNewerMove
	}
	for i, v := range [...]string{m.Class, m.Event, m.From, m.To, m.TaskFrom, m.TaskTo} {
		b = append(append(append(b, `,"`...), namesOfMove[i]...), `":`...)
		if v == "" {
			b = append(b, "null"...)
		} else {
			b = append(append(append(b, '"'), v...), '"')
		}
	}
	return b, nil
}

// errNewerMove means that only a newer program knows what a move is.
var errNewerMove = errors.New("an event has a move that this program does not know")

var plainSQL = Texts(sqlFiles, "plain.sql")
