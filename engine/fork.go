package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/engine/internal/archives"
	"github.com/pawl-work/pawl/internal/idform"
	"github.com/pawl-work/pawl/store"
)

// ForkTasks creates tasks that go on from a checkpoint of another one; see pawl.TaskForker.
func (e *Engine) ForkTasks(ctx context.Context, calls []pawl.TaskFork) ([]pawl.Result[pawl.Task], error) {
	return copies(ctx, e, "fork", idform.Calls(calls), func(call *pawl.TaskFork) (copying, error) {
		return copying{op: "fork", taskID: call.TaskID, like: &pawl.TaskClone{}, checkpoints: true, at: call.Checkpoint}, checkFork(call)
	})
}

// forkable is what is read of a task that is forked.
type forkable struct {
	task  pawl.Task
	items []pawl.Item
	rows  *store.Fork
}

// forked drafts a fork, or a clone that has the checkpoints too: a fork at the newest of them.
func (e *Engine) forked(ctx context.Context, c *copying, room copyRoom) (draft, error) {
	of, err := e.readForkable(ctx, c, room)
	if err != nil {
		return draft{}, err
	}
	t := cloneOf(of.task, workOf(of.items), c.like)
	d, err := e.draft(ctx, &t, c.taskID, &drafting{stored: true, fork: &pawl.TaskFork{TaskID: c.taskID, Checkpoint: of.rows.At}})
	if err != nil {
		return draft{}, err
	}
	d.fork = of.rows
	return d, e.giveCheckpoints(&d, of.items)
}

// readForkable reads a task from its rows, or from its archive if it has been archived.
func (e *Engine) readForkable(ctx context.Context, c *copying, room copyRoom) (of forkable, err error) {
	ns := pawl.CallerOf(ctx).Namespace
	read := func(ctx context.Context, tx store.Tx, archived bool) (err error) {
		if of.task, of.items, err = original(ctx, tx, ns, c.taskID, room); err == nil {
			of.rows, err = store.ReadFork(ctx, tx, ns, c.taskID, c.at, room.rows-len(of.items), archived)
		}
		if err == store.ErrTooMany {
			err = errManyRows
		}
		return err
	}
	err = e.db.View(ctx, func(ctx context.Context, tx store.Tx) error { return read(ctx, tx, false) })
	if noTask(err) {
		c.archived, room.rows = true, max(room.rows, pawl.MaxCopyRows) // it is not copied in parts
		var uploads [][]byte
		err = e.db.View(ctx, func(ctx context.Context, tx store.Tx) (err error) {
			uploads, err = store.UploadsOf(ctx, tx, c.taskID) // its archive has no references to them
			return err
		})
		if err == nil {
			err = archives.Of(e.archived).Peek(ctx, e.db, ns, c.taskID, read)
		}
		switch {
		case err == nil:
			of.rows.Uploads = uploads
		case noTask(err):
			err = pawl.NotFound("task", c.taskID)
		}
	}
	return of, err
}

// noTask tells a task that is not there from a checkpoint that is not there.
func noTask(err error) bool {
	var e *pawl.Error
	return errors.As(err, &e) && e.Code == pawl.CodeNotFound && e.Kept == nil
}

// giveCheckpoints gives the checkpoints of a draft their ids, and the items of the draft: each
// one that of the item that it is a copy of. A plan item that has not planned yet is made again.
// Checkpoints of other plan and apply items are left out.
func (e *Engine) giveCheckpoints(d *draft, items []pawl.Item) (err error) {
	copyOf, at := map[string]string{"": ""}, 0
	for _, it := range items {
		switch {
		case it.Kind == pawl.KindWork && at < len(d.items):
			copyOf[it.ID] = d.items[at].ID
			at++
		case it.Kind == pawl.KindPlan && d.plans:
			copyOf[it.ID] = d.items[0].ID
		}
	}
	d.fork.Effects = e.referToEffects(d.fork.Effects, d.task.ID, copyOf)
	d.fork.CopyRounds(copyOf)
	d.fork.Checkpoints, err = e.copiedCheckpoints(d.fork.Checkpoints, d.fork.At, copyOf)
	return err
}

// referToEffects returns what stands in a copy for the effects of the original, each in the copy of its
// item.
func (e *Engine) referToEffects(rows []store.EffectRow, taskID string, copyOf map[string]string) (out []store.EffectRow) {
	for i := range rows {
		f := &rows[i]
		item, copied := copyOf[f.ItemID]
		if !copied {
			continue
		}
		key := f.Key
		if rest, own := strings.CutPrefix(key, f.ItemID); own { // a default key, or that of a gate: the copy's is of its own item
			key = item + rest
		}
		out = append(out, f.Reference(e.k.IDs.Next("eff"), taskID, item, key))
	}
	return out
}

// copiedCheckpoints gives checkpoints, of which the last one of a task is number last, new ids and
// the items of a copy.
func (e *Engine) copiedCheckpoints(rows []store.CheckpointRow, last int64, copyOf map[string]string) ([]store.CheckpointRow, error) {
	rows = slices.DeleteFunc(rows, func(c store.CheckpointRow) bool {
		_, copied := copyOf[c.ItemID]
		return !copied && c.Sequence != last
	})
	for i := range rows {
		c := &rows[i]
		item, copied := copyOf[c.ItemID]
		if !copied {
			return nil, &pawl.Error{Code: pawl.CodeConflict, Op: "fork", Allowed: []string{}, Message: fmt.Sprintf(
				"checkpoint %d is of item %s, which plans or applies the task: a fork does not have that item", c.Sequence, c.ItemID)}
		}
		c.ID, c.ItemID = e.k.IDs.Next("ckp"), item
	}
	return rows, nil
}
