package engine_test

import (
	"testing"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/pawltest"
)

// Every task is in one of the two lists by has_available_items, also those whose plan or apply item is
// queued.
func TestATaskHasAvailableItemsOrNot(t *testing.T) {
	pawltest.Each(t, func(t *testing.T, p *pawltest.Pawl) {
		ctx, e := t.Context(), p.Engine
		need[pawl.TypeRef](t)(first(e.PutTypes(ctx, []pawl.Type{{Name: "edit", Approval: pawl.Approval{Mode: pawl.ApprovalManual},
			Apply: pawl.Apply{Mode: pawl.ApplyItem}}})))
		need[pawl.TypeRef](t)(first(e.PutTypes(ctx, []pawl.Type{{Name: "plan", Plan: pawl.Plan{Mode: pawl.PlanItem}}})))
		want := map[string]bool{}
		for _, items := range [][]pawl.NewItem{nil, make([]pawl.NewItem, 2)} {
			task := need[pawl.Task](t)(pawl.Create(ctx, e, pawl.NewTask{Type: "edit", Items: items}))
			for _, l := range leases(t, e, pawl.ClaimRequest{WorkerID: "w", Types: []string{"edit"}, Limit: 2}, max(1, len(items))) {
				need[pawl.Moved](t)(first(e.Submit(ctx, []pawl.SubmitCall{{Fence: l.Fence(), Result: []byte(`1`)}})))
			}
			need[pawl.Task](t)(first(e.ApproveTasks(ctx, []pawl.ApproveCall{{TaskID: task.ID}})))
			want[task.ID] = true
			want[need[pawl.Task](t)(pawl.Create(ctx, e, pawl.NewTask{Type: "free", Items: items})).ID] = true
			held := need[pawl.Task](t)(pawl.Create(ctx, e, pawl.NewTask{Type: "held", Items: items}))
			leases(t, e, pawl.ClaimRequest{WorkerID: "w", Types: []string{"held"}, Limit: 2}, max(1, len(items)))
			want[held.ID] = false
		}
		want[need[pawl.Task](t)(pawl.Create(ctx, e, pawl.NewTask{Type: "plan"})).ID] = true
		for _, available := range []bool{true, false} {
			found := map[string]bool{}
			for _, task := range need[pawl.List[pawl.Task]](t)(e.ListTasks(ctx, pawl.TaskFilter{Available: &available})).Items {
				found[task.ID] = true
			}
			for id, so := range want {
				if found[id] != (so == available) {
					task := need[pawl.Task](t)(e.GetTask(ctx, id))
					t.Errorf("with available %t: the %s task %s of %d items is there: %t", available, task.State, task.Type, task.Items, found[id])
				}
			}
		}
	})
}
