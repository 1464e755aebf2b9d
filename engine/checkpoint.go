package engine

import (
	"context"
	"fmt"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/engine/internal/rules"
	"github.com/pawl-work/pawl/store"
)

// Checkpoint saves checkpoints under leases; see pawl.Recorder.
func (e *Engine) Checkpoint(ctx context.Context, calls []pawl.CheckpointCall) ([]pawl.Result[pawl.CheckpointRef], error) {
	c := pawl.CallerOf(ctx)
	v := fenced[pawl.CheckpointCall, store.Checkpoint, store.Checkpointed, pawl.CheckpointRef]{
		op:        "checkpoint",
		committer: e.committers.checkpoint,
		fence:     func(p *pawl.CheckpointCall) pawl.Fence { return p.Fence },
		check:     (*rules.Fields).Checkpoint,
		row: func(_ int, p *pawl.CheckpointCall) store.Checkpoint {
			return store.Checkpoint{Fence: fenceRow(c, p.Fence), ID: e.ids.next("ckp"), Type: p.Type, Name: store.Text(p.Name),
				ArgsHash: store.Text(p.ArgsHash), Snapshot: rules.OrNull(p.Snapshot), Metadata: store.Text(p.Metadata)}
		},
		answer: func(_ *pawl.CheckpointCall, a *store.Checkpointed) (pawl.CheckpointRef, effects) {
			return pawl.CheckpointRef{ID: a.ID, Sequence: a.Seq}, effects{}
		},
	}
	out, _, err := v.do(ctx, e, calls)
	return out, err
}

// CheckpointTasks saves checkpoints of tasks; see pawl.TaskMaker. It refuses a task that
// has ended.
func (e *Engine) CheckpointTasks(ctx context.Context, calls []pawl.TaskCheckpoint) ([]pawl.Result[pawl.CheckpointRef], error) {
	if err := rules.CheckBatch("checkpoint", len(calls)); err != nil {
		return nil, err
	}
	c := pawl.CallerOf(ctx)
	out := make([]pawl.Result[pawl.CheckpointRef], len(calls))
	for i := range calls {
		p := &calls[i]
		if out[i].Err = rules.CheckTaskCheckpoint(p); out[i].Err != nil {
			continue
		}
		ref := pawl.CheckpointRef{ID: e.ids.next("ckp")}
		err := e.db.Do(ctx, func(ctx context.Context, tx store.Tx) error {
			now, err := tx.Now(ctx)
			if err != nil {
				return err
			}
			state, err := store.TaskState(ctx, tx, c.Namespace, p.TaskID)
			if err != nil {
				return err
			}
			if pawl.TaskState(state).Ended() {
				return rules.Conflict("checkpoint", state, pawl.TaskState(state).Allowed())
			}
			by := actor(c, pawl.ActorUser, "")
			ref.Sequence, err = store.SaveTaskCheckpoint(ctx, tx, now, store.TaskCheckpoint{Namespace: c.Namespace, TaskID: p.TaskID,
				ID: ref.ID, Type: p.Type, Name: store.Text(p.Name), ArgsHash: store.Text(p.ArgsHash),
				Snapshot: rules.OrNull(p.Snapshot), Metadata: store.Text(p.Metadata), Actor: by})
			return err
		})
		if out[i].Value, out[i].Err = ref, err; err != nil {
			if pawl.CodeOf(err) == pawl.CodeUnavailable {
				return nil, fmt.Errorf("checkpoint: %w", err)
			}
		}
	}
	return out, nil
}
