package engine_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/pawltest"
)

var walks atomic.Int64

// Random walks, each in its own namespace, next to a model in memory. After every step
// both must look the same. A failure prints its seed.
func TestRandomWalk(t *testing.T) {
	pawltest.Each(t, func(t *testing.T, p *pawltest.Pawl) {
		rapid.Check(t, func(rt *rapid.T) {
			w := &walk{T: rt, p: p, model: &model{now: p.Now()}, seen: map[string]int64{}, sent: map[string]bool{}}
			w.ctx = pawl.As(context.Background(), pawl.Caller{Namespace: fmt.Sprint("walk", walks.Add(1))})
			rt.Repeat(map[string]func(*rapid.T){
				"create":  w.create,
				"claim":   w.claim,
				"claim2":  w.claim,
				"work":    w.work,
				"work2":   w.work,
				"work3":   w.work,
				"operate": w.operate,
				"advance": w.advance,
				"sweep":   w.sweep,
				"":        w.compare,
			})
		})
	})
}

// walk is one random walk in progress.
type walk struct {
	*rapid.T
	p     *pawltest.Pawl
	model *model
	sent  map[string]bool // the calls that were carried out
	ctx   context.Context
	seen  map[string]int64
}

func (w *walk) ok(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

func (w *walk) create(rt *rapid.T) {
	n := pawl.NewTask{
		Type: rapid.SampledFrom([]string{"a", "b"}).Draw(rt, "type"), Priority: rapid.IntRange(-1, 1).Draw(rt, "priority"),
		MaxAttempts: rapid.IntRange(1, 3).Draw(rt, "max_attempts"), Payload: []byte(`1`),
	}
	if rapid.IntRange(0, 3).Draw(rt, "ahead") == 0 {
		at := w.p.Now().Add(30 * time.Second)
		n.RunAt = &at
	}
	for range rapid.IntRange(0, 3).Draw(rt, "items") {
		n.Items = append(n.Items, pawl.NewItem{Input: []byte(`1`)})
	}
	made, err := pawl.Create(w.ctx, w.p.Service, n)
	w.ok(err)
	list, err := w.p.Service.ListItems(w.ctx, pawl.ItemFilter{TaskID: made.ID})
	w.ok(err)
	t := &modelTask{id: made.ID, stored: pawl.TaskOpen}
	for _, i := range list.Items {
		mi := &modelItem{
			task:     t,
			id:       i.ID,
			typ:      n.Type,
			state:    pawl.ItemQueued,
			clock:    &w.model.now,
			priority: n.Priority,
			max:      n.MaxAttempts,
			order:    len(w.model.all()) + len(t.items),
		}
		if n.RunAt != nil {
			mi.state, mi.until = pawl.ItemScheduled, *n.RunAt
		}
		t.items = append(t.items, mi)
	}
	w.model.tasks = append(w.model.tasks, t)
}

func (w *walk) claim(rt *rapid.T) {
	req := pawl.ClaimRequest{
		WorkerID: rapid.SampledFrom([]string{"w1", "w2", "w3"}).Draw(rt, "worker"), Limit: rapid.IntRange(1, 3).Draw(rt, "limit"),
		LeaseSeconds: rapid.IntRange(10, 60).Draw(rt, "lease"), Prefetch: rapid.Bool().Draw(rt, "prefetch"),
		Types: rapid.SampledFrom([][]string{nil, {"a"}, {"b"}, {"a", "b"}, {"c"}}).Draw(rt, "types"),
	}
	got, err := w.p.Service.Claim(w.ctx, req)
	w.ok(err)
	var gotIDs, wantIDs []string
	for _, l := range got {
		gotIDs = append(gotIDs, fmt.Sprintf("%s#%d", l.ID, l.Attempt))
	}
	for _, i := range w.model.claim(req) {
		wantIDs = append(wantIDs, fmt.Sprintf("%s#%d", i.id, i.attempt))
	}
	if diff := cmp.Diff(wantIDs, gotIDs); diff != "" {
		w.Fatalf("claim %+v (-model +pawl):\n%s", req, diff)
	}
}

// work calls a verb with an earlier claim, which may be stale.
func (w *walk) work(rt *rapid.T) {
	if len(w.model.fences) == 0 {
		rt.Skip("nothing has been claimed")
	}
	f := rapid.SampledFrom(w.model.fences).Draw(rt, "claim")
	verb := rapid.SampledFrom([]string{"heartbeat", "progress", "checkpoint", "complete", "complete", "fail", "release", "suspend"}).
		Draw(rt, "verb")
	delay := time.Duration(rapid.SampledFrom([]int{-1, 0, 20}).Draw(rt, "delay")) * time.Second
	i := w.model.item(f.ItemID)
	code, why := w.model.verdict(i, f)
	cancelled := verb == "heartbeat" && code == pawl.CodeConflict && i.state == pawl.ItemCancelled
	moved, err := w.call(verb, f, delay, cancelled)
	if cancelled {
		w.ok(err)
		return
	}
	sent := fmt.Sprint(verb, f)
	switch verb { // what else is in the body of the call
	case "fail":
		sent += delay.String()
	case "suspend":
		sent += w.p.Now().String()
	}
	if code != "" && w.sent[sent] { // the same call was carried out before
		if w.ok(err); !moved.Repeated {
			w.Fatalf("%s: it is not said to be repeated: %+v", sent, moved)
		}
		return
	}
	w.agree(verb, err, code, why)
	if code == "" {
		w.sent[sent] = !slices.Contains([]string{"heartbeat", "progress", "checkpoint"}, verb)
		w.carryOut(verb, i, delay)
	}
}

// agree checks that the error is the one that the model foresaw, or that there is none.
func (w *walk) agree(what string, err error, code pawl.Code, why string) {
	w.Helper()
	if code == "" {
		w.ok(err)
		return
	}
	var e *pawl.Error
	if !errors.As(err, &e) || e.Code != code || (e.Reason != why && e.State != why) {
		w.Fatalf("%s: %v, the model says %s %s", what, err, code, why)
	}
}

func (w *walk) call(verb string, f pawl.Fence, delay time.Duration, cancelled bool) (moved pawl.Moved, err error) {
	switch verb {
	case "heartbeat":
		var b pawl.Beat
		if b, err = pawl.Heartbeat(w.ctx, w.p.Service, f); err == nil && b.Cancelled != cancelled {
			w.Fatalf("heartbeat says cancelled: %v", b.Cancelled)
		}
	case "progress":
		n := 50
		_, err = first(w.p.Service.Progress(w.ctx, []pawl.ProgressCall{{Fence: f, Progress: &n}}))
	case "checkpoint":
		var ref pawl.CheckpointRef
		ref, err = pawl.SaveCheckpoint(w.ctx, w.p.Service, f, pawl.NewCheckpoint{Type: pawl.CustomCheckpoint, Snapshot: []byte(`1`)})
		w.seen[f.ItemID] = ref.Sequence
	case "complete":
		moved, err = pawl.Complete(w.ctx, w.p.Service, f, []byte(`1`))
	case "fail":
		retry, ms := delay >= 0, max(0, delay).Milliseconds()
		moved, err = first(
			w.p.Service.Fail(w.ctx, []pawl.FailCall{{Fence: f, Error: pawl.Failure{Message: "no"}, Retryable: &retry, RetryAfterMS: &ms}}))
	case "release":
		moved, err = pawl.Release(w.ctx, w.p.Service, f)
	case "suspend":
		moved, err = pawl.Suspend(w.ctx, w.p.Service, f, w.p.Now().Add(20*time.Second))
	}
	return moved, err
}

func (w *walk) carryOut(verb string, i *modelItem, delay time.Duration) {
	now := w.model.now
	switch verb {
	case "heartbeat":
		i.state, i.until = pawl.ItemInProgress, now.Add(time.Duration(i.seconds)*time.Second)
	case "progress":
		i.state = pawl.ItemInProgress
	case "checkpoint":
		i.state = pawl.ItemInProgress
		if i.task.checkpoints++; w.seen[i.id] != i.task.checkpoints {
			w.Fatalf("the checkpoint is number %d, the model's %d", w.seen[i.id], i.task.checkpoints)
		}
	case "complete":
		i.leave(pawl.ItemCompleted, "completed", time.Time{})
	case "fail":
		i.fail("failed", delay >= 0, now.Add(max(0, delay)), now)
	case "release":
		i.leave(pawl.ItemQueued, "released", time.Time{})
	case "suspend":
		i.leave(pawl.ItemWaiting, "suspended", now.Add(20*time.Second))
	}
}

func (w *walk) operate(rt *rapid.T) {
	if len(w.model.tasks) == 0 {
		rt.Skip("there are no tasks")
	}
	t := rapid.SampledFrom(w.model.tasks).Draw(rt, "task")
	verb := rapid.SampledFrom([]string{"cancel", "retry", "retry", "bury"}).Draw(rt, "verb")
	call := pawl.TaskCall{TaskID: t.id}
	var only *modelItem
	if len(t.items) > 1 && t.stored == pawl.TaskOpen && rapid.Bool().Draw(rt, "one item") {
		only = rapid.SampledFrom(t.items).Draw(rt, "item")
		call.ItemIDs = []string{only.id}
	}
	verbs := map[string]func(context.Context, []pawl.TaskCall) ([]pawl.Result[pawl.Task], error){
		"cancel": w.p.Service.CancelTasks, "retry": w.p.Service.RetryTasks, "bury": w.p.Service.BuryTasks,
	}
	_, err := first(verbs[verb](w.ctx, []pawl.TaskCall{call}))
	code, why := w.model.operate(verb, t, only)
	w.agree(verb, err, code, why)
}

func (w *walk) advance(rt *rapid.T) {
	w.p.Advance(time.Duration(rapid.IntRange(1, 40).Draw(rt, "seconds")) * time.Second)
	w.model.now = w.p.Now()
}

func (w *walk) sweep(*rapid.T) {
	_, err := w.p.Service.Sweep(w.ctx)
	w.ok(err)
	w.model.sweep()
}

// compare compares everything that can be read with the model.
func (w *walk) compare(*rapid.T) {
	got, want := map[string]string{}, map[string]string{}
	tasks, err := w.p.Service.ListTasks(w.ctx, pawl.TaskFilter{Page: pawl.Page{Limit: pawl.MaxPage}})
	w.ok(err)
	for _, t := range tasks.Items {
		got[t.ID] = fmt.Sprintf("%s version %d, %d open, %d failures", t.State, t.Version, t.ItemsOpen, t.RetryCount)
	}
	items, err := w.p.Service.ListItems(w.ctx, pawl.ItemFilter{Page: pawl.Page{Limit: pawl.MaxPage}})
	w.ok(err)
	for _, i := range items.Items {
		w.model.due(w.model.item(i.ID), i.State)
		got[i.ID] = fmt.Sprintf("%s (%s) attempt %d, failures %d, held by %q, last by %q", i.State, i.Status, i.Attempt, i.Failures,
			i.WorkerID, i.LastWorkerID)
	}
	for _, t := range w.model.tasks {
		failures := 0
		for _, i := range t.items {
			failures += i.failures
			want[i.id] = fmt.Sprintf("%s (%s) attempt %d, failures %d, held by %q, last by %q", i.state, w.model.status(i), i.attempt,
				i.failures, i.holder, i.last)
		}
		want[t.id] = fmt.Sprintf("%s version %d, %d open, %d failures", t.shown(), t.version, t.open(), failures)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		w.Fatalf("(-model +pawl):\n%s", diff)
	}
}
