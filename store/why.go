package store

import (
	"context"
	"math"
	"slices"
	"time"

	"github.com/pawl-work/pawl"
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

// FailedDependency returns the first item that has not completed and for which a failed item did not run;
// "" = none.
func FailedDependency(ctx context.Context, tx Tx, id string) (first string, err error) {
	_, err = Row(ctx, tx, []any{(*ItemID)(&first)}, blockedSQL["failed dependency"], ItemID(id))
	return first, err
}

// DecideBy returns when the approval of a task expires; nil = it does not.
func DecideBy(ctx context.Context, tx Tx, taskID string) (*time.Time, error) {
	var at *int64
	_, err := Row(ctx, tx, []any{&at}, blockedSQL["decide by"], TaskID(taskID))
	return StampOf(at), err
}

// FirstOfKey returns the first item in the order of a queued item's key that has not ended; ""
// if the item has no key.
func FirstOfKey(ctx context.Context, tx Tx, id string) (first string, err error) {
	var queue, gate int64
	found, err := Row(ctx, tx, []any{&queue, &gate}, blockedSQL["gate of item"], ItemID(id))
	if err == nil && found {
		_, err = Row(ctx, tx, []any{(*ItemID)(&first)}, blockedSQL["first of gate"], queue, gate)
	}
	return first, err
}

// LongestSilent returns the item whose lease counts for the concurrency that a queued item waits
// for, of its queue or of its key, and whose worker is stalled or has been silent longest; "" if there is none.
func LongestSilent(ctx context.Context, tx Tx, id string, ofQueue bool, now int64) (held string, err error) {
	var queue, gate int64
	found, err := Row(ctx, tx, []any{&queue, &gate}, blockedSQL["gate of item"], ItemID(id))
	if err != nil || !found {
		return "", err
	}
	from, to := gate, gate
	if ofQueue {
		from, to = 0, math.MaxInt32
	}
	_, err = Row(ctx, tx, []any{(*ItemID)(&held)}, blockedSQL["longest silent"], queue, from, to, now,
		pawl.HeartbeatsPerLease, pawl.DefaultStaleBeats)
	return held, err
}

// OpenChild returns the first child that an item waits for and that has not ended; "" = none.
func OpenChild(ctx context.Context, tx Tx, itemID string) (id string, err error) {
	_, err = Row(ctx, tx, []any{(*TaskID)(&id)}, childrenSQL["open child"], ItemID(itemID))
	return id, err
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
		if list := typesOf(types); slices.Contains(list, typ) || (liveTypes{list}).take(typ) {
			return StampOf(&at), nil
		}
	}
	return nil, rows.Err()
}
