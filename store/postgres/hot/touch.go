package hot

import (
	"context"
	_ "embed"
	"slices"

	"github.com/pawl-work/pawl/store"
)

//go:embed touch.sql
var touchSQL string

//go:embed beat.sql
var beatSQL string

// Touch implements store.Hot.
func (Verbs) Touch(ctx context.Context, tx store.Tx, calls []store.Touch) ([]store.Touched, error) {
	query, args := beatSQL, fences(calls, func(c *store.Touch) *store.Fence { return &c.Fence })
	if slices.ContainsFunc(calls, func(c store.Touch) bool {
		return !c.Extend || c.LeaseSeconds != 0 || c.Progress != nil || c.Stage != nil
	}) {
		query, args = touchSQL, append(args,
			column(calls, func(c *store.Touch) bool { return c.Extend }),
			column(calls, func(c *store.Touch) int { return c.LeaseSeconds }),
			column(calls, func(c *store.Touch) *int { return c.Progress }),
			column(calls, func(c *store.Touch) *string { return c.Stage }))
	}
	out := make([]store.Touched, 0, len(calls))
	err := read(ctx, tx, query, args, func(r store.Rows) error {
		t := store.Touched{State: "in_progress"}
		err := r.Scan(&t.Ord, &t.TaskID, &t.Failures, &t.LeaseSeconds, &t.LeaseExpiresAt, &t.Now, &t.Stopped)
		if err == nil {
			t.Ord = calls[t.Ord-1].Ord
			out = append(out, t)
		}
		return err
	})
	return out, err
}
