package engine_test

import (
	"encoding/json"
	"errors"
	"slices"
	"testing"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/pawltest"
)

// The items of a task in a state are those that the list of all shows in it, over pages too.
func TestItemsOfATaskByState(t *testing.T) {
	pawltest.Each(t, func(t *testing.T, p *pawltest.Pawl) {
		ctx, svc := t.Context(), p.Engine
		items := make([]pawl.NewItem, 70)
		for i := range items {
			items[i] = pawl.NewItem{Key: string(rune('a'+i/10)) + string(rune('0'+i%10)), Input: json.RawMessage(`1`), MaxAttempts: 2}
		}
		items[69].After = []string{"a0"}
		task := need[pawl.Task](t)(pawl.Create(ctx, svc, pawl.NewTask{Type: "a", Items: items}))
		held := leases(t, svc, pawl.ClaimRequest{WorkerID: "w", TaskID: task.ID, Limit: 50, LeaseSeconds: 3600}, 50)
		for i, l := range held[:48] {
			switch {
			case i < 40:
				need[pawl.Moved](t)(pawl.Complete(ctx, svc, l.Fence(), nil))
			case i < 44:
				need[pawl.Moved](t)(pawl.Fail(ctx, svc, l.Fence(), pawl.Permanent(errors.New("no"))))
			case i < 46:
				need[pawl.Moved](t)(pawl.Fail(ctx, svc, l.Fence(), errors.New("again")))
			default:
				need[pawl.Beat](t)(first(svc.Heartbeat(ctx, []pawl.HeartbeatCall{{Fence: l.Fence()}})))
			}
		}
		list := func(f pawl.ItemFilter) (out []string) {
			f.TaskID, f.Limit = task.ID, 7
			for {
				l := need[pawl.List[pawl.Item]](t)(svc.ListItems(ctx, f))
				for _, it := range l.Items {
					out = append(out, it.ID+" "+string(it.State)+" "+string(it.Status))
				}
				if f.Cursor = l.Next; f.Cursor == "" {
					return out
				}
			}
		}
		all := list(pawl.ItemFilter{})
		if len(all) != len(items) {
			t.Fatalf("%d items of %d", len(all), len(items))
		}
		for _, desc := range []bool{false, true} {
			for _, states := range [][]pawl.ItemState{{"queued"}, {"scheduled"}, {"waiting"}, {"leased"}, {"in_progress"}, {"completed"}, {"failed"},
				{"cancelled"}, {"leased", "failed", "queued"}, {"scheduled", "waiting", "completed"}} {
				want := slices.DeleteFunc(slices.Clone(all), func(row string) bool {
					return !slices.ContainsFunc(states, func(s pawl.ItemState) bool { return row[31:31+min(len(s), len(row)-31)] == string(s) })
				})
				if desc {
					slices.Reverse(want)
				}
				if got := list(pawl.ItemFilter{States: states, Desc: desc}); !slices.Equal(got, want) {
					t.Errorf("%v: %d items, want %d:\n%v\n%v", states, len(got), len(want), got, want)
				}
			}
		}
		if got := list(pawl.ItemFilter{Statuses: []pawl.Status{pawl.StatusFailed}}); len(got) != 4 {
			t.Errorf("%d failed", len(got))
		}
	})
}
