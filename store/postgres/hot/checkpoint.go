package hot

import (
	"context"
	_ "embed"

	"github.com/pawl-work/pawl/store"
)

//go:embed checkpoint.sql
var checkpointSQL string

// Checkpoint implements store.Hot.
func (Verbs) Checkpoint(ctx context.Context, tx store.Tx, calls []store.Checkpoint) ([]store.Checkpointed, error) {
	args := append(fences(calls, func(c *store.Checkpoint) *store.Fence { return &c.Fence }),
		column(calls, func(c *store.Checkpoint) string { return c.ID }),
		column(calls, func(c *store.Checkpoint) string { return c.Type }),
		column(calls, func(c *store.Checkpoint) *string { return null(c.Name) }),
		column(calls, func(c *store.Checkpoint) *string { return null(c.ArgsHash) }),
		column(calls, func(c *store.Checkpoint) string { return c.Snapshot }),
		column(calls, func(c *store.Checkpoint) *string { return null(c.Metadata) }))
	var out []store.Checkpointed
	err := read(ctx, tx, checkpointSQL, args, func(r store.Rows) error {
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
