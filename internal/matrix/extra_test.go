package matrix

import (
	"bytes"
	"math"
	"time"

	"github.com/pawl-work/pawl"
)

// old leaves archives, of tasks together and of a task alone, restored and not, and what stays of deleted tasks and of
// what was spent.
func (s *subject) old() {
	s.Helper()
	budget(s)
	for _, n := range []int{3, 1} {
		var id string
		for range n {
			l := s.started(pawl.NewTask{Type: "old"})
			id = l.TaskID
			if n == 1 {
				must(s.svc.SettleBudget(s.ctx, "llm", pawl.SettleCall{Reservation: s.reserve(l, 10, "old").Reservation, Amount: 7,
					ItemID: l.ID, WorkerID: l.WorkerID, Attempt: l.Attempt}))
				s.settled(l, "kept after its task")
				s.sound() // else its events are counted when they are removed
			}
			s.complete(l)
		}
		gone := must(pawl.Create(s.user, s.svc, pawl.NewTask{Type: "old"}))
		all(s.svc.DeleteTasks(s.user, []pawl.TaskCall{{TaskID: gone.ID, Force: true}}))
		for range 2 {
			s.p.Advance(pawl.DefaultRetainTasks + time.Hour)
			s.sweep()
		}
		must(s.svc.RestoreArchive(s.user, id))
		if n > 1 {
			all(s.svc.DeleteTasks(s.user, []pawl.TaskCall{{TaskID: id}}))
			must(s.svc.RestoreArchive(s.user, id))
		}
	}
}

// started claims the only item of a new task.
func (s *subject) started(t pawl.NewTask) pawl.Lease {
	s.Helper()
	return s.claim(pawl.ClaimRequest{TaskID: must(pawl.Create(s.user, s.svc, t)).ID}, 1)[0]
}

func (s *subject) settled(l pawl.Lease, name string) {
	o := s.effect(l, name, func(c *pawl.OpenEffectCall) { c.Repeatable, c.Budget, c.Amount = true, "llm", 1 })
	must(s.svc.EffectDone(s.ctx, o.ID, pawl.EffectDoneCall{ItemID: l.ID, WorkerID: l.WorkerID, Attempt: l.Attempt, Answer: raw("1")}))
}

// family leaves an item that waits by name for children of which one has failed, one has ended and one has not.
func (s *subject) family() {
	l := s.started(pawl.NewTask{Type: "family"})
	var ids []string
	for _, typ := range []string{"ends", "fails", "goes on"} {
		ids = append(ids, s.spawn(l, typ).ID)
	}
	wait := &pawl.ChildWait{Name: "all of them", IDs: ids, OnFailure: "continue"}
	all(s.svc.Suspend(s.ctx, []pawl.SuspendCall{{Fence: l.Fence(), Children: wait}}))
	s.complete(s.claim(pawl.ClaimRequest{TaskID: ids[0]}, 1)[0])
	s.fail(s.claim(pawl.ClaimRequest{TaskID: ids[1]}, 1)[0], false)
	s.sweep()
	over := s.started(pawl.NewTask{Type: "family"})
	wait = &pawl.ChildWait{IDs: []string{s.spawn(over, "ends").ID, s.spawn(over, "goes on").ID}, Need: pawl.NeedAny}
	all(s.svc.Suspend(s.ctx, []pawl.SuspendCall{{Fence: over.Fence(), Children: wait}}))
	s.complete(s.claim(pawl.ClaimRequest{TaskID: wait.IDs[0]}, 1)[0])
	s.sweep()
}

// effectful leaves effects of each kind, also beside decisions that reports contradict, and copies of them.
func (s *subject) effectful() {
	l := s.started(pawl.NewTask{Type: "effects"})
	fence := func(o pawl.OpenedEffect, f func(id string, item, worker string, attempt int)) {
		f(o.ID, l.ID, l.WorkerID, l.Attempt)
	}
	s.settled(l, "repeatable")
	for _, name := range []string{"unknown", "late"} {
		fence(s.effect(l, name, nil), func(id, item, worker string, attempt int) {
			why := &pawl.Failure{Code: "no", Message: "no"}
			must(s.svc.EffectUnknown(s.ctx, id, pawl.EffectUnknownCall{ItemID: item, WorkerID: worker, Attempt: attempt, Error: why}))
			if name == "late" {
				must(s.svc.ResolveEffect(s.user, id, pawl.ResolveEffectCall{Outcome: pawl.DidNotHappen, Comment: "looked"}))
				must(s.svc.EffectDone(s.ctx, id, pawl.EffectDoneCall{ItemID: item, WorkerID: worker, Attempt: attempt, Answer: raw("1")}))
			}
		})
	}
	s.effect(l, "of a gate", func(c *pawl.OpenEffectCall) { c.LeaseSeconds = 3600 })
	o := s.effect(l, "approved", func(c *pawl.OpenEffectCall) { c.Approve = true })
	must(s.svc.ApproveEffect(s.judge, o.ID, pawl.EffectDecision{Comment: "go"}))
	s.save(l, pawl.NewCheckpoint{Type: "custom", Name: "state", ArgsHash: "args", Snapshot: raw("1"), Metadata: raw(`{"m":1}`)})
	all(s.svc.ForkTasks(s.user, []pawl.TaskFork{{TaskID: l.TaskID, Checkpoint: 1}}))
	done := s.started(pawl.NewTask{Type: "effects"})
	s.settled(done, "of a task that is gone")
	s.complete(done)
	all(s.svc.DeleteTasks(s.user, []pawl.TaskCall{{TaskID: done.TaskID, Force: true}}))
}

// timetable leaves schedules with ticks that were missed, have failed and are open.
func (s *subject) timetable() {
	must(s.svc.CreateSchedule(s.user, pawl.NewSchedule{Name: "often", EverySeconds: 3600, Overlap: pawl.OverlapQueue,
		CatchUp: pawl.CatchUpLast, JitterSeconds: 1, Task: pawl.NewTask{Type: "planned"}}))
	typ := pawl.Type{Name: "strict", PayloadSchema: raw(`{"type":"object"}`)}
	all(s.svc.PutTypes(s.user, []pawl.Type{typ}))
	must(s.svc.CreateSchedule(s.user, pawl.NewSchedule{Name: "fails", EverySeconds: 3600,
		Task: pawl.NewTask{Type: "strict", Payload: raw("{}")}}))
	typ.PayloadSchema = raw(`{"type":"object","required":["a"]}`)
	all(s.svc.PutTypes(s.user, []pawl.Type{typ}))
	for range 2 {
		s.p.Advance(30 * 24 * time.Hour)
		s.sweep()
	}
	must(s.svc.CreateSchedule(s.user, pawl.NewSchedule{Name: "paused", Cron: "@daily", Task: pawl.NewTask{Type: "planned"}}))
	must(s.svc.PauseSchedule(s.user, "paused"))
}

// money leaves budgets of each scope, and a question that was answered with no.
func (s *subject) money() {
	l := s.started(pawl.NewTask{Type: "asks"})
	must(s.svc.PutBudget(s.user, "small", pawl.NewBudget{Unit: "tokens", Limit: 1, OnExhausted: pawl.ExhaustedAsk, OnLost: pawl.LostReturn,
		Period: pawl.PeriodMonth, AppliesTo: &pawl.BudgetScope{Type: "asks", TaskID: l.TaskID}}))
	must(s.svc.PutBudget(s.user, "keyed", pawl.NewBudget{Unit: "tokens", Limit: 1, AppliesTo: &pawl.BudgetScope{Type: "worn", Key: "x"}}))
	for n, key := range []string{"a", "b"} {
		_, err := s.svc.ReserveBudget(s.ctx, "small", pawl.ReserveCall{ItemID: l.ID, WorkerID: l.WorkerID, Attempt: l.Attempt,
			Amount: 9, Key: key})
		exhausted(s, err)
		if n == 0 {
			q := must(s.svc.ListTasks(s.user, pawl.TaskFilter{Types: []string{pawl.TypeBudget}})).Items[0]
			all(s.svc.RejectTasks(s.judge, []pawl.RejectCall{{TaskID: q.ID, Errors: []pawl.Complaint{{Code: "no", Message: "no"}}}}))
		}
	}
}

// planned leaves tasks whose items are planned, added, of another type and wait in vain, and copies.
func (s *subject) planned() {
	all(s.svc.PutTypes(s.user, []pawl.Type{{Name: "planned", Plan: pawl.Plan{Mode: pawl.PlanItem}}}))
	must(pawl.Create(s.user, s.svc, pawl.NewTask{Type: "planned"}))
	two := must(pawl.Create(s.user, s.svc, pawl.NewTask{Type: "two", Items: []pawl.NewItem{{Key: "a", Input: raw("1")},
		{Key: "b", After: []string{"a"}, Input: raw("2")}}}))
	all(s.svc.AddItems(s.user, []pawl.AddItems{{TaskID: two.ID, Items: []pawl.NewItem{{Key: "c", Input: raw("3")}}}}))
	s.fail(s.claim(pawl.ClaimRequest{TaskID: two.ID}, 1)[0], false)
	priority := 3
	other := pawl.NewTask{Type: "solo", Items: []pawl.NewItem{{Type: "other", Priority: &priority, Input: raw("1")}}, Metadata: raw(`{"a":1}`)}
	l := s.started(other)
	all(s.svc.CloneTasks(s.user, []pawl.TaskClone{{TaskID: l.TaskID}}))
	for range 2 {
		c := pawl.NewCheckpoint{Type: pawl.ManualCheckpoint, Name: "own", Snapshot: raw("1")}
		all(s.svc.CheckpointTasks(s.user, []pawl.TaskCheckpoint{{TaskID: l.TaskID, NewCheckpoint: c}}))
	}
	all(s.svc.PruneCheckpoints(s.user, []pawl.CheckpointPrune{{TaskID: l.TaskID, Rules: []pawl.PruneRule{{Keep: 0}}}}))
}

// talk leaves messages with bounds, many chunks, and words that a later attempt has cut off.
func (s *subject) talk() {
	task := must(pawl.Create(s.user, s.svc, pawl.NewTask{Type: "talk", Reply: &pawl.Reply{Model: "m", MaxSteps: 3, Metadata: raw(`{"a":1}`)}}))
	for range 2 {
		l := s.claim(pawl.ClaimRequest{TaskID: task.ID}, 1)[0]
		m := must(s.svc.ListMessages(s.user, pawl.MessageFilter{TaskID: task.ID})).Items[0]
		fence := pawl.MessageFence{MessageID: m.ID, WorkerID: l.WorkerID, Attempt: l.Attempt}
		for range 2 {
			m = must(s.svc.ListMessages(s.user, pawl.MessageFilter{TaskID: task.ID})).Items[0]
			words := []pawl.Chunk{{Type: "text", Text: "some words"}}
			all(s.svc.Append(s.ctx, []pawl.AppendCall{{MessageFence: fence, Offset: m.Offset, Chunks: words}}))
		}
		s.failAfter(l, 0)
	}
}

// durations leaves items that waited and ran for a time of each bucket.
func (s *subject) durations() {
	bounds := append([]float64{0.001}, append(pawl.TimingBounds, 40000)...)
	for n, bound := range bounds[1:] {
		task := must(pawl.Create(s.user, s.svc, pawl.NewTask{Type: "timed"}))
		d := time.Duration(math.Sqrt(bound*bounds[n]) * float64(time.Second))
		// The wait of a first claim begins with the time in the item's id, which another test of the process may have moved on.
		all(s.svc.Release(s.ctx, []pawl.ReleaseCall{{Fence: s.claimFor(task, 1, nil)[0].Fence()}}))
		s.p.Advance(d)
		l := s.claimFor(task, 1, func(r *pawl.ClaimRequest) { r.LeaseSeconds = 86400 })[0]
		s.p.Advance(d)
		s.complete(l)
	}
	l := s.started(pawl.NewTask{Type: "timed"})
	s.fail(l, false)
	all(s.svc.RetryTasks(s.user, []pawl.TaskCall{{TaskID: l.TaskID}}))
}

// removed leaves a removal of events that is not in the log yet.
func (s *subject) removed() {
	l := s.started(pawl.NewTask{Type: "removed soon"})
	s.complete(l)
	s.sound()
	all(s.svc.DeleteTasks(s.user, []pawl.TaskCall{{TaskID: l.TaskID}}))
}

// besides leaves what belongs to no task, or to more than one.
func (s *subject) besides() {
	e := s.p.Engine
	must(s.svc.SetQueue(s.user, "rated", pawl.QueuePatch(`{"per_key":{"pointer":"/tenant","rate":{"limit":1,"seconds":86400}}}`)))
	s.complete(s.started(pawl.NewTask{Type: "rated", Payload: raw(`{"tenant":"x"}`)}))
	s.p.Advance(26 * time.Hour) // the key of the queue is idle then
	must(s.svc.PauseQueue(s.user, "paused"))
	must(0, s.svc.PauseNamespace(pawl.As(s.ctx, pawl.Caller{Namespace: "closed"})))
	must(0, e.RegisterWorker(s.ctx, pawl.WorkerInfo{WorkerID: "w", Name: "name", Version: "v1", Types: []string{"a"}}))
	r, _, err := e.TakeRelay(s.ctx, "bus", "fake", "holder", time.Minute)
	must(0, err)
	r.Position = 1
	must(e.KeepRelay(s.ctx, r, time.Minute))
	k, _, err := e.CreateAPIKey(s.user, pawl.NewAPIKey{Name: "key", Roles: []string{"operator"}, Payloads: true, Rate: 5,
		ActorType: pawl.ActorUser, ActorID: "ann", Expires: time.Hour})
	must(0, err)
	must(0, e.UseAPIKeys(s.ctx, []pawl.APIKeyUse{{ID: k.ID, Refusals: 1}}))
	must(e.RevokeAPIKey(s.user, k.ID))
	must(e.PutBlob(s.user, pawl.BlobUpload{Content: bytes.NewReader(make([]byte, 3<<20))}))
	all(s.svc.PutTypes(s.user, []pawl.Type{{Name: "removed"}}))
	all(s.svc.RemoveTypes(s.user, []string{"removed"}))
	stated := s.provenance()
	stated.IdempotencyKey = "key"
	must(pawl.Create(s.user, s.svc, pawl.NewTask{Type: "keyed", Provenance: stated}))
	begin := pawl.KeyBegin{Scope: "s", Key: "failed", RequestHash: "h"}
	for range 2 {
		begun := all(s.svc.BeginKeys(s.user, []pawl.KeyBegin{begin}))[0]
		all(s.svc.FailKeys(s.user, []pawl.KeyDone{{Scope: "s", Key: "failed", Token: begun.Token, Response: raw("1")}}))
	}
	s.lost()
}

// lost leaves items that fail since their leases expire.
func (s *subject) lost() {
	task := must(pawl.Create(s.user, s.svc, pawl.NewTask{Type: "lost", MaxAttempts: 1}))
	s.claimFor(task, 1, func(r *pawl.ClaimRequest) { r.LeaseSeconds = 1 })
	s.p.Advance(time.Minute)
	s.sweep()
}
