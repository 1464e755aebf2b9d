package suite

import (
	"fmt"
	"strings"
	"time"

	"github.com/pawl-work/pawl"
)

func (w *fixture) fork(of string, at int64) pawl.Task {
	w.Helper()
	t, err := first(w.svc.ForkTasks(w.ctx, []pawl.TaskFork{{TaskID: of, Checkpoint: at}}))
	w.ok(err, "fork")
	return t
}

// checkpointsOf returns number, type, name and snapshot of each checkpoint of a task.
func (w *fixture) checkpointsOf(taskID string) (out []string) {
	w.Helper()
	l, err := w.svc.ListCheckpoints(w.ctx, pawl.CheckpointFilter{TaskID: taskID, Page: pawl.Page{Limit: 100}})
	w.ok(err, "list checkpoints")
	for _, c := range l.Items {
		out = append(out, fmt.Sprintf("%d %s %s %s", c.Sequence, c.Type, c.Name, c.Snapshot))
	}
	return out
}

// refusedFork returns the error of a fork.
func (w *fixture) refusedFork(of string, at int64, code pawl.Code) *pawl.Error {
	w.Helper()
	_, err := first(w.svc.ForkTasks(w.ctx, []pawl.TaskFork{{TaskID: of, Checkpoint: at}}))
	return w.refused(err, code)
}

func (w *fixture) save(l pawl.Lease, c pawl.NewCheckpoint) pawl.CheckpointRef {
	w.Helper()
	ref, err := pawl.SaveCheckpoint(w.ctx, w.svc, l.Fence(), c)
	w.ok(err, "checkpoint")
	return ref
}

var forks = noun{"forks", []promise{
	{"a fork goes on from a checkpoint of a task that has ended", func(w *fixture) {
		of := w.create(pawl.NewTask{Type: "a", Title: "x", Priority: 3, Payload: raw(`{"n": 1}`), Metadata: raw(`{"repo":"r"}`), MaxAttempts: 5,
			StartToCloseSeconds: 600, Dedupe: pawl.Dedupe{All: true}})
		l := w.claim("w1")
		large := `"` + strings.Repeat("x", 2*pawl.MinBlobBytes) + `"`
		w.save(l, pawl.NewCheckpoint{Type: pawl.ToolExecuted, Name: "one", ArgsHash: "h", Snapshot: raw(large), Metadata: raw(`{"m":1}`)})
		w.save(l, pawl.NewCheckpoint{Type: pawl.ToolExecuted, Name: "two", Snapshot: raw(`2`)})
		w.save(l, pawl.NewCheckpoint{Type: pawl.ToolExecuted, Name: "three", Snapshot: raw(`3`)})
		w.complete(l, `1`)
		w.advance(time.Second)
		got := w.fork(of.ID, 2)
		w.same(asCreated(got), asCreated(w.task(got.ID)), "the fork read back")
		want := of
		want.ID, want.InputHash, want.Deduplicated = got.ID, "", false
		want.ForkedFrom, want.ForkedAt = of.ID, ptr(int64(2))
		want.CreatedAt, want.UpdatedAt, want.LastTransitionedAt = w.now(), w.now(), w.now()
		w.same(got, want, "the fork")
		w.same(w.checkpointsOf(got.ID), w.checkpointsOf(of.ID)[:2], "its checkpoints")
		e := w.allEvents(pawl.EventFilter{TaskID: got.ID})[0]
		if !strings.Contains(string(e.Data), `"forked_from":"`+of.ID+`","forked_at":2`) {
			w.Errorf("the event does not say of what: %s", e.Data)
		}
		next := w.claim("w2")
		state, err := w.svc.Resume(w.ctx, next.ID)
		w.ok(err, "resume")
		w.same([]any{string(state.Steps["one"].Snapshot), state.Steps["one"].ArgsHash, string(state.Steps["one"].Metadata), len(state.Steps),
			state.Newest.Sequence, next.Attempt, next.Forked, l.Forked}, []any{large, "h", `{"m":1}`, 2, int64(2), 1, true, false},
			"what its worker resumes from")
		w.same(w.save(next, pawl.NewCheckpoint{Type: pawl.ToolExecuted, Name: "three", Snapshot: raw(`4`)}).Sequence, int64(3),
			"the number after it")
		w.complete(next, `2`)
		w.same([]any{w.task(got.ID).State, w.task(of.ID).Version}, []any{pawl.TaskCompleted, w.task(of.ID).Version}, "both")
		w.same(len(w.checkpointsOf(of.ID)), 3, "checkpoints of the older task")
	}},
	{"a fork from checkpoint 0 begins anew", func(w *fixture) {
		of := w.create(pawl.NewTask{Type: "a", Payload: raw(`1`)})
		got := w.fork(of.ID, 0)
		w.same([]any{got.ForkedFrom, *got.ForkedAt, len(w.checkpointsOf(got.ID))}, []any{of.ID, int64(0), 0}, "the fork")
		w.same(*w.task(got.ID).ForkedAt, int64(0), "read back")
		l, err := w.svc.Claim(w.ctx, pawl.ClaimRequest{WorkerID: "w1", TaskID: got.ID})
		w.ok(err, "claim")
		w.same(l[0].Forked, false, "its lease: there is nothing to resume")
		again := w.fork(got.ID, 0)
		w.same(again.ForkedFrom, got.ID, "a fork of a fork")
	}},
	{"each item of a fork has the checkpoints of the item that it is a copy of", func(w *fixture) {
		of := w.create(pawl.NewTask{Type: "a", Payload: raw(`"p"`),
			Items: []pawl.NewItem{{Input: raw(`1`), Key: "1"}, {Input: raw(`2`), Key: "2"}}})
		one, two := w.claim("w1"), w.claim("w1")
		w.save(one, pawl.NewCheckpoint{Type: pawl.ToolExecuted, Name: "s", Snapshot: raw(`"of 1"`)})
		w.save(two, pawl.NewCheckpoint{Type: pawl.ToolExecuted, Name: "s", Snapshot: raw(`"of 2"`)})
		_, err := w.svc.CheckpointTasks(w.ctx, []pawl.TaskCheckpoint{{TaskID: of.ID,
			NewCheckpoint: pawl.NewCheckpoint{Type: pawl.ManualCheckpoint, Snapshot: raw(`"of the task"`)}}})
		w.ok(err, "checkpoint of the task")
		w.complete(one, `1`)
		got := w.fork(of.ID, 3)
		w.same([]any{got.Items, len(w.checkpointsOf(got.ID))}, []any{2, 3}, "the fork")
		for _, it := range w.items(got.ID) {
			state, err := w.svc.Resume(w.ctx, it.ID)
			w.ok(err, "resume")
			w.same([]any{string(state.Steps["s"].Snapshot), it.State}, []any{`"of ` + it.Key + `"`, pawl.ItemQueued}, "item "+it.Key)
			w.same(w.claimItem("w1", it.ID).Forked, true, "what its worker is told")
		}
	}},
	{"the step of a message is a plain checkpoint in a fork", func(w *fixture) {
		_, l := w.claimedReply()
		id := l.OpenMessage.ID
		w.append(l, id, 0, "one. ")
		w.step(l, id)
		w.append(l, id, 1, "two. ")
		w.step(l, id)
		of := w.checkpointsOf(l.TaskID)
		got := w.fork(l.TaskID, 2)
		w.same(w.checkpointsOf(got.ID), of[1:], "the newest step of the message")
	}},
	{"a checkpoint that is not there is refused with what is left", func(w *fixture) {
		w.oneItem()
		l := w.claim("w1")
		e := w.refusedFork(l.TaskID, 1, pawl.CodeNotFound)
		w.same(fmt.Sprint(e.Kept != nil, e.Kept), "true []", "what is left of nothing")
		w.save(l, pawl.NewCheckpoint{Type: pawl.CustomCheckpoint, Snapshot: raw(`1`)})
		w.save(l, pawl.NewCheckpoint{Type: pawl.CustomCheckpoint, Snapshot: raw(`2`)})
		e = w.refusedFork(l.TaskID, 3, pawl.CodeNotFound)
		w.same([]any{e.Kept, strings.Contains(e.Message, "the newest is 2")}, []any{[]int64{1, 2}, true}, "what is left")
		_, err := first(w.svc.ForkTasks(w.ctx, []pawl.TaskFork{{TaskID: l.TaskID, Checkpoint: -1}}))
		w.invalid(err, "/checkpoint")
		w.refusedFork("tsk_nope", 0, pawl.CodeNotFound)
		other := w.in("other")
		_, err = first(other.svc.ForkTasks(other.ctx, []pawl.TaskFork{{TaskID: l.TaskID}}))
		w.refused(err, pawl.CodeNotFound)
	}},
	{"the lease of a clone with checkpoints says that there is something to resume, also in a queue with limits", func(w *fixture) {
		w.limit("a", `{"concurrency":10}`)
		of := w.create(pawl.NewTask{Type: "a", Payload: raw(`1`)})
		l := w.claim("w1")
		w.save(l, pawl.NewCheckpoint{Type: pawl.ToolExecuted, Name: "s", Snapshot: raw(`1`)})
		_, err := first(w.svc.CloneTasks(w.ctx, []pawl.TaskClone{{TaskID: of.ID, Checkpoints: true}}))
		w.ok(err, "clone")
		w.same([]bool{l.Forked, w.claim("w1").Forked}, []bool{false, true}, "the task, and its clone")
	}},
	{"a fork is in the round of rework in which its original went on from the checkpoint", func(w *fixture) {
		for _, n := range []int{1, 2} {
			task, ls := w.claimedTask(essay, n)
			for _, l := range ls[1:] {
				w.submit(l, `{"title":"other"}`)
			}
			l := ls[0]
			why := [3][]pawl.Complaint{nil, {{Code: "thin", Message: "thin"}}, {{Code: "dull", Message: "dull"}}}
			for round := range 3 {
				if round > 0 {
					w.rejectForRework(task.ID, why[round], l.ID)
					l = w.claim("w1")
				}
				w.save(l, pawl.NewCheckpoint{Type: pawl.ToolExecuted, Name: fmt.Sprint("a", round), Snapshot: raw(`1`)})
				w.save(l, pawl.NewCheckpoint{Type: pawl.ToolExecuted, Name: fmt.Sprint("b", round), Snapshot: raw(`2`)})
				w.submit(l, `{"title":"a"}`)
			}
			in := func(got pawl.Task, round int) {
				w.Helper()
				it := w.items(got.ID)
				l := w.claimItem("w2", it[0].ID)
				w.same([]any{it[0].Rework, l.Rework, l.Attempt, l.Reasons}, []any{round, round, 1, why[round]}, "round")
				for _, it := range it[1:] {
					w.same(w.claimItem("w2", it.ID).Rework, 0, "an item that was not sent back")
				}
			}
			for at, round := range []int{0, 0, 1, 1, 2, 2, 2} {
				in(w.fork(task.ID, int64(at)), round)
			}
			fork := w.fork(task.ID, 4)
			in(fork, 2)
			in(w.fork(fork.ID, 4), 2)
			for i, round := range []int{0, 2} {
				copied, err := first(w.svc.CloneTasks(w.ctx, []pawl.TaskClone{{TaskID: task.ID, Checkpoints: i == 1}}))
				w.ok(err, "clone")
				in(copied, round)
			}
			if n == 1 {
				again := w.fork(task.ID, 6)
				w.submit(w.claimItem("w3", w.items(again.ID)[0].ID), `{"title":"a"}`)
				w.rejectForRework(again.ID, why[1])
				w.same(w.claimItem("w3", w.items(again.ID)[0].ID).Rework, 3, "a fork that is sent back")
			}
			w.removeType(essay.Name)
		}
	}},
	{"a fork takes no unique key", func(w *fixture) {
		of := w.create(pawl.NewTask{Type: "a", Payload: raw(`1`), Unique: &pawl.Unique{By: "key", Key: "k"}})
		w.fork(of.ID, 0)
		_, err := first(w.svc.CreateTasks(w.ctx, []pawl.NewTask{{Type: "a", Payload: raw(`1`), Unique: &pawl.Unique{By: "key", Key: "k"}}}))
		w.same(w.refused(err, pawl.CodeConflict).TaskID, of.ID, "who has the key")
	}},
}}
