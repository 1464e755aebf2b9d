package engine

import (
	"context"

	"github.com/pawl-work/pawl/store"
)

// readPicks lists the row of ready of one item, or the first rows of a task's items in claim
// order.
func readPicks(ctx context.Context, tx store.Tx, namespace, taskID, itemID string, types []string, limit int) ([]store.Pick, error) {
	query, args := readSQL["pick task"], []any{namespace, store.TaskID(taskID), store.List(types), limit}
	if itemID != "" {
		query, args = readSQL["pick item"], []any{namespace, store.ItemID(itemID), store.List(types), taskID == "", store.TaskID(taskID)}
	}
	return store.All(ctx, tx, query, args, func(rows store.Rows, p *store.Pick) error {
		return rows.Scan(&p.Type, &p.Rank, (*store.ItemID)(&p.ItemID))
	})
}
