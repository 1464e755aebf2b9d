package suite

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/pawl-work/pawl"
)

var workers = noun{"workers", []promise{
	{"a registered worker is listed with its data and its leases", func(w *fixture) {
		started := w.now()
		w.ok(w.svc.RegisterWorker(w.ctx, pawl.WorkerInfo{WorkerID: "w1", Name: "one", Version: "1.2", Types: []string{"a", "b"}}), "register")
		w.manyItems(3)
		w.advance(time.Minute)
		ls := w.claims(pawl.ClaimRequest{WorkerID: "w1", Limit: 2})
		list, err := w.svc.ListWorkers(w.ctx, pawl.WorkerFilter{})
		w.ok(err, "list workers")
		w.same(list.Items, []pawl.WorkerInfo{{
			WorkerID: "w1", Name: "one", Version: "1.2", Types: []string{"a", "b"}, InFlight: 2, StartedAt: started, LastSeenAt: w.now(),
		}}, "workers")
		w.complete(ls[0], `1`)
		list, err = w.svc.ListWorkers(w.ctx, pawl.WorkerFilter{})
		w.ok(err, "list workers")
		w.same(list.Items[0].InFlight, 1, "in flight")
	}},
	{"a heartbeat enters its worker only where it is not refused", func(w *fixture) {
		w.oneItem()
		l := w.claim("w1")
		other := l.Fence()
		other.WorkerID = "nobody"
		if _, err := pawl.Heartbeat(w.ctx, w.svc, other); !errors.Is(err, pawl.ErrLeaseTaken) {
			w.Fatalf("a heartbeat of another's lease: %v", err)
		}
		w.advance(time.Second)
		w.heartbeat(l)
		list, err := w.svc.ListWorkers(w.ctx, pawl.WorkerFilter{})
		w.ok(err, "list workers")
		w.same([]any{len(list.Items), list.Items[0].WorkerID, list.Items[0].LastSeenAt}, []any{1, "w1", w.now()}, "workers")
	}},
	{"registering again renews the entry", func(w *fixture) {
		w.ok(w.svc.RegisterWorker(w.ctx, pawl.WorkerInfo{WorkerID: "w1", Version: "1"}), "register")
		w.advance(time.Minute)
		w.ok(w.svc.RegisterWorker(w.ctx, pawl.WorkerInfo{WorkerID: "w1", Version: "2"}), "register")
		list, err := w.svc.ListWorkers(w.ctx, pawl.WorkerFilter{})
		w.ok(err, "list workers")
		w.same(len(list.Items), 1, "workers")
		w.same([]any{list.Items[0].Version, list.Items[0].LastSeenAt}, []any{"2", w.now()}, "the entry")
	}},
	{"heartbeats are seen", func(w *fixture) {
		w.ok(w.svc.RegisterWorker(w.ctx, pawl.WorkerInfo{WorkerID: "w1"}), "register")
		w.oneItem()
		l := w.claim("w1")
		w.advance(time.Minute)
		w.heartbeat(l)
		list, err := w.svc.ListWorkers(w.ctx, pawl.WorkerFilter{SeenSince: w.now()})
		w.ok(err, "list workers")
		w.same(len(list.Items), 1, "seen within the minute")
	}},
	{"last seen first", func(w *fixture) {
		for _, id := range []string{"a", "b", "c"} {
			w.ok(w.svc.RegisterWorker(w.ctx, pawl.WorkerInfo{WorkerID: id}), "register")
			w.advance(time.Minute)
		}
		for want, f := range map[string]pawl.WorkerFilter{"c b a": {}, "c b": {SeenSince: w.now().Add(-2 * time.Minute)}} {
			list, err := w.svc.ListWorkers(w.ctx, f)
			w.ok(err, "list workers")
			var got []string
			for _, i := range list.Items {
				got = append(got, i.WorkerID)
			}
			w.same(strings.Join(got, " "), want, "workers")
		}
	}},
	{"one without a name is invalid", func(w *fixture) {
		w.invalid(w.svc.RegisterWorker(w.ctx, pawl.WorkerInfo{}), "/worker_id")
		w.invalid(w.svc.RegisterWorker(w.ctx, pawl.WorkerInfo{WorkerID: "a\x00"}), "/worker_id")
	}},
	{"statistics count items, tasks, leases and keys", func(w *fixture) {
		oldest := w.now()
		w.taskInEachState()
		s, err := w.svc.Stats(w.ctx)
		w.ok(err, "stats")
		w.same(s.ItemsByState, map[pawl.ItemState]int64{
			pawl.ItemQueued: 1, pawl.ItemLeased: 1, pawl.ItemInProgress: 1, pawl.ItemCompleted: 1, pawl.ItemFailed: 1, pawl.ItemDeadLettered: 1,
			pawl.ItemCancelled: 1,
		}, "items")
		w.same(s.TasksByState, map[pawl.TaskState]int64{
			pawl.TaskQueued: 1, pawl.TaskCheckedOut: 1, pawl.TaskInProgress: 1, pawl.TaskCompleted: 1, pawl.TaskFailed: 1,
			pawl.TaskDeadLettered: 1, pawl.TaskCancelled: 1,
		}, "tasks")
		w.same(
			[]any{s.Leases, s.ExpiredLeases, s.StaleLeases, s.Checkpoints, s.Events},
			[]any{int64(2), int64(0), int64(0), int64(2), int64(len(w.allEvents(pawl.EventFilter{})))},
			"counts",
		)
		w.timeIs(s.OldestQueuedAt, oldest, "oldest_queued_at")
	}},
	{"messages that are being written are counted in their namespace", func(w *fixture) {
		count := func(want int64) {
			w.Helper()
			s, err := w.svc.Stats(w.ctx)
			w.ok(err, "stats")
			w.same(s.Streaming, want, "messages that are being written")
		}
		count(0)
		_, l := w.claimedReply()
		count(1)
		w.finish(l, l.OpenMessage.ID)
		count(0)
	}},
	{"a lease without a heartbeat for four of its intervals is stale", func(w *fixture) {
		w.manyItems(2)
		alive := w.claim("w1")
		w.claim("w2")
		w.advance(121 * time.Second)
		w.heartbeat(alive)
		s, err := w.svc.Stats(w.ctx)
		w.ok(err, "stats")
		w.same([]any{s.Leases, s.StaleLeases, s.ExpiredLeases}, []any{int64(2), int64(1), int64(0)}, "leases")
	}},
}}

var sweeps = noun{"sweeps", []promise{
	{"a pass without work has zero counts", func(w *fixture) {
		s := w.sweep()
		w.same(
			[]any{s.ExpiredFound, s.Recovered, s.Failed, s.CheckpointsCreated, s.Errors, s.Due, s.Buried, s.TasksPruned},
			repeat8(int64(0)),
			"the pass",
		)
	}},
	{"a tick does what is due, and says when to call again", func(w *fixture) {
		tick := func() pawl.Ticked {
			w.Helper()
			out, err := w.svc.Tick(w.ctx)
			w.ok(err, "tick")
			return out
		}
		if got := tick(); got.NextAt != nil || got.Did.Fired != 0 || got.Did.Did() {
			w.Errorf("with nothing to do: %+v", got)
		}
		schedule, err := w.svc.CreateSchedule(w.ctx, pawl.NewSchedule{Name: "s", EverySeconds: 3600, Task: pawl.NewTask{Type: "b"}})
		w.ok(err, "create a schedule")
		w.create(pawl.NewTask{Type: "a", MaxAttempts: 2})
		l := w.claim("w1")
		got := tick()
		if got.NextAt == nil || !got.NextAt.Equal(l.LeaseExpiresAt) {
			w.Errorf("next at %v, and the lease ends at %v", got.NextAt, l.LeaseExpiresAt)
		}
		w.advance(l.LeaseExpiresAt.Sub(w.clock.Now()) + time.Second)
		if got = tick(); got.Did.ExpiredFound != 1 || got.NextAt == nil || !got.NextAt.Equal(schedule.Next[0]) {
			w.Errorf("%+v, and the schedule is due at %v", got, schedule.Next[0])
		}
		w.advance(time.Hour)
		if got = tick(); got.Did.Fired != 1 || got.NextAt == nil || !got.NextAt.Equal(schedule.Next[1]) {
			w.Errorf("%+v, and the schedule is due at %v", got, schedule.Next[1])
		}
	}},
	{"passes are summed up, and the last one is kept", func(w *fixture) {
		w.create(pawl.NewTask{Type: "a", MaxAttempts: 2})
		w.sweep()
		w.expire(w.claim("w1"))
		last := w.expire(w.claim("w1"))
		s, err := w.svc.Stats(w.ctx)
		w.ok(err, "stats")
		got := s.Sweeps
		w.same([]any{got.TotalScans, got.TotalRecovered, got.TotalFailed}, []any{int64(3), int64(1), int64(1)}, "totals")
		if got.LastScan == nil {
			w.Fatal("there is no last scan")
		}
		w.same(
			[]any{got.LastScan.ExpiredFound, got.LastScan.Failed, got.LastScan.StartedAt},
			[]any{int64(1), int64(1), last.StartedAt},
			"the last scan",
		)
		list, err := w.svc.ListSweeps(w.ctx, pawl.Page{})
		w.ok(err, "list sweeps")
		w.same(len(list.Items), 3, "passes")
	}},
	{"a pass reports when the next item becomes due", func(w *fixture) {
		w.oneItem()
		l := w.claim("w1")
		w.same(w.sweep().NextExpiryAt, l.LeaseExpiresAt, "next")
		at := w.now().Add(time.Minute)
		w.create(pawl.NewTask{Type: "b", RunAt: &at})
		w.same(w.sweep().NextExpiryAt, at, "next")
	}},
	{"an unchanged task is marked stale once, and keeps its state", func(w *fixture) {
		t := w.oneItem()
		done := w.create(pawl.NewTask{Type: "b"})
		w.complete(w.claimItem("w1", w.onlyItem(done.ID).ID), `1`)
		w.advance(24*time.Hour - time.Second)
		w.same(w.sweep().Stale, int64(0), "stale a second early")
		w.advance(2 * time.Second)
		w.same(w.sweep().Stale, int64(1), "stale")
		w.same(w.sweep().Stale, int64(0), "stale again")
		w.same(w.task(t.ID).State, pawl.TaskQueued, "state")
		got := w.allEvents(pawl.EventFilter{Event: "stale"})
		w.same(len(got), 1, "events")
		w.same([]any{got[0].TaskID, got[0].FromState, got[0].ToState, got[0].ActorType}, []any{t.ID, "", "", pawl.ActorSystem}, "the event")
	}},
}}

func repeat8(v any) []any { return []any{v, v, v, v, v, v, v, v} }

var retention = noun{"retention", []promise{
	{"an ended task is archived and removed after 30 days, and can be restored", func(w *fixture) {
		t := w.manyItems(2)
		l := w.claim("w1")
		w.checkpoint(l, pawl.ManualCheckpoint, `{"a": 1}`)
		w.complete(l, `{"b": 2}`)
		w.complete(w.claim("w1"), `3`)
		live := w.create(pawl.NewTask{Type: "z"})
		before := w.taskData(t.ID)
		w.advance(30*24*time.Hour - time.Second)
		w.same(w.sweep().TasksPruned, int64(0), "pruned a second early")
		w.advance(2 * time.Second)
		w.same(w.sweep().TasksPruned, int64(1), "pruned")
		_, err := w.svc.GetTask(w.ctx, t.ID)
		w.refused(err, pawl.CodeNotFound)
		w.same(w.task(live.ID).State, pawl.TaskQueued, "what lives stays")
		list, err := w.svc.ListArchives(w.ctx, pawl.Page{})
		w.ok(err, "list archives")
		w.same(len(list.Items), 1, "archives")
		a := list.Items[0]
		w.same([]any{a.TaskID, a.Bytes > 0, len(a.SHA256)}, []any{t.ID, true, 64}, "the archive")
		got, err := w.svc.RestoreArchive(w.ctx, t.ID)
		w.ok(err, "restore")
		w.same(got.ID, t.ID, "restored")
		after := w.taskData(t.ID)
		w.same([]any{after.Task, after.Items, after.Checkpoints}, []any{before.Task, before.Items, before.Checkpoints}, "what came back")
		w.same(len(after.Events) >= len(before.Events), true, "its events came back")
	}},
	{"the whole database is checked, and nothing is changed", func(w *fixture) {
		t := w.oneItem()
		w.complete(w.claim("w1"), `1`)
		before := w.taskData(t.ID)
		for _, events := range []*int{nil, ptr(0), ptr(-1), ptr(-5)} {
			r, err := w.svc.Doctor(w.ctx, pawl.DoctorCall{Events: events})
			w.ok(err, "doctor")
			w.same([]any{r.Clean, len(r.Breaches), r.Breaches != nil, r.Warnings != nil}, []any{true, 0, true, true}, "what was found")
			if events != nil && *events == 0 {
				w.same(r.Logged, 0, "events that were compared with the log")
			}
		}
		w.same(w.taskData(t.ID), before, "the task")
	}},
	{"what the next pass would remove is counted, and nothing is changed", func(w *fixture) {
		ended, failed := w.oneItem(), w.oneItem()
		w.complete(w.claim("w1"), `1`)
		w.failPermanently(w.claim("w1"), "no")
		w.beginRun(pawl.KeyBegin{Key: "kept", RequestHash: "h", TTLSeconds: -1})
		w.beginRun(pawl.KeyBegin{Key: "expires", RequestHash: "h"})
		done := w.beginRun(pawl.KeyBegin{Key: "done", RequestHash: "h", TTLSeconds: -1})
		w.finishKey(pawl.KeyDone{Key: "done", Token: done.Token, Response: raw(`1`)})
		preview := func() pawl.Prunable {
			p, err := w.svc.Prunable(w.ctx)
			w.ok(err, "prunable")
			w.same(p.TaskIDs != nil, true, "task_ids is a list")
			return p
		}
		w.same(preview(), pawl.Prunable{}, "a task that has just ended")
		w.advance(30*24*time.Hour + time.Second)
		young := w.oneItem()
		w.complete(w.claim("w1"), `1`)
		before := w.taskData(ended.ID)
		passes, err := w.svc.ListSweeps(w.ctx, pawl.Page{})
		w.ok(err, "list sweeps")
		got := preview()
		w.same([]any{got.Tasks, got.TaskIDs, got.More}, []any{int64(1), []string{ended.ID}, false}, "tasks")
		w.atLeast(got.Keys, 2, "keys") // an interface may have had keys of its own
		w.same(preview(), got, "the second count")
		w.same(w.taskData(ended.ID), before, "the task")
		after, err := w.svc.ListSweeps(w.ctx, pawl.Page{})
		w.ok(err, "list sweeps")
		w.same(after, passes, "passes")
		archives, err := w.svc.ListArchives(w.ctx, pawl.Page{})
		w.ok(err, "list archives")
		w.same(len(archives.Items), 0, "archives")
		for _, k := range []string{"kept", "done"} {
			_, err := w.key("", k)
			w.ok(err, k)
		}
		pass := w.sweep()
		w.same([]int64{pass.TasksPruned, pass.KeysPruned}, []int64{got.Tasks, got.Keys}, "what the pass removed")
		_, err = w.svc.GetTask(w.ctx, ended.ID)
		w.refused(err, pawl.CodeNotFound)
		for _, id := range []string{failed.ID, young.ID} {
			w.task(id)
		}
		_, err = w.key("", "kept")
		w.ok(err, "the key that is open")
		w.same(preview(), pawl.Prunable{}, "after the pass")
	}},
	{"sent signals are removed when no item has waited for them for 30 days, those of budgets after one day", func(w *fixture) {
		signals := func() int64 {
			p, err := w.svc.Prunable(w.ctx)
			w.ok(err, "prunable")
			return p.Signals
		}
		w.signal("paid", "old", `1`)
		w.signal("paid", "again", `1`)
		w.advance(29 * 24 * time.Hour)
		w.signal("paid", "again", `1`)
		w.signal(pawl.BudgetSignal, "llm", `1`)
		w.same([]int64{signals(), w.sweep().SignalsPruned}, []int64{0, 0}, "after 29 days")
		w.advance(24*time.Hour + time.Second)
		w.same(signals(), int64(2), "after 30 days")
		w.same(w.sweep().SignalsPruned, int64(2), "after 30 days")
		w.same([]int64{signals(), w.sweep().SignalsPruned}, []int64{0, 0}, "after the pass")

		w.oneItem()
		suspended := w.suspendFor(w.claim("w1"), "paid", "old")
		w.same(suspended.State, pawl.ItemWaiting, "the removed signal is waited for again")
		w.oneItem()
		suspended = w.suspendFor(w.claim("w1"), "paid", "again")
		w.same(suspended.State, pawl.ItemQueued, "the newer signal is still there")
	}},
	{"failed tasks are archived and removed 90 days after their last change, and can be restored and retried", func(w *fixture) {
		t := w.oneItem()
		w.failPermanently(w.claim("w1"), "no")
		w.advance(49 * time.Hour)
		w.sweep()
		w.same(w.task(t.ID).State, pawl.TaskDeadLettered, "state")
		w.advance(90*24*time.Hour - time.Second)
		w.same(w.sweep().TasksPruned, int64(0), "pruned a second early")
		w.advance(2 * time.Second)
		w.same(w.sweep().TasksPruned, int64(1), "pruned")
		_, err := w.svc.RestoreArchive(w.ctx, t.ID)
		w.ok(err, "restore")
		w.same(w.sweep().TasksPruned, int64(0), "pruned again at once")
		got, err := pawl.Retry(w.ctx, w.svc, t.ID)
		w.ok(err, "retry")
		w.same(got.State, pawl.TaskQueued, "state after a retry")
	}},
	{"a restored task stays until its time is up again", func(w *fixture) {
		t := w.oneItem()
		w.complete(w.claim("w1"), `1`)
		w.advance(30*24*time.Hour + time.Second)
		w.sweep()
		_, err := w.svc.RestoreArchive(w.ctx, t.ID)
		w.ok(err, "restore")
		w.sweep()
		w.same(w.task(t.ID).State, pawl.TaskCompleted, "state")
		_, err = w.svc.RestoreArchive(w.ctx, t.ID)
		if err == nil || pawl.CodeOf(err) == pawl.CodeInternal {
			w.Errorf("restoring what is there: %v", err)
		}
	}},
	{"a hundred checkpoints per task are kept, and all that a resume needs", func(w *fixture) {
		t := w.oneItem()
		l := w.claim("w1")
		save := func(typ, name string, n int) {
			_, err := pawl.SaveCheckpoint(w.ctx, w.svc, l.Fence(), pawl.NewCheckpoint{Type: typ, Name: name, Snapshot: raw(fmt.Sprint(n))})
			w.ok(err, "checkpoint")
		}
		save(pawl.ToolExecuted, "fetch", 1)
		save(pawl.ToolExecuted, "parse", 2)
		save(pawl.ToolExecuted, "fetch", 3)
		save(pawl.IterationStart, "", 4)
		save(pawl.IterationEnd, "", 5)
		for n := 6; n <= 160; n++ {
			save(pawl.CustomCheckpoint, "", n)
		}
		before, err := w.svc.Resume(w.ctx, l.ID)
		w.ok(err, "resume")
		w.same(w.sweep().Checkpoints > 0, true, "pruned")
		after, err := w.svc.Resume(w.ctx, l.ID)
		w.ok(err, "resume")
		w.same(after, before, "what a resume gets")
		kept := w.listCheckpoints(pawl.CheckpointFilter{TaskID: t.ID})
		newest := kept[len(kept)-100:]
		w.same([]int64{newest[0].Sequence, newest[99].Sequence}, []int64{61, 160}, "the newest hundred")
		w.same(len(kept) <= 105, true, "few others")
		save(pawl.CustomCheckpoint, "", 161)
		kept = w.listCheckpoints(pawl.CheckpointFilter{TaskID: t.ID, Desc: true, Page: pawl.Page{Limit: 1}})
		w.same(kept[0].Sequence, int64(161), "numbers are never used again")
	}},
}}
