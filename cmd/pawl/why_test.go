package main

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/engine"
	"github.com/pawl-work/pawl/pawltest"
)

// whyCase is one reason: how an item comes to it, and what `pawl why` says after its command.
type whyCase struct {
	reason string
	detail string                          // a part of the detail
	item   func(w *whyFixture) (id string) // makes the item, or its task
	after  string                          // the reason after the command
	next   bool                            // the answer has next_at
}

type whyFixture struct {
	*testing.T
	ctx context.Context
	svc pawl.Service
	*pawltest.Calls
	typeName string
}

// task creates a task and returns its id.
func (w *whyFixture) task(n pawl.NewTask) string {
	w.Helper()
	n.Type = w.typeName
	return w.Create(n).ID
}

func (w *whyFixture) live() {
	w.Helper()
	w.OK(w.svc.RegisterWorker(w.ctx, pawl.WorkerInfo{WorkerID: "idle", Types: []string{w.typeName}}))
}

// claim claims an item of the type.
func (w *whyFixture) claim(seconds int) pawl.Fence {
	w.Helper()
	return w.ClaimN(1, pawl.ClaimRequest{WorkerID: "w1", Types: []string{w.typeName}, LeaseSeconds: seconds})[0].Fence()
}

func (w *whyFixture) fail(f pawl.Fence, retryable bool) {
	w.Helper()
	rs, err := w.svc.Fail(w.ctx, []pawl.FailCall{{Fence: f, Retryable: &retryable, Error: pawl.Failure{Code: "boom", Message: "disk <full>"}}})
	w.OK(err)
	w.OK(rs[0].Err)
}

func (w *whyFixture) suspend(c pawl.SuspendCall) {
	w.Helper()
	rs, err := w.svc.Suspend(w.ctx, []pawl.SuspendCall{c})
	w.OK(err)
	w.OK(rs[0].Err)
}

func (w *whyFixture) limit(patch string) {
	w.Helper()
	_, err := w.svc.SetQueue(w.ctx, w.typeName, pawl.QueuePatch(patch))
	w.OK(err)
}

func (w *whyFixture) typ(t pawl.Type) {
	w.Helper()
	t.Name = w.typeName
	rs, err := w.svc.PutTypes(w.ctx, []pawl.Type{t})
	w.OK(err)
	w.OK(rs[0].Err)
}

// decided makes a task whose result is submitted, and approves it if asked.
func (w *whyFixture) decided(n pawl.NewTask, how pawl.Apply, approve bool) (id string) {
	w.Helper()
	w.typ(pawl.Type{Approval: pawl.Approval{Mode: pawl.ApprovalManual, ExpiresSeconds: 3600}, Apply: how})
	id = w.task(n)
	rs, err := w.svc.Submit(w.ctx, []pawl.SubmitCall{{Fence: w.claim(300), Result: json.RawMessage(`1`)}})
	w.OK(err)
	w.OK(rs[0].Err)
	if approve {
		ts, err := w.svc.ApproveTasks(w.ctx, []pawl.ApproveCall{{TaskID: id}})
		w.OK(err)
		w.OK(ts[0].Err)
	}
	return id
}

// whyHooks refuse tasks by their titles.
var whyHooks = pawl.Hooks{
	Check: func(_ context.Context, t pawl.Task, _ []pawl.Item) ([]pawl.Complaint, error) {
		if t.Title == "thin" {
			return []pawl.Complaint{{Code: "thin", Message: "one page is too few"}}, nil
		}
		return nil, nil
	},
	Apply: func(context.Context, pawl.Application) (pawl.Applied, error) {
		return pawl.Applied{}, errors.New("the disk is full")
	},
}

func (w *whyFixture) sweep() {
	w.Helper()
	_, err := w.svc.(pawl.Sweeper).Sweep(w.ctx)
	w.OK(err)
}

// itemOf returns the id of the item of a key, failedOf that of the item that failed.
func (w *whyFixture) itemOf(task, key string) string {
	return w.find(task, func(it pawl.Item) bool { return it.Key == key })
}

func (w *whyFixture) failedOf(task string) string {
	return w.find(task, func(it pawl.Item) bool { return it.State == pawl.ItemFailed })
}

func (w *whyFixture) find(task string, which func(pawl.Item) bool) string {
	w.Helper()
	l, err := w.svc.ListItems(w.ctx, pawl.ItemFilter{TaskID: task})
	w.OK(err)
	return l.Items[slices.IndexFunc(l.Items, which)].ID
}

var whyCases = []whyCase{
	{pawl.BlockedByNoWorker, "no live worker takes", func(w *whyFixture) string { return w.task(pawl.NewTask{}) }, pawl.WhyEnded, false},
	{pawl.WhyQueued, "a live worker takes", func(w *whyFixture) string { return w.task(pawl.NewTask{}) }, pawl.WhyQueued, false},
	{pawl.WhyRunning, "Worker w1 holds it, in attempt 1", func(w *whyFixture) string {
		id := w.task(pawl.NewTask{})
		w.claim(300)
		return id
	}, pawl.WhyQueued, true},
	{pawl.WhyStalled, "has not called since its claim", func(w *whyFixture) string {
		id := w.task(pawl.NewTask{})
		w.claim(10)
		time.Sleep(4500 * time.Millisecond) // more than four heartbeats of ten in a lease
		return id
	}, pawl.WhyQueued, true},
	{pawl.WhyStalled, "its lease is over. The next sweep queues it again, or fails it if that was its last attempt.",
		func(w *whyFixture) string {
			id := w.task(pawl.NewTask{})
			w.claim(1)
			time.Sleep(1100 * time.Millisecond)
			return id
		}, pawl.WhyQueued, false},
	{pawl.WhyFailed, "Worker w1 held it last, in attempt 1. Failure 1 of 3, the last error: boom: disk <full>.", func(w *whyFixture) string {
		id := w.task(pawl.NewTask{})
		w.fail(w.claim(300), false)
		return id
	}, pawl.WhyQueued, true},
	{pawl.WhyNeedsApproval, "waits for an approval", func(w *whyFixture) string {
		w.typ(pawl.Type{Approval: pawl.Approval{Mode: pawl.ApprovalManual, ExpiresSeconds: 3600}})
		id := w.task(pawl.NewTask{})
		rs, err := w.svc.Submit(w.ctx, []pawl.SubmitCall{{Fence: w.claim(300), Result: json.RawMessage(`1`)}})
		w.OK(err)
		w.OK(rs[0].Err)
		return id
	}, pawl.WhyEnded, true},
	{pawl.WhyNeedsApproval, "its checks have not passed: check_failed: one page is too few", func(w *whyFixture) string {
		return w.decided(pawl.NewTask{Title: "thin"}, pawl.Apply{}, false)
	}, pawl.BlockedByNoWorker, true},
	{pawl.WhyFailed, "Its task failed when it was applied: apply_failed: the disk is full", func(w *whyFixture) string {
		return w.decided(pawl.NewTask{Title: "full"}, pawl.Apply{Mode: pawl.ApplyGo}, true)
	}, pawl.BlockedByDependency, true}, // the process of the command has no hook, and leaves the task to one that has it
	{pawl.WhyFailed, "Its task failed when it was applied: boom: disk <full>", func(w *whyFixture) string {
		id := w.decided(pawl.NewTask{}, pawl.Apply{Mode: pawl.ApplyItem}, true)
		w.fail(w.ClaimN(1, pawl.ClaimRequest{WorkerID: "w1", Types: []string{w.typeName + ".apply"}})[0].Fence(), false)
		return id
	}, pawl.BlockedByNoWorker, true},
	{pawl.WhyFailed, "An item that it depends on has not completed. Item", func(w *whyFixture) string {
		id := w.task(pawl.NewTask{Items: []pawl.NewItem{{Key: "a"}, {Key: "b", After: []string{"a"}}}})
		w.live()
		w.fail(w.claim(300), false)
		w.sweep()
		return w.itemOf(id, "b")
	}, pawl.WhyFailed, true},
	{pawl.WhyFailed, "Its task is completed, which is final", func(w *whyFixture) string {
		w.typ(pawl.Type{OnItemFailure: pawl.FailureIgnore})
		id := w.task(pawl.NewTask{Items: []pawl.NewItem{{Key: "a"}, {Key: "b"}}})
		f := w.claim(300)
		w.fail(w.claim(300), false)
		_, err := w.svc.Complete(w.ctx, []pawl.CompleteCall{{Fence: f}})
		w.OK(err)
		return w.failedOf(id)
	}, pawl.WhyFailed, false},
	{pawl.WhyEnded, "It is cancelled", func(w *whyFixture) string {
		id := w.task(pawl.NewTask{})
		_, err := w.svc.CancelTasks(w.ctx, []pawl.TaskCall{{TaskID: id}})
		w.OK(err)
		return id
	}, pawl.WhyEnded, false},
	{pawl.WhyEnded, "It is completed", func(w *whyFixture) string {
		id := w.task(pawl.NewTask{})
		_, err := w.svc.Complete(w.ctx, []pawl.CompleteCall{{Fence: w.claim(300)}})
		w.OK(err)
		return id
	}, pawl.WhyEnded, false},
	{pawl.BlockedByPause, "is paused", func(w *whyFixture) string {
		id := w.task(pawl.NewTask{})
		_, err := w.svc.PauseQueue(w.ctx, w.typeName)
		w.OK(err)
		return id
	}, pawl.WhyQueued, false},
	{pawl.BlockedByConcurrency, "1 leased, the limit is 1", func(w *whyFixture) string {
		w.task(pawl.NewTask{})
		w.limit(`{"concurrency":1}`)
		w.claim(300)
		return w.task(pawl.NewTask{})
	}, pawl.WhyQueued, false},
	{pawl.BlockedByConcurrency, `key "a": 1 leased, the limit is 1`, func(w *whyFixture) string {
		w.limit(`{"per_key":{"pointer":"/k","concurrency":1}}`)
		w.task(pawl.NewTask{Payload: json.RawMessage(`{"k":"a"}`)})
		w.claim(300)
		return w.task(pawl.NewTask{Payload: json.RawMessage(`{"k":"a"}`)})
	}, pawl.WhyQueued, false},
	{pawl.BlockedByRate, "1 starts in 3600 s", func(w *whyFixture) string {
		w.limit(`{"rate":{"limit":1,"seconds":3600}}`)
		w.task(pawl.NewTask{})
		w.claim(300)
		return w.task(pawl.NewTask{})
	}, pawl.WhyQueued, true},
	{pawl.BlockedByOrder, "Worker w1 holds it", func(w *whyFixture) string {
		w.limit(`{"per_key":{"pointer":"/k","order":"created"}}`)
		w.task(pawl.NewTask{Payload: json.RawMessage(`{"k":"a"}`)})
		w.claim(300)
		return w.task(pawl.NewTask{Payload: json.RawMessage(`{"k":"a"}`)})
	}, pawl.BlockedByOrder, false},
	{pawl.BlockedByDependency, "no live worker takes", func(w *whyFixture) string {
		id := w.task(pawl.NewTask{Items: []pawl.NewItem{{Key: "a"}, {Key: "b", After: []string{"a"}}}})
		l, err := w.svc.ListItems(w.ctx, pawl.ItemFilter{TaskID: id})
		w.OK(err)
		return l.Items[1].ID
	}, pawl.WhyEnded, false},
	{pawl.BlockedBySignal, "It waits for the signal it's paid, key order 7", func(w *whyFixture) string {
		id := w.task(pawl.NewTask{})
		w.suspend(pawl.SuspendCall{Fence: w.claim(300), Signal: "it's paid", Key: "order 7"})
		return id
	}, pawl.WhyQueued, false},
	{pawl.BlockedByTime, "It sleeps until", func(w *whyFixture) string {
		id, until := w.task(pawl.NewTask{}), time.Now().Add(time.Hour)
		w.suspend(pawl.SuspendCall{Fence: w.claim(300), Until: &until})
		return id
	}, pawl.WhyEnded, true},
	{pawl.BlockedByTime, "back-off after failure 1", func(w *whyFixture) string {
		id := w.task(pawl.NewTask{})
		w.typ(pawl.Type{})
		w.fail(w.claim(300), true)
		return id
	}, pawl.WhyEnded, true},
	{pawl.BlockedByTime, "the next sweep queues it", func(w *whyFixture) string {
		soon := time.Now().Add(2 * time.Second)
		id := w.task(pawl.NewTask{Items: []pawl.NewItem{{RunAt: &soon}}})
		time.Sleep(time.Until(soon) + 10*time.Millisecond)
		return id
	}, pawl.WhyQueued, false},
	{pawl.BlockedByBudget, "100 of 100 tokens are spent", func(w *whyFixture) string {
		name := strings.ReplaceAll(w.typeName, " ", "-")
		_, err := w.svc.PutBudget(w.ctx, name, pawl.NewBudget{Unit: "tokens", Limit: 100, OnExhausted: pawl.ExhaustedSuspend})
		w.OK(err)
		id := w.task(pawl.NewTask{})
		f := w.claim(300)
		reserve := pawl.ReserveCall{ItemID: f.ItemID, WorkerID: f.WorkerID, Attempt: f.Attempt, Amount: 100, Key: "a"}
		r, err := w.svc.ReserveBudget(w.ctx, name, reserve)
		w.OK(err)
		_, err = w.svc.SettleBudget(w.ctx, name, pawl.SettleCall{Reservation: r.Reservation, Amount: 100, ItemID: f.ItemID, WorkerID: f.WorkerID,
			Attempt: f.Attempt})
		w.OK(err)
		reserve.Key = "b"
		_, err = w.svc.ReserveBudget(w.ctx, name, reserve)
		e := exhaustedOf(w.T, err)
		w.suspend(pawl.SuspendCall{Fence: f, Signal: pawl.BudgetSignal, Key: e.SignalKey})
		return id
	}, pawl.WhyQueued, false},
	{pawl.BlockedByEffect, "It is queued when a person approves or resolves the effect", func(w *whyFixture) string {
		id := w.task(pawl.NewTask{})
		f := w.claim(300)
		o, err := w.svc.OpenEffect(w.ctx, pawl.OpenEffectCall{ItemID: f.ItemID, WorkerID: f.WorkerID, Attempt: f.Attempt, Name: "pay",
			RequestHash: "h"})
		w.OK(err)
		w.suspend(pawl.SuspendCall{Fence: f, Signal: pawl.EffectSignal, Key: o.ID})
		return id
	}, pawl.BlockedByEffect, false},
	{pawl.BlockedByBudget, "It waits for a budget that does not exist: gone.", func(w *whyFixture) string {
		id := w.task(pawl.NewTask{})
		w.suspend(pawl.SuspendCall{Fence: w.claim(300), Signal: pawl.BudgetSignal, Key: pawl.BudgetSignalKey("gone", time.Now(), "")})
		return id
	}, pawl.WhyEnded, false},
	{pawl.BlockedByChildren, "no live worker takes", func(w *whyFixture) string {
		id := w.task(pawl.NewTask{})
		f := w.claim(300)
		rs, err := w.svc.Spawn(w.ctx, []pawl.SpawnCall{{Fence: f, Key: "c", Task: pawl.NewTask{Type: w.typeName}}})
		w.OK(err)
		w.OK(rs[0].Err)
		w.suspend(pawl.SuspendCall{Fence: f, Children: &pawl.ChildWait{Name: "c", IDs: []string{rs[0].Value.ID}}})
		return id
	}, pawl.WhyEnded, false},
}

func exhaustedOf(t *testing.T, err error) *pawl.Exhausted {
	t.Helper()
	e, ok := err.(*pawl.Error)
	if !ok || e.Exhausted == nil {
		t.Fatalf("not exhausted: %v", err)
	}
	return e.Exhausted
}

// Every reason is said of an item that has it, and the command is one that the program has: it
// changes what the item waits for.
func TestWhy(t *testing.T) {
	said := map[string]bool{}
	for _, c := range whyCases {
		said[c.reason] = true
	}
	for _, r := range pawl.WhyReasons {
		if !said[r] {
			t.Errorf("no case has the reason %s", r)
		}
	}
	for _, which := range pawltest.Databases {
		t.Run(string(which), func(t *testing.T) {
			t.Parallel()
			hooks := map[string]pawl.Hooks{}
			for i := range whyCases {
				hooks[typeOfWhy(i)] = whyHooks
			}
			p := pawltest.OpenReal(t, which, engine.Options{Hooks: hooks})
			// A worker that only claims counts after a minute as one that takes any type.
			p.OK(p.Service.RegisterWorker(t.Context(), pawl.WorkerInfo{WorkerID: "w1", Types: []string{"none"}}))
			for i, c := range whyCases {
				t.Run(c.reason, func(t *testing.T) {
					checkWhy(t, p, typeOfWhy(i), c)
				})
			}
		})
	}
}

func typeOfWhy(i int) string { return "why " + string(rune('a'+i)) }

func checkWhy(t *testing.T, p *pawltest.Pawl, typ string, c whyCase) {
	w := &whyFixture{t, t.Context(), p.Service, p.Calls, typ}
	if c.after == pawl.WhyQueued {
		w.live()
	}
	dir := t.TempDir()
	w.OK(os.WriteFile(filepath.Join(dir, "handler"), []byte("#!/bin/sh\necho 1\n"), 0o755))
	env := []string{"PAWL_DB=" + p.URL, "PAWL_SCHEMA=" + p.Schema}
	here := func(args ...string) string {
		t.Helper()
		var out, said strings.Builder
		if code := run(args, env, nil, &out, &said); code != 0 || said.Len() > 0 {
			t.Fatalf("%q: exit code %d\n%s", args, code, &said)
		}
		return out.String()
	}
	typed := func(timeout time.Duration, line string) { // as a person does
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), timeout)
		defer cancel()
		cmd := exec.CommandContext(ctx, "sh", "-c", "exec "+line)
		cmd.Dir, cmd.Env = dir, append(os.Environ(), env...)
		cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
		out, err := cmd.CombinedOutput()
		if err != nil && ctx.Err() == nil {
			t.Fatalf("%s: %v\n%s", line, err, out)
		}
	}
	id := c.item(w)
	ask := func() (why pawl.Why) {
		t.Helper()
		var members map[string]any
		out := here("why", "--json", id)
		w.OK(json.Unmarshal([]byte(out), &why))
		w.OK(json.Unmarshal([]byte(out), &members))
		names := slices.Sorted(func(yield func(string) bool) {
			for name := range members {
				if name != "next_at" && name != "holder" && !yield(name) {
					return
				}
			}
		})
		if !slices.Equal(names, []string{"command", "detail", "item_id", "reason", "since", "status"}) {
			t.Errorf("members %v", names)
		}
		return why
	}
	why := ask()
	if why.Reason != c.reason || !strings.Contains(why.Detail, c.detail) || (why.NextAt != nil) != c.next || why.Since.IsZero() {
		t.Fatalf("want %s, %q, next %t: %+v", c.reason, c.detail, c.next, why)
	}
	text := here("why", id)
	silence := func(s string) string { return regexp.MustCompile(`\d+ s ago`).ReplaceAllString(s, "") } // a second may have passed
	if !strings.Contains(silence(text), silence(why.Detail)) || !strings.HasSuffix(text, "To change it: "+why.Command+"\n") {
		t.Errorf("as text: %s", text)
	}
	if strings.Contains(why.Command, "pawl worker ") {
		typed(3*time.Second, why.Command)
	} else {
		typed(time.Minute, why.Command)
	}
	if again := ask(); c.after != again.Reason {
		t.Errorf("after %s: %+v, want %s", why.Command, again, c.after)
	}
}
