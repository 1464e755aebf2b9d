package store

import (
	"context"

	"github.com/pawl-work/pawl"
)

// DependencyFailed is the error of an item whose dependency failed.
const DependencyFailed = `{"code":"dependency_failed","message":"An item it depends on failed"}`

// Dependent is an item that waits, or that failed, for others: how many of
// them failed, and how many ended otherwise than completed.
type Dependent struct {
	ItemID, Namespace, TaskID string
	Failed, Ended             int
}

// BrokenDependents lists up to limit waiting items that something they need has
// left behind, from after an item id on.
func BrokenDependents(ctx context.Context, tx Tx, after string, limit int) ([]Dependent, error) {
	return dependents(ctx, tx, "broken dependents", after, limit)
}

// MendableDependents lists up to limit items that failed with a dependency,
// where all they need has completed since, from after an item id on.
func MendableDependents(ctx context.Context, tx Tx, after string, limit int) ([]Dependent, error) {
	return dependents(ctx, tx, "mendable dependents", after, limit)
}

// LostDependents lists up to limit items that failed with a dependency, where
// something they need has ended otherwise than completed since, from after an
// item id on.
func LostDependents(ctx context.Context, tx Tx, after string, limit int) ([]Dependent, error) {
	return dependents(ctx, tx, "lost dependents", after, limit)
}

func dependents(ctx context.Context, tx Tx, query, after string, limit int) ([]Dependent, error) {
	rows, err := tx.Query(ctx, moveSQL[query], after, limit)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var out []Dependent
	for rows.Next() {
		var d Dependent
		if err := rows.Scan(&d.ItemID, &d.Namespace, &d.TaskID, &d.Failed, &d.Ended); err != nil {
			return nil, err
		}
		out = append(out, d)
	}
	return out, rows.Err()
}

// GiveUp ends a waiting item that can never run: failed when a dependency
// failed (Mend takes it up again once that completes), cancelled when one was
// cancelled.
func GiveUp(ctx context.Context, tx Tx, now int64, d Dependent) error {
	c := Change{Namespace: d.Namespace, TaskID: d.TaskID, Verb: "give_up", ItemIDs: []string{d.ItemID}, LeftBy: "dependency", Actor: Actor{Type: pawl.ActorSystem}}
	switch {
	case d.Failed > 0:
		c.To, c.Error = "failed", DependencyFailed
	case d.Ended > 0:
		c.To, c.Error = "cancelled", `{"code":"dependency_cancelled","message":"An item it depends on was cancelled"}`
	default: // it was retried meanwhile
		_, err := tx.Exec(ctx, moveSQL["whole again"], d.ItemID)
		return err
	}
	_, err := Apply(ctx, tx, now, c)
	return err
}

// Lose cancels an item that failed with a dependency and can never run.
func Lose(ctx context.Context, tx Tx, now int64, d Dependent) error {
	_, err := Apply(ctx, tx, now, Change{Namespace: d.Namespace, TaskID: d.TaskID, Verb: "cancel", ItemIDs: []string{d.ItemID},
		Actor: Actor{Type: pawl.ActorSystem}, Reason: "an item it depends on was cancelled"})
	return err
}

// Mend queues an item again that failed with a dependency.
func Mend(ctx context.Context, tx Tx, now int64, d Dependent) ([]DueItem, error) {
	done, err := Apply(ctx, tx, now, Change{Namespace: d.Namespace, TaskID: d.TaskID, Verb: "retry", ItemIDs: []string{d.ItemID}, Actor: Actor{Type: pawl.ActorSystem}})
	return done.Released, err
}
