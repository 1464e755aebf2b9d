package engine

import (
	"context"
	"encoding/json"

	"github.com/pawl-work/pawl/store"
)

// lostAtOnce is how many queued items LostItems looks at.
const lostAtOnce = 1000

// lostItems returns when the items that are queued again because their leases ended without
// their workers were queued, by worker: the newest time of each.
func lostItems(ctx context.Context, tx store.Tx, namespace string, queues []store.Queue) (map[string]int64, error) {
	pairs := make([][]any, len(queues))
	for i, q := range queues {
		pairs[i] = []any{q.Type, q.Rank}
	}
	each, err := json.Marshal(pairs)
	if err != nil {
		return nil, err
	}
	var out map[string]int64
	err = store.EachRow(ctx, tx, func(rows store.Rows) error {
		var worker store.Text
		var since int64
		if err := rows.Scan(&worker, &since); err != nil {
			return err
		}
		if out == nil {
			out = map[string]int64{}
		}
		out[string(worker)] = since
		return nil
	}, queueSQL["lost items"], namespace, string(each), lostAtOnce)
	return out, err
}

// requeued reports whether items of a rank come back to the queue.
func requeued(rank int) bool { return rank%2 == 0 }
