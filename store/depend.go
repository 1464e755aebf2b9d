package store

import (
	"context"
	"encoding/json"

	"github.com/pawl-work/pawl"
)

// DependencyFailedError is the error of an item whose dependency failed.
const DependencyFailedError = `{"code":"dependency_failed","message":"An item it depends on failed"}`

// Dependent is an item that waits for other items, or that failed because one of them
// failed. It has how many of them failed and how many ended in another state than
// completed.
type Dependent struct {
	ItemID, Namespace, TaskID string
	Failed, Ended             int
}

// BrokenDependents lists up to limit waiting items with a dependency that failed or that
// ended without completing. Their ids are above after.
func BrokenDependents(ctx context.Context, tx Tx, after string, limit int) ([]Dependent, error) {
	return dependents(ctx, tx, "broken dependents", FromItem(after), limit)
}

// RestorableDependents lists up to limit items that failed because of a dependency, and
// whose dependencies have all completed since. Their ids are above after.
func RestorableDependents(ctx context.Context, tx Tx, after string, limit int) ([]Dependent, error) {
	return dependents(ctx, tx, "mendable dependents", FromItem(after), limit)
}

// WaitingUntil returns the item id that ends the range of the n waiting items above after,
// or LastItem when there are fewer.
func WaitingUntil(ctx context.Context, tx Tx, after string, n int) (string, error) {
	until := LastItem
	_, err := Row(ctx, tx, []any{(*ItemID)(&until)}, moveSQL["waiting until"], FromItem(after), n-1)
	return until, err
}

// MiscountedDependents lists the items of a range whose counts of dependencies are wrong.
func MiscountedDependents(ctx context.Context, tx Tx, after, until string) ([]Dependent, error) {
	return dependents(ctx, tx, "miscounted dependents", FromItem(after), ItemID(until))
}

// Recount sets an item's counts to what the rows of its dependencies say. It locks the
// item's own row, and leaves an event if the counts were wrong.
func Recount(ctx context.Context, tx Tx, now int64, d Dependent) (bool, error) {
	var needs, broken, attempt, solo, newNeeds, newBroken int
	found, err := Row(ctx, tx, []any{&needs, &broken, &attempt, &solo}, moveSQL["hold waiting"], ItemID(d.ItemID))
	if err != nil || !found {
		return false, err
	}
	if _, err := Row(ctx, tx, []any{&newNeeds, &newBroken}, moveSQL["recount"], ItemID(d.ItemID)); err != nil {
		return false, err
	}
	if newNeeds == needs && (newBroken > 0) == (broken > 0) {
		return false, nil
	}
	type change struct {
		From int `json:"from"`
		To   int `json:"to"`
	}
	diff, _ := json.Marshal(map[string]change{"needs": {needs, newNeeds}, "failed_needs": {min(broken, 1), newBroken}}) // plain values
	return true, Record(ctx, tx, now, []Event{{Namespace: d.Namespace, TaskID: d.TaskID, ItemID: Text(d.ItemID), Solo: solo, Attempt: attempt,
		Event: "updated",
		Actor: Actor{Type: pawl.ActorSystem}, Message: "the count of the items that it waits for was wrong", Diff: Text(diff)}})
}

// LostDependents lists up to limit items that failed because of a dependency, where a
// dependency has ended without completing since. Their ids are above after.
func LostDependents(ctx context.Context, tx Tx, after string, limit int) ([]Dependent, error) {
	return dependents(ctx, tx, "lost dependents", FromItem(after), limit)
}

func dependents(ctx context.Context, tx Tx, query string, args ...any) ([]Dependent, error) {
	rows, err := tx.Query(ctx, moveSQL[query], args...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var out []Dependent
	for rows.Next() {
		var d Dependent
		if err := rows.Scan((*ItemID)(&d.ItemID), &d.Namespace, (*TaskID)(&d.TaskID), &d.Failed, &d.Ended); err != nil {
			return nil, err
		}
		out = append(out, d)
	}
	return out, rows.Err()
}

// GivenUpAs returns the state in which an item ends that can never run: failed when a dependency
// failed, cancelled when one was cancelled. It is empty if the dependency was retried meanwhile.
func (d *Dependent) GivenUpAs() string {
	switch {
	case d.Failed > 0:
		return "failed"
	case d.Ended > 0:
		return "cancelled"
	}
	return ""
}

// The next three functions move items of one task that end alike, in one change.

// GiveUp ends waiting items that can never run; see GivenUpAs. DependencyRestored queues those
// that failed again once the dependency completes.
func GiveUp(ctx context.Context, tx Tx, now int64, items []Dependent) (Applied, error) {
	c := changeOf(items, "give_up")
	c.LeftBy = "dependency"
	switch c.To = items[0].GivenUpAs(); c.To {
	case "failed":
		c.Error = DependencyFailedError
	case "cancelled":
		c.Error = `{"code":"dependency_cancelled","message":"An item it depends on was cancelled"}`
	default:
		for _, d := range items {
			if _, err := tx.Exec(ctx, moveSQL["whole again"], ItemID(d.ItemID)); err != nil {
				return Applied{}, err
			}
		}
		return Applied{}, nil
	}
	return Apply(ctx, tx, now, c)
}

// DependencyFailed cancels items that failed because of a dependency and can never run.
func DependencyFailed(ctx context.Context, tx Tx, now int64, items []Dependent) (Applied, error) {
	c := changeOf(items, "cancel")
	c.Reason = "an item it depends on was cancelled"
	return Apply(ctx, tx, now, c)
}

// DependencyRestored queues items again that failed because of a dependency.
func DependencyRestored(ctx context.Context, tx Tx, now int64, items []Dependent) (Applied, error) {
	return Apply(ctx, tx, now, changeOf(items, "retry"))
}

func changeOf(items []Dependent, verb string) Change {
	c := Change{Namespace: items[0].Namespace, TaskID: items[0].TaskID, Verb: verb, Actor: Actor{Type: pawl.ActorSystem}}
	for _, d := range items {
		c.ItemIDs = append(c.ItemIDs, d.ItemID)
	}
	return c
}
