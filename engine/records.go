package engine

import (
	"context"

	"github.com/pawl-work/pawl/store"
)

// countCheckpoints counts a task's checkpoints by type.
func countCheckpoints(ctx context.Context, tx store.Tx, taskID string) (map[string]int64, error) {
	out := map[string]int64{}
	err := store.EachRow(ctx, tx, func(rows store.Rows) error {
		var typ string
		var n int64
		if err := rows.Scan(&typ, &n); err != nil {
			return err
		}
		out[typ] = n
		return nil
	}, readSQL["count checkpoints"], store.TaskID(taskID))
	return out, err
}
