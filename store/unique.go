package store

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"time"

	"github.com/pawl-work/pawl"
)

var uniqueSQL = Texts(sqlFiles, "unique.sql")

// UniqueKey is a key that one task of a type holds.
type UniqueKey struct{ Namespace, Type, Key string }

// Holding is a key with the task that holds it. Until is the end of its window, or of a
// debounced task the latest run_at, in microseconds.
type Holding struct {
	UniqueKey
	TaskID string
	Until  int64
}

// TakeKey gives a key to a task, unless a task has it. It waits for calls that are taking the
// key at the moment.
func TakeKey(ctx context.Context, tx Tx, h Holding) (bool, error) {
	n, err := tx.Exec(ctx, uniqueSQL["take key"], h.Namespace, h.Type, h.Key, TaskID(h.TaskID), h.Until)
	return n > 0, err
}

// HolderOf reads which task has a key.
func HolderOf(ctx context.Context, tx Tx, key UniqueKey) (Holding, bool, error) {
	return holderOf(ctx, tx, "holder of key", key)
}

// LockHolder is HolderOf, and keeps other transactions from giving the key to another task.
// The task is locked before, if it is locked at all.
func LockHolder(ctx context.Context, tx Tx, key UniqueKey) (Holding, bool, error) {
	return holderOf(ctx, tx, "holder of key locked", key)
}

func holderOf(ctx context.Context, tx Tx, query string, key UniqueKey) (Holding, bool, error) {
	h := Holding{UniqueKey: key}
	found, err := Row(ctx, tx, []any{(*TaskID)(&h.TaskID), &h.Until}, uniqueSQL[query], key.Namespace, key.Type, key.Key)
	return h, found, err
}

// TakeKeyOver gives a locked key to another task.
func TakeKeyOver(ctx context.Context, tx Tx, h Holding) error {
	_, err := tx.Exec(ctx, uniqueSQL["take key over"], h.Namespace, h.Type, h.Key, TaskID(h.TaskID), h.Until)
	return err
}

// LockSolo locks a task like LockTaskRow and reports whether it is there and has one item
// only, with which it was created.
func LockSolo(ctx context.Context, tx Tx, namespace, taskID string) (solo, found bool, err error) {
	var n int
	found, err = Row(ctx, tx, []any{&n}, moveSQL["lock task"], TaskID(taskID), namespace)
	return n == 1, found, err
}

// Rewriting is a change of the payload, and perhaps of the time, of a task of one item that no
// worker has claimed yet.
type Rewriting struct {
	Before pawl.Task // locked by LockSolo
	Input  string
	RunAt  *int64 // nil = as before
	Row    StateRow
	Actor  Actor
}

// TakeUnclaimed removes the row of the item of a task of one, which LockSolo has locked, if no
// worker has claimed it yet. The caller puts it back. The row is removed and inserted, not
// updated: a claim that began before reads the older payload, and must not find the item.
func TakeUnclaimed(ctx context.Context, tx Tx, taskID string, states ...string) (*StateRow, error) {
	ids, err := ItemIDs(ctx, tx, uniqueSQL["only item of task"], TaskID(taskID))
	if err != nil || len(ids) == 0 {
		return nil, err
	}
	held, err := Take(ctx, tx, ids, states)
	if err != nil || len(held) == 0 {
		return nil, err
	}
	if held[0].Attempt > 0 {
		return nil, Put(ctx, tx, held)
	}
	return &held[0], nil
}

// Rewrite writes the payload and the time of a task, its next version and the event, and puts
// its item back.
func (r *Rewriting) Rewrite(ctx context.Context, tx Tx, now int64) error {
	type change struct {
		From any `json:"from"`
		To   any `json:"to"`
	}
	changes := map[string]change{}
	if was := string(r.Before.Payload); was != r.Input {
		changes["payload"] = change{digest(was), digest(r.Input)}
	}
	if r.RunAt != nil && (r.Row.RunAt == nil || *r.Row.RunAt != *r.RunAt) {
		c := change{To: Stamp(*r.RunAt).Format(time.RFC3339Nano)}
		if r.Row.RunAt != nil {
			c.From = Stamp(*r.Row.RunAt).Format(time.RFC3339Nano)
		}
		changes["run_at"], r.Row.RunAt = c, r.RunAt
	}
	if err := Put(ctx, tx, []StateRow{r.Row}); err != nil || len(changes) == 0 {
		return err
	}
	id := TaskID(r.Before.ID)
	if _, err := tx.Exec(ctx, uniqueSQL["rewrite task"], id, r.Input, r.RunAt); err != nil {
		return err
	}
	if err := lockCounters(ctx, tx, now, r.Before.Namespace, []string{r.Before.ID}); err != nil {
		return err
	}
	if _, err := tx.Exec(ctx, updateSQL["new version"], TaskList([]string{r.Before.ID}), now); err != nil {
		return err
	}
	diff, _ := json.Marshal(changes) // texts can always be encoded
	e := Event{Namespace: r.Before.Namespace, TaskID: r.Before.ID, Event: "updated", Actor: r.Actor, Diff: Text(diff)}
	return Record(ctx, tx, now, []Event{e})
}

// digestPrefix begins the digest that stands for a payload in an event.
const digestPrefix = "sha256:"

// digest stands for a payload in an event.
func digest(text string) string {
	sum := sha256.Sum256([]byte(text))
	return digestPrefix + hex.EncodeToString(sum[:])
}

// KeysAfter reads the keys after a given one, in order, and which of them are over: the task
// has ended or is gone, and the window has ended.
func KeysAfter(ctx context.Context, tx Tx, now int64, after UniqueKey, limit int) (over []Holding, last UniqueKey, n int, err error) {
	rows, err := tx.Query(ctx, uniqueSQL["keys after"], after.Namespace, after.Type, after.Key, now, limit)
	if err != nil {
		return nil, after, 0, err
	}
	defer rows.Close()
	for last = after; rows.Next(); n++ {
		var h Holding
		var ended int
		if err := rows.Scan(&h.Namespace, &h.Type, &h.Key, (*TaskID)(&h.TaskID), &h.Until, &ended); err != nil {
			return nil, after, 0, err
		}
		if last = h.UniqueKey; ended == 1 {
			over = append(over, h)
		}
	}
	return over, last, n, rows.Err()
}

// ReleaseKeys removes keys, except for those that other tasks have taken.
func ReleaseKeys(ctx context.Context, tx Tx, over []Holding) error {
	rows := make([][]any, len(over))
	for i, h := range over {
		rows[i] = []any{h.Namespace, h.Type, h.Key, TaskID(h.TaskID), h.Until}
	}
	return tx.ExecEach(ctx, uniqueSQL["release key"], rows)
}
