package store

import (
	"context"

	"github.com/pawl-work/pawl"
)

// DependencyFailed is the error of an item whose dependency failed.
const DependencyFailed = `{"code":"dependency_failed","message":"An item it depends on failed"}`

// GiveUp ends up to limit waiting items that can never run: failed when a
// dependency failed (they are retried by MendDependents once it completes),
// cancelled when one was cancelled. Returns how many it looked at.
func GiveUp(ctx context.Context, tx Tx, now int64, limit int) (int, error) {
	type broken struct {
		itemID, namespace, taskID string
		failed, ended             int
	}
	var found []broken
	rows, err := tx.Query(ctx, moveSQL["broken dependents"], limit)
	if err != nil {
		return 0, err
	}
	for rows.Next() {
		var b broken
		if err := rows.Scan(&b.itemID, &b.namespace, &b.taskID, &b.failed, &b.ended); err != nil {
			rows.Close()
			return 0, err
		}
		found = append(found, b)
	}
	rows.Close()
	if err := rows.Err(); err != nil {
		return 0, err
	}
	for _, b := range found {
		c := Change{Namespace: b.namespace, TaskID: b.taskID, Verb: "give_up", ItemIDs: []string{b.itemID}, Actor: Actor{Type: pawl.ActorSystem}}
		switch {
		case b.failed > 0:
			c.To, c.Error = "failed", DependencyFailed
		case b.ended > 0:
			c.To, c.Error = "cancelled", `{"code":"dependency_cancelled","message":"An item it depends on was cancelled"}`
		default: // it was retried meanwhile
			if _, err := tx.Exec(ctx, moveSQL["whole again"], b.itemID); err != nil {
				return 0, err
			}
			continue
		}
		if _, err := Apply(ctx, tx, now, c); err != nil {
			return 0, err
		}
	}
	return len(found), nil
}

// MendDependents queues up to limit items again that failed with their
// dependency, now that all they depend on has completed.
func MendDependents(ctx context.Context, tx Tx, now int64, limit int) ([]DueItem, error) {
	rows, err := tx.Query(ctx, moveSQL["mendable dependents"], limit)
	if err != nil {
		return nil, err
	}
	var found [][3]string
	for rows.Next() {
		var f [3]string
		if err := rows.Scan(&f[0], &f[1], &f[2]); err != nil {
			rows.Close()
			return nil, err
		}
		found = append(found, f)
	}
	rows.Close()
	if err := rows.Err(); err != nil {
		return nil, err
	}
	var out []DueItem
	for _, f := range found {
		a, err := Apply(ctx, tx, now, Change{Namespace: f[1], TaskID: f[2], Verb: "retry", ItemIDs: []string{f[0]}, Actor: Actor{Type: pawl.ActorSystem}})
		if err != nil {
			return nil, err
		}
		out = append(out, a.Released...)
	}
	return out, nil
}
