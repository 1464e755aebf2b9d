package rules

import (
	"encoding/json"
	"reflect"
	"slices"
	"testing"

	"github.com/pawl-work/pawl"
)

func TestFenceOrder(t *testing.T) {
	const now = 100
	held := func(change func(*Item)) Item {
		it := Item{LeaseExpires: now + 1}
		it.Kind, it.State, it.Attempt, it.LastWorkerID = pawl.KindWork, pawl.ItemLeased, 2, "w"
		change(&it)
		return it
	}
	fence := pawl.Fence{ItemID: "i", WorkerID: "w", Attempt: 2}
	for _, c := range []struct {
		name   string
		change func(*Item)
		verb   string
		want   string
	}{
		{"held", func(*Item) {}, "complete", ""},
		{"another attempt, before expiry", func(it *Item) { it.Attempt, it.LeaseExpires = 3, 0 }, "complete", "lease_lost taken"},
		{"another worker", func(it *Item) { it.LastWorkerID = "v" }, "complete", "lease_lost taken"},
		{"never claimed", func(it *Item) { it.LastWorkerID, it.State = "", pawl.ItemQueued }, "complete", "lease_lost taken"},
		{"expired, not swept", func(it *Item) { it.LeaseExpires = now }, "complete", "lease_lost expired"},
		{"expired and swept", func(it *Item) { it.State, it.LeftBy = pawl.ItemQueued, "expired" }, "complete", "lease_lost expired"},
		{"revoked", func(it *Item) { it.State, it.LeftBy = pawl.ItemQueued, "revoked" }, "complete", "lease_lost released"},
		{"sent back", func(it *Item) { it.State, it.LeftBy = pawl.ItemQueued, "rejected" }, "submit", "lease_lost released"},
		{"ended", func(it *Item) { it.State = pawl.ItemCompleted }, "complete", "conflict "},
		{"to be accepted", func(it *Item) { it.Acceptance = true }, "complete", "conflict "},
		{"to be accepted, submitted", func(it *Item) { it.Acceptance = true }, "submit", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			err := CheckFence(held(c.change), fence, now, c.verb)
			got := ""
			if e, ok := err.(*pawl.Error); ok {
				got = string(e.Code) + " " + e.Reason
			}
			if got != c.want {
				t.Errorf("got %q (%v), want %q", got, err, c.want)
			}
		})
	}
	plain, accepted := Allowed(held(func(*Item) {})), Allowed(held(func(it *Item) { it.Acceptance = true }))
	if slices.Contains(plain, "submit") || !slices.Contains(plain, "complete") || !slices.Contains(accepted, "submit") ||
		slices.Contains(accepted, "complete") {
		t.Errorf("allowed: %v, and with acceptance %v", plain, accepted)
	}
}

func TestUpdate(t *testing.T) {
	title := "new"
	before := pawl.Task{State: pawl.TaskQueued, Title: "old", Version: 3, Metadata: json.RawMessage(`{"a":1,"b":2}`)}
	after, diff, err := Update(before, &pawl.TaskUpdate{Title: &title, Metadata: json.RawMessage(`{"b":null,"c":[3]}`)})
	if err != nil || after.Title != "new" || string(after.Metadata) != `{"a":1,"c":[3]}` || before.Title != "old" {
		t.Errorf("updated: %+v, %v", after, err)
	}
	var changes map[string]any
	if json.Unmarshal([]byte(diff), &changes) != nil || !reflect.DeepEqual(changes["title"], map[string]any{"from": "old", "to": "new"}) ||
		len(changes) != 2 {
		t.Errorf("diff: %s", diff)
	}
	if _, diff, err := Update(before, &pawl.TaskUpdate{Metadata: json.RawMessage(`{"a":1}`)}); diff != "" || err != nil {
		t.Errorf("no change: %q, %v", diff, err)
	}
	two := 2
	if err := CheckUpdatable(before, &pawl.TaskUpdate{Version: &two}); pawl.CodeOf(err) != pawl.CodePrecondition {
		t.Errorf("another version: %v", err)
	}
	before.State = pawl.TaskCancelled
	if err := CheckUpdatable(before, &pawl.TaskUpdate{}); pawl.CodeOf(err) != pawl.CodeConflict {
		t.Errorf("an ended task: %v", err)
	}
}

func TestCallBytes(t *testing.T) {
	b := CallBytes{Op: "create"}
	if err := b.Take(pawl.MaxCallBytes); err != nil {
		t.Error(err)
	}
	if err := b.Take(1); pawl.CodeOf(err) != pawl.CodeTooLarge {
		t.Errorf("one byte more: %v", err)
	}
}
