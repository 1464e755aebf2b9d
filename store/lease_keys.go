package store

import "context"

// Attempt is one claim of an item.
type Attempt struct {
	ItemID string
	N      int
}

// KeysOfLeases returns the API keys that the leases of items were claimed with. A lease
// that was claimed without a key is not in the answer.
func KeysOfLeases(ctx context.Context, tx Tx, items []string) (map[Attempt]string, error) {
	rows, err := tx.Query(ctx, acceptSQL["keys of leases"], ItemList(items))
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	out := map[Attempt]string{}
	for rows.Next() {
		var a Attempt
		var key string
		if err := rows.Scan((*ItemID)(&a.ItemID), &a.N, &key); err != nil {
			return nil, err
		}
		out[a] = key
	}
	return out, rows.Err()
}
