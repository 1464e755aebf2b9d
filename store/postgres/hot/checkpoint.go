package hot

import (
	"context"
	_ "embed"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/store"
)

//go:embed checkpoint.sql
var checkpointSQL string

//go:embed step.sql
var stepSQL string

// Checkpoint implements store.Hot.
func (Verbs) Checkpoint(ctx context.Context, tx store.Tx, calls []store.Checkpoint) ([]store.Checkpointed, error) {
	if len(calls) == 1 && calls[0].Type != pawl.ManualCheckpoint && calls[0].Type != pawl.ApprovalPoint {
		if done, err := step(ctx, tx, &calls[0]); err != nil || len(done) > 0 {
			return done, err
		}
	}
	fence, workers := fences(calls, func(c *store.Checkpoint) *store.Fence { return &c.Fence })
	args := append(fence,
		column(calls, func(c *store.Checkpoint) string { return c.ID }),
		column(calls, func(c *store.Checkpoint) string { return c.Type }),
		column(calls, func(c *store.Checkpoint) store.Text { return c.Name }),
		column(calls, func(c *store.Checkpoint) store.Text { return c.ArgsHash }),
		column(calls, func(c *store.Checkpoint) string { return c.Snapshot }),
		column(calls, func(c *store.Checkpoint) store.Text { return c.Metadata }), workers)
	var out []store.Checkpointed
	rows, err := tx.Query(ctx, checkpointSQL, args...)
	err = read(rows, err, func(r store.Rows) error {
		var c store.Checkpointed
		err := r.Scan(&c.Ord, &c.Seq)
		if err == nil {
			c.ID, c.Ord = calls[c.Ord-1].ID, calls[c.Ord-1].Ord
			out = append(out, c)
		}
		return err
	})
	return out, err
}

// step saves the checkpoint of a single call, if its item is in progress. Otherwise it
// saves and returns nothing, and the statement for many calls handles the call.
func step(ctx context.Context, tx store.Tx, c *store.Checkpoint) (out []store.Checkpointed, err error) {
	args := []any{store.ItemID(c.ItemID), c.Namespace, c.WorkerID, c.Attempt, c.ID, c.Type, c.Name, c.ArgsHash, c.Snapshot,
		c.Metadata}
	rows, err := tx.Query(ctx, stepSQL, args...)
	err = read(rows, err, func(r store.Rows) error {
		done := store.Checkpointed{Ord: c.Ord, ID: c.ID}
		err := r.Scan(&done.Seq)
		out = append(out, done)
		return err
	})
	return out, err
}
