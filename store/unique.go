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

// LockSolo locks a task like LockTaskRow and reports whether it has one item only, with which it was
// created. One that is not there has none.
func LockSolo(ctx context.Context, tx Tx, namespace, taskID string) (solo bool, err error) {
	var n int
	_, err = Row(ctx, tx, []any{&n}, moveSQL["lock task"], TaskID(taskID), namespace)
	return n == 1, err
}

// Rewriting is a change of the payload, and perhaps of the time, of a task of one item that no
// worker has claimed yet.
type Rewriting struct {
	Before pawl.Task // locked by LockSolo
	Input  string
	RunAt  *int64   // nil = as before
	Row    StateRow // of the item: set by Take
	Actor  Actor
}

// Take removes the row of the item, if no worker has claimed it yet and its state is one of some, and reports whether it
// did. Rewrite or PutBack puts it back. The row is removed and inserted, not updated: a claim that began before reads the
// older payload, and must not find the item.
func (r *Rewriting) Take(ctx context.Context, tx Tx, states ...string) (bool, error) {
	ids, err := ItemIDs(ctx, tx, uniqueSQL["only item of task"], TaskID(r.Before.ID))
	if err != nil || len(ids) == 0 {
		return false, err
	}
	held, err := Take(ctx, tx, ids, states)
	if err != nil || len(held) == 0 {
		return false, err
	}
	if r.Row = held[0]; r.Row.Attempt > 0 {
		return false, r.PutBack(ctx, tx)
	}
	return true, nil
}

// PutBack puts the row of the item back.
func (r *Rewriting) PutBack(ctx context.Context, tx Tx) error { return Put(ctx, tx, []StateRow{r.Row}) }

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
	if err := r.PutBack(ctx, tx); err != nil || len(changes) == 0 {
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
