package engine

import (
	"context"
	"encoding/json"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/engine/internal/rules"
	"github.com/pawl-work/pawl/engine/internal/tasktypes"
	"github.com/pawl-work/pawl/store"
)

// holdTries bounds how often a create looks again that finds its key in other hands than a
// moment before.
const holdTries = 20

// hold is the key that a new task is to have, and what its call says about it.
type hold struct {
	key      string
	unique   *pawl.Unique
	debounce *pawl.Debounce
	given    *pawl.NewTask
}

// holds gives a draft the key that its call asks for. stored says that the call was accepted before.
func (d *draft) holds(t *pawl.NewTask, stored bool) error {
	key, err := uniqueKey(t)
	if err != nil {
		return err
	}
	if t.Debounce != nil && !d.task.Solo {
		return pawl.Invalid("/debounce", "is for tasks of one item, and not for types that plan items")
	}
	d.hold = &hold{key: key, unique: t.Unique, debounce: t.Debounce, given: t}
	if d.hold.rewrites() && len(t.Messages) > 0 && !stored { // a schedule of before may have them
		return pawl.Invalid("/messages", "are lost where an older task takes the payload: put them into the payload, or send them to the task")
	}
	return nil
}

// until returns until when a key is held that a task gets now, even if the task ends.
func (h *hold) until(now int64) int64 {
	if h.debounce == nil {
		return now + int64(h.unique.WindowSeconds)*microseconds
	}
	longest := h.debounce.MaxSeconds
	if longest == 0 {
		longest = h.debounce.Seconds * pawl.DebounceMaxTimes
	}
	return now + int64(longest)*microseconds
}

const microseconds = 1_000_000 // of a second

// heldBy is the outcome of a create with a key.
type heldBy struct {
	again  bool            // the key changed hands meanwhile
	older  string          // the task that has the key; "" = the new one
	now    int64           // of the creation of the new one
	queued []store.DueItem // the item of the older one, whose row was written anew
}

// createHeld creates a task that is to have a key, or answers with the task that has it.
func (e *Engine) createHeld(ctx context.Context, d *draft) (pawl.Task, error) {
	for range holdTries {
		var h heldBy
		err := e.db.Do(ctx, func(ctx context.Context, tx store.Tx) (err error) {
			h, err = e.holdIn(ctx, tx, d)
			return err
		})
		switch {
		case err != nil:
			return pawl.Task{}, err
		case h.again:
		case h.older == "":
			e.after(func() { e.created([]draft{*d}, h.now) })
			return d.Answer(h.now), nil
		default:
			e.follow(ctx, effects{queued: h.queued})
			t, err := e.GetTask(ctx, h.older)
			if pawl.CodeOf(err) == pawl.CodeNotFound { // it was removed since
				continue
			}
			t.Deduplicated = true
			return t, err
		}
	}
	return pawl.Task{}, &pawl.Error{Code: pawl.CodeUnavailable, Op: "create", Message: "the key is being taken by others; try again"}
}

// holdIn is a try of createHeld. The key is inserted first: a call that finds none reads
// nothing. Otherwise its holder is read, locked if it is to be changed, and then the key is
// locked: the order in which a deletion locks too.
func (e *Engine) holdIn(ctx context.Context, tx store.Tx, d *draft) (out heldBy, err error) {
	now, err := tx.Now(ctx)
	if err != nil {
		return out, err
	}
	key := store.UniqueKey{Namespace: d.task.Namespace, Type: d.task.Type, Key: d.hold.key}
	mine := store.Holding{UniqueKey: key, TaskID: d.task.ID, Until: d.hold.until(now)}
	if taken, err := takeKey(ctx, tx, mine); err != nil || taken {
		return e.insertHeld(ctx, tx, d, now, err)
	}
	seen, found, err := holderOf(ctx, tx, key)
	if err != nil || !found {
		return heldBy{again: true}, err
	}
	solo := false
	if d.hold.rewrites() {
		if solo, _, err = store.LockSolo(ctx, tx, key.Namespace, seen.TaskID); err != nil {
			return out, err
		}
	}
	holder, found, err := lockHolder(ctx, tx, key)
	if err != nil || !found || holder.TaskID != seen.TaskID {
		return heldBy{again: true}, err
	}
	older, err := store.GetTask(ctx, tx, key.Namespace, holder.TaskID)
	gone := pawl.CodeOf(err) == pawl.CodeNotFound // retention has removed it
	if err != nil && !gone {
		return out, err
	}
	if now, err = store.NowAgain(ctx, tx); err != nil {
		return out, err
	}
	live := !gone && !older.State.Over()
	if gone {
		older.ID, older.State = holder.TaskID, removedByRetention
	}
	if live && solo && d.task.Solo {
		if queued, done, err := e.rewrite(ctx, tx, d, older, holder.Until, now); err != nil || done {
			return heldBy{older: older.ID, queued: queued}, err
		}
	}
	if u := d.hold.unique; u != nil && (live || now < holder.Until) {
		if u.OnConflict == pawl.OnConflictReturn && !gone {
			return heldBy{older: older.ID}, nil
		}
		return out, taken(older)
	}
	mine.Until = d.hold.until(now)
	return e.insertHeld(ctx, tx, d, now, takeKeyOver(ctx, tx, mine))
}

// removedByRetention is the state of a task in the refusal of taken.
const removedByRetention = "removed by retention"

// taken is the refusal of a task whose key another task has.
func taken(older pawl.Task) error {
	return &pawl.Error{Code: pawl.CodeConflict, Op: "create", TaskID: older.ID,
		Message: "the task " + older.ID + " has the same key, and is " + string(older.State)}
}

// rewrites reports whether the call may change the older task.
func (h *hold) rewrites() bool {
	return h.debounce != nil || h.unique.OnConflict == pawl.OnConflictReplace
}

// insertHeld inserts a task that has its key, unless err says why it has not.
func (e *Engine) insertHeld(ctx context.Context, tx store.Tx, d *draft, now int64, err error) (heldBy, error) {
	if err != nil {
		return heldBy{}, err
	}
	if b := d.hold.debounce; b != nil {
		at := now + int64(b.Seconds)*microseconds
		d.items[0].RunAt = &at
	}
	made, err := insertDrafts(ctx, tx, e.db.Dialect().Hot, []draft{*d})
	if err != nil {
		return heldBy{}, err
	}
	return heldBy{now: made[0].now}, nil
}

// rewrite gives the older task, which is locked, the payload of a draft, and if it is debounced
// another time. It does nothing if a worker has claimed the item, or it has become due. latest
// is the latest time of a debounced task.
func (e *Engine) rewrite(ctx context.Context, tx store.Tx, d *draft, older pawl.Task, latest, now int64) ([]store.DueItem, bool, error) {
	states := []string{string(pawl.ItemScheduled)}
	if d.hold.debounce == nil {
		states = append(states, string(pawl.ItemQueued))
	}
	row, err := takeUnclaimed(ctx, tx, older.ID, states...)
	if err != nil || row == nil {
		return nil, false, err
	}
	b := d.hold.debounce
	if row.Type != d.items[0].Type || b != nil && *row.RunAt <= now {
		return nil, false, store.Put(ctx, tx, []store.StateRow{*row})
	}
	r := store.Rewriting{Before: older, Input: d.items[0].Input, Row: *row, Actor: actor(pawl.CallerOf(ctx), pawl.ActorAPI, "")}
	if b != nil {
		at := min(now+int64(b.Seconds)*microseconds, latest)
		r.RunAt = &at
	}
	if err := e.fitsOlder(ctx, tx, d, older); err != nil {
		return nil, false, err
	}
	if err := e.k.Blobs.Before(ctx, e.k, d.blobs()); err != nil {
		return nil, false, err
	}
	if err := e.k.Blobs.Refer(ctx, tx, now, "create", older.ID, d.blobs()); err != nil {
		return nil, false, err
	}
	like := []store.NewItem{{Namespace: older.Namespace, TaskID: older.ID, Type: row.Type, Input: r.Input}}
	if err := e.gateMore(ctx, tx, like); err != nil {
		return nil, false, err
	}
	r.Row.Gate = like[0].Gate
	if err := r.Rewrite(ctx, tx, now); err != nil || r.Row.State != string(pawl.ItemQueued) {
		return nil, true, err
	}
	return []store.DueItem{{Namespace: older.Namespace, ItemID: row.ItemID, Type: row.Type, Rank: row.Rank}}, true, nil
}

// fitsOlder checks a payload by the version of the type that the older task has.
func (e *Engine) fitsOlder(ctx context.Context, tx store.Tx, d *draft, older pawl.Task) error {
	if older.TypeVersion == d.task.TypeVersion {
		return nil
	}
	r, err := tasktypes.Of(e.taskTypes).In(ctx, tx, older.Namespace, older.Type, older.TypeVersion)
	if err != nil {
		return err
	}
	return r.CheckInput(d.hold.given)
}

// uniqueKey returns the key that a new task asks for by its Unique or Debounce; "" = none.
// Keys of different kinds are never equal.
func uniqueKey(t *pawl.NewTask) (string, error) {
	switch {
	case t.Debounce != nil:
		return "debounce:" + t.Debounce.Key, nil
	case t.Unique == nil:
		return "", nil
	case t.Unique.By == pawl.UniqueByKey:
		return callersKey(t.Unique.Key), nil
	}
	hash, err := contentHash(t)
	return "input:" + hash, err
}

// callersKey returns the key of a task that is unique by a key of its caller, as it is stored.
func callersKey(key string) string { return "key:" + key }

// contentHash returns the hash of a task's payload and items.
func contentHash(t *pawl.NewTask) (string, error) {
	return pawl.HashOf(struct {
		Payload json.RawMessage `json:"payload"`
		Items   []pawl.NewItem  `json:"items"`
	}{json.RawMessage(rules.OrNull(t.Payload)), t.Items})
}

// takeKey gives a key to a task, unless a task has it. It waits for calls that are taking the
// key at the moment.
func takeKey(ctx context.Context, tx store.Tx, h store.Holding) (bool, error) {
	n, err := tx.Exec(ctx, uniqueSQL["take key"], h.Namespace, h.Type, h.Key, store.TaskID(h.TaskID), h.Until)
	return n > 0, err
}

// holderOf reads which task has a key.
func holderOf(ctx context.Context, tx store.Tx, key store.UniqueKey) (store.Holding, bool, error) {
	return holderOfWrite(ctx, tx, "holder of key", key)
}

// lockHolder is HolderOf, and keeps other transactions from giving the key to another task.
// The task is locked before, if it is locked at all.
func lockHolder(ctx context.Context, tx store.Tx, key store.UniqueKey) (store.Holding, bool, error) {
	return holderOfWrite(ctx, tx, "holder of key locked", key)
}

func holderOfWrite(ctx context.Context, tx store.Tx, query string, key store.UniqueKey) (store.Holding, bool, error) {
	h := store.Holding{UniqueKey: key}
	found, err := store.Row(ctx, tx, []any{(*store.TaskID)(&h.TaskID), &h.Until}, uniqueSQL[query], key.Namespace, key.Type, key.Key)
	return h, found, err
}

// takeKeyOver gives a locked key to another task.
func takeKeyOver(ctx context.Context, tx store.Tx, h store.Holding) error {
	_, err := tx.Exec(ctx, uniqueSQL["take key over"], h.Namespace, h.Type, h.Key, store.TaskID(h.TaskID), h.Until)
	return err
}

// takeUnclaimed removes the row of the item of a task of one, which LockSolo has locked, if no
// worker has claimed it yet. The caller puts it back. The row is removed and inserted, not
// updated: a claim that began before reads the older payload, and must not find the item.
func takeUnclaimed(ctx context.Context, tx store.Tx, taskID string, states ...string) (*store.StateRow, error) {
	ids, err := store.ItemIDs(ctx, tx, uniqueSQL["only item of task"], store.TaskID(taskID))
	if err != nil || len(ids) == 0 {
		return nil, err
	}
	held, err := store.Take(ctx, tx, ids, states)
	if err != nil || len(held) == 0 {
		return nil, err
	}
	if held[0].Attempt > 0 {
		return nil, store.Put(ctx, tx, held)
	}
	return &held[0], nil
}
