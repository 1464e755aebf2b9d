package sweep_test

import (
	"encoding/json"
	"slices"
	"testing"
	"time"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/store"
)

// A cursor that has many tasks to try again sets them aside and goes on. They are removed when they can go.
func TestManyTasksThatCannotGoYetAreSetAside(t *testing.T) {
	const n = 1100 // more than a list has
	each(t, func(h *fixture) {
		h.Create(pawl.NewTask{Type: "parent", Payload: json.RawMessage(`{}`)})
		held, err := h.Service.Claim(h.Context(), pawl.ClaimRequest{WorkerID: "p", Types: []string{"parent"}, LeaseSeconds: 3600})
		h.OK(err)
		children := slices.Repeat([]pawl.NewTask{{Type: "a", Payload: json.RawMessage(`{}`), ParentID: held[0].TaskID}}, n)
		ids := make([]string, 0, n)
		for some := range slices.Chunk(children, 500) {
			rs, err := h.Service.CreateTasks(h.Context(), some)
			h.OK(err)
			for _, r := range rs {
				h.OK(r.Err)
				ids = append(ids, r.Value.ID)
			}
		}
		rs, err := h.Service.Suspend(h.Context(), []pawl.SuspendCall{{Fence: held[0].Fence(), Children: &pawl.ChildWait{IDs: ids}}})
		h.OK(err)
		h.OK(rs[0].Err)
		for left := n - 1; left > 0; left -= 500 {
			h.complete(h.claim(min(left, 500))...)
		}
		h.Advance(31 * day)
		h.same(h.pass().TasksPruned, 0, "pruned while their parent waits")
		h.same(h.count("SELECT COUNT(*) FROM pawl.relay_cursors WHERE sink LIKE 'sweep.retain.left.%'"), 1, "lists")
		h.OK(h.Check(h.Context(), func(b store.Breach) { h.Errorf("%+v", b) }))
		prunable, err := h.Preview(h.Context())
		h.OK(err)
		h.same(prunable.Tasks, 0, "that a preview counts")

		h.complete(h.claim(1)...) // the last child
		h.complete(h.claim(1)...) // their parent, which has read their results
		prunable, err = h.Preview(h.Context())
		h.OK(err)
		h.same(prunable.Tasks, n-1, "that a preview counts when the parent has ended")
		h.same(h.pass().TasksPruned, n-1, "pruned when the parent has ended")
		h.same(h.count("SELECT COUNT(*) FROM pawl.relay_cursors WHERE sink LIKE 'sweep.retain.left.%'"), 0, "lists that are left")
		h.Advance(30*day + time.Second)
		h.same(h.pass().TasksPruned, 2, "pruned at last: a child and the parent")
	})
}
