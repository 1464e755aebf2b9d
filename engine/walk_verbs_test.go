package engine_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/pawl-work/pawl"
)

type walkCall func(w *concurrentWalk, ctx context.Context, draw *rand.Rand, svc pawl.Service) error

// walkVerbs are the calls of a concurrent walk; a weight says how often one comes.
var walkVerbs = []struct {
	name   string
	weight int
	call   walkCall
}{
	{"create", 1, (*concurrentWalk).create},
	{"claim", 8, (*concurrentWalk).claim},
	{"heartbeat", 2, fenced(func(ctx context.Context, _ *rand.Rand, svc pawl.Service, f pawl.Fence) error {
		_, err := pawl.Heartbeat(ctx, svc, f)
		return err
	})},
	{"progress", 1, fenced(func(ctx context.Context, draw *rand.Rand, svc pawl.Service, f pawl.Fence) error {
		n, stage := draw.IntN(100), fmt.Sprint("stage ", draw.IntN(3))
		_, err := first(svc.Progress(ctx, []pawl.ProgressCall{{Fence: f, Progress: &n, Stage: &stage}}))
		return err
	})},
	{"checkpoint", 2, fenced(func(ctx context.Context, _ *rand.Rand, svc pawl.Service, f pawl.Fence) error {
		_, err := pawl.SaveCheckpoint(ctx, svc, f, pawl.NewCheckpoint{Type: pawl.CustomCheckpoint, Snapshot: []byte(`1`)})
		return err
	})},
	{"complete", 8, (*concurrentWalk).finish},
	{"fail", 4, fenced(func(ctx context.Context, draw *rand.Rand, svc pawl.Service, f pawl.Fence) error {
		retry, ms := draw.IntN(3) > 0, int64(draw.IntN(2)*1000)
		_, err := first(svc.Fail(ctx, []pawl.FailCall{{Fence: f, Error: pawl.Failure{Message: "no"}, Retryable: &retry, RetryAfterMS: &ms}}))
		return err
	})},
	{"release", 2, fenced(func(ctx context.Context, _ *rand.Rand, svc pawl.Service, f pawl.Fence) error {
		_, err := pawl.Release(ctx, svc, f)
		return err
	})},
	{"suspend", 2, (*concurrentWalk).suspend},
	{"signal", 1, func(_ *concurrentWalk, ctx context.Context, _ *rand.Rand, svc pawl.Service) error {
		_, err := pawl.Signal(ctx, svc, "go", "", nil)
		return err
	}},
	{"add_items", 4, (*concurrentWalk).addItems},
	{"update", 3, (*concurrentWalk).update},
	{"cancel", 1, onTask(func(svc pawl.Service) taskVerb { return svc.CancelTasks })},
	{"cancel", 2, (*concurrentWalk).cancelItem},
	{"retry", 2, onTask(func(svc pawl.Service) taskVerb { return svc.RetryTasks })},
	{"bury", 1, onTask(func(svc pawl.Service) taskVerb { return svc.BuryTasks })},
	{"approve", 2, (*concurrentWalk).approve},
	{"reject", 1, (*concurrentWalk).reject},
	{"clone", 1, (*concurrentWalk).clone},
	{"delete", 1, (*concurrentWalk).delete},
	{"revoke_lease", 1, fenced(func(ctx context.Context, _ *rand.Rand, svc pawl.Service, f pawl.Fence) error {
		_, err := first(svc.RevokeLeases(asOperator(ctx), []pawl.RevokeCall{{ItemID: f.ItemID, Attempt: f.Attempt}}))
		return err
	})},
	{"message", 1, fenced(speak)},
	{"checkpoint task", 1, func(w *concurrentWalk, ctx context.Context, draw *rand.Rand, svc pawl.Service) error {
		c := pawl.NewCheckpoint{Type: pawl.ManualCheckpoint, Snapshot: []byte(`1`)}
		_, err := first(svc.CheckpointTasks(ctx, []pawl.TaskCheckpoint{{TaskID: w.drawTask(draw), NewCheckpoint: c}}))
		return err
	}},
	{"read", 1, (*concurrentWalk).read},
	{"sweep", 1, func(_ *concurrentWalk, ctx context.Context, _ *rand.Rand, svc pawl.Service) error {
		_, err := svc.Sweep(ctx)
		return err
	}},
	{"time passes", 2, func(w *concurrentWalk, _ context.Context, draw *rand.Rand, _ pawl.Service) error {
		w.p.Advance(time.Duration(1+draw.IntN(15)) * time.Second)
		return nil
	}},
	{"kill", 1, (*concurrentWalk).kill},
}

// fenced is a verb with a claim made some time, which may be stale.
func fenced(call func(context.Context, *rand.Rand, pawl.Service, pawl.Fence) error) walkCall {
	return func(w *concurrentWalk, ctx context.Context, draw *rand.Rand, svc pawl.Service) error {
		if f, found := w.drawFence(draw); found {
			return call(ctx, draw, svc, f)
		}
		return w.claim(ctx, draw, svc)
	}
}

type taskVerb func(context.Context, []pawl.TaskCall) ([]pawl.Result[pawl.Task], error)

// onTask is a verb of an operator on a whole task.
func onTask(verb func(pawl.Service) taskVerb) walkCall {
	return func(w *concurrentWalk, ctx context.Context, draw *rand.Rand, svc pawl.Service) error {
		return w.answered(first(verb(svc)(asOperator(ctx), []pawl.TaskCall{{TaskID: w.drawTask(draw)}})))
	}
}

func asOperator(ctx context.Context) context.Context {
	return pawl.As(ctx, pawl.Caller{ActorType: pawl.ActorUser, ActorID: "operator"})
}

// answered keeps what an answer says of a task's end.
func (w *concurrentWalk) answered(task pawl.Task, err error) error {
	if err == nil && task.State.Ended() {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.ended[task.ID] = task.State
	}
	return err
}

func (w *concurrentWalk) drawTask(draw *rand.Rand) string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.tasks[draw.IntN(len(w.tasks))]
}

// drawFence is one of the newest claims.
func (w *concurrentWalk) drawFence(draw *rand.Rand) (f pawl.Fence, found bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	n := len(w.fences)
	if n == 0 {
		return f, false
	}
	return w.fences[n-1-draw.IntN(min(n, 6))], true
}

// newItems are items of a task of a type. Some have keys and wait for others.
func newItems(draw *rand.Rand, typ string, n int, known []string) []pawl.NewItem {
	items := make([]pawl.NewItem, n)
	for i := range items {
		items[i] = pawl.NewItem{Input: []byte(`1`)}
		if accepts(typ) || draw.IntN(3) == 0 {
			continue
		}
		items[i].Key = fmt.Sprintf("k%d", draw.Uint32())
		if len(known) > 0 && draw.IntN(2) == 0 {
			items[i].After = []string{known[draw.IntN(len(known))]}
		}
		known = append(known, items[i].Key)
	}
	return items
}

// accepts says whether results of a type await approval; its items cannot wait for each other.
func accepts(typ string) bool { return typ == "reviewed" || typ == "applied" }

func (w *concurrentWalk) create(ctx context.Context, draw *rand.Rand, svc pawl.Service) error {
	typ := []string{"plain", "plain", "plain", "reviewed", "applied", "fragile"}[draw.IntN(6)]
	n := pawl.NewTask{Type: typ, MaxAttempts: 1 + draw.IntN(3)}
	n.Items = newItems(draw, n.Type, draw.IntN(4), nil)
	if draw.IntN(6) == 0 {
		at := w.p.Now().Add(10 * time.Second)
		n.RunAt = &at
	}
	task, err := pawl.Create(ctx, svc, n)
	return w.noted(n.Items, task, err)
}

// noted keeps a task and the keys of its new items for later calls.
func (w *concurrentWalk) noted(items []pawl.NewItem, task pawl.Task, err error) error {
	if err != nil {
		return err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.types[task.ID] == "" { // not there yet
		w.types[task.ID] = task.Type
		w.tasks = append(w.tasks, task.ID)
	}
	for _, i := range items {
		if i.Key != "" {
			w.keys[task.ID] = append(w.keys[task.ID], i.Key)
		}
	}
	return nil
}

func (w *concurrentWalk) clone(ctx context.Context, draw *rand.Rand, svc pawl.Service) error {
	task, err := first(svc.CloneTasks(ctx, []pawl.TaskClone{{TaskID: w.drawTask(draw)}}))
	return w.noted(nil, task, err)
}

// speak starts a message of an item, says something, and finishes most of them.
func speak(ctx context.Context, draw *rand.Rand, svc pawl.Service, f pawl.Fence) error {
	m, err := first(svc.StartMessages(ctx, []pawl.StartCall{{Fence: f, Role: pawl.RoleAssistant}}))
	if err != nil {
		return err
	}
	of := pawl.MessageFence{MessageID: m.ID, WorkerID: f.WorkerID, Attempt: f.Attempt}
	if _, err = first(svc.Append(ctx, []pawl.AppendCall{{MessageFence: of, Chunks: []pawl.Chunk{{Type: pawl.ChunkText, Text: "so"}}}})); err != nil || draw.IntN(3) == 0 {
		return err
	}
	_, err = first(svc.FinishMessages(ctx, []pawl.FinishCall{{MessageFence: of}}))
	return err
}

// delete deletes a task whatever it is doing, but never the last one.
func (w *concurrentWalk) delete(ctx context.Context, draw *rand.Rand, svc pawl.Service) error {
	w.mu.Lock()
	n := len(w.tasks)
	if n < 2 {
		w.mu.Unlock()
		return w.read(ctx, draw, svc)
	}
	at := draw.IntN(n)
	id := w.tasks[at]
	w.tasks = slices.Concat(w.tasks[:at], w.tasks[at+1:]) // a new list: others read the old one
	w.deleted = true
	w.mu.Unlock()
	_, err := first(svc.DeleteTasks(asOperator(ctx), []pawl.TaskCall{{TaskID: id, Force: true}}))
	if err != nil { // it may be there or not
		w.mu.Lock()
		w.doubtful = append(w.doubtful, id)
		w.mu.Unlock()
	}
	return err
}

func (w *concurrentWalk) claim(ctx context.Context, draw *rand.Rand, svc pawl.Service) error {
	req := pawl.ClaimRequest{WorkerID: fmt.Sprint("w", draw.IntN(4)), Limit: 1 + draw.IntN(3),
		LeaseSeconds: 1 + draw.IntN(20), Prefetch: draw.IntN(4) == 0}
	switch draw.IntN(6) {
	case 0:
		req.TaskID = w.drawTask(draw)
	case 1:
		req.Types = []string{"applied.apply"}
	case 2:
		req.Types = []string{"plain", "reviewed"}
	}
	got, err := svc.Claim(ctx, req)
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, l := range got {
		w.fences = append(w.fences, l.Fence())
		w.items = append(w.items, l.ID)
	}
	return err
}

// finish completes an item, or submits it where its type asks for that.
func (w *concurrentWalk) finish(ctx context.Context, draw *rand.Rand, svc pawl.Service) error {
	f, found := w.drawFence(draw)
	if !found {
		return w.claim(ctx, draw, svc)
	}
	_, err := pawl.Complete(ctx, svc, f, walkResult)
	if errors.Is(err, pawl.ErrConflict) {
		_, err = first(svc.Submit(ctx, []pawl.SubmitCall{{Fence: f, Result: walkResult}}))
		return err
	}
	if err == nil {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.done[f.ItemID] = true
	}
	return err
}

func (w *concurrentWalk) suspend(ctx context.Context, draw *rand.Rand, svc pawl.Service) error {
	f, found := w.drawFence(draw)
	if !found {
		return w.claim(ctx, draw, svc)
	}
	call, until := pawl.SuspendCall{Fence: f}, w.p.Now().Add(time.Minute)
	if which := draw.IntN(3); which != 0 {
		call.Until = &until
	} else {
		call.Signal = "go"
	}
	_, err := first(svc.Suspend(ctx, []pawl.SuspendCall{call}))
	return err
}

func (w *concurrentWalk) addItems(ctx context.Context, draw *rand.Rand, svc pawl.Service) error {
	id := w.drawTask(draw)
	w.mu.Lock()
	typ, known := w.types[id], append([]string{}, w.keys[id]...)
	w.mu.Unlock()
	call := pawl.AddItems{TaskID: id, Items: newItems(draw, typ, 1+draw.IntN(2), known)}
	task, err := first(svc.AddItems(ctx, []pawl.AddItems{call}))
	return w.noted(call.Items, task, err)
}

func (w *concurrentWalk) update(ctx context.Context, draw *rand.Rand, svc pawl.Service) error {
	n := draw.IntN(5)
	_, err := first(svc.UpdateTasks(asOperator(ctx), []pawl.TaskUpdate{{TaskID: w.drawTask(draw), Priority: &n}}))
	return err
}

func (w *concurrentWalk) cancelItem(ctx context.Context, draw *rand.Rand, svc pawl.Service) error {
	w.mu.Lock()
	items := w.items
	w.mu.Unlock()
	if len(items) == 0 {
		return w.read(ctx, draw, svc)
	}
	item, err := svc.GetItem(ctx, items[draw.IntN(len(items))])
	if err != nil {
		return err
	}
	return w.answered(first(svc.CancelTasks(asOperator(ctx), []pawl.TaskCall{{TaskID: item.TaskID, ItemIDs: []string{item.ID}}})))
}

func (w *concurrentWalk) approve(ctx context.Context, draw *rand.Rand, svc pawl.Service) error {
	return w.answered(first(svc.ApproveTasks(asOperator(ctx), []pawl.ApproveCall{{TaskID: w.drawTask(draw)}})))
}

func (w *concurrentWalk) reject(ctx context.Context, draw *rand.Rand, svc pawl.Service) error {
	return w.answered(first(svc.RejectTasks(asOperator(ctx), []pawl.RejectCall{{TaskID: w.drawTask(draw),
		Errors: []pawl.Complaint{{Code: "wrong", Message: "no"}}, AllowRework: draw.IntN(4) > 0}})))
}

// read lists the items of a task, which later calls then know.
func (w *concurrentWalk) read(ctx context.Context, draw *rand.Rand, svc pawl.Service) error {
	list, err := svc.ListItems(ctx, pawl.ItemFilter{TaskID: w.drawTask(draw)})
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, i := range list.Items {
		w.items = append(w.items, i.ID)
	}
	return err
}

// kill ends one of the engines' connections.
func (w *concurrentWalk) kill(ctx context.Context, draw *rand.Rand, svc pawl.Service) error {
	if w.killer == nil {
		return w.read(ctx, draw, svc)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	var killed int
	err := w.killer.QueryRow(ctx, `SELECT count(pg_terminate_backend(pid)) FROM
		(SELECT pid FROM pg_stat_activity WHERE application_name = $1 ORDER BY pid LIMIT 1 OFFSET $2) b`, w.name, draw.IntN(20)).Scan(&killed)
	w.kills += killed
	return err
}
