package hot

import (
	"context"
	_ "embed"

	"github.com/pawl-work/pawl/store"
)

var (
	//go:embed open_effect.sql
	openEffectSQL string
	//go:embed report_effect.sql
	reportEffectSQL string
)

// OpenEffect implements store.Hot.
func (Verbs) OpenEffect(ctx context.Context, tx store.Tx, calls []store.OpenEffect) (opened []int, err error) {
	fence, workers := fences(calls, func(c *store.OpenEffect) *store.Fence { return &c.Fence })
	args := append(fence,
		column(calls, func(c *store.OpenEffect) string { return c.Effect.ID }),
		column(calls, func(c *store.OpenEffect) string { return c.Effect.Key }),
		column(calls, func(c *store.OpenEffect) string { return c.Effect.Name }),
		column(calls, func(c *store.OpenEffect) string { return c.Effect.RequestHash }),
		column(calls, func(c *store.OpenEffect) int { return c.Effect.Repeatable }),
		column(calls, func(c *store.OpenEffect) store.Text { return c.Effect.KeyID }),
		column(calls, func(c *store.OpenEffect) *int64 { return orNull(*store.GateUntil(0, c.GateSeconds)) }),
		column(calls, func(c *store.OpenEffect) string { return c.Effect.Senders }),
		column(calls, func(c *store.OpenEffect) store.Text { return c.Data }), workers)
	rows, err := tx.Query(ctx, openEffectSQL, args...)
	err = read(rows, err, func(r store.Rows) error {
		var i int
		err := r.Scan(&i)
		if err == nil {
			opened = append(opened, calls[i-1].Ord)
		}
		return err
	})
	return opened, err
}

// ReportEffect implements store.Hot.
func (Verbs) ReportEffect(ctx context.Context, tx store.Tx, calls []store.ReportEffect) (reported []store.ReportEffect, err error) {
	fence, workers := fences(calls, func(c *store.ReportEffect) *store.Fence { return &c.Fence })
	args := append(fence,
		column(calls, func(c *store.ReportEffect) string { return c.Effect.ID }),
		column(calls, func(c *store.ReportEffect) store.Text { return c.Effect.KeyID }),
		column(calls, func(c *store.ReportEffect) string { return string(c.Effect.State) }),
		column(calls, func(c *store.ReportEffect) store.Text { return c.Effect.Answer }),
		column(calls, func(c *store.ReportEffect) store.Text { return c.Effect.AnswerHash }),
		column(calls, func(c *store.ReportEffect) store.Text { return c.Effect.Error }),
		column(calls, func(c *store.ReportEffect) int { return c.Effect.Sendings }), workers)
	rows, err := tx.Query(ctx, reportEffectSQL, args...)
	err = read(rows, err, func(r store.Rows) error {
		var i int
		var row store.EffectRow
		if err := r.Scan(append([]any{&i}, row.Unreported()...)...); err != nil {
			return err
		}
		c := calls[i-1]
		row.Namespace, row.ItemID, row.WorkerID, row.Attempt = c.Namespace, c.ItemID, c.WorkerID, c.Attempt
		row.ID, row.KeyID, row.State, row.Answer, row.AnswerHash, row.Error = c.Effect.ID, c.Effect.KeyID, c.Effect.State, c.Effect.Answer,
			c.Effect.AnswerHash, c.Effect.Error
		c.Effect = row
		reported = append(reported, c)
		return nil
	})
	return reported, err
}
