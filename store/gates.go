package store

import (
	"context"
	"encoding/json"
	"slices"
)

// Gate is the row of a key of a queue with limits.
type Gate struct {
	ID int64
	// Lent: a sweep has found the gate idle, and another transaction locks it. It may be removed:
	// the number must not be remembered.
	Lent bool
}

// Gates returns the gate of each key of a queue, and adds those that are missing. None of them is
// removed for an hour, unless it is lent.
func Gates(ctx context.Context, tx Tx, namespace string, q *LimitedQueue, keys []string) (map[string]Gate, error) {
	keys = slices.Compact(slices.Sorted(slices.Values(keys))) // in one order: calls that add the same keys wait for each other
	out, err := readGates(ctx, tx, q, keys)
	if err != nil {
		return nil, err
	}
	idle, err := useGates(ctx, tx, out)
	if err != nil || !idle && len(out) == len(keys) {
		return out, err
	}
	if idle { // one that was being removed is gone now
		if out, err = readGates(ctx, tx, q, keys); err != nil {
			return nil, err
		}
	}
	var missing [][]any
	for _, key := range keys {
		if _, found := out[key]; !found {
			missing = append(missing, []any{q.ID, namespace, q.Pointer(), key})
		}
	}
	if len(missing) == 0 {
		return out, nil
	}
	if err := tx.ExecEach(ctx, limitsSQL["add gate"], missing); err != nil {
		return nil, err
	}
	return readGates(ctx, tx, q, keys)
}

// useGates notes that gates are not idle. It reports whether some were.
func useGates(ctx context.Context, tx Tx, gates map[string]Gate) (bool, error) {
	var ids []int64
	for _, g := range gates {
		if g.Lent {
			ids = append(ids, g.ID)
		}
	}
	if len(ids) == 0 {
		return false, nil
	}
	_, err := tx.Exec(ctx, limitsSQL["use gates"], eachNumber(ids))
	return true, err
}

// eachNumber returns numbers for @each.
func eachNumber(ids []int64) string {
	rows := make([][]int64, len(ids))
	for i, id := range ids {
		rows[i] = []int64{id}
	}
	list, _ := json.Marshal(rows) // can always be encoded
	return string(list)
}

func readGates(ctx context.Context, tx Tx, q *LimitedQueue, keys []string) (map[string]Gate, error) {
	out := map[string]Gate{}
	err := EachRow(ctx, tx, func(rows Rows) error {
		var key string
		var g Gate
		var idle int
		if err := rows.Scan(&key, &g.ID, &idle); err != nil {
			return err
		}
		g.Lent = idle == 1
		out[key] = g
		return nil
	}, limitsSQL["gates of keys"], q.ID, q.Pointer(), List(keys))
	return out, err
}

// GateUse is what a sweep has found of a gate.
type GateUse struct {
	ID        int64
	IdleSince *int64 // nil = it was not found idle before
	Used      bool
}

// SettleGates notes which of the gates are idle now, or no longer, and removes those that have been
// since before. It returns how many it has removed.
func SettleGates(ctx context.Context, tx Tx, gates []GateUse, before int64) (int64, error) {
	var idle, used, old []int64
	for _, g := range gates {
		switch {
		case g.Used:
			used = append(used, g.ID)
		case g.IdleSince == nil:
			idle = append(idle, g.ID)
		default:
			old = append(old, g.ID)
		}
	}
	if len(used) > 0 {
		if _, err := tx.Exec(ctx, limitsSQL["use gates"], eachNumber(used)); err != nil {
			return 0, err
		}
	}
	if len(idle) > 0 {
		now, err := NowAgain(ctx, tx)
		if err != nil {
			return 0, err
		}
		if _, err := tx.Exec(ctx, limitsSQL["note idle gates"], eachNumber(idle), now); err != nil {
			return 0, err
		}
	}
	return removeGates(ctx, tx, old, before)
}

// removeGates locks gates before it looks whether something refers to them: a reader of one finds it
// not idle, or knows that it is lent.
func removeGates(ctx context.Context, tx Tx, old []int64, before int64) (int64, error) {
	if len(old) == 0 {
		return 0, nil
	}
	rows, err := tx.Query(ctx, limitsSQL["lock idle gates"], eachNumber(old), before)
	if err != nil {
		return 0, err
	}
	defer rows.Close()
	var locked []int64
	for rows.Next() {
		var id int64
		if err := rows.Scan(&id); err != nil {
			return 0, err
		}
		locked = append(locked, id)
	}
	if err := rows.Err(); err != nil || len(locked) == 0 {
		return 0, err
	}
	rows.Close()
	return tx.Exec(ctx, limitsSQL["remove gates"], eachNumber(locked), before)
}
