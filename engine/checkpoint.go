package engine

import (
	"context"
	"slices"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/engine/internal/rules"
	"github.com/pawl-work/pawl/internal/idform"
	"github.com/pawl-work/pawl/store"
)

// Checkpoint saves checkpoints under leases; see pawl.Recorder.
func (e *Engine) Checkpoint(ctx context.Context, calls []pawl.CheckpointCall) ([]pawl.Result[pawl.CheckpointRef], error) {
	calls = idform.Calls(calls)
	if err := e.acts(ctx, "checkpoint"); err != nil {
		return nil, err
	}
	large := func(c pawl.CheckpointCall) bool { return len(c.Snapshot) >= pawl.MinBlobBytes }
	if !slices.ContainsFunc(calls, large) {
		return e.checkpointSmall(ctx, calls)
	}
	if err := rules.CheckBatch("checkpoint", len(calls)); err != nil {
		return nil, err
	}
	var out []pawl.Result[pawl.CheckpointRef]
	for len(calls) > 0 { // in order: the checkpoints are numbered
		n := slices.IndexFunc(calls, large)
		if n == 0 {
			ref, err := e.checkpointLarge(ctx, &calls[0])
			out, calls = append(out, pawl.Result[pawl.CheckpointRef]{Value: ref, Err: err}), calls[1:]
			continue
		}
		if n < 0 {
			n = len(calls)
		}
		some, err := e.checkpointSmall(ctx, calls[:n])
		if err != nil {
			return nil, err
		}
		out, calls = append(out, some...), calls[n:]
	}
	return out, nil
}

// checkpointLarge saves a checkpoint whose snapshot is stored as a blob.
func (e *Engine) checkpointLarge(ctx context.Context, c *pawl.CheckpointCall) (pawl.CheckpointRef, error) {
	var f rules.Fields
	f.Fence(c.Fence)
	f.Checkpoint(c)
	if err := f.Err("checkpoint"); err != nil {
		return pawl.CheckpointRef{}, err
	}
	if err := e.ours(ctx, c.Fence); err != nil {
		return pawl.CheckpointRef{}, err
	}
	if err := e.referItem(ctx, "checkpoint", c.ItemID, blobsIn(c.Snapshot)); err != nil {
		return pawl.CheckpointRef{}, err
	}
	snapshot, err := e.k.Snapshots.OfItem(ctx, e.k, c.ItemID, c.Name, store.Text(c.Snapshot))
	if err != nil {
		return pawl.CheckpointRef{}, err
	}
	ref := pawl.CheckpointRef{ID: e.k.IDs.Next("ckp")}
	err = e.k.Held(ctx, c.Fence, "checkpoint", func(ctx context.Context, tx store.Tx, g *store.LockedItem) error {
		if err := g.Start(ctx, tx); err != nil {
			return err
		}
		ref.Sequence, err = g.Save(ctx, tx, store.SavedCheckpoint{ID: ref.ID, Type: c.Type, Name: store.Text(c.Name),
			ArgsHash: store.Text(c.ArgsHash), Snapshot: snapshot, Metadata: store.Text(c.Metadata)})
		return err
	})
	if err != nil {
		return pawl.CheckpointRef{}, err
	}
	return ref, nil
}

func (e *Engine) checkpointSmall(ctx context.Context, calls []pawl.CheckpointCall) ([]pawl.Result[pawl.CheckpointRef], error) {
	c := pawl.CallerOf(ctx)
	v := fenced[pawl.CheckpointCall, store.Checkpoint, store.Checkpointed, pawl.CheckpointRef]{
		op:        "checkpoint",
		committer: e.committers.checkpoint,
		fence:     func(p *pawl.CheckpointCall) pawl.Fence { return p.Fence },
		check:     (*rules.Fields).Checkpoint,
		value:     func(p *pawl.CheckpointCall) []byte { return p.Snapshot },
		row: func(_ int, p *pawl.CheckpointCall) store.Checkpoint {
			return store.Checkpoint{Fence: fenceRow(c, p.Fence), ID: e.k.IDs.Next("ckp"), Type: p.Type, Name: store.Text(p.Name),
				ArgsHash: store.Text(p.ArgsHash), Snapshot: rules.OrNull(p.Snapshot), Metadata: store.Text(p.Metadata)}
		},
		answer: func(_ *pawl.CheckpointCall, a *store.Checkpointed) (pawl.CheckpointRef, effects) {
			return pawl.CheckpointRef{ID: a.ID, Sequence: a.Seq}, effects{}
		},
	}
	out, _, err := v.do(ctx, e, calls)
	return out, err
}
