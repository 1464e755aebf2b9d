package hot

import (
	"cmp"
	"context"
	_ "embed"
	"time"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/store"
)

//go:embed leave.sql
var leaveText string

var leaveSQL = withItem(leaveText, store.ReturnItem("y.item_id", "y.", "", "started_at", "stage", "error"))

// Leave implements store.Hot.
func (Verbs) Leave(ctx context.Context, tx store.Tx, calls []store.Leave) ([]store.Moved, error) {
	if len(calls) == 0 {
		return nil, nil
	}
	fence, workers := fences(calls, func(c *store.Leave) *store.Fence { return &c.Fence })
	args := append(fence,
		column(calls, func(c *store.Leave) string { return c.Verb }),
		column(calls, func(c *store.Leave) store.Text { return store.Text(cmp.Or(c.Error, c.Awaits())) }),
		column(calls, func(c *store.Leave) bool { return c.Retryable }),
		column(calls, func(c *store.Leave) *int64 { return c.DelayMicros }),
		column(calls, func(c *store.Leave) float64 { return c.Jitter }),
		column(calls, func(c *store.Leave) string { return c.CheckpointID }),
		column(calls, func(c *store.Leave) *int64 { return c.Until }),
		column(calls, func(c *store.Leave) store.Text { return c.Signal }),
		column(calls, func(c *store.Leave) store.Text { return c.Key }),
		column(pawl.Backoff{}.Delays(), func(d *time.Duration) int64 { return d.Microseconds() }), workers,
		column(calls, func(c *store.Leave) *int64 { return store.FailureKey(store.Text(c.Error)) }),
		column(calls, func(c *store.Leave) *int64 { return orNull(c.Request) }))
	rows, err := tx.Query(ctx, leaveSQL.of(&calls[0].Fence), args...)
	return moved(rows, err, calls[0].Return, func(i int) (int, *store.Fence) { return calls[i].Ord, &calls[i].Fence },
		func(i int, r *store.Returned, m *store.Moved) { r.Left(&calls[i], m) })
}
