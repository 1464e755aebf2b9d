package hot

import (
	"context"
	_ "embed"

	"github.com/pawl-work/pawl/store"
)

//go:embed complete.sql
var completeSQL string

// Complete implements store.Hot.
func (Verbs) Complete(ctx context.Context, tx store.Tx, calls []store.Complete) ([]store.Moved, error) {
	fence := fences(calls, func(c *store.Complete) *store.Fence { return &c.Fence })
	args := append([]any{fence[0], once(fence[1].([]string)), once(fence[2].([]string)), once(fence[3].([]int))},
		column(calls, func(c *store.Complete) string { return c.Result }))
	return moved(ctx, tx, completeSQL, args, func(i int) int { return calls[i].Ord })
}
