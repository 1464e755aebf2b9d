package hot

import (
	"context"
	_ "embed"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/store"
)

//go:embed append.sql
var appendSQL string

// Append implements store.Hot.
func (Verbs) Append(ctx context.Context, tx store.Tx, calls []store.Append) ([]store.Appended, error) {
	fence, workers := fences(calls, func(c *store.Append) *store.Fence { return &c.Fence })
	args := append(fence,
		column(calls, func(c *store.Append) string { return c.MessageID }),
		column(calls, func(c *store.Append) int64 { return c.Offset }),
		column(calls, func(c *store.Append) int { return c.Count }),
		column(calls, func(c *store.Append) string { return c.Body }), int64(pawl.MaxMessageBytes), workers)
	out := make([]store.Appended, 0, len(calls))
	rows, err := tx.Query(ctx, appendSQL, args...)
	err = read(rows, err, func(r store.Rows) error {
		var a store.Appended
		err := r.Scan(&a.Ord, &a.State, &a.Chunks, &a.TakenOver, &a.Full)
		if err == nil {
			c := &calls[a.Ord-1]
			a.Ord, a.Done = c.Ord, a.State == "streaming" && a.Chunks == c.Offset && !a.Full
			out = append(out, a)
		}
		return err
	})
	return out, err
}
