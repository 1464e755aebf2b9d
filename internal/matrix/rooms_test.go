package matrix

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/pawl-work/pawl"
)

// room is what one feature leaves on a task.
type room struct {
	name string
	// one is of rooms of which a task has one at most: the same word excludes each other
	one string
	// not is the word of rooms that it does not go with
	not   string
	setup func(s *subject)                  // before the task is created
	new   func(s *subject, t *pawl.NewTask) // what the creation says
	fill  func(s *subject, l pawl.Lease)    // by the worker that holds an item
	ends  bool                              // fill ends the lease
}

const subjectType = "matrix"

func raw(s string) json.RawMessage { return json.RawMessage(s) }

func worker(s *subject, l pawl.Lease) (itemID, workerID string, attempt int) {
	return l.ID, l.WorkerID, l.Attempt
}

// rooms are all features that leave rows of a task. A new one stands here with its new tables: TestEveryTableIsFilled
// names the tables that no room fills.
var rooms = []room{
	{name: "nothing", fill: func(*subject, pawl.Lease) {}},

	// The states of an item.
	{name: "heartbeat", fill: func(s *subject, l pawl.Lease) {
		all(s.svc.Heartbeat(s.ctx, []pawl.HeartbeatCall{{Fence: l.Fence()}}))
	}},
	{name: "progress", fill: func(s *subject, l pawl.Lease) {
		n, stage := 40, "middle"
		all(s.svc.Progress(s.ctx, []pawl.ProgressCall{{Fence: l.Fence(), Stage: &stage, Progress: &n}}))
	}},
	{name: "released", ends: true, fill: func(s *subject, l pawl.Lease) {
		all(s.svc.Release(s.ctx, []pawl.ReleaseCall{{Fence: l.Fence(), DelaySeconds: 600}}))
	}},
	{name: "completed", ends: true, not: "judged", fill: func(s *subject, l pawl.Lease) { s.complete(l) }},
	{name: "failed once", ends: true, fill: func(s *subject, l pawl.Lease) { s.fail(l, true) }},
	{name: "failed", ends: true, fill: func(s *subject, l pawl.Lease) { s.fail(l, false) }},
	{name: "buried", ends: true, fill: func(s *subject, l pawl.Lease) {
		s.fail(l, false)
		all(s.svc.BuryTasks(s.user, []pawl.TaskCall{{TaskID: s.task.ID, ItemIDs: []string{l.ID}}}))
	}},
	{name: "cancelled", ends: true, fill: func(s *subject, l pawl.Lease) {
		all(s.svc.CancelTasks(s.user, []pawl.TaskCall{{TaskID: s.task.ID, ItemIDs: []string{l.ID}}}))
	}},
	{name: "waits for a signal", ends: true, fill: func(s *subject, l pawl.Lease) {
		all(s.svc.Suspend(s.ctx, []pawl.SuspendCall{{Fence: l.Fence(), Signal: "go", Key: l.ID}}))
	}},
	{name: "signal sent", fill: func(s *subject, l pawl.Lease) {
		all(s.svc.SendSignals(s.user, []pawl.SignalCall{{Name: "go", Key: l.ID, Payload: raw(`"gone"`)}}))
	}},
	{name: "dependent item", not: "judged", new: func(_ *subject, t *pawl.NewTask) {
		t.Items = append(t.Items, pawl.NewItem{Key: "after", After: []string{"k0", "k1"}, Input: raw("2")})
	}},
	{name: "deadline", one: "deadline", new: func(s *subject, t *pawl.NewTask) {
		at := s.p.Now().Add(24 * time.Hour)
		t.Deadline, t.StartToCloseSeconds, t.ScheduleToStartSeconds = &at, 7200, 86400
	}},

	// Words, and what is saved.
	{name: "open message", fill: func(s *subject, l pawl.Lease) { s.speak(l) }},
	{name: "message", fill: func(s *subject, l pawl.Lease) {
		m := s.speak(l)
		all(s.svc.StepMessages(s.ctx, []pawl.StepCall{{MessageFence: m}}))
		all(s.svc.FinishMessages(s.ctx, []pawl.FinishCall{{MessageFence: m, Usage: raw(`{"output_tokens":3}`)}}))
	}},
	{name: "message of the task", one: "thread", new: func(_ *subject, t *pawl.NewTask) {
		t.Thread, t.Messages = "thread", []pawl.NewMessage{{Role: "user", Content: raw(`"hello"`)}}
	}, fill: func(s *subject, l pawl.Lease) {
		all(s.svc.OpenMessages(s.user, []pawl.OpenCall{{TaskID: s.task.ID, Role: "assistant"}}))
	}},
	{name: "checkpoints", fill: func(s *subject, l pawl.Lease) {
		text := `"`
		for n := range 3 {
			text += strings.Repeat(fmt.Sprintf("turn %d of a conversation. ", n), 300)
			s.save(l, pawl.NewCheckpoint{Type: "custom", Name: "state", Snapshot: raw(text + `"`)})
		}
	}},
	{name: "own checkpoint", fill: func(s *subject, l pawl.Lease) {
		c := pawl.NewCheckpoint{Type: pawl.ManualCheckpoint, Snapshot: raw("1")}
		all(s.svc.CheckpointTasks(s.user, []pawl.TaskCheckpoint{{TaskID: s.task.ID, NewCheckpoint: c}}))
	}},
	{name: "blob", one: "payload", new: func(s *subject, t *pawl.NewTask) { t.Payload = s.blob("payload") },
		fill: func(s *subject, l pawl.Lease) {
			s.save(l, pawl.NewCheckpoint{Type: "custom", Name: "bytes", Snapshot: s.blob("snapshot of " + l.Key)})
		}},

	// Children.
	{name: "child", fill: func(s *subject, l pawl.Lease) { s.spawn(l, "child") }},
	{name: "child that has ended", fill: func(s *subject, l pawl.Lease) {
		s.spawn(l, "ended")
		s.complete(s.claim(pawl.ClaimRequest{Types: []string{"ended"}}, 1)[0])
	}},
	{name: "waits for a child", ends: true, fill: func(s *subject, l pawl.Lease) {
		wait := &pawl.ChildWait{IDs: []string{s.spawn(l, "child").ID}}
		all(s.svc.Suspend(s.ctx, []pawl.SuspendCall{{Fence: l.Fence(), Children: wait}}))
	}},

	{name: "child of a task that waits for it", one: "made", new: func(s *subject, t *pawl.NewTask) {
		s.parent = s.claim(pawl.ClaimRequest{TaskID: must(pawl.Create(s.user, s.svc, pawl.NewTask{Type: "parent"})).ID}, 1)[0]
		t.ParentID = s.parent.TaskID
	}, fill: func(s *subject, _ pawl.Lease) {
		wait := &pawl.ChildWait{IDs: []string{s.task.ID}, OnFailure: "continue"}
		all(s.svc.Suspend(s.ctx, []pawl.SuspendCall{{Fence: s.parent.Fence(), Children: wait}}))
	}},
	{name: "made by a schedule", one: "made", new: func(s *subject, _ *pawl.NewTask) {
		s.create = func(t pawl.NewTask) pawl.Task {
			must(s.svc.CreateSchedule(s.user, pawl.NewSchedule{Name: "now and then", Cron: "@yearly", Task: t}))
			must(s.svc.RunSchedule(s.user, "now and then"))
			must(0, s.svc.DeleteSchedule(s.user, "now and then"))
			return must(s.svc.ListTasks(s.user, pawl.TaskFilter{Types: []string{s.typ}})).Items[0]
		}
	}},

	// Money, and effects.
	{name: "reservation", setup: budget, fill: func(s *subject, l pawl.Lease) { s.reserve(l, 10, "open") }},
	{name: "settled reservation", setup: budget, fill: func(s *subject, l pawl.Lease) {
		item, worker, attempt := worker(s, l)
		r := s.reserve(l, 10, "settled")
		must(s.svc.SettleBudget(s.ctx, "llm", pawl.SettleCall{Reservation: r.Reservation, Amount: 7, ItemID: item,
			WorkerID: worker, Attempt: attempt}))
	}},
	{name: "question of a budget", ends: true, setup: budget, fill: func(s *subject, l pawl.Lease) {
		item, worker, attempt := worker(s, l)
		_, err := s.svc.ReserveBudget(s.ctx, "llm", pawl.ReserveCall{ItemID: item, WorkerID: worker, Attempt: attempt,
			Amount: 1000, Key: "asks"})
		x := exhausted(s, err)
		wait := pawl.SuspendCall{Fence: l.Fence(), Signal: pawl.BudgetSignal, Key: x.SignalKey}
		all(s.svc.Suspend(s.ctx, []pawl.SuspendCall{wait}))
	}},
	{name: "effect that is done", fill: func(s *subject, l pawl.Lease) {
		item, worker, attempt := worker(s, l)
		must(s.svc.EffectDone(s.ctx, s.effect(l, "charge", nil).ID,
			pawl.EffectDoneCall{ItemID: item, WorkerID: worker, Attempt: attempt, Answer: raw(`{"charge":1}`)}))
	}},
	{name: "open effect", fill: func(s *subject, l pawl.Lease) { s.effect(l, "mail", nil) }},
	{name: "unknown effect", fill: func(s *subject, l pawl.Lease) {
		item, worker, attempt := worker(s, l)
		must(s.svc.EffectUnknown(s.ctx, s.effect(l, "deploy", nil).ID,
			pawl.EffectUnknownCall{ItemID: item, WorkerID: worker, Attempt: attempt}))
	}},
	{name: "effect that waits", setup: budget, fill: func(s *subject, l pawl.Lease) {
		s.effect(l, "refund", func(c *pawl.OpenEffectCall) { c.Approve, c.Budget, c.Amount = true, "llm", 5 })
	}},

	// Acceptance.
	{name: "part", one: "judged", setup: judged, fill: func(s *subject, l pawl.Lease) { s.part(l) }},
	{name: "submitted", one: "judged", setup: judged, ends: true, fill: func(s *subject, l pawl.Lease) { s.part(l); s.submit(l) }},

	// Names.
	{name: "unique key", one: "name", new: func(_ *subject, t *pawl.NewTask) {
		t.Unique = &pawl.Unique{By: pawl.UniqueByKey, Key: "k", WindowSeconds: 3600}
	}},
	{name: "input hash", one: "name", new: func(_ *subject, t *pawl.NewTask) { t.InputHash = "hash" }},
	{name: "idempotency key", fill: func(s *subject, l pawl.Lease) {
		all(s.svc.BeginKeys(s.user, []pawl.KeyBegin{{Scope: "s", Key: l.ID, RequestHash: "h",
			TaskID: s.task.ID, ItemID: l.ID}}))
	}},

	// Flow.
	{name: "limits", one: "payload", setup: func(s *subject) {
		must(s.svc.SetQueue(s.user, s.typ, pawl.QueuePatch(`{"concurrency":3,"per_key":{"pointer":"/tenant","concurrency":3}}`)))
	}, new: func(_ *subject, t *pawl.NewTask) {
		t.Payload = raw(`{"tenant":"x"}`)
		for n := range t.Items {
			t.Items[n].Input = raw(`{"tenant":"x"}`)
		}
	}},
	{name: "order", one: "payload", setup: func(s *subject) {
		must(s.svc.SetQueue(s.user, s.typ, pawl.QueuePatch(`{"per_key":{"pointer":"/tenant","order":"created"}}`)))
	}, new: func(_ *subject, t *pawl.NewTask) {
		for n := range t.Items {
			t.Items[n].Input = fmt.Appendf(nil, `{"tenant":"x%d"}`, n)
		}
	}},
}

func budget(s *subject) {
	must(s.svc.PutBudget(s.user, "llm", pawl.NewBudget{Unit: "tokens", Limit: 100, OnExhausted: pawl.ExhaustedAsk}))
}

func judged(s *subject) {
	s.judged = true
	typ := pawl.Type{Name: s.typ, Acceptance: true, Approval: pawl.Approval{Mode: pawl.ApprovalManual},
		Apply: pawl.Apply{Mode: pawl.ApplyItem}, Parts: []pawl.PartRule{{Key: "title"}}}
	all(s.svc.PutTypes(s.user, []pawl.Type{typ}))
}

// blob uploads bytes and returns a payload that refers to them.
func (s *subject) blob(text string) json.RawMessage {
	b := must(s.p.Engine.PutBlob(s.user, pawl.BlobUpload{Content: bytes.NewReader([]byte(text))}))
	s.blobs = append(s.blobs, b.Address)
	return raw(`{"` + pawl.BlobMember + `":"` + b.Address + `"}`)
}

func (s *subject) complete(l pawl.Lease) {
	must(pawl.Complete(s.ctx, s.svc, l.Fence(), raw(`{"of":"`+l.ID+`"}`)))
}

func (s *subject) fail(l pawl.Lease, retryable bool) {
	all(s.svc.Fail(s.ctx, []pawl.FailCall{{Fence: l.Fence(), Retryable: &retryable,
		Error: pawl.Failure{Code: "no", Message: "no"}}}))
}

func (s *subject) speak(l pawl.Lease) pawl.MessageFence {
	m := all(s.svc.StartMessages(s.ctx, []pawl.StartCall{{Fence: l.Fence(), Role: "assistant", Model: "m"}}))[0]
	fence := pawl.MessageFence{MessageID: m.ID, WorkerID: l.WorkerID, Attempt: l.Attempt}
	words := []pawl.Chunk{{Type: "text", Text: "some words"}}
	all(s.svc.Append(s.ctx, []pawl.AppendCall{{MessageFence: fence, Chunks: words}}))
	return fence
}

func (s *subject) save(l pawl.Lease, c pawl.NewCheckpoint) {
	all(s.svc.Checkpoint(s.ctx, []pawl.CheckpointCall{{Fence: l.Fence(), NewCheckpoint: c}}))
}

func (s *subject) spawn(l pawl.Lease, typ string) pawl.Task {
	return all(s.svc.Spawn(s.ctx, []pawl.SpawnCall{{Fence: l.Fence(), Key: typ + l.ID, Task: pawl.NewTask{Type: typ}}}))[0]
}

func (s *subject) reserve(l pawl.Lease, amount int64, key string) pawl.Reserved {
	item, worker, attempt := worker(s, l)
	return must(s.svc.ReserveBudget(s.ctx, "llm", pawl.ReserveCall{ItemID: item, WorkerID: worker, Attempt: attempt,
		Amount: amount, Key: key}))
}

func (s *subject) effect(l pawl.Lease, name string, change func(*pawl.OpenEffectCall)) pawl.OpenedEffect {
	item, worker, attempt := worker(s, l)
	c := pawl.OpenEffectCall{ItemID: item, WorkerID: worker, Attempt: attempt, Name: name, RequestHash: "h"}
	if change != nil {
		change(&c)
	}
	return must(s.svc.OpenEffect(s.ctx, c))
}

func (s *subject) part(l pawl.Lease) {
	all(s.svc.SubmitParts(s.ctx, []pawl.PartCall{{Fence: l.Fence(), Key: "title", Payload: raw(`"t"`)}}))
}

func (s *subject) submit(l pawl.Lease) {
	all(s.svc.Submit(s.ctx, []pawl.SubmitCall{{Fence: l.Fence(), Result: raw("1"), Notes: "done"}}))
}
