package sweep_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/pawltest"
)

// A key that outlives its task is removed after its window.
func TestKeysOfRemovedTasksGoAfterTheirWindow(t *testing.T) {
	each(t, func(h *fixture) {
		ask := pawl.NewTask{Type: "a", Unique: &pawl.Unique{By: pawl.UniqueByKey, Key: "k", WindowSeconds: 40 * 86_400}}
		h.Create(ask)
		h.complete(h.claim(1)...)
		for i, want := range []int64{1, 0} {
			h.Advance([]time.Duration{31, 10}[i] * 24 * time.Hour)
			h.pass()
			h.same(h.count("SELECT count(*) FROM pawl.tasks"), int64(0), "tasks")
			h.same(h.count("SELECT count(*) FROM pawl.uniques"), want, "keys")
			breaches, err := h.Engine.Check(h.Context())
			h.OK(err)
			h.same(len(breaches), 0, "breaches")
		}
	})
}

// The plan item of a task, and the first item of a task of one that grew, have the id of the task. Their end is not its end.
func TestAKeyIsHeldUntilItsTaskHasEnded(t *testing.T) {
	each(t, func(h *fixture) {
		_, err := pawltest.First(h.Service.PutTypes(h.Context(), []pawl.Type{{Name: "planned", Plan: pawl.Plan{Mode: pawl.PlanItem}}}))
		h.OK(err)
		ask := func(typ string) pawl.NewTask {
			return pawl.NewTask{Type: typ, Payload: json.RawMessage(`1`), Unique: &pawl.Unique{By: pawl.UniqueByKey, Key: "k"}}
		}
		done := func(typ, result string) {
			l := h.ClaimN(1, pawl.ClaimRequest{WorkerID: "w", Types: []string{typ}})[0]
			_, err := pawl.Complete(h.Context(), h.Service, l.Fence(), json.RawMessage(result))
			h.OK(err)
		}
		h.Create(ask("planned"))
		done("planned.plan", `{"items":[{"input":1}]}`)
		grown := h.Create(ask("grown"))
		more := pawl.AddItems{TaskID: grown.ID, Items: []pawl.NewItem{{Input: json.RawMessage(`2`)}}}
		_, err = pawltest.First(h.Service.AddItems(h.Context(), []pawl.AddItems{more}))
		h.OK(err)
		done("grown", `1`)
		h.pass()
		for _, typ := range []string{"planned", "grown"} {
			_, err := pawl.Create(h.Context(), h.Service, ask(typ))
			h.same(pawl.CodeOf(err), pawl.CodeConflict, typ)
			done(typ, `2`)
		}
		h.pass()
		h.same(h.count("SELECT count(*) FROM pawl.uniques"), int64(0), "keys of ended tasks")
	})
}
