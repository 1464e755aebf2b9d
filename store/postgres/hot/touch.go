package hot

import (
	"context"
	_ "embed"
	"slices"

	"github.com/pawl-work/pawl/store"
)

//go:embed touch.sql
var touchText string

var touchSQL = withItem(touchText, store.ReturnItem("y.item_id", "y.", store.PartStatuses("y.item_id", "y."), "started_at", "stage",
	"error",
	"progress", "progressed_at", "lease_seconds", "acquired_at", "lease_expires_at", "heartbeat_at"))

//go:embed beat.sql
var beatSQL string

// Touch implements store.Hot.
func (Verbs) Touch(ctx context.Context, tx store.Tx, calls []store.Touch) ([]store.Touched, error) {
	args, workers := fences(calls, func(c *store.Touch) *store.Fence { return &c.Fence })
	query := beatSQL
	if slices.ContainsFunc(calls, func(c store.Touch) bool {
		return c.Return || !c.Extend || c.LeaseSeconds != 0 || c.Progress != nil || c.Stage != nil
	}) {
		query, args = touchSQL.of(&calls[0].Fence), append(args,
			column(calls, func(c *store.Touch) bool { return c.Extend }),
			column(calls, func(c *store.Touch) int { return c.LeaseSeconds }),
			column(calls, func(c *store.Touch) *int { return c.Progress }),
			column(calls, func(c *store.Touch) *string { return c.Stage }))
	}
	out := make([]store.Touched, 0, len(calls))
	rows, err := tx.Query(ctx, query, append(args, workers)...)
	err = read(rows, err, func(r store.Rows) error {
		t := store.Touched{State: "in_progress"}
		var item store.ReturnedColumns
		targets := []any{&t.Ord, (*store.TaskID)(&t.TaskID), &t.Failures, &t.LeaseSeconds, &t.LeaseExpiresAt, &t.Now, &t.Stopped}
		if calls[0].Return {
			targets = append(targets, item.Targets()...)
		}
		err := r.Scan(targets...)
		if err != nil {
			return err
		}
		c := &calls[t.Ord-1]
		t.Ord = c.Ord
		if c.Return {
			if t.Returned, err = store.NewReturned(c.Fence, t.TaskID, t.Failures, item); err != nil {
				return err
			}
			t.Returned.Touched(c, t.Now)
		}
		out = append(out, t)
		return nil
	})
	return out, err
}
