package engine

import (
	"context"

	"github.com/pawl-work/pawl/store"
)

// countCheckpoints counts a task's checkpoints by type.
func countCheckpoints(ctx context.Context, tx store.Tx, taskID string) (map[string]int64, error) {
	rows, err := tx.Query(ctx, readSQL["count checkpoints"], store.TaskID(taskID))
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	out := map[string]int64{}
	for rows.Next() {
		var typ string
		var n int64
		if err := rows.Scan(&typ, &n); err != nil {
			return nil, err
		}
		out[typ] = n
	}
	return out, rows.Err()
}
