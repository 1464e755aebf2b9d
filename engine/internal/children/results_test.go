package children_test

import (
	"testing"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/pawltest"
)

// The results of children that a parent waits for are those of their tasks, not of an item that has a child's id.
func TestAParentGetsTheResultsOfItsChildren(t *testing.T) {
	pawltest.Each(t, func(t *testing.T, p *pawltest.Pawl) {
		types := []pawl.Type{
			{Name: "planned", Plan: pawl.Plan{Mode: pawl.PlanItem}},
			{Name: "applied", Acceptance: true, Apply: pawl.Apply{Mode: pawl.ApplyItem}},
		}
		for _, typ := range types {
			need[pawl.TypeRef](t)(first(p.Engine.PutTypes(t.Context(), []pawl.Type{typ})))
		}
		parent := need[pawl.Task](t)(pawl.Create(t.Context(), p.Engine, pawl.NewTask{Type: "parent"}))
		l := leases(t, p.Engine, pawl.ClaimRequest{WorkerID: "p", Types: []string{"parent"}, LeaseSeconds: 600}, 1)[0]
		child := func(typ string) string {
			return need[pawl.Task](t)(pawl.Create(t.Context(), p.Engine, pawl.NewTask{Type: typ, ParentID: parent.ID, Payload: []byte(`1`)})).ID
		}
		one := func(typ string) pawl.Lease {
			return leases(t, p.Engine, pawl.ClaimRequest{WorkerID: "w", Types: []string{typ}}, 1)[0]
		}
		done := func(l pawl.Lease, result string) {
			need[pawl.Moved](t)(pawl.Complete(t.Context(), p.Engine, l.Fence(), []byte(result)))
		}
		planned, grown, applied, plain := child("planned"), child("grown"), child("applied"), child("plain")
		more := pawl.AddItems{TaskID: grown, Items: []pawl.NewItem{{Input: []byte(`2`)}}}
		need[pawl.Task](t)(first(p.Engine.AddItems(t.Context(), []pawl.AddItems{more})))
		ok(t, awaitChildren(p.Engine, l, pawl.ChildWait{IDs: []string{planned, grown, applied, plain}}))
		done(one("planned.plan"), `{"items":[{"input":1}]}`)
		done(one("planned"), `"planned"`)
		done(one("grown"), `"first"`)
		done(one("grown"), `"second"`)
		submitted := one("applied")
		need[pawl.Moved](t)(first(p.Engine.Submit(t.Context(), []pawl.SubmitCall{{Fence: submitted.Fence(), Result: []byte(`"submitted"`)}})))
		done(one("applied.apply"), `{"result":"applied"}`)
		done(one("plain"), `"plain"`)
		need[pawl.SweepStats](t)(p.Engine.Sweep(t.Context()))
		state := need[pawl.ResumeState](t)(p.Engine.Resume(t.Context(), l.ID))
		got := map[string]string{}
		for _, c := range state.Children.Items {
			got[c.ID] = string(c.Result)
			if c.Omitted != (c.Result == nil) {
				t.Errorf("%+v", c)
			}
		}
		for id, want := range map[string]string{planned: "", grown: "", applied: `"applied"`, plain: `"plain"`} {
			if r, listed := got[id]; !listed || r != want {
				t.Errorf("the result of %s is %q, want %q", id, r, want)
			}
		}
	})
}
