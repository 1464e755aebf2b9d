package checkpoints

import (
	"context"
	"fmt"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/engine/internal/kernel"
	"github.com/pawl-work/pawl/engine/internal/rules"
	"github.com/pawl-work/pawl/internal/idform"
	"github.com/pawl-work/pawl/store"
)

// CheckpointTasks saves checkpoints of tasks; see pawl.TaskMaker. It refuses a task that
// has ended.
func (r *Checkpoints) CheckpointTasks(ctx context.Context, calls []pawl.TaskCheckpoint) ([]pawl.Result[pawl.CheckpointRef], error) {
	return each(ctx, "checkpoint", idform.Calls(calls), func(ctx context.Context, c *pawl.TaskCheckpoint) (pawl.CheckpointRef, error) {
		if err := checkOwn(c); err != nil {
			return pawl.CheckpointRef{}, err
		}
		out, err := r.save(ctx, "checkpoint", &pawl.CheckpointAppend{TaskID: c.TaskID,
			Checkpoints: []pawl.AppendedCheckpoint{{NewCheckpoint: c.NewCheckpoint}}})
		if err != nil {
			return pawl.CheckpointRef{}, err
		}
		return out.Checkpoints[0].CheckpointRef, nil
	})
}

// AppendCheckpoints appends checkpoints to tasks; see pawl.CheckpointKeeper.
func (r *Checkpoints) AppendCheckpoints(ctx context.Context, calls []pawl.CheckpointAppend) ([]pawl.Result[pawl.CheckpointsAppended],
	error) {
	return each(ctx, "append", idform.Calls(calls), func(ctx context.Context, c *pawl.CheckpointAppend) (pawl.CheckpointsAppended, error) {
		if err := checkAppend(c); err != nil {
			return pawl.CheckpointsAppended{}, err
		}
		if c.Create == nil {
			return r.save(ctx, "append", c)
		}
		rs, err := r.k.Verbs(r.k).CreateTasks(ctx, []pawl.NewTask{*c.Create})
		if err == nil {
			err = rs[0].Err
		}
		if err != nil {
			return pawl.CheckpointsAppended{}, err
		}
		to := *c
		to.TaskID = rs[0].Value.ID
		return r.save(ctx, "append", &to)
	})
}

// PruneCheckpoints removes checkpoints by rules; see pawl.CheckpointKeeper.
func (r *Checkpoints) PruneCheckpoints(ctx context.Context, calls []pawl.CheckpointPrune) ([]pawl.Result[pawl.CheckpointsPruned], error) {
	return each(ctx, "prune", idform.Calls(calls), func(ctx context.Context, c *pawl.CheckpointPrune) (out pawl.CheckpointsPruned, err error) {
		if err := checkPrune(c); err != nil {
			return out, err
		}
		p := appendTo(ctx, "prune", c.TaskID)
		p.Prune = c.Rules
		err = r.do(ctx, func(ctx context.Context, tx store.Tx, now int64) (err error) {
			out, err = p.pruneOnly(ctx, tx, now)
			return err
		})
		return out, err
	})
}

// each carries out calls about the checkpoints that tasks have themselves, one after the other,
// each in a transaction of its own. An error of the database ends the batch.
func each[C, V any](ctx context.Context, op string, calls []C,
	do func(ctx context.Context, c *C) (V, error)) ([]pawl.Result[V], error) {
	if err := rules.CheckBatch(op, len(calls)); err != nil {
		return nil, err
	}
	out := make([]pawl.Result[V], len(calls))
	for i := range calls {
		out[i].Value, out[i].Err = do(ctx, &calls[i])
		if pawl.CodeOf(out[i].Err) == pawl.CodeUnavailable {
			return nil, fmt.Errorf("%s: %w", op, out[i].Err)
		}
	}
	return out, nil
}

// appendTo is an append of a caller's to a task.
func appendTo(ctx context.Context, op, taskID string) appending {
	c := pawl.CallerOf(ctx)
	return appending{Op: op, Namespace: c.Namespace, TaskID: taskID, By: kernel.Actor(c, pawl.ActorUser, "")}
}

// save appends checkpoints that were checked.
func (r *Checkpoints) save(ctx context.Context, op string, c *pawl.CheckpointAppend) (out pawl.CheckpointsAppended, err error) {
	a := appendTo(ctx, op, c.TaskID)
	a.Expected, a.Checkpoints, a.Prune = c.Expected, make([]ownCheckpoint, len(c.Checkpoints)), c.Prune
	for i := range c.Checkpoints {
		p := &c.Checkpoints[i]
		if err := r.k.Keep(ctx, op, rules.BlobsIn(p.Snapshot), func(context.Context, store.Tx) (string, error) {
			return c.TaskID, nil
		}); err != nil {
			return out, err
		}
		snapshot, err := r.cache.snapshot(ctx, r.k, owner{taskID: c.TaskID}, p.Name, store.Text(rules.OrNull(p.Snapshot)))
		if err != nil {
			return out, err
		}
		a.Checkpoints[i] = ownCheckpoint{OnConflict: p.OnConflict, SavedCheckpoint: store.SavedCheckpoint{ID: r.k.IDs.Next("ckp"),
			Type: p.Type, Name: store.Text(p.Name), ArgsHash: store.Text(p.ArgsHash), Snapshot: snapshot, Metadata: store.Text(p.Metadata)}}
	}
	err = r.do(ctx, func(ctx context.Context, tx store.Tx, now int64) (err error) {
		out, err = a.append(ctx, tx, now)
		return err
	})
	if err != nil {
		return pawl.CheckpointsAppended{}, err
	}
	return out, nil
}

func (r *Checkpoints) do(ctx context.Context, fn func(ctx context.Context, tx store.Tx, now int64) error) error {
	return store.Sweeping{DB: r.k.DB}.In(ctx, fn)
}
