package sweep_test

import (
	"testing"
	"time"

	"github.com/pawl-work/pawl"
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
