package store

import (
	"context"
	"errors"
	"math"
	"strings"

	"github.com/pawl-work/pawl"
)

// NamespaceOfTask returns the namespace of a task, or "" when there is no such task.
func NamespaceOfTask(ctx context.Context, tx Tx, taskID string) (string, error) {
	var ns string
	_, err := Row(ctx, tx, []any{&ns}, archiveSQL["namespace of task"], TaskID(taskID))
	return ns, err
}

// HoldsWork locks a task, so that no items are added to it, and says whether an item of it has not
// ended and may be claimed some time. Other moves of its items are possible, but an item that is
// scheduled at pawl.Never makes none.
func HoldsWork(ctx context.Context, tx Tx, namespace, taskID string) (bool, error) {
	if err := LockTaskRow(ctx, tx, namespace, taskID); err != nil {
		return false, err
	}
	var newest int64
	if _, err := Row(ctx, tx, []any{&newest}, sweepSQL["hold counters"], TaskID(taskID)); err != nil {
		return false, err
	}
	ids, err := ItemIDs(ctx, tx, archiveSQL["holds work"], TaskID(taskID), pawl.Never.UnixMicro())
	return len(ids) > 0, err
}

// LockTaskLast locks the rows of an ended task until the transaction ends. Every move of
// the task locks or changes one of these rows. It returns false when the task does not
// exist.
func LockTaskLast(ctx context.Context, tx Tx, taskID string) (bool, error) {
	there, err := rowsOf(taskID).lock(ctx, tx)
	return len(there) > 0, err
}

// LockTasksLast is LockTaskLast for several tasks. It returns those that exist.
func LockTasksLast(ctx context.Context, tx Tx, taskIDs []string) ([]string, error) {
	return rowsOfMany(taskIDs).lock(ctx, tx)
}

// taskRows are the rows of a task, or of several.
type taskRows struct {
	ids   []string
	arg   any               // $1 of the statements
	sql   map[string]string // archiveSQL or manySQL
	there string            // stepsThere for them
}

func rowsOf(taskID string) taskRows {
	return taskRows{[]string{taskID}, TaskID(taskID), archiveSQL, stepsThere}
}

func rowsOfMany(taskIDs []string) taskRows {
	return taskRows{taskIDs, TaskList(taskIDs), manySQL, stepsThereOfMany}
}

// manySQL has the statements of archiveSQL for a list of tasks.
var manySQL = func() map[string]string {
	out := make(map[string]string, len(archiveSQL))
	for name, query := range archiveSQL {
		out[name] = ofMany(query)
	}
	return out
}()

func ofMany(query string) string { return strings.ReplaceAll(query, "= $1", "@among_ids($1)") }

// lock locks the tasks, each kind of row in the order of its ids, and returns those that exist.
func (r taskRows) lock(ctx context.Context, tx Tx) (there []string, err error) {
	if there, err = TaskIDs(ctx, tx, r.sql["lock task"], r.arg); err != nil || len(there) == 0 {
		return nil, err
	}
	for _, step := range []string{"lock task_counters", "lock parked_items"} {
		if _, err := TaskIDs(ctx, tx, r.sql[step], r.arg); err != nil {
			return nil, err
		}
	}
	return there, nil
}

// NewestEvents returns the numbers of the newest events of tasks. A task without events is left out.
func NewestEvents(ctx context.Context, tx Tx, taskIDs []string) (map[string]int64, error) {
	out := make(map[string]int64, len(taskIDs))
	return out, EachRow(ctx, tx, func(rows Rows) error {
		var task string
		var id int64
		err := rows.Scan((*TaskID)(&task), &id)
		out[task] = id
		return err
	}, archiveSQL["newest events"], TaskList(taskIDs))
}

// removal is the order in which the rows of a task are removed. Rows that lead to other
// rows are removed after them, and the task itself comes last. An event and its provenance,
// which the log has as one leaf, are removed in one step, before the items, with which the
// database would remove the provenance. The event that says that the deletion has begun
// stays to the end.
var removal = []string{"unlink keys of task", "unlink keys of items", "remove checkpoints", "remove message_chunks", "remove messages",
	"keep keys of effects", "remove ready", "remove scheduled", "remove waiting", "remove leases", "remove parked_items",
	"remove finished_items", "unlink reservations", "remove deadlines",
	"remove awaited children", "remove child waits", "remove links of children", "remove link to parent", "remove parent",
	"remove item_deps", "remove item_parts", "remove task_events", "remove provenances", "remove items",
	"remove task_results", "remove task_counters", "remove marks of deletion", "remove tasks"}

// removed has the events that a step removes.
var removed = map[string]string{"remove task_events": "events to remove", "remove marks of deletion": "marks of deletion"}

// DeleteTask removes up to batch rows of a task. done says that nothing is left.
// Idempotency keys stay; their links become NULL.
//
// When by is set, an event `deleted` with the contents of by stays, and the unique key of the
// task is free. When by is nil, retention removes the task or a deletion goes on, and a key
// stays until the end of its window. If the task is too large for one batch, it then has an event
// `deleted` until the last batch, so that an interrupted deletion is resumed.
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
	if done, err = rowsOf(taskID).remove(ctx, tx, by != nil, batch); err != nil || done {
		return done, err
	}
	if marked, err := beingDeleted(ctx, tx, taskID); err != nil || marked {
		return false, err
	}
	now, err := tx.Now(ctx)
	if err != nil {
		return false, err
	}
	return false, Record(ctx, tx, now, []Event{{Namespace: namespace, TaskID: taskID, Event: "deleted", Actor: Actor{Type: pawl.ActorSystem}}})
}

// ErrManyRows means that tasks have too many rows to be removed together.
var ErrManyRows = errors.New("the tasks have too many rows for one transaction")

// RemoveTasks is DeleteTask without a tombstone for several tasks that LockTasksLast has locked and
// whose deletion has not begun. If they have more than batch rows it fails with ErrManyRows, and the
// transaction must not commit.
func RemoveTasks(ctx context.Context, tx Tx, taskIDs []string, batch int) error {
	return rowsOfMany(taskIDs).removeAll(ctx, tx, false, batch)
}

func (r taskRows) removeAll(ctx context.Context, tx Tx, free bool, batch int) error {
	done, err := r.remove(ctx, tx, free, batch)
	if err == nil && !done {
		err = ErrManyRows
	}
	return err
}

// DeleteEnded deletes those of the tasks of a namespace that have ended, are no parents, are children
// of none but a parent that is deleted, and have not been deleted before, as DeleteTask does. It returns
// their ids. It fails with ErrManyRows if they have more than batch rows, and the transaction must not
// commit.
func DeleteEnded(ctx context.Context, tx Tx, namespace string, taskIDs []string, by *Deletion, batch int) ([]string, error) {
	var tasks []pawl.Task
	ids := taskIDs
	for _, locked := range []bool{false, true} { // only ended tasks are locked: nothing else moves them
		if locked {
			if _, err := LockTasksLast(ctx, tx, ids); err != nil {
				return nil, err
			}
		}
		var err error
		if tasks, err = deletable(ctx, tx, namespace, ids); err != nil || len(tasks) == 0 {
			return nil, err
		}
		ids = make([]string, len(tasks))
		for i := range tasks {
			ids[i] = tasks[i].ID
		}
	}
	if err := putTombstones(ctx, tx, namespace, tasks, by); err != nil {
		return nil, err
	}
	return ids, rowsOfMany(ids).removeAll(ctx, tx, true, batch)
}

// deletable returns the tasks that DeleteEnded deletes, with their ids, types and states.
func deletable(ctx context.Context, tx Tx, namespace string, taskIDs []string) (out []pawl.Task, err error) {
	err = EachRow(ctx, tx, func(rows Rows) error {
		var t pawl.Task
		err := rows.Scan((*TaskID)(&t.ID), &t.Type, &t.State)
		if t.State.Ended() {
			out = append(out, t)
		}
		return err
	}, tombstoneSQL["tasks to delete"], TaskList(taskIDs), namespace)
	return out, err
}

// remove removes up to batch rows of locked tasks. done says that nothing is left. The unique keys
// of the tasks become free if free says so, otherwise those whose window is over.
func (r taskRows) remove(ctx context.Context, tx Tx, free bool, batch int) (done bool, err error) {
	if err := r.removeKeys(ctx, tx, free); err != nil {
		return false, err
	}
	err = Gated(ctx, tx, "delete", func() error {
		steps, err := there(ctx, tx, removal, r.there, r.arg)
		if err != nil {
			return err
		}
		left := int64(batch)
		for _, step := range steps {
			if events, gone := removed[step]; gone {
				ids, err := Ints(ctx, tx, r.sql[events], r.arg, left)
				if err != nil {
					return err
				}
				if err := logRemoval(ctx, tx, r.ids, ids); err != nil {
					return err
				}
				if _, err := tx.Exec(ctx, r.sql["remove provenances of events"], r.arg, left); err != nil {
					return err
				}
			}
			if step == "keep keys of effects" {
				if err := r.tellOfEffects(ctx, tx, left); err != nil {
					return err
				}
			}
			n, err := tx.Exec(ctx, r.sql[step], r.arg, left)
			if err != nil {
				return err
			}
			if left -= n; left <= 0 && step != "remove tasks" {
				return nil
			}
		}
		done = true
		return nil
	})
	return done, err
}

// tellOfEffects sends the signals of effects whose keys are kept next, if they are not decided.
func (r taskRows) tellOfEffects(ctx context.Context, tx Tx, limit int64) error {
	w := Waking{By: Actor{Type: pawl.ActorSystem}, Until: math.MaxInt64}
	if err := w.Begin(ctx, tx); err != nil {
		return err
	}
	now, err := tx.Now(ctx)
	if err == nil {
		_, err = tx.Exec(ctx, r.sql["tell of effects"], r.arg, limit, pawl.EffectSignal, now, w.Text())
	}
	return err
}

// stepsThere is a query that says for each step of removal whether it has rows to remove. It is
// made from the steps: each takes its rows from a query with a limit, $2.
var stepsThere = exists(removal, func(step string) string {
	query, _, _ := strings.Cut(archiveSQL[step], "LIMIT $2")
	for _, begins := range []string{"@among_rows", "@ready_rows", "IN ("} {
		if _, rows, found := strings.Cut(query, begins); found {
			return rows
		}
	}
	return query
})

// exists returns a query that says for each name whether its query finds anything: see there.
func exists(names []string, query func(name string) string) string {
	cols := make([]string, len(names))
	for i, name := range names {
		cols[i] = "CASE WHEN EXISTS (" + query(name) + ") THEN 1 ELSE 0 END"
	}
	return "SELECT " + strings.Join(cols, ",\n")
}

// there returns the names whose queries find something.
func there(ctx context.Context, tx Tx, names []string, query string, arg any) (found []string, err error) {
	is, into := make([]int, len(names)), make([]any, len(names))
	for i := range is {
		into[i] = &is[i]
	}
	_, err = Row(ctx, tx, into, query, arg)
	for i, name := range names {
		if is[i] == 1 {
			found = append(found, name)
		}
	}
	return found, err
}

var stepsThereOfMany = ofMany(stepsThere)

// removeKeys removes the unique keys of the tasks, if their window is over or all says so.
func (r taskRows) removeKeys(ctx context.Context, tx Tx, all bool) error {
	if all {
		_, err := tx.Exec(ctx, r.sql["remove key"], r.arg)
		return err
	}
	now, err := tx.Now(ctx)
	if err == nil {
		_, err = tx.Exec(ctx, r.sql["remove expired key"], r.arg, now)
	}
	return err
}
