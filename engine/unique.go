package engine

import (
	"context"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/engine/internal/tasktypes"
	"github.com/pawl-work/pawl/engine/internal/unique"
	"github.com/pawl-work/pawl/store"
)

// holds gives a draft the key that its call asks for. stored says that the call was accepted before.
func (d *draft) holds(t *pawl.NewTask, stored bool) (err error) {
	if d.hold, err = unique.New(t); err != nil {
		return err
	}
	d.given = t
	if t.Debounce != nil && !d.task.Solo {
		return pawl.Invalid("/debounce", "is for tasks of one item, and not for types that plan items")
	}
	if d.hold.Rewrites() && len(t.Messages) > 0 && !stored { // a schedule of before may have them
		return pawl.Invalid("/messages", "are lost where an older task takes the payload: put them into the payload, or send them to the task")
	}
	return nil
}

// held is a draft that is to have a key, as the room of keys sees it.
type held struct {
	*Engine
	d *draft
}

// Row returns the row of the task.
func (h held) Row() *store.NewTask { return &h.d.task }

// Insert inserts the task, debounced until a time; nil = it is not.
func (h held) Insert(ctx context.Context, tx store.Tx, until *int64) (int64, error) {
	if until != nil {
		h.d.items[0].RunAt = until
	}
	made, err := h.insertDrafts(ctx, tx, []draft{*h.d})
	if err != nil {
		return 0, err
	}
	return made[0].now, nil
}

// Made tells this process of the task, and returns the answer.
func (h held) Made(now int64) pawl.Task {
	h.after(func() { h.created([]draft{*h.d}, now) })
	return h.d.Answer(now)
}

// Rewrite gives the older task, which is locked, the payload of the draft, and if it is debounced
// another time. It does nothing if a worker has claimed the item, or it has become due.
func (h held) Rewrite(ctx context.Context, tx store.Tx, older pawl.Task, until *int64, now int64) ([]store.DueItem, bool, error) {
	states, d := []string{string(pawl.ItemScheduled)}, h.d
	if until == nil {
		states = append(states, string(pawl.ItemQueued))
	}
	r := store.Rewriting{Before: older, Input: d.items[0].Input, RunAt: until, Actor: actor(pawl.CallerOf(ctx), pawl.ActorAPI, "")}
	if took, err := r.Take(ctx, tx, states...); err != nil || !took {
		return nil, false, err
	}
	if r.Row.Type != d.items[0].Type || until != nil && *r.Row.RunAt <= now {
		return nil, false, r.PutBack(ctx, tx)
	}
	if err := h.fitsOlder(ctx, tx, d, older); err != nil {
		return nil, false, err
	}
	if err := h.k.Blobs.Before(ctx, h.k, d.blobs()); err != nil {
		return nil, false, err
	}
	if err := h.k.Blobs.Refer(ctx, tx, now, "create", older.ID, d.blobs()); err != nil {
		return nil, false, err
	}
	like := []store.NewItem{{Namespace: older.Namespace, TaskID: older.ID, Type: r.Row.Type, Input: r.Input}}
	if err := h.gateMore(ctx, tx, like); err != nil {
		return nil, false, err
	}
	r.Row.Gate = like[0].Gate
	if err := r.Rewrite(ctx, tx, now); err != nil || r.Row.State != string(pawl.ItemQueued) {
		return nil, true, err
	}
	return []store.DueItem{{Namespace: older.Namespace, ItemID: r.Row.ItemID, Type: r.Row.Type, Rank: r.Row.Rank}}, true, nil
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
	return r.CheckInput(d.given)
}
