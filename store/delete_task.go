package store

import (
	"context"
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
	ids, err := ItemIDs(ctx, tx, checkpointSQL["holds work"], TaskID(taskID), pawl.Never.UnixMicro())
	return len(ids) > 0, err
}

// LockTaskLast locks the rows of an ended task until the transaction ends. Every move of
// the task locks or changes one of these rows. It returns false when the task does not
// exist.
func LockTaskLast(ctx context.Context, tx Tx, taskID string) (bool, error) {
	for _, step := range []string{"lock task", "lock task_counters", "lock parked_items"} {
		found, err := TaskIDs(ctx, tx, archiveSQL[step], TaskID(taskID))
		if err != nil || step == "lock task" && len(found) == 0 {
			return false, err
		}
	}
	return true, nil
}

// NewestEvent returns the id of a task's newest event, or 0 when it has none.
func NewestEvent(ctx context.Context, tx Tx, taskID string) (int64, error) {
	var id int64
	_, err := Row(ctx, tx, []any{&id}, archiveSQL["newest event"], TaskID(taskID))
	return id, err
}

// removal is the order in which the rows of a task are removed. Rows that lead to other
// rows are removed after them, and the task itself comes last. An event and its provenance,
// which the log has as one leaf, are removed in one step, before the items, with which the
// database would remove the provenance. The event that says that the deletion has begun
// stays to the end.
var removal = []string{"unlink keys of task", "unlink keys of items", "remove checkpoints", "remove message_chunks", "remove messages",
	"remove ready", "remove scheduled", "remove waiting", "remove leases", "remove parked_items",
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
	if err := removeKey(ctx, tx, taskID, by != nil); err != nil {
		return false, err
	}
	err = gated(ctx, tx, "delete", func() error {
		steps, err := stepsOf(ctx, tx, taskID)
		if err != nil {
			return err
		}
		left := int64(batch)
		for _, step := range steps {
			if events, gone := removed[step]; gone {
				ids, err := Ints(ctx, tx, archiveSQL[events], TaskID(taskID), left)
				if err != nil {
					return err
				}
				if err := logRemoval(ctx, tx, map[string][]int64{taskID: ids}); err != nil {
					return err
				}
				if _, err := tx.Exec(ctx, archiveSQL["remove provenances of events"], TaskID(taskID), left); err != nil {
					return err
				}
			}
			n, err := tx.Exec(ctx, archiveSQL[step], TaskID(taskID), left)
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

// stepsThere is a query that says for each step of removal whether it has rows to remove. It is
// made from the steps: each takes its rows from a query with a limit, $2.
var stepsThere = func() string {
	var cols []string
	for _, step := range removal {
		_, query, _ := strings.Cut(archiveSQL[step], "IN (")
		query, _, _ = strings.Cut(query, "LIMIT $2")
		cols = append(cols, "CASE WHEN EXISTS ("+query+") THEN 1 ELSE 0 END")
	}
	return "SELECT " + strings.Join(cols, ",\n")
}()

// stepsOf returns the steps of removal that have rows of a task. Its rows are locked.
func stepsOf(ctx context.Context, tx Tx, taskID string) (steps []string, err error) {
	there, into := make([]int, len(removal)), make([]any, len(removal))
	for i := range there {
		into[i] = &there[i]
	}
	_, err = Row(ctx, tx, into, stepsThere, TaskID(taskID))
	for i, step := range removal {
		if there[i] == 1 {
			steps = append(steps, step)
		}
	}
	return steps, err
}

// removeKey removes the unique key of a locked task, if its window is over or all says so.
func removeKey(ctx context.Context, tx Tx, taskID string, all bool) error {
	if all {
		_, err := tx.Exec(ctx, archiveSQL["remove key"], TaskID(taskID))
		return err
	}
	now, err := tx.Now(ctx)
	if err == nil {
		_, err = tx.Exec(ctx, archiveSQL["remove expired key"], TaskID(taskID), now)
	}
	return err
}
