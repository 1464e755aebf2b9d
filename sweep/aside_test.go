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
		h.OK(h.Check(h.Context(), h.DB, func(b store.Breach) { h.Errorf("%+v", b) }))
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

// Many restored tasks of a type with a longer retention keep no other restored task.
func TestRestoredTasksOfALongRetentionHideNoOther(t *testing.T) {
	each(t, func(h *fixture) {
		h.OK(h.put(pawl.Type{Name: "long", Retention: pawl.Retention{TaskSeconds: 365 * 24 * 3600}}))
		create := func(typ string, n int) {
			rs, err := h.Service.CreateTasks(h.Context(), slices.Repeat([]pawl.NewTask{{Type: typ, Payload: json.RawMessage(`{}`)}}, n))
			h.OK(err)
			for _, r := range rs {
				h.OK(r.Err)
			}
			h.complete(h.claim(n)...)
		}
		create("long", 500)
		create("long", 500)
		create("a", 1)
		h.exec("INSERT INTO pawl.archives (task_id, namespace, path, bytes, sha256, created_at, restored_at) " +
			"SELECT id, namespace, 'none', 0, '', 1, CASE WHEN type = 'a' THEN 2 ELSE 1 END FROM pawl.tasks")
		h.exec("INSERT INTO pawl.relay_cursors (sink, position, detail, updated_at) " +
			"SELECT 'sweep.retain', MAX(id), '{}', 0 FROM pawl.task_events")
		h.Advance(31 * day)
		h.same(h.pass().TasksPruned, 1, "pruned")
	})
}
