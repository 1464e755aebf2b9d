package schedules_test

import (
	"context"
	"testing"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/engine"
	"github.com/pawl-work/pawl/pawltest"
)

func TestMain(m *testing.M) { pawltest.Main(m) }

// hooked is a test of one engine that has the hook which plans tasks of the type report.
type hooked struct {
	*testing.T
	*pawltest.Pawl
}

func withHook(t *testing.T, fn func(o hooked)) {
	t.Helper()
	plan := func(context.Context, pawl.NewTask) ([]pawl.NewItem, error) { return []pawl.NewItem{{}}, nil }
	for _, which := range pawltest.Databases {
		t.Run(string(which), func(t *testing.T) {
			t.Parallel()
			p := pawltest.OpenWith(t, which, engine.Options{Hooks: map[string]pawl.Hooks{"report": {Plan: plan}}})
			_, err := pawltest.First(p.Engine.PutTypes(t.Context(), []pawl.Type{{Name: "report", Plan: pawl.Plan{Mode: pawl.PlanGo}}}))
			p.OK(err)
			fn(hooked{t, p})
		})
	}
}
