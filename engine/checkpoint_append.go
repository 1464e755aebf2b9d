package engine

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/engine/internal/rules"
	"github.com/pawl-work/pawl/internal/idform"
	"github.com/pawl-work/pawl/store"
)

// CheckpointTasks saves checkpoints of tasks; see pawl.TaskMaker. It refuses a task that
// has ended.
func (e *Engine) CheckpointTasks(ctx context.Context, calls []pawl.TaskCheckpoint) ([]pawl.Result[pawl.CheckpointRef], error) {
	calls = idform.Calls(calls)
	return eachOwn(ctx, e, "checkpoint", calls, func(ctx context.Context, c *pawl.TaskCheckpoint) (pawl.CheckpointRef, error) {
		if err := checkTaskCheckpoint(c); err != nil {
			return pawl.CheckpointRef{}, err
		}
		out, err := e.appendOwn(ctx, "checkpoint", &pawl.CheckpointAppend{TaskID: c.TaskID,
			Checkpoints: []pawl.AppendedCheckpoint{{NewCheckpoint: c.NewCheckpoint}}})
		if err != nil {
			return pawl.CheckpointRef{}, err
		}
		return out.Checkpoints[0].CheckpointRef, nil
	})
}

// AppendCheckpoints appends checkpoints to tasks; see pawl.CheckpointKeeper.
func (e *Engine) AppendCheckpoints(ctx context.Context, calls []pawl.CheckpointAppend) ([]pawl.Result[pawl.CheckpointsAppended], error) {
	calls = idform.Calls(calls)
	return eachOwn(ctx, e, "append", calls, func(ctx context.Context, c *pawl.CheckpointAppend) (pawl.CheckpointsAppended, error) {
		if err := checkCheckpointAppend(c); err != nil {
			return pawl.CheckpointsAppended{}, err
		}
		if c.Create == nil {
			return e.appendOwn(ctx, "append", c)
		}
		rs, err := e.CreateTasks(ctx, []pawl.NewTask{*c.Create})
		if err == nil {
			err = rs[0].Err
		}
		if err != nil {
			return pawl.CheckpointsAppended{}, err
		}
		to := *c
		to.TaskID = rs[0].Value.ID
		return e.appendOwn(ctx, "append", &to)
	})
}

// eachOwn carries out calls about the checkpoints that tasks have themselves, one after the other,
// each in a transaction of its own. An error of the database ends the batch.
func eachOwn[C, V any](ctx context.Context, e *Engine, op string, calls []C,
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

// appendOwn appends checkpoints that were checked.
func (e *Engine) appendOwn(ctx context.Context, op string, c *pawl.CheckpointAppend) (out pawl.CheckpointsAppended, err error) {
	caller := pawl.CallerOf(ctx)
	a := store.OwnAppend{Op: op, Namespace: caller.Namespace, TaskID: c.TaskID, By: actor(caller, pawl.ActorUser, ""), Expected: c.Expected,
		Checkpoints: make([]store.OwnCheckpoint, len(c.Checkpoints)), Prune: c.Prune}
	for i := range c.Checkpoints {
		p := &c.Checkpoints[i]
		if err := e.referTask(ctx, op, c.TaskID, blobsIn(p.Snapshot)); err != nil {
			return out, err
		}
		snapshot, err := e.snapshot(ctx, snapshotOf{text: store.Text(rules.OrNull(p.Snapshot)), taskID: c.TaskID, name: p.Name})
		if err != nil {
			return out, err
		}
		a.Checkpoints[i] = store.OwnCheckpoint{OnConflict: p.OnConflict, SavedCheckpoint: store.SavedCheckpoint{ID: e.k.IDs.Next("ckp"),
			Type: p.Type, Name: store.Text(p.Name), ArgsHash: store.Text(p.ArgsHash), Snapshot: snapshot, Metadata: store.Text(p.Metadata)}}
	}
	err = e.db.Do(ctx, func(ctx context.Context, tx store.Tx) error {
		now, err := tx.Now(ctx)
		if err == nil {
			out, err = a.Append(ctx, tx, now)
		}
		return err
	})
	if err != nil {
		return pawl.CheckpointsAppended{}, err
	}
	return out, nil
}

// PruneCheckpoints removes checkpoints by rules; see pawl.CheckpointKeeper.
func (e *Engine) PruneCheckpoints(ctx context.Context, calls []pawl.CheckpointPrune) ([]pawl.Result[pawl.CheckpointsPruned], error) {
	calls = idform.Calls(calls)
	caller := pawl.CallerOf(ctx)
	return eachOwn(ctx, e, "prune", calls, func(ctx context.Context, c *pawl.CheckpointPrune) (out pawl.CheckpointsPruned, err error) {
		if err := checkPrune(c); err != nil {
			return out, err
		}
		p := store.OwnAppend{Op: "prune", Namespace: caller.Namespace, TaskID: c.TaskID, By: actor(caller, pawl.ActorUser, ""), Prune: c.Rules}
		err = e.db.Do(ctx, func(ctx context.Context, tx store.Tx) error {
			now, err := tx.Now(ctx)
			if err == nil {
				out, err = p.PruneOnly(ctx, tx, now)
			}
			return err
		})
		return out, err
	})
}

// checkCheckpointAppend checks the call that appends checkpoints to a task.
func checkCheckpointAppend(c *pawl.CheckpointAppend) error {
	var f rules.Fields
	switch {
	case c.Create == nil:
		f.Text("/task_id", c.TaskID, 1, pawl.MaxIDLen)
	case c.TaskID != "":
		f.Add("/create", "is given in place of task_id")
	case c.Create.DryRun:
		f.Add("/create/dry_run", "is not possible here")
	}
	if n := len(c.Checkpoints); n == 0 || n > pawl.MaxAppendCheckpoints {
		f.Add("/checkpoints", "has %d checkpoints; 1 to %d are allowed", n, pawl.MaxAppendCheckpoints)
		return f.Err("append")
	}
	if c.Expected != nil && *c.Expected < 0 {
		f.Add("/expected", "is %d; it must be the number of a checkpoint, or 0 for none", *c.Expected)
	}
	given, room := map[string]bool{}, callBytes{Op: "append"}
	for i := range c.Checkpoints {
		p, at := &c.Checkpoints[i], fmt.Sprintf("/checkpoints/%d", i)
		f.CheckpointAt(at, &p.NewCheckpoint, pawl.TaskCheckpointTypes)
		if p.OnConflict != "" {
			if !slices.Contains(pawl.NameConflicts, p.OnConflict) {
				f.Add(at+"/on_conflict", "is %q; it must be one of %s", p.OnConflict, strings.Join(pawl.NameConflicts, ", "))
			}
			if p.Name == "" {
				f.Add(at+"/name", "is required with on_conflict")
			}
		}
		if given[p.Name] && (p.OnConflict != "" || given["\x00"+p.Name]) {
			f.Add(at+"/name", "is the name of another checkpoint of the call, which on_conflict excludes")
		}
		given[p.Name], given["\x00"+p.Name] = true, given["\x00"+p.Name] || p.OnConflict != ""
		if err := room.Take(len(p.Snapshot) + len(p.Metadata)); err != nil {
			return err
		}
		if len(f) > 20 {
			break
		}
	}
	f.Rules("/prune", c.Prune, 0)
	return f.Err("append")
}

// checkPrune checks the call that removes checkpoints by rules.
func checkPrune(c *pawl.CheckpointPrune) error {
	var f rules.Fields
	f.Text("/task_id", c.TaskID, 1, pawl.MaxIDLen)
	f.Rules("/rules", c.Rules, 1)
	return f.Err("prune")
}
