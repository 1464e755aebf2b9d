package messages

import (
	"context"
	"fmt"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/engine/internal/kernel"
	"github.com/pawl-work/pawl/engine/internal/rules"
	"github.com/pawl-work/pawl/store"
)

// StepMessages ends steps of open messages; see pawl.Messenger.
func (ms *Messages) StepMessages(ctx context.Context, calls []pawl.StepCall) ([]pawl.Result[pawl.CheckpointRef], error) {
	if err := ms.k.Acts(ctx, "step"); err != nil {
		return nil, err
	}
	return kernel.Each(ctx, "step", calls, func(ctx context.Context, c *pawl.StepCall) (pawl.CheckpointRef, error) {
		if err := checkStep(c); err != nil {
			return pawl.CheckpointRef{}, err
		}
		ref := pawl.CheckpointRef{ID: ms.k.IDs.Next("ckp")}
		itemID := ms.s.items.of(pawl.CallerOf(ctx).Namespace, c.MessageID)
		if err := ms.referMessage(ctx, "step", c.MessageID, rules.BlobsIn(c.Snapshot)); err != nil {
			return pawl.CheckpointRef{}, err
		}
		own, err := ms.k.Snapshots.OfItem(ctx, ms.k, itemID, c.Name, store.Text(c.Snapshot))
		if err != nil {
			return ref, err
		}
		err = ms.writes(ctx, c.MessageFence, "step",
			func(ctx context.Context, tx store.Tx, g *store.LockedItem, row *store.MessageRow) (err error) {
				if row.StepNumber >= row.MaxSteps {
					return &pawl.Error{Code: pawl.CodeConflict, Op: "step", State: string(row.Status), Allowed: row.Status.Allowed(),
						Message: fmt.Sprintf("the message has made the %d steps that it may: finish it", row.MaxSteps)}
				}
				ref.Sequence, err = g.Step(ctx, tx, row, store.SavedCheckpoint{ID: ref.ID, Name: store.Text(c.Name),
					ArgsHash: store.Text(c.ArgsHash), Snapshot: own, Metadata: store.Text(c.Metadata)})
				return err
			})
		if err == nil {
			ms.k.After(func() { ms.s.watcher.changed(c.MessageID) })
		}
		return ref, err
	})
}
