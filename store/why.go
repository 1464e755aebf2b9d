package store

import (
	"context"
	"slices"
	"time"
)

// Wait is what a waiting item waits for.
type Wait struct {
	Signal, Key string
	First       string // the first item of its dependencies that has not completed
}

// ReadWait reads what a waiting item waits for. The zero value is no wait.
func ReadWait(ctx context.Context, tx Tx, id string) (w Wait, err error) {
	var failures, needs int
	var until *int64
	var self, firstKey, left Text
	_, err = Row(ctx, tx, []any{&self, &until, (*Text)(&w.Signal), (*Text)(&w.Key), &needs, (*ItemID)(&w.First), &firstKey, &failures, &left},
		blockedSQL["blocked items"], ItemList([]string{id}))
	return w, err
}

// workersRead is how many workers, the last seen first, LastSeen looks at.
const workersRead = 1000

// LastSeen returns when a worker that takes a type was last seen; nil = none is known.
func LastSeen(ctx context.Context, tx Tx, namespace, typ string) (*time.Time, error) {
	rows, err := tx.Query(ctx, blockedSQL["workers seen"], namespace, workersRead)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var types Text
		var at int64
		if err := rows.Scan(&types, &at); err != nil {
			return nil, err
		}
		if list := types.List(); slices.Contains(list, typ) || (liveTypes{list}).take(typ) {
			return StampOf(&at), nil
		}
	}
	return nil, rows.Err()
}
