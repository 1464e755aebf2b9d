package engine_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/engine"
	"github.com/pawl-work/pawl/pawltest"
)

// Large rows that change beside the copy are copied a few megabytes at a time.
func TestLargeChangesAreCopiedInParts(t *testing.T) {
	someMoves(t, func(from, to pawltest.Database) bool { return from == to }, func(t *testing.T, from, to *pawltest.Pawl) {
		other := from.Another(engine.Options{})
		need[pawl.Task](t)(pawl.Create(t.Context(), from.Service, pawl.NewTask{Type: "a"}))
		payload := json.RawMessage(`"` + strings.Repeat("x", 1000<<10) + `"`)
		const tasks = 12
		began, parts := false, 0
		out := moveAll(t, from, to, engine.Move{Step: func(name string) {
			switch {
			case name == "copied" && !began:
				began = true
				for range tasks {
					need[pawl.Task](t)(pawl.Create(t.Context(), other, pawl.NewTask{Type: "a", Payload: payload}))
				}
			case name == "changes" && began:
				parts++
			}
		}})
		if parts < tasks/4 {
			t.Errorf("%d MB of changes were copied in %d parts", tasks, parts)
		}
		if n := out.Rows["tasks"]; n != tasks+1 {
			t.Errorf("the target has %d tasks", n)
		}
	})
}
