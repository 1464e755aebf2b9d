package store

import (
	"context"
	"encoding/json"
)

// lostAtOnce is how many queued items LostItems looks at.
const lostAtOnce = 1000

// LostItems returns when the items that are queued again because their leases ended without
// their workers were queued, by worker: the newest time of each.
func LostItems(ctx context.Context, tx Tx, namespace string, queues []Queue) (map[string]int64, error) {
	pairs := make([][]any, len(queues))
	for i, q := range queues {
		pairs[i] = []any{q.Type, q.Rank}
	}
	each, err := json.Marshal(pairs)
	if err != nil {
		return nil, err
	}
	rows, err := tx.Query(ctx, queueSQL["lost items"], namespace, string(each), lostAtOnce)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var out map[string]int64
	for rows.Next() {
		var worker Text
		var since int64
		if err := rows.Scan(&worker, &since); err != nil {
			return nil, err
		}
		if out == nil {
			out = map[string]int64{}
		}
		out[string(worker)] = since
	}
	return out, rows.Err()
}
