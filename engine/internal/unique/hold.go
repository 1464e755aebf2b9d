package unique

import (
	"context"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/engine/internal/kernel"
	"github.com/pawl-work/pawl/engine/internal/rules"
	"github.com/pawl-work/pawl/store"
)

// tries bounds how often a create looks again that finds its key in other hands than a
// moment before.
const tries = 20

// Ask is the key that a new task is to have, and what its call says about it.
type Ask struct {
	text     string
	unique   *pawl.Unique
	debounce *pawl.Debounce
}

// New returns the key that a new task asks for by its Unique or Debounce; nil = none.
// Keys of different kinds are never equal.
func New(t *pawl.NewTask) (*Ask, error) {
	a := &Ask{unique: t.Unique, debounce: t.Debounce}
	switch {
	case t.Debounce != nil:
		a.text = "debounce:" + t.Debounce.Key
	case t.Unique == nil:
		return nil, nil
	case t.Unique.By == pawl.UniqueByKey:
		a.text = "key:" + t.Unique.Key
	default:
		hash, err := rules.ContentHash(t)
		if err != nil {
			return nil, err
		}
		a.text = "input:" + hash
	}
	return a, nil
}

// newTask is the task that is to have a key.
type newTask interface {
	Row() *store.NewTask
	// Insert inserts it, debounced until a time; nil = it is not. It returns the time at which it was made.
	Insert(ctx context.Context, tx store.Tx, until *int64) (now int64, err error)
	// Rewrite gives an older task of one item, which is locked, its payload, and puts it off until a time; nil = it stays. It
	// does nothing if a worker has claimed the item, or it has become due.
	Rewrite(ctx context.Context, tx store.Tx, older pawl.Task, until *int64, now int64) (queued []store.DueItem, done bool, err error)
	// Made is the answer after the commit.
	Made(now int64) pawl.Task
}

// until returns until when a key is held that a task gets now, even if the task ends.
func (a *Ask) until(now int64) int64 {
	if a.debounce == nil {
		return now + int64(a.unique.WindowSeconds)*second
	}
	longest := a.debounce.MaxSeconds
	if longest == 0 {
		longest = a.debounce.Seconds * pawl.DebounceMaxTimes
	}
	return now + int64(longest)*second
}

const second = 1_000_000 // microseconds

// later returns the time until which a task is put off now, at most latest; nil = it is not debounced.
func (a *Ask) later(now, latest int64) *int64 {
	if a.debounce == nil {
		return nil
	}
	at := min(now+int64(a.debounce.Seconds)*second, latest)
	return &at
}

// Rewrites reports whether the call may change the older task.
func (a *Ask) Rewrites() bool {
	return a.debounce != nil || a.unique.OnConflict == pawl.OnConflictReplace
}

// heldBy is the outcome of a create with a key.
type heldBy struct {
	again  bool            // the key changed hands meanwhile
	older  string          // the task that has the key; "" = the new one
	now    int64           // of the creation of the new one
	queued []store.DueItem // the item of the older one, whose row was written anew
}

// Create creates a task that is to have the key, or answers with the task that has it.
func (a *Ask) Create(ctx context.Context, k *kernel.Kernel, t newTask) (pawl.Task, error) {
	for range tries {
		var h heldBy
		err := k.DB.Do(ctx, func(ctx context.Context, tx store.Tx) (err error) {
			h, err = a.hold(ctx, tx, t)
			return err
		})
		switch {
		case err != nil:
			return pawl.Task{}, err
		case h.again:
		case h.older == "":
			return t.Made(h.now), nil
		default:
			k.Tasks(kernel.Origin{}).Follow(ctx, kernel.After{Queued: h.queued})
			older, err := k.Verbs(k).GetTask(ctx, h.older)
			if pawl.CodeOf(err) == pawl.CodeNotFound { // it was removed since
				continue
			}
			older.Deduplicated = true
			return older, err
		}
	}
	return pawl.Task{}, &pawl.Error{Code: pawl.CodeUnavailable, Op: "create", Message: "the key is being taken by others; try again"}
}

// hold is a try of Create. The key is inserted first: a call that finds none reads
// nothing. Otherwise its holder is read, locked if it is to be changed, and then the key is
// locked: the order in which a deletion locks too.
func (a *Ask) hold(ctx context.Context, tx store.Tx, t newTask) (out heldBy, err error) {
	now, err := tx.Now(ctx)
	if err != nil {
		return out, err
	}
	row := t.Row()
	mine := holding{key: key{row.Namespace, row.Type, a.text}, taskID: row.ID, until: a.until(now)}
	insert := func(err error) (heldBy, error) { // unless err says why the task has not got its key
		if err == nil {
			now, err = t.Insert(ctx, tx, a.later(now, mine.until))
		}
		return heldBy{now: now}, err
	}
	if taken, err := mine.take(ctx, tx); err != nil || taken {
		return insert(err)
	}
	seen, found, err := mine.holder(ctx, tx, "holder of key")
	if err != nil || !found {
		return heldBy{again: true}, err
	}
	solo := false
	if a.Rewrites() {
		if solo, err = store.LockSolo(ctx, tx, row.Namespace, seen.taskID); err != nil {
			return out, err
		}
	}
	holder, found, err := mine.holder(ctx, tx, "holder of key locked")
	if err != nil || !found || holder.taskID != seen.taskID {
		return heldBy{again: true}, err
	}
	older, err := store.GetTask(ctx, tx, row.Namespace, holder.taskID)
	gone := pawl.CodeOf(err) == pawl.CodeNotFound // retention has removed it
	if err != nil && !gone {
		return out, err
	}
	if now, err = store.NowAgain(ctx, tx); err != nil {
		return out, err
	}
	live := !gone && !older.State.Over()
	if gone {
		older.ID, older.State = holder.taskID, rules.RemovedByRetention
	}
	if live && solo && row.Solo {
		if queued, done, err := t.Rewrite(ctx, tx, older, a.later(now, holder.until), now); err != nil || done {
			return heldBy{older: older.ID, queued: queued}, err
		}
	}
	if u := a.unique; u != nil && (live || now < holder.until) {
		if u.OnConflict == pawl.OnConflictReturn && !gone {
			return heldBy{older: older.ID}, nil
		}
		return out, rules.KeyTaken(older)
	}
	mine.until = a.until(now)
	return insert(mine.takeOver(ctx, tx))
}

// key is a key that one task of a type holds.
type key struct{ namespace, typ, text string }

// holding is a key with the task that holds it. until is the end of its window, or of a
// debounced task the latest run_at, in microseconds.
type holding struct {
	key
	taskID string
	until  int64
}

func (h *holding) args() []any {
	return []any{h.namespace, h.typ, h.text, store.TaskID(h.taskID), h.until}
}

// take gives the key to the task, unless a task has it. It waits for calls that are taking the
// key at the moment.
func (h *holding) take(ctx context.Context, tx store.Tx) (bool, error) {
	n, err := tx.Exec(ctx, texts["take key"], h.args()...)
	return n > 0, err
}

// takeOver gives the key, which is locked, to the task.
func (h *holding) takeOver(ctx context.Context, tx store.Tx) error {
	_, err := tx.Exec(ctx, texts["take key over"], h.args()...)
	return err
}

// holder reads which task has a key. A query that locks it keeps other transactions from giving the key to another task; the
// task is locked before, if it is locked at all.
func (k key) holder(ctx context.Context, tx store.Tx, query string) (holding, bool, error) {
	h := holding{key: k}
	found, err := store.Row(ctx, tx, []any{(*store.TaskID)(&h.taskID), &h.until}, texts[query], k.namespace, k.typ, k.text)
	return h, found, err
}

// Holder reads which task of a type has the key; "" = none.
func (a *Ask) Holder(ctx context.Context, tx store.Tx, namespace, typ string) (taskID string, err error) {
	h, _, err := key{namespace, typ, a.text}.holder(ctx, tx, "holder of key")
	return h.taskID, err
}
