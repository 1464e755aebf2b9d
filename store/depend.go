package store

import (
	"context"
	"encoding/json"

	"github.com/pawl-work/pawl"
)

// Dependent is an item that waits for other items, or that failed because one of them
// failed. It has how many of them failed and how many ended in another state than
// completed.
type Dependent struct {
	ItemID, Namespace, TaskID string
	Failed, Ended             int
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
