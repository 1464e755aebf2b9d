package hot

import (
	"context"
	_ "embed"

	"github.com/pawl-work/pawl/store"
)

//go:embed due.sql
var dueSQL string

// Due implements store.Timed.
func (Verbs) Due(ctx context.Context, tx store.Tx, limit int, only []string) ([]store.DueItem, error) {
	var out []store.DueItem
	rows, err := tx.Query(ctx, dueSQL, limit, store.IDs[store.ItemID](only))
	err = read(rows, err, func(r store.Rows) error {
		var d store.DueItem
		err := r.Scan(&d.Namespace, (*store.ItemID)(&d.ItemID), &d.Type, &d.Rank)
		out = append(out, d)
		return err
	})
	return out, err
}
