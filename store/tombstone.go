package store

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/pawl-work/pawl"
)

var tombstoneSQL = Texts(sqlFiles, "tombstone.sql")

// Deletion says who deletes a task, and why.
type Deletion struct {
	Actor  Actor
	Key    string // the API key of the call; "" = none
	Reason string
	Bulk   string // the task of the bulk call; "" = none
}

// Tombstone is the data of an event `deleted`: what is kept of a deleted task.
type Tombstone struct {
	Key       string `json:"key_id,omitempty"`  // the API key of the call
	Bulk      string `json:"bulk,omitempty"`    // the task of the bulk call that deleted it
	Archive   bool   `json:"archive,omitempty"` // its archive was deleted: the task itself was not there any more
	Type      string `json:"type,omitempty"`
	State     string `json:"state,omitempty"`
	Events    int64  `json:"events,omitempty"`     // the number of events that the task had
	LastEvent string `json:"last_event,omitempty"` // the id of the last of these events
	// the effects of which it was not known whether they had happened
	UnknownEffects []string `json:"unknown_effects,omitempty"`
}

// Deleted is what the event log says about the deletion of a task.
type Deleted struct {
	EventID   string    `json:"event_id"`
	At        time.Time `json:"at"`
	ActorType string    `json:"actor_type"`
	ActorID   string    `json:"actor_id,omitempty"`
	Tombstone
}

// ReadDeleted reads the tombstone of a deleted task, and the event that it belongs to. found
// is false for a task without a tombstone; an event that is not there has no time.
func ReadDeleted(ctx context.Context, tx Tx, taskID string) (d Deleted, found bool, err error) {
	id, b, found, err := readTombstone(ctx, tx, taskID)
	if err != nil || !found {
		return d, false, err
	}
	d = Deleted{EventID: eventID(id), Tombstone: b}
	events, err := EventsAt(ctx, tx, FeedPage{First: 1, IDs: []int64{id}})
	for _, e := range events {
		d.At, d.ActorType, d.ActorID = e.CreatedAt, string(e.ActorType), e.ActorID
	}
	return d, true, err
}

// beingDeleted says whether the deletion of a task has begun and not ended.
func beingDeleted(ctx context.Context, tx Tx, taskID string) (bool, error) {
	ids, err := AreBeingDeleted(ctx, tx, []string{taskID})
	return len(ids) > 0, err
}

// AreBeingDeleted returns those tasks whose deletion has begun and not ended.
func AreBeingDeleted(ctx context.Context, tx Tx, taskIDs []string) ([]string, error) {
	return TaskIDs(ctx, tx, tombstoneSQL["being deleted"], TaskList(taskIDs))
}

// putTombstone writes the tombstone of a task that LockTaskLast has locked, unless it has
// one.
func putTombstone(ctx context.Context, tx Tx, namespace, taskID string, by *Deletion) error {
	if _, _, found, err := readTombstone(ctx, tx, taskID); err != nil || found {
		return err
	}
	t, err := GetTask(ctx, tx, namespace, taskID)
	if err != nil {
		return err
	}
	return putTombstones(ctx, tx, namespace, []pawl.Task{t}, by)
}

// putTombstones writes the tombstones of locked tasks that have none.
func putTombstones(ctx context.Context, tx Tx, namespace string, tasks []pawl.Task, by *Deletion) error {
	ids := make([]string, len(tasks))
	for i := range tasks {
		ids[i] = tasks[i].ID
	}
	had, err := countEvents(ctx, tx, ids)
	if err != nil {
		return err
	}
	now, err := tx.Now(ctx)
	if err != nil {
		return err
	}
	unknown, err := UndecidedEffects(ctx, tx, ids)
	if err != nil {
		return err
	}
	stones := make([]Tombstone, len(tasks))
	for i, t := range tasks {
		stones[i] = had[t.ID]
		stones[i].Type, stones[i].State, stones[i].UnknownEffects = t.Type, string(t.State), unknown[t.ID]
	}
	return bury(ctx, tx, now, namespace, ids, stones, by)
}

// BuryArchive writes the tombstone of a task that is not there and whose archives are deleted, unless it has one. The task
// gives its unique key up, as a deleted one does.
func BuryArchive(ctx context.Context, tx Tx, now int64, namespace, taskID string, by *Deletion) error {
	_, _, found, err := readTombstone(ctx, tx, taskID)
	if err == nil && !found {
		err = bury(ctx, tx, now, namespace, []string{taskID}, []Tombstone{{Archive: true}}, by)
	}
	if err == nil {
		_, err = tx.Exec(ctx, archiveSQL["remove key"], TaskID(taskID))
	}
	return err
}

func bury(ctx context.Context, tx Tx, now int64, namespace string, ids []string, stones []Tombstone, by *Deletion) error {
	events, rows := make([]Event, len(ids)), make([][]any, len(ids))
	for i, id := range ids {
		stones[i].Key, stones[i].Bulk = by.Key, by.Bulk
		data, err := json.Marshal(stones[i])
		if err != nil {
			return err
		}
		events[i] = Event{Namespace: namespace, TaskID: id, Event: "deleted", Actor: by.Actor, Message: Text(by.Reason), Data: Text(data)}
	}
	if err := Record(ctx, tx, now, events); err != nil {
		return err
	}
	newest, err := NewestEvents(ctx, tx, ids)
	if err != nil {
		return err
	}
	for i, id := range ids {
		rows[i] = []any{TaskID(id), newest[id], namespace, now}
	}
	return tx.ExecEach(ctx, tombstoneSQL["bury task"], rows)
}

// countEvents returns the number and the last one of the events of each task.
func countEvents(ctx context.Context, tx Tx, taskIDs []string) (map[string]Tombstone, error) {
	out := make(map[string]Tombstone, len(taskIDs))
	return out, EachRow(ctx, tx, func(rows Rows) error {
		var task string
		var n, last int64
		err := rows.Scan((*TaskID)(&task), &n, &last)
		out[task] = Tombstone{Events: n, LastEvent: eventID(last)}
		return err
	}, tombstoneSQL["events of tasks"], TaskList(taskIDs))
}

func readTombstone(ctx context.Context, tx Tx, taskID string) (id int64, b Tombstone, found bool, err error) {
	var data Text
	if found, err = Row(ctx, tx, []any{&id, &data}, tombstoneSQL["tombstone"], TaskID(taskID)); err != nil || !found {
		return 0, b, false, err
	}
	_ = json.Unmarshal([]byte(data), &b) // damaged data is found when the log is verified
	return id, b, true, nil
}

// RemoveTombstones removes up to limit tombstones that were made by the given time, with
// their events. It returns how many it removed. It locks them first: what another pass
// removes is not counted as removed twice, and what a restore has taken back stays.
func RemoveTombstones(ctx context.Context, tx Tx, by int64, limit int) (int, error) {
	rows, err := tx.Query(ctx, tombstoneSQL["old tombstones"], by, limit)
	if err != nil {
		return 0, err
	}
	defer rows.Close()
	var gone []string
	var events []int64
	for rows.Next() {
		var task string
		var id int64
		if err := rows.Scan((*TaskID)(&task), &id); err != nil {
			return 0, err
		}
		gone, events = append(gone, task), append(events, id)
	}
	if err := rows.Err(); err != nil || len(gone) == 0 {
		return 0, err
	}
	rows.Close()
	return removeTombstones(ctx, tx, gone, events)
}

// removeTombstones removes locked tombstones and their events, bar those of tasks that exist.
func removeTombstones(ctx context.Context, tx Tx, tasks []string, ids []int64) (int, error) {
	back, err := TaskIDs(ctx, tx, tombstoneSQL["tasks of tombstones"], TaskList(tasks))
	if err != nil {
		return 0, err
	}
	var old [][]any
	var gone []string
	var events []int64
	for i, task := range tasks {
		if !slices.Contains(back, task) {
			old, gone, events = append(old, []any{TaskID(task), ids[i]}), append(gone, task), append(events, ids[i])
		}
	}
	if len(old) == 0 {
		return 0, nil
	}
	return len(old), Gated(ctx, tx, "tombstones", func() error {
		if err := logRemoval(ctx, tx, gone, events); err != nil {
			return err
		}
		for _, step := range []string{"remove tombstone", "remove event of tombstone"} {
			if err := tx.ExecEach(ctx, tombstoneSQL[step], old); err != nil {
				return err
			}
		}
		return nil
	})
}

// noTask returns the error for a task that does not exist. It says whether the task was
// deleted.
func noTask(ctx context.Context, tx Tx, namespace, taskID string) error {
	out := pawl.NotFound("task", taskID)
	var at int64
	var kind string
	var who Text
	found, err := Row(ctx, tx, []any{&at, &kind, &who}, tombstoneSQL["task was deleted"], TaskID(taskID), namespace)
	if err != nil || !found {
		return cmp.Or(err, error(out))
	}
	by := kind
	if who != "" {
		by += " " + string(who)
	}
	out.Message = fmt.Sprintf("task %s was deleted on %s by %s", taskID, Stamp(at).Format(time.RFC3339), by)
	return out
}

// WasDeleted says whether a namespace had a task that was deleted and whose tombstone is
// still kept.
func WasDeleted(ctx context.Context, tx Tx, namespace, taskID string) (bool, error) {
	var at int64
	var kind string
	var who Text
	return Row(ctx, tx, []any{&at, &kind, &who}, tombstoneSQL["task was deleted"], TaskID(taskID), namespace)
}
