package engine_test

import (
	"encoding/json"
	"slices"
	"testing"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/pawltest"
)

// A list by state has the items in that state, of tasks of one item and of many, with and without
// a type.
func TestItemsAreListedByTheirStates(t *testing.T) {
	pawltest.Each(t, func(t *testing.T, p *pawltest.Pawl) {
		ctx, e := t.Context(), p.Engine
		var items []pawl.Item
		for _, one := range []pawl.NewTask{{}, {Items: []pawl.NewItem{{Input: json.RawMessage("1")}, {Input: json.RawMessage("2")}}}} {
			one.MaxAttempts, one.Payload = 1, json.RawMessage("1")
			for _, typ := range []string{"queued", "leased", "failed", "cancelled", "completed"} {
				one.Type = typ
				task := need[pawl.Task](t)(pawl.Create(ctx, e, one))
				if typ == "cancelled" {
					need[pawl.Task](t)(pawl.Cancel(ctx, e, task.ID, ""))
				}
			}
			for _, typ := range []string{"leased", "failed", "completed"} {
				for _, l := range need[[]pawl.Lease](t)(e.Claim(ctx, pawl.ClaimRequest{WorkerID: "w", Types: []string{typ}, Limit: 2})) {
					switch typ {
					case "failed":
						need[pawl.Moved](t)(first(e.Fail(ctx, []pawl.FailCall{{Fence: l.Fence(), Error: pawl.Failure{Message: "no"}}})))
					case "completed":
						need[pawl.Moved](t)(pawl.Complete(ctx, e, l.Fence(), nil))
					}
				}
			}
		}
		items = need[pawl.List[pawl.Item]](t)(e.ListItems(ctx, pawl.ItemFilter{})).Items
		for _, s := range []pawl.ItemState{pawl.ItemQueued, pawl.ItemLeased, pawl.ItemFailed, pawl.ItemCancelled, pawl.ItemCompleted} {
			for _, types := range [][]string{nil, {string(s)}, {"other"}} {
				var want, got []string
				for _, it := range items {
					if it.State == s && (types == nil || slices.Contains(types, it.Type)) {
						want = append(want, it.ID)
					}
				}
				for _, it := range need[pawl.List[pawl.Item]](t)(e.ListItems(ctx, pawl.ItemFilter{States: []pawl.ItemState{s}, Types: types})).Items {
					got = append(got, it.ID)
				}
				if !slices.Equal(got, want) || len(types) == 0 && len(want) != 3 {
					t.Errorf("%s of %v: %v, not %v", s, types, got, want)
				}
			}
		}
	})
}
