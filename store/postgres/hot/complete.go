package hot

import (
	"context"
	_ "embed"

	"github.com/pawl-work/pawl/store"
)

//go:embed complete.sql
var completeText string

var completeSQL = withItem(completeText, store.ReturnItem("x.item_id", "x.", "", "started_at", "stage"))

// Complete implements store.Hot.
func (Verbs) Complete(ctx context.Context, tx store.Tx, calls []store.Complete) ([]store.Moved, error) {
	if len(calls) == 0 {
		return nil, nil
	}
	fence, workers := fences(calls, func(c *store.Complete) *store.Fence { return &c.Fence })
	args := append([]any{fence[0], once(fence[1].([]string)), once(fence[2].([]int)), once(fence[3].([]int))},
		column(calls, func(c *store.Complete) string { return c.Result }), workers,
		column(calls, func(c *store.Complete) *int64 { return orNull(c.Request) }),
		column(calls, func(c *store.Complete) store.Digest { return store.DigestOf(c.Result) }))
	rows, err := tx.Query(ctx, completeSQL.of(&calls[0].Fence), args...)
	return moved(rows, err, calls[0].Return, func(i int) (int, *store.Fence) { return calls[i].Ord, &calls[i].Fence },
		func(i int, r *store.Returned, m *store.Moved) { r.Completed(calls[i].Result, m.Now) })
}
