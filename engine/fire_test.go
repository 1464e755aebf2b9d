package engine_test

import (
	"context"
	"encoding/json"
	"testing"
	"time"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/engine"
)

// outcomes lists what became of a schedule's ticks, oldest first.
func outcomes(t testing.TB, svc pawl.Service, name string) (out []pawl.FiringOutcome) {
	t.Helper()
	list := need[pawl.List[pawl.Firing]](t)(svc.ListFirings(t.Context(), pawl.FiringFilter{Schedule: name}))
	for _, f := range list.Items {
		out = append([]pawl.FiringOutcome{f.Outcome}, out...)
	}
	return out
}

// A process that lacks the hook of a schedule's type fires the other schedules. One that has
// the hook fires it later, and no tick is lost.
func TestAScheduleWhoseHookIsElsewhereStopsNoOther(t *testing.T) {
	report := pawl.Type{Name: "report", Plan: pawl.Plan{Mode: pawl.PlanGo}}
	def, err := json.Marshal(report)
	if err != nil {
		t.Fatal(err)
	}
	plan := func(context.Context, pawl.NewTask) ([]pawl.NewItem, error) { return []pawl.NewItem{{}}, nil }
	withType(t, string(def), pawl.Hooks{Plan: plan}, func(o typeFixture) {
		for _, s := range []pawl.NewSchedule{{Name: "hooked", EverySeconds: 3600, Task: pawl.NewTask{Type: "report"}},
			{Name: "plain", EverySeconds: 3600, Task: pawl.NewTask{Type: "a"}}} {
			need[pawl.Schedule](t)(o.Engine.CreateSchedule(o.Context(), s))
		}
		without := o.Another(engine.Options{})
		o.Advance(time.Hour)
		need[pawl.SweepStats](t)(without.Sweep(o.Context()))
		s := need[pawl.Schedule](t)(without.GetSchedule(o.Context(), "hooked"))
		if got := outcomes(o, without, "plain"); len(got) != 1 || got[0] != pawl.FiringCreated {
			o.Errorf("the other schedule: %v", got)
		}
		if got := outcomes(o, without, "hooked"); len(got) != 0 || s.Error == nil || s.Error.Code != string(pawl.CodeUnavailable) {
			o.Errorf("without the hook: %v, %+v", got, s.Error)
		}
		o.Advance(pawl.ScheduleGrace - time.Second)
		need[pawl.SweepStats](t)(o.Engine.Sweep(o.Context()))
		s = need[pawl.Schedule](t)(o.Engine.GetSchedule(o.Context(), "hooked"))
		if got := outcomes(o, o.Engine, "hooked"); len(got) != 1 || got[0] != pawl.FiringCreated || s.Error != nil {
			o.Errorf("with the hook: %v, %+v", got, s.Error)
		}
	})
}
