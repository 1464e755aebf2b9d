package hot

import (
	"context"
	_ "embed"

	"github.com/pawl-work/pawl/store"
)

//go:embed touch.sql
var touchSQL string

// Touch implements store.Hot.
func (Verbs) Touch(ctx context.Context, tx store.Tx, calls []store.Touch) ([]store.Touched, error) {
	args := append(fences(calls, func(c *store.Touch) *store.Fence { return &c.Fence }),
		column(calls, func(c *store.Touch) bool { return c.Extend }),
		column(calls, func(c *store.Touch) int { return c.LeaseSeconds }),
		column(calls, func(c *store.Touch) *int { return c.Progress }),
		column(calls, func(c *store.Touch) *string { return c.Stage }))
	var out []store.Touched
	err := read(ctx, tx, touchSQL, args, func(r store.Rows) error {
		t := store.Touched{State: "in_progress"}
		err := r.Scan(&t.Ord, &t.TaskID, &t.Failures, &t.LeaseSeconds, &t.LeaseExpiresAt, &t.Now)
		if err == nil {
			t.Ord = calls[t.Ord-1].Ord
			out = append(out, t)
		}
		return err
	})
	return out, err
}
