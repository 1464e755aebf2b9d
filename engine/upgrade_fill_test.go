package engine_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/pawltest"
	"github.com/pawl-work/pawl/store"
)

// filling makes a database with rows of every kind.
type filling struct {
	testing.TB
	p   *pawltest.Pawl
	ctx context.Context
}

func (f *filling) create(typ string, n int, change func(*pawl.NewTask)) pawl.Task {
	f.Helper()
	task := pawl.NewTask{Type: typ, Payload: json.RawMessage(`{"of":"` + typ + `"}`), Title: typ, Metadata: json.RawMessage(`{"a":1}`)}
	for i := range n {
		task.Items = append(task.Items, pawl.NewItem{Key: fmt.Sprint("k", i), Input: json.RawMessage(fmt.Sprint(i))})
	}
	if change != nil {
		change(&task)
	}
	return need[pawl.Task](f)(pawl.Create(f.ctx, f.p.Service, task))
}

// claim claims the items of a task for a day.
func (f *filling) claim(task pawl.Task, n int) []pawl.Lease {
	f.Helper()
	return leases(f, f.p.Service, pawl.ClaimRequest{WorkerID: "before", TaskID: task.ID, LeaseSeconds: pawl.MaxLeaseSeconds,
		Provenance: &pawl.Provenance{AgentID: "agent", Model: "m"}}, n)
}

func (f *filling) do(errs ...error) {
	f.Helper()
	for _, err := range errs {
		if err != nil {
			f.Fatal(err)
		}
	}
}

func errOf[T any](rs []pawl.Result[T], err error) error {
	_, err = first(rs, err)
	return err
}

// fill makes the rows.
func (f *filling) fill() {
	f.types()
	f.archived()
	for _, n := range []int{0, 3} {
		f.states(n)
		f.decided(n)
	}
	f.said()
	f.besides()
	f.limits()
	f.budgets()
	f.effects()
	f.timed()
	f.children()
	f.do(f.p.Engine.Log(f.ctx))
	need[string](f)(f.p.Engine.SignLog(f.ctx))
	f.states(0) // after the checkpoint of the log
	f.do(f.p.Engine.Log(f.ctx))
}

func (f *filling) budgets() {
	svc := f.p.Service
	need[pawl.Budget](f)(svc.PutBudget(f.ctx, "llm", pawl.NewBudget{Unit: "tokens", Limit: 100, OnExhausted: pawl.ExhaustedAsk}))
	l := f.claim(f.create("spends", 1, nil), 1)[0]
	for n, key := range []string{"settled", "open"} {
		r := need[pawl.Reserved](f)(svc.ReserveBudget(f.ctx, "llm",
			pawl.ReserveCall{ItemID: l.ID, WorkerID: l.WorkerID, Attempt: l.Attempt, Amount: 10, Key: key}))
		if n == 0 {
			need[pawl.Settled](f)(svc.SettleBudget(f.ctx, "llm",
				pawl.SettleCall{Reservation: r.Reservation, Amount: 7, ItemID: l.ID, WorkerID: l.WorkerID, Attempt: l.Attempt}))
		}
	}
	if _, err := svc.ReserveBudget(f.ctx, "llm", reserveOf(l, 200, "asks")); pawl.CodeOf(err) != pawl.CodeBudgetExhausted {
		f.Errorf("reserve above the limit: %v", err)
	}
}

// effects leaves an effect that is done and one that is unknown.
func (f *filling) effects() {
	svc := f.p.Service
	l := f.claim(f.create("pays", 1, nil), 1)[0]
	for _, name := range []string{"charge", "mail"} {
		o := need[pawl.OpenedEffect](f)(svc.OpenEffect(f.ctx, pawl.OpenEffectCall{ItemID: l.ID, WorkerID: l.WorkerID, Attempt: l.Attempt,
			Name: name, RequestHash: "h"}))
		if name == "charge" {
			need[pawl.EffectRecord](f)(svc.EffectDone(f.ctx, o.ID,
				pawl.EffectDoneCall{ItemID: l.ID, WorkerID: l.WorkerID, Attempt: l.Attempt, Answer: []byte(`{"charge":1}`)}))
		}
	}
	need[[]pawl.Result[pawl.Moved]](f)(svc.Release(f.ctx, []pawl.ReleaseCall{{Fence: l.Fence()}}))
}

// limits leaves queues that are paused or have limits, each of these with a lease and a queued
// item, and a paused namespace.
func (f *filling) limits() {
	svc := f.p.Service
	need[pawl.Queue](f)(svc.PauseQueue(f.ctx, "later"))
	for typ, limits := range map[string]string{
		"limited": `{"concurrency":1,"per_key":{"pointer":"/tenant","weights":{"x":3}}}`,
		"rated":   `{"rate":{"limit":1,"seconds":86400}}`,
		"ordered": `{"per_key":{"pointer":"/tenant","order":"created"}}`,
	} {
		need[pawl.Queue](f)(svc.SetQueue(f.ctx, typ, pawl.QueuePatch(limits)))
		for range 2 {
			need[pawl.Task](f)(pawl.Create(f.ctx, svc, pawl.NewTask{Type: typ, Payload: json.RawMessage(`{"tenant":"x"}`)}))
		}
		leases(f, f.p.Engine, pawl.ClaimRequest{WorkerID: "limited", Types: []string{typ}, LeaseSeconds: pawl.MaxLeaseSeconds}, 1)
	}
	f.do(svc.PauseNamespace(pawl.As(f.ctx, pawl.Caller{Namespace: "closed"})))
}

// timed leaves tasks with deadlines and timeouts, and tasks that have keys.
func (f *filling) timed() {
	at := f.p.Now().Add(time.Hour)
	for _, n := range []int{0, 2} {
		f.create("timed", n, func(t *pawl.NewTask) { t.Deadline, t.StartToCloseSeconds, t.ScheduleToStartSeconds = &at, 600, 3600 })
	}
	f.claim(f.create("timed", 0, func(t *pawl.NewTask) { t.Deadline, t.StartToCloseSeconds = &at, 600 }), 1)
	f.create("alone", 0, func(t *pawl.NewTask) { t.Unique = &pawl.Unique{By: pawl.UniqueByKey, Key: "k"} })
	f.create("alone", 0, func(t *pawl.NewTask) { t.Debounce = &pawl.Debounce{Key: "k", Seconds: 600} })
}

// children leaves a child that has ended, one that has not, and the item that waits for both.
func (f *filling) children() {
	parent := f.claim(f.create("parent", 0, nil), 1)[0]
	var ids []string
	for _, key := range []string{"a", "b"} {
		rs := need[[]pawl.Result[pawl.Task]](f)(f.p.Service.Spawn(f.ctx,
			[]pawl.SpawnCall{{Fence: parent.Fence(), Key: key, Task: pawl.NewTask{Type: "child"}}}))
		if rs[0].Err != nil {
			f.Fatal(rs[0].Err)
		}
		ids = append(ids, rs[0].Value.ID)
	}
	f.do(errOf(f.p.Service.Suspend(f.ctx, []pawl.SuspendCall{{Fence: parent.Fence(), Children: &pawl.ChildWait{IDs: ids}}})))
	l := need[[]pawl.Lease](f)(f.p.Service.Claim(f.ctx, pawl.ClaimRequest{WorkerID: "w", Types: []string{"child"}}))
	f.do(errOf(f.p.Service.Complete(f.ctx, []pawl.CompleteCall{{Fence: l[0].Fence(), Result: json.RawMessage(`1`)}})))
}

func (f *filling) types() {
	svc := f.p.Service
	manual := pawl.Approval{Mode: pawl.ApprovalManual}
	for n, types := range [][]pawl.Type{
		{{Name: "judged", Acceptance: true, Approval: manual, Apply: pawl.Apply{Mode: pawl.ApplyItem}}},
		{{Name: "judged", Acceptance: true, Approval: manual, Apply: pawl.Apply{Mode: pawl.ApplyItem}, Description: "again"},
			{Name: "pieces", Acceptance: true, Parts: []pawl.PartRule{{Key: "title", Required: true}}}},
	} {
		for _, r := range need[[]pawl.Result[pawl.TypeRef]](f)(svc.PutTypes(f.ctx, types)) {
			if r.Err != nil {
				f.Fatal(n, r.Err)
			}
		}
	}
}

// archived leaves archives, of one task and of two together, what stays of deleted tasks, and passes of the sweep.
func (f *filling) archived() {
	f.retired(0)
	f.retired(0, 2)
}

func (f *filling) retired(sizes ...int) {
	for _, n := range sizes {
		task := f.create("old", n, nil)
		for _, l := range f.claim(task, max(1, n)) {
			f.do(errOf(f.p.Service.Complete(f.ctx, []pawl.CompleteCall{{Fence: l.Fence(), Result: json.RawMessage("1")}})))
		}
	}
	f.do(f.p.Engine.Log(f.ctx)) // a page of the feed whose events are all removed
	gone := f.create("old", 0, nil)
	f.do(errOf(f.p.Service.DeleteTasks(f.ctx, []pawl.TaskCall{{TaskID: gone.ID, Force: true}})))
	f.do(f.p.Engine.Log(f.ctx))
	f.p.Advance(pawl.DefaultRetainTasks + time.Hour)
	for range 2 {
		need[pawl.SweepStats](f)(f.p.Service.Sweep(f.ctx))
		f.do(f.p.Engine.Log(f.ctx))
	}
}

// states leaves a task with its items in each state that needs no decision.
func (f *filling) states(n int) {
	svc, all := f.p.Service, max(1, n)
	f.create("queued", n, nil)
	at := f.p.Now().Add(time.Hour)
	f.create("scheduled", n, func(t *pawl.NewTask) { t.RunAt = &at })
	f.create("deduplicated", n, func(t *pawl.NewTask) { t.Dedupe = pawl.Dedupe{All: true} })
	f.claim(f.create("leased", n, nil), all)
	for _, l := range f.claim(f.create("in_progress", n, nil), all) {
		f.do(errOf(svc.Heartbeat(f.ctx, []pawl.HeartbeatCall{{Fence: l.Fence()}})))
	}
	for _, l := range f.claim(f.create("waiting", n, nil), all) {
		f.do(errOf(svc.Suspend(f.ctx, []pawl.SuspendCall{{Fence: l.Fence(), Signal: "go", Key: l.ID}})))
	}
	for _, l := range f.claim(f.create("completed", n, nil), all) {
		f.do(errOf(svc.Complete(f.ctx, []pawl.CompleteCall{{Fence: l.Fence(), Result: json.RawMessage(`{"b":2}`)}})))
	}
	failed := f.create("failed", n, nil)
	dead := f.create("dead_lettered", n, nil)
	for _, l := range append(f.claim(failed, all), f.claim(dead, all)...) {
		no := false
		f.do(errOf(svc.Fail(f.ctx, []pawl.FailCall{{Fence: l.Fence(), Error: pawl.Failure{Code: "no", Message: "no"}, Retryable: &no}})))
	}
	f.do(errOf(svc.BuryTasks(f.ctx, []pawl.TaskCall{{TaskID: dead.ID}})))
	f.do(errOf(svc.CancelTasks(f.ctx, []pawl.TaskCall{{TaskID: f.create("cancelled", n, nil).ID}})))
	f.create("dependent", 2, func(t *pawl.NewTask) { t.Items[1].After = []string{"k0"} })
}

// decided leaves tasks that wait for a decision, and those for which one was made.
func (f *filling) decided(n int) {
	svc, all := f.p.Service, max(1, n)
	submitted := func() pawl.Task {
		task := f.create("judged", n, nil)
		for _, l := range f.claim(task, all) {
			f.do(errOf(svc.Submit(f.ctx, []pawl.SubmitCall{{Fence: l.Fence(), Result: json.RawMessage("1"), Notes: "done"}})))
		}
		return task
	}
	ctx := f.ctx
	submitted()
	f.ctx = pawl.As(ctx, pawl.Caller{ActorType: pawl.ActorUser, ActorID: "ann"})
	complaint := []pawl.Complaint{{Code: "bad", Message: "bad"}}
	approved, rejected, reworked := submitted(), submitted(), submitted()
	applied := submitted()
	f.ctx = pawl.As(ctx, pawl.Caller{ActorType: pawl.ActorUser, ActorID: "bob"})
	f.do(errOf(svc.ApproveTasks(f.ctx, []pawl.ApproveCall{{TaskID: approved.ID}})),
		errOf(svc.RejectTasks(f.ctx, []pawl.RejectCall{{TaskID: rejected.ID, Errors: complaint}})),
		errOf(svc.RejectTasks(f.ctx, []pawl.RejectCall{{TaskID: reworked.ID, Errors: complaint, AllowRework: true}})))
	f.do(errOf(svc.ApproveTasks(f.ctx, []pawl.ApproveCall{{TaskID: applied.ID}})))
	f.ctx = ctx
	l := leases(f, svc, pawl.ClaimRequest{WorkerID: "before", Types: []string{"judged" + pawl.ApplySuffix}, TaskID: applied.ID}, 1)[0]
	result := json.RawMessage(`{"result":true,"diff":{"summary":"done"}}`)
	f.do(errOf(svc.Complete(f.ctx, []pawl.CompleteCall{{Fence: l.Fence(), Result: result}})))
	for _, l := range f.claim(f.create("pieces", n, nil), all) {
		for _, payload := range []string{`"a"`, `"b"`} {
			f.do(errOf(svc.SubmitParts(f.ctx, []pawl.PartCall{{Fence: l.Fence(), Key: "title", Payload: json.RawMessage(payload)}})))
		}
	}
}

// said leaves messages with steps, and checkpoints whose snapshots are blobs.
func (f *filling) said() {
	svc := f.p.Service
	task := f.create("said", 0, func(t *pawl.NewTask) { t.Thread = "thread" })
	l := f.claim(task, 1)[0]
	for n := range 2 {
		m := need[pawl.Message](f)(first(svc.StartMessages(f.ctx, []pawl.StartCall{{Fence: l.Fence(), Role: "assistant", Model: "m"}})))
		fence := pawl.MessageFence{MessageID: m.ID, WorkerID: l.WorkerID, Attempt: l.Attempt}
		for offset := range int64(3) {
			chunk := pawl.Chunk{Type: "text", Text: "some words "}
			f.do(errOf(svc.Append(f.ctx, []pawl.AppendCall{{MessageFence: fence, Offset: offset, Chunks: []pawl.Chunk{chunk}}})))
			f.do(errOf(svc.StepMessages(f.ctx, []pawl.StepCall{{MessageFence: fence}})))
		}
		if n == 0 {
			f.do(errOf(svc.FinishMessages(f.ctx, []pawl.FinishCall{{MessageFence: fence, Usage: json.RawMessage(`{"tokens":3}`)}})))
		}
	}
	snapshot := []byte(`"`)
	for n := range 3 {
		snapshot = append(snapshot, bytes.Repeat(fmt.Appendf(nil, "turn %d of a conversation. ", n), 300)...)
		c := pawl.NewCheckpoint{Type: "custom", Name: "state", Snapshot: append(bytes.Clone(snapshot), '"')}
		f.do(errOf(svc.Checkpoint(f.ctx, []pawl.CheckpointCall{{Fence: l.Fence(), NewCheckpoint: c}})))
	}
	c := pawl.NewCheckpoint{Type: pawl.ManualCheckpoint, Snapshot: json.RawMessage("1")}
	f.do(errOf(svc.CheckpointTasks(f.ctx, []pawl.TaskCheckpoint{{TaskID: task.ID, NewCheckpoint: c}})))
}

// besides leaves what belongs to no task.
func (f *filling) besides() {
	svc, e := f.p.Service, f.p.Engine
	f.do(errOf(svc.SendSignals(f.ctx, []pawl.SignalCall{{Name: "sent", Key: "k", Payload: json.RawMessage("1")}})))
	for _, key := range []string{"begun", "done"} {
		f.do(errOf(svc.BeginKeys(f.ctx, []pawl.KeyBegin{{Scope: "s", Key: key, RequestHash: "h"}})))
	}
	begun := need[pawl.KeyBegun](f)(first(svc.BeginKeys(f.ctx, []pawl.KeyBegin{{Scope: "s", Key: "third", RequestHash: "h"}})))
	f.do(errOf(svc.CompleteKeys(f.ctx, []pawl.KeyDone{{Scope: "s", Key: "third", Token: begun.Token, Response: json.RawMessage("1")}})))
	r, ok, err := e.TakeRelay(f.ctx, "bus", "shelf", "holder", time.Minute)
	if !ok {
		f.Fatal("the relay is held")
	}
	f.do(err)
	need[bool](f)(e.KeepRelay(f.ctx, r, time.Minute))
	_, _, err = e.CreateAPIKey(f.ctx, pawl.NewAPIKey{Name: "key", Roles: []string{"operator"}})
	f.do(err)
	blob := need[pawl.Blob](f)(e.PutBlob(f.ctx, pawl.BlobUpload{Content: strings.NewReader("bytes")}))
	reference := json.RawMessage(`{"` + pawl.BlobMember + `":"` + blob.Address + `"}`)
	need[pawl.Task](f)(pawl.Create(f.ctx, e, pawl.NewTask{Type: "refers", Payload: reference}))
	f.do(e.RegisterWorker(f.ctx, pawl.WorkerInfo{WorkerID: "before"}))
	need[pawl.Schedule](f)(svc.CreateSchedule(f.ctx, pawl.NewSchedule{Name: "monthly", Cron: "@monthly", Task: pawl.NewTask{Type: "planned"}}))
	need[pawl.Schedule](f)(svc.RunSchedule(f.ctx, "monthly"))
	f.create("selected", 0, nil)
	need[pawl.Task](f)(svc.Bulk(f.ctx, bulkOf("selected", pawl.BulkCancel)))
	l := f.claim(f.create("forked", 0, nil), 1)[0]
	c := pawl.NewCheckpoint{Type: "custom", Name: "state", Snapshot: json.RawMessage("1")}
	f.do(errOf(svc.Checkpoint(f.ctx, []pawl.CheckpointCall{{Fence: l.Fence(), NewCheckpoint: c}})),
		errOf(svc.ForkTasks(f.ctx, []pawl.TaskFork{{TaskID: l.TaskID, Checkpoint: 1}})))
}

// emptyTables are the tables in which no call leaves a row that stays, with the reason.
var emptyTables = map[string]string{
	"relocations":        "of a move",
	"relocation_changes": "of a move",
	"relocation_numbers": "of a move",
	"log_pages":          "the newest pages stay in the feed, and SQLite's are all new",
	"budget_totals":      "has what reservations spent that ended 30 days ago",
	"child_cancels":      "the call that ends a wait carries its cancels out",
	"type_hooks":         "has rows only where an engine has hooks",
	"places":             "has rows only where a database is not trusted; a copy of it would be quarantined",
	"retention_gate":     "has a row during a removal only",
	"test_clock":         "is of the tests",
}

// missing returns the tables without a row, and the states that no item is in.
func (f *filling) missing() (out []string) {
	tables := `SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite_%'`
	if f.p.Database == pawltest.Postgres {
		tables = `SELECT tablename FROM pg_tables WHERE schemaname = '` + f.p.Schema + `'`
	}
	f.do(f.p.Engine.DB().View(f.ctx, func(ctx context.Context, tx store.Tx) error {
		names, err := texts(ctx, tx, tables)
		if err != nil {
			return err
		}
		for _, name := range names {
			rows, err := texts(ctx, tx, `SELECT 'x' FROM pawl.`+name+` LIMIT 1`)
			if err != nil {
				return err
			}
			if len(rows) == 0 && emptyTables[name] == "" {
				out = append(out, "a row of "+name)
			}
		}
		states, err := texts(ctx, tx, `SELECT DISTINCT state FROM pawl.v_items`)
		have := map[string]bool{}
		for _, s := range states {
			have[s] = true
		}
		for _, s := range pawl.ItemStates {
			if s.Shown && !have[s.Name] {
				out = append(out, "an item that is "+s.Name)
			}
		}
		return err
	}))
	return out
}

func texts(ctx context.Context, tx store.Tx, query string) (out []string, err error) {
	rows, err := tx.Query(ctx, query)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var s string
		if err := rows.Scan(&s); err != nil {
			return nil, err
		}
		out = append(out, s)
	}
	return out, rows.Err()
}
