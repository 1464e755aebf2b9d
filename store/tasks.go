package store

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/pawl-work/pawl"
)

// TaskExists returns not_found when the namespace has no such task.
func TaskExists(ctx context.Context, tx Tx, namespace, id string) error {
	var n int
	found, err := Row(ctx, tx, []any{&n}, readSQL["task exists"], TaskID(id), namespace)
	if err == nil && !found {
		return noTask(ctx, tx, namespace, id)
	}
	return err
}

// Known refuses ids of tasks and items that the namespace does not have.
func Known(ctx context.Context, tx Tx, ns, taskID, itemID string) error {
	if taskID != "" {
		if err := TaskExists(ctx, tx, ns, taskID); err != nil {
			return err
		}
	}
	if itemID != "" {
		_, err := GetItem(ctx, tx, ns, itemID, 0)
		return err
	}
	return nil
}

// TaskState returns the state of a task as it is shown.
func TaskState(ctx context.Context, tx Tx, namespace, id string) (string, error) {
	var s string
	found, err := Row(ctx, tx, []any{&s}, readSQL["task state"], TaskID(id), namespace)
	if err == nil && !found {
		return "", noTask(ctx, tx, namespace, id)
	}
	return s, err
}

// TypeOfTask returns a task's type and its version, which never change, and its priority.
func TypeOfTask(ctx context.Context, tx Tx, namespace, id string) (name string, version, priority int, err error) {
	found, err := Row(ctx, tx, []any{&name, &version, &priority}, readSQL["type of task"], TaskID(id), namespace)
	if err == nil && !found {
		err = noTask(ctx, tx, namespace, id)
	}
	return name, version, priority, err
}

// GetTask reads a task. A task of another namespace is not_found.
func GetTask(ctx context.Context, tx Tx, namespace, id string) (pawl.Task, error) {
	rows, err := scanTasks(ctx, tx, readSQL["tasks"]+"\nWHERE t.id = $1 AND t.namespace = $2", TaskID(id), namespace)
	if err != nil {
		return pawl.Task{}, err
	}
	if len(rows) == 0 {
		return pawl.Task{}, noTask(ctx, tx, namespace, id)
	}
	return rows[0], nil
}

// ListTasks lists a namespace's tasks in order of id, of priority and id, or of
// updated_at and id.
func ListTasks(ctx context.Context, tx Tx, namespace string, q pawl.TaskFilter) (pawl.List[pawl.Task], error) {
	cursor := func(t pawl.Task) string { return t.ID }
	if q.ByPriority {
		cursor = func(t pawl.Task) string { return strconv.Itoa(t.Priority) + "_" + t.ID }
	}
	if q.ByUpdate {
		cursor = func(t pawl.Task) string { return update{t.UpdatedAt.UnixMicro(), t.ID}.String() }
	}
	return Pages(q.Page, sizeOfTask, cursor, func(p pawl.Page) (pawl.List[pawl.Task], error) {
		q.Page = p
		return listTasks(ctx, tx, namespace, q, cursor)
	})
}

func listTasks(ctx context.Context, tx Tx, namespace string, q pawl.TaskFilter,
	cursor func(pawl.Task) string) (pawl.List[pawl.Task], error) {
	l := listing[pawl.Task]{table: "tasks t", rows: without(readSQL["tasks"], q.Fields, largeOfTask), noun: tasks, key: "t.id",
		byID: !q.ByPriority, desc: !q.Asc, cursor: q.Cursor, limit: q.Limit}
	l.own.And("t.namespace = ?", namespace)
	if err := l.searchTasks(ctx, tx, namespace, &q); err != nil {
		return pawl.List[pawl.Task]{}, err
	}
	cmp, dir := "<", " DESC"
	if q.Asc {
		cmp, dir = ">", " ASC"
	}
	l.order = "t.id" + dir
	l.after = func(w *Where, cursor string) error { return w.afterID("t.id "+cmp, TaskID(cursor)) }
	if q.ByPriority {
		l.key, l.noun.ids, l.order = "t.priority, t.id", prioritized, "t.priority"+dir+", "+l.order
		l.after = func(w *Where, cursor string) error { return w.afterPriority(cmp, cursor) }
		// The index in the order of priority leaves out tasks of priority 0.
		l.parts = []string{"t.priority <> 0 AND t.priority > 0", "t.priority = 0", "t.priority <> 0 AND t.priority < 0"}
		if q.Asc {
			slices.Reverse(l.parts)
		}
	}
	l.scan = func(query string, args ...any) ([]pawl.Task, error) { return scanTasks(ctx, tx, query, args...) }
	statesOfTasks(&l, &q)
	l.indexed = l.indexed || q.RequestedBy != "" || q.InputHash != "" || len(q.ParentIDs) > 0 || len(q.IDs) > 0
	read := l.page
	if q.ByUpdate {
		l.order = readSQL["updated"] + dir + ", t.id" + dir
		read = (&byUpdate{&l, q}).page
		q.Changed = time.Time{} // from here on it is a bound of the order
	}
	l.own.tasks(&q)
	rows, err := read(ctx, tx, namespace)
	return l.found(rows, err, cursor)
}

// tasks adds the conditions of a filter on columns of tasks.
func (w *Where) tasks(q *pawl.TaskFilter) {
	if len(q.IDs) > 0 {
		w.And("t.id @among_ids(?)", TaskList(q.IDs))
	}
	if len(q.Types) > 0 {
		w.And("t.type @among(?)", List(q.Types))
	}
	if q.MinPriority != nil {
		w.And("t.priority >= ?", *q.MinPriority)
	}
	if q.MaxPriority != nil {
		w.And("t.priority <= ?", *q.MaxPriority)
	}
	if q.MinPriority != nil && *q.MinPriority > 0 || q.MaxPriority != nil && *q.MaxPriority < 0 {
		w.And("t.priority <> 0") // word for word the condition of the index
	}
	for name, value := range q.Metadata {
		w.And("EXISTS (SELECT 1 FROM @metadata m WHERE m.key = ? AND m.value = ?)", name, value)
	}
	if q.Available != nil {
		w.And(map[bool]string{false: "NOT "}[*q.Available] + readSQL["available"])
	}
	if q.RequestedBy != "" {
		w.And("t.requested_by_id = ?", q.RequestedBy)
	}
	if len(q.ParentIDs) > 0 {
		w.And("t.parent_id @among_ids(?)", TaskList(q.ParentIDs))
	}
	if q.InputHash != "" {
		w.And("t.input_hash = ?", q.InputHash)
	}
	if !q.Changed.IsZero() {
		w.And(readSQL["updated"]+" >= ?", q.Changed.UnixMicro())
	}
	if !q.Since.IsZero() {
		w.And("t.created_at >= ?", q.Since.UnixMicro())
	}
	if !q.Until.IsZero() {
		w.And("t.created_at < ?", q.Until.UnixMicro())
	}
}

// statesOfTasks adds the conditions on states, which are derived, and sets the sources in
// which the tasks are found.
func statesOfTasks(l *listing[pawl.Task], q *pawl.TaskFilter) {
	var of []source
	if q.Available != nil && *q.Available {
		of = []source{from(itemColumn, "ready", isSolo), from("task_id", "task_counters", rare+string(pawl.TaskOpen)+"'"),
			from("task_id", "task_counters", rare+string(pawl.TaskApproved)+"'")} // its apply item may be queued
	}
	if len(q.Statuses) > 0 {
		var states []string
		for _, s := range pawl.TaskStates {
			if s.Shown && slices.Contains(q.Statuses, s.Status) {
				states = append(states, s.Name)
			}
		}
		l.derived.And("t.state @among(?)", List(states))
		of = taskSources(states)
	}
	if len(q.States) > 0 {
		l.derived.And("t.state @among(?)", List(texts(q.States)))
		of = taskSources(texts(q.States))
	}
	if len(of) > 0 {
		l.sets = append(l.sets, candidates{sources: of, ordered: true})
	}
	if !q.Changed.IsZero() && len(l.sets) == 0 {
		l.changed = true
		l.sets = []candidates{{sources: []source{from("task_id", "task_events", " AND created_at >= $3")}, args: []any{q.Changed.UnixMicro()}}}
	}
	if len(q.IDs) > 0 {
		l.sets = nil // the ids find fewer tasks
	}
}

// afterPriority continues a list in the order of priority and id behind a cursor.
func (w *Where) afterPriority(comparison, cursor string) error {
	if cursor == "" {
		return nil
	}
	n, id, _ := strings.Cut(cursor, "_")
	priority, err := strconv.ParseInt(n, 10, 16) // a smallint in PostgreSQL
	if _, ok := TaskID(id).Bytes(); err != nil || !ok {
		return NotACursor()
	}
	w.And("(t.priority, t.id) "+comparison+" (?, ?)", priority, TaskID(id))
	return nil
}

// prioritized reads the keys of tasks in the order of priority: a priority and an id.
func prioritized(ctx context.Context, tx Tx, query string, args ...any) (keys []string, err error) {
	err = EachRow(ctx, tx, func(rows Rows) error {
		var priority int
		var id TaskID
		if err := rows.Scan(&priority, &id); err != nil {
			return err
		}
		keys = append(keys, strconv.Itoa(priority)+"_"+string(id))
		return nil
	}, query, args...)
	return keys, err
}

func scanTasks(ctx context.Context, tx Tx, query string, args ...any) ([]pawl.Task, error) {
	rows, err := tx.Query(ByKeys(ctx), query, args...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var out []pawl.Task
	var s taskScan
	targets := append(Targets(s.columns()), &s.RetryCount, &s.applied, &s.completed,
		&s.updated, &s.moved, &s.itemFailure, &s.ready, &s.children)
	for rows.Next() {
		s = taskScan{}
		if err := rows.Scan(targets...); err != nil {
			return nil, err
		}
		out = append(out, s.task())
	}
	if err := rows.Err(); err != nil {
		return nil, err
	}
	rows.Close()
	questions := map[string][]*json.RawMessage{}
	for i := range out {
		if t := &out[i]; t.Type == pawl.TypeBudget {
			questions[t.ID] = append(questions[t.ID], &t.Payload)
		}
	}
	return out, withAsked(ctx, tx, questions)
}

// Stamp converts microseconds to a time.
func Stamp(us int64) time.Time { return time.UnixMicro(us).UTC() }

// StampOf is Stamp; nil stays nil.
func StampOf(us *int64) *time.Time {
	if us == nil {
		return nil
	}
	t := Stamp(*us)
	return &t
}

// Raw returns a stored JSON text; an empty one is nil.
func Raw(t Text) json.RawMessage {
	if t == "" {
		return nil
	}
	return json.RawMessage(t)
}

// FailureOf reads a stored pawl.Failure; nil = none.
func FailureOf(t Text) *pawl.Failure {
	if t == "" {
		return nil
	}
	var f pawl.Failure
	if json.Unmarshal([]byte(t), &f) != nil {
		f = pawl.Failure{Message: string(t)}
	}
	return &f
}

// StillOpen refuses a call about a task that has ended.
func StillOpen(op, state string) error {
	s := pawl.TaskState(state)
	if !s.Ended() {
		return nil
	}
	return &pawl.Error{Code: pawl.CodeConflict, Op: op, State: state, Allowed: s.Allowed(),
		Message: fmt.Sprintf("the state is %s, which does not allow %s", state, op)}
}
