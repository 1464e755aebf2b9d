package sweep_test

import (
	"context"
	"encoding/json"
	"errors"
	"testing"
	"time"

	"github.com/pawl-work/pawl"
)

// append1 appends a checkpoint that leaves no event.
func (h *fixture) append1(taskID string) error {
	h.Helper()
	rs, err := h.Service.AppendCheckpoints(context.WithoutCancel(h.Context()), []pawl.CheckpointAppend{{TaskID: taskID,
		Checkpoints: []pawl.AppendedCheckpoint{{NewCheckpoint: pawl.NewCheckpoint{Type: pawl.CustomCheckpoint,
			Snapshot: json.RawMessage(`{}`)}}}}})
	h.OK(err)
	return rs[0].Err
}

// kept is the number of chunks, and of checkpoints that append1 saved, that a task has in the database
// or in its archive.
func (h *fixture) kept(taskID string) (checkpoints, chunks int64) {
	h.Helper()
	if h.count("SELECT COUNT(*) FROM pawl.tasks WHERE id = $1", taskID) > 0 {
		return h.count("SELECT COUNT(*) FROM pawl.checkpoints WHERE task_id = $1 AND type = 'custom'", taskID),
			h.count("SELECT COUNT(*) FROM pawl.message_chunks WHERE message_id IN (SELECT id FROM pawl.messages WHERE task_id = $1)", taskID)
	}
	for _, line := range h.unpack(taskID) {
		var row struct{ Table, Type string }
		h.OK(json.Unmarshal([]byte(line), &row))
		switch {
		case row.Table == "checkpoints" && row.Type == pawl.CustomCheckpoint:
			checkpoints++
		case row.Table == "message_chunks":
			chunks++
		}
	}
	return checkpoints, chunks
}

// A checkpoint or a chunk that is accepted while a task is retired is in its archive, or keeps the task.
func TestWhatIsAcceptedWhileATaskIsRetiredIsKept(t *testing.T) {
	each(t, func(h *fixture) {
		for first := range 4 {
			id := h.Create(pawl.NewTask{Type: "a", Payload: json.RawMessage(`1`), MaxAttempts: 1}).ID
			opened, err := h.Service.OpenMessages(h.Context(), []pawl.OpenCall{{TaskID: id, Role: "assistant"}})
			h.OK(err)
			h.OK(opened[0].Err)
			h.fail(h.claim(1)...)
			h.OK(h.append1(id))
			accepted, chunks := int64(1), int64(0)
			db := &crashingDB{DB: h.DB, left: first, then: func() {
				if h.append1(id) == nil {
					accepted++
				}
				rs, err := h.Service.Append(context.WithoutCancel(h.Context()), []pawl.AppendCall{{
					MessageFence: pawl.MessageFence{MessageID: opened[0].Value.ID, Writer: opened[0].Value.Writer},
					Chunks:       []pawl.Chunk{{Type: "text", Text: "x"}}}})
				h.OK(err)
				if rs[0].Err == nil {
					chunks++
				}
			}}
			retired := h.server(db).Retire(h.Context(), id) == nil
			there := h.count("SELECT COUNT(*) FROM pawl.tasks WHERE id = $1", id) == 1
			if retired == there {
				t.Errorf("before transaction %d: retired %v, there %v", first, retired, there)
			}
			saved, written := h.kept(id)
			h.same([]any{saved, written}, []any{accepted, chunks}, "checkpoints and chunks that were accepted")
		}
	})
}

// A failed task is kept for its time from its newest checkpoint, also if that left no event.
func TestRetentionCountsFromTheNewestCheckpoint(t *testing.T) {
	each(t, func(h *fixture) {
		h.Options.BuryAfter = 0
		var ids []string
		for range 2 {
			ids = append(ids, h.Create(pawl.NewTask{Type: "a", Payload: json.RawMessage(`1`), MaxAttempts: 1}).ID)
		}
		h.fail(h.claim(2)...)
		h.Advance(90 * day)
		h.OK(h.append1(ids[0]))
		h.Advance(time.Second)
		h.same(h.pass().TasksPruned, 1, "pruned 90 days after the failure: the one without a checkpoint")
		h.Advance(90*day - 2*time.Second)
		h.same(h.pass().TasksPruned, 0, "pruned before 90 days after the checkpoint")
		h.Advance(2 * time.Second)
		h.same(h.pass().TasksPruned, 1, "pruned 90 days after the checkpoint")
		saved, _ := h.kept(ids[0])
		h.same(saved, 1, "checkpoints in the archive")
	})
}

// A task with consequences that are still to come is left, and removed by the first pass after them.
func TestRetentionLeavesWhatIsUnfinished(t *testing.T) {
	for name, c := range map[string]struct{ begin, end string }{
		"a cancel that its children have not got": {
			"INSERT INTO pawl.parents (task_id, namespace, depth, children, todo) SELECT id, namespace, 1, 1, 1 FROM pawl.tasks",
			"DELETE FROM pawl.parents"},
		"a step of the engine": {
			"INSERT INTO pawl.task_counters (task_id, namespace, todo) SELECT id, namespace, 1 FROM pawl.tasks", "DELETE FROM pawl.task_counters"},
		"an open reservation": {"INSERT INTO pawl.budget_reservations (id, namespace, budget_id, period_number, item_id, task_id, attempt, " +
			"key, state, amount, created_at) SELECT 'rsv_1', namespace, 'bgt_1', 1, id, id, 1, 'k', 0, 1, 1 FROM pawl.tasks",
			"DELETE FROM pawl.budget_reservations"},
		"a child of a wait to cancel": {
			"INSERT INTO pawl.child_cancels (item_id, child_id, namespace, task_id) SELECT id, id, namespace, id FROM pawl.tasks",
			"DELETE FROM pawl.child_cancels"},
	} {
		t.Run(name, func(t *testing.T) {
			each(t, func(h *fixture) {
				id := h.Create(pawl.NewTask{Type: "a", Payload: json.RawMessage(`1`)}).ID
				h.complete(h.claim(1)...)
				h.exec(c.begin)
				h.Advance(31 * day)
				p := h.server(h.DB)
				p.Options.BuryAfter = 0
				h.OK(p.Retention(h.Context()))
				h.OK(p.Retention(h.Context()))
				h.same(h.count("SELECT COUNT(*) FROM pawl.tasks"), 1, "tasks that are left")
				if err := h.Retire(h.Context(), id); err == nil {
					t.Error("it was retired")
				}
				h.exec(c.end)
				h.OK(p.Retention(h.Context()))
				h.same(h.count("SELECT COUNT(*) FROM pawl.tasks"), 0, "tasks that are left afterwards")
			})
		})
	}
}

// spawn spawns a child of a leased item.
func (h *fixture) spawn(l pawl.Lease, key string) (pawl.Task, error) {
	h.Helper()
	rs, err := h.Service.Spawn(h.Context(), []pawl.SpawnCall{{Fence: l.Fence(), Key: key, Task: pawl.NewTask{Type: "child"}}})
	h.OK(err)
	return rs[0].Value, rs[0].Err
}

// A child that retention has removed keeps its key and its link: the parent spawns no second one, and
// after a restore a cancel of the parent reaches the child.
func TestAChildThatWasArchivedKeepsItsKey(t *testing.T) {
	each(t, func(h *fixture) {
		h.Create(pawl.NewTask{Type: "parent"})
		l := h.Claim("parent")
		child, err := h.spawn(l, "k")
		h.OK(err)
		_, err = pawl.Fail(h.Context(), h.Service, h.Claim("child").Fence(), pawl.Permanent(errors.New("no")))
		h.OK(err)
		h.OK(h.Retire(h.Context(), child.ID))
		if again, err := h.spawn(l, "k"); pawl.CodeOf(err) != pawl.CodeConflict {
			t.Errorf("the key of a child that was archived: %+v, %v", again, err)
		}
		sus, err := h.Service.Suspend(h.Context(), []pawl.SuspendCall{{Fence: l.Fence(), Children: &pawl.ChildWait{IDs: []string{child.ID}}}})
		h.OK(err)
		h.same(pawl.CodeOf(sus[0].Err), pawl.CodeNotFound, "a wait for a child that was archived")
		h.OK(h.Restore(h.Context(), "default", child.ID))
		again, err := h.spawn(l, "k")
		h.OK(err)
		h.same([]any{again.ID, again.Deduplicated}, []any{child.ID, true}, "the key after the restore")
		_, err = pawl.Cancel(h.Context(), h.Service, l.TaskID, "")
		h.OK(err)
		h.same(h.state(child.ID), pawl.TaskCancelled, "the child of a parent that was cancelled")
	})
}

// Parents and children come back from their archives with links, keys and waits, in every order.
func TestParentsAndChildrenAreRestoredTogether(t *testing.T) {
	for name, order := range map[string][]int{
		"the parent first": {0, 1}, "the child first": {1, 0}, "the parent alone": {0}, "the child alone": {1}} {
		t.Run(name, func(t *testing.T) {
			each(t, func(h *fixture) {
				h.Create(pawl.NewTask{Type: "parent", MaxAttempts: 1})
				l := h.Claim("parent")
				child, err := h.spawn(l, "k")
				h.OK(err)
				live, err := h.spawn(l, "alive")
				h.OK(err)
				tasks := []string{l.TaskID, child.ID}
				sus, err := h.Service.Suspend(h.Context(), []pawl.SuspendCall{{Fence: l.Fence(), Children: &pawl.ChildWait{IDs: []string{child.ID}}}})
				h.OK(err)
				h.OK(sus[0].Err)
				h.complete(h.Claim("child")) // the first one
				l = h.Claim("parent")
				_, err = pawl.Fail(h.Context(), h.Service, l.Fence(), pawl.Permanent(errors.New("no")))
				h.OK(err)
				resume, err := h.Service.Resume(h.Context(), l.ID)
				h.OK(err)
				before := [][]string{h.dump(tasks[0]), h.dump(tasks[1])}
				h.OK(h.Retire(h.Context(), tasks...))
				h.same(h.count("SELECT COUNT(*) FROM pawl.child_links"), 1, "links left: that of the child that is there")
				for _, n := range order {
					h.OK(h.Restore(h.Context(), "default", tasks[n]))
					h.same(h.dump(tasks[n]), before[n], "what came back")
				}
				if order[0] == 1 && len(order) == 1 {
					return
				}
				got, err := h.Service.GetTask(h.Context(), tasks[0])
				h.OK(err)
				h.same(got.Children, 2, "children")
				again, err := h.Service.Resume(h.Context(), l.ID)
				h.OK(err)
				if len(order) == 2 {
					h.same(again.Children, resume.Children, "the wait")
				}
				_, err = pawl.Retry(h.Context(), h.Service, tasks[0])
				h.OK(err)
				l = h.Claim("parent")
				found, err := h.spawn(l, "alive")
				h.OK(err)
				h.same(found.ID, live.ID, "the key of the child that is alive")
				if _, err := h.spawn(l, "k"); len(order) == 1 && pawl.CodeOf(err) != pawl.CodeConflict {
					t.Errorf("the key of the child that is archived: %v", err)
				}
				_, err = pawl.Cancel(h.Context(), h.Service, tasks[0], "")
				h.OK(err)
				h.same(h.state(live.ID), pawl.TaskCancelled, "the child of a parent that was cancelled")
				_, err = h.Service.DeleteTasks(h.Context(), []pawl.TaskCall{{TaskID: tasks[0]}})
				h.OK(err)
				h.same(h.count("SELECT COUNT(*) FROM pawl.child_links"), 0, "links after a deletion")
			})
		})
	}
}

// The archives of older programs have no links: a restore makes them from the ids of the parents.
func TestLinksThatAnOlderArchiveLacks(t *testing.T) {
	each(t, func(h *fixture) {
		parent := h.Create(pawl.NewTask{Type: "parent"})
		l := h.Claim("parent")
		child := h.Create(pawl.NewTask{Type: "child", ParentID: parent.ID})
		h.complete(l)
		h.exec("DELETE FROM pawl.child_links")
		h.exec("DELETE FROM pawl.parents")
		h.OK(h.Retire(h.Context(), parent.ID))
		h.OK(h.Restore(h.Context(), "default", parent.ID))
		got, err := h.Service.GetTask(h.Context(), parent.ID)
		h.OK(err)
		h.same(got.Children, 1, "children")
		h.same(h.count("SELECT COUNT(*) FROM pawl.child_links WHERE child_id = $1 AND parent_id = $2", child.ID, parent.ID), 1, "links")
	})
}
