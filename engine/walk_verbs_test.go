package engine_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/pawl-work/pawl"
)

type walkCall func(w *concurrentWalk, ctx context.Context, draw *rand.Rand, svc pawl.Service) error

// walkVerbs are the calls of a concurrent walk. The weight of a call says how often it is
// made.
var walkVerbs = []struct {
	name   string
	weight int
	call   walkCall
}{
	{"create", 1, (*concurrentWalk).create},
	{"create in a transaction of the caller", 1, (*concurrentWalk).order},
	{"claim", 8, (*concurrentWalk).claim},
	{"heartbeat", 2, fenced(func(ctx context.Context, _ *rand.Rand, svc pawl.Service, f pawl.Fence) error {
		_, err := first(svc.Heartbeat(ctx, []pawl.HeartbeatCall{{Fence: f}}))
		return err
	})},
	{"progress", 1, fenced(func(ctx context.Context, draw *rand.Rand, svc pawl.Service, f pawl.Fence) error {
		n, stage := draw.IntN(100), fmt.Sprint("stage ", draw.IntN(3))
		_, err := first(svc.Progress(ctx, []pawl.ProgressCall{{Fence: f, Progress: &n, Stage: &stage}}))
		return err
	})},
	{"checkpoint", 2, (*concurrentWalk).checkpoint},
	{"complete", 8, (*concurrentWalk).finish},
	{"complete under an idempotency key", 1, (*concurrentWalk).finishOnce},
	{"complete many", 2, (*concurrentWalk).finishMany},
	{"part", 3, (*concurrentWalk).part},
	{"finalize", 2, (*concurrentWalk).finalize},
	{"fail", 4, fenced(func(ctx context.Context, draw *rand.Rand, svc pawl.Service, f pawl.Fence) error {
		_, err := first(svc.Fail(ctx, []pawl.FailCall{failCall(draw, f)}))
		return err
	})},
	{"fail many", 2, (*concurrentWalk).failMany},
	{"release", 2, fenced(func(ctx context.Context, _ *rand.Rand, svc pawl.Service, f pawl.Fence) error {
		_, err := first(svc.Release(ctx, []pawl.ReleaseCall{{Fence: f}}))
		return err
	})},
	{"suspend", 2, (*concurrentWalk).suspend},
	{"signal", 1, (*concurrentWalk).sendSignal},
	{"add_items", 4, (*concurrentWalk).addItems},
	{"update", 3, (*concurrentWalk).update},
	{"cancel", 1, onTasks(func(svc pawl.Service) taskVerb { return svc.CancelTasks })},
	{"cancel", 2, onItem(func(svc pawl.Service) taskVerb { return svc.CancelTasks })},
	{"retry", 2, onTasks(func(svc pawl.Service) taskVerb { return svc.RetryTasks })},
	{"retry", 1, onItem(func(svc pawl.Service) taskVerb { return svc.RetryTasks })},
	{"bury", 1, onTasks(func(svc pawl.Service) taskVerb { return svc.BuryTasks })},
	{"bury", 1, onItem(func(svc pawl.Service) taskVerb { return svc.BuryTasks })},
	{"approve", 2, (*concurrentWalk).approve},
	{"reject", 1, (*concurrentWalk).reject},
	{"clone", 1, (*concurrentWalk).clone},
	{"delete", 1, (*concurrentWalk).delete},
	{"restore", 1, (*concurrentWalk).restore},
	{"revoke_lease", 1, fenced(func(ctx context.Context, _ *rand.Rand, svc pawl.Service, f pawl.Fence) error {
		moved, err := first(svc.RevokeLeases(asOperator(ctx), []pawl.RevokeCall{{ItemID: f.ItemID, Attempt: f.Attempt}}))
		if err == nil && (moved.ID != f.ItemID || moved.Attempt != f.Attempt) {
			err = fmt.Errorf("asked to end attempt %d of %s, it answered %+v", f.Attempt, f.ItemID, moved)
		}
		return err
	})},
	{"start a message", 2, (*concurrentWalk).startMessage},
	{"open a message of a task", 1, (*concurrentWalk).openMessage},
	{"append", 2, (*concurrentWalk).append},
	{"step", 1, (*concurrentWalk).step},
	{"finish a message", 1, (*concurrentWalk).finishMessage},
	{"stop", 1, (*concurrentWalk).stopMessage},
	{"checkpoint task", 1, (*concurrentWalk).checkpointTask},
	{"append checkpoints", 1, (*concurrentWalk).appendCheckpoints},
	{"wear out", 1, (*concurrentWalk).wearOut},
	{"age", 1, (*concurrentWalk).age},
	{"fork", 1, (*concurrentWalk).fork},
	{"replace", 1, (*concurrentWalk).replace},
	{"spawn", 1, (*concurrentWalk).spawn},
	{"await", 1, (*concurrentWalk).await},
	{"raise a family", 1, (*concurrentWalk).raise},
	{"delete beside a child", 1, (*concurrentWalk).deleteBeside},
	{"set limits", 1, (*concurrentWalk).setLimits},
	{"open a transaction", 1, (*concurrentWalk).open},
	{"begin a key", 2, (*concurrentWalk).beginKey},
	{"end a key", 2, (*concurrentWalk).endKey},
	{"change a type", 1, (*concurrentWalk).changeType},
	{"register a worker", 1, func(_ *concurrentWalk, ctx context.Context, draw *rand.Rand, svc pawl.Service) error {
		return svc.RegisterWorker(ctx, pawl.WorkerInfo{WorkerID: fmt.Sprint("w", draw.IntN(4))})
	}},
	{"read", 1, (*concurrentWalk).read},
	{"sweep", 1, func(_ *concurrentWalk, ctx context.Context, _ *rand.Rand, svc pawl.Service) error {
		_, err := svc.Sweep(ctx)
		return err
	}},
	{"time passes", 2, func(w *concurrentWalk, _ context.Context, draw *rand.Rand, _ pawl.Service) error {
		d := time.Duration(1+draw.IntN(15)) * time.Second
		if draw.IntN(6) == 0 { // longer than the short retention
			d += time.Minute
		}
		w.p.Advance(d)
		return nil
	}},
	{"the clock goes back", 1, func(w *concurrentWalk, ctx context.Context, draw *rand.Rand, svc pawl.Service) error {
		if w.round%4 != 0 { // else ages are compared
			return w.read(ctx, draw, svc)
		}
		w.p.Advance(-time.Duration(1+draw.IntN(30)) * time.Second)
		return nil
	}},
	{"kill", 1, (*concurrentWalk).kill},
}

// fenced runs a verb with an earlier claim, which may be stale.
func fenced(call func(context.Context, *rand.Rand, pawl.Service, pawl.Fence) error) walkCall {
	return func(w *concurrentWalk, ctx context.Context, draw *rand.Rand, svc pawl.Service) error {
		if c, found := w.drawClaim(draw, ""); found {
			return call(ctx, draw, svc, c.Fence)
		}
		return w.claim(ctx, draw, svc)
	}
}

type taskVerb func(context.Context, []pawl.TaskCall) ([]pawl.Result[pawl.Task], error)

// onTasks runs an operator's verb on one or two whole tasks.
func onTasks(verb func(pawl.Service) taskVerb) walkCall {
	return func(w *concurrentWalk, ctx context.Context, draw *rand.Rand, svc pawl.Service) error {
		calls := []pawl.TaskCall{{TaskID: w.drawTask(draw)}}
		if draw.IntN(3) == 0 {
			calls = append(calls, pawl.TaskCall{TaskID: w.drawTask(draw)})
		}
		rs, err := verb(svc)(asOperator(ctx), calls)
		for n := range rs {
			if gone := w.answered(rs[n].Value, rs[n].Err); err == nil {
				err = gone
			}
		}
		return err
	}
}

// onItem runs an operator's verb on an item.
func onItem(verb func(pawl.Service) taskVerb) walkCall {
	return func(w *concurrentWalk, ctx context.Context, draw *rand.Rand, svc pawl.Service) error {
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
		return w.answered(first(verb(svc)(asOperator(ctx), []pawl.TaskCall{{TaskID: item.TaskID, ItemIDs: []string{item.ID}}})))
	}
}

func asOperator(ctx context.Context) context.Context {
	return pawl.As(ctx, pawl.Caller{ActorType: pawl.ActorUser, ActorID: "operator"})
}

// answered keeps what an answer says about a task's end.
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

// drawSubmitted returns a task whose results wait for approval, if there is one. Often it
// first hands in the missing results of the task.
func (w *concurrentWalk) drawSubmitted(ctx context.Context, draw *rand.Rand, svc pawl.Service) (id string, err error) {
	for range 10 {
		id = w.drawTask(draw)
		w.mu.Lock()
		typ := w.types[id]
		w.mu.Unlock()
		if accepts(typ) {
			break
		}
	}
	if draw.IntN(4) == 0 {
		return id, nil
	}
	got, err := svc.Claim(ctx, pawl.ClaimRequest{WorkerID: "w0", TaskID: id, Limit: 4})
	for n := range got {
		c := claimOf(&got[n])
		w.claimed(c)
		if err = deliver(ctx, svc, c); err != nil {
			break
		}
		if !accepts(c.typ) {
			w.completed(c.ItemID)
		}
	}
	return id, err
}

// walkClaim is a claim, and the type and the task of its item.
type walkClaim struct {
	pawl.Fence
	typ, task string
}

func claimOf(l *pawl.Lease) walkClaim { return walkClaim{l.Fence(), l.Type, l.TaskID} }

// drawClaim returns one of the newest claims, or of the claims of a type.
func (w *concurrentWalk) drawClaim(draw *rand.Rand, typ string) (c walkClaim, found bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	var out []walkClaim
	for n := len(w.claims) - 1; n >= 0 && len(out) < 6; n-- {
		if typ == "" || w.claims[n].typ == typ {
			out = append(out, w.claims[n])
		}
	}
	if len(out) == 0 {
		return c, false
	}
	return out[draw.IntN(len(out))], true
}

// newItems returns items for a task of a type. Some have keys and depend on others.
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

// accepts reports whether results of a type wait for approval. Items of such a type
// cannot depend on each other.
func accepts(typ string) bool {
	return slices.Contains([]string{"reviewed", "applied", "pieced", "hasty"}, typ)
}

// asideTypes are the types whose items make a plan or apply results.
var asideTypes = []string{"applied" + pawl.ApplySuffix, "planned" + pawl.PlanSuffix}

func (w *concurrentWalk) create(ctx context.Context, draw *rand.Rand, svc pawl.Service) error {
	typ := "plain"
	if draw.IntN(5) > 1 {
		typ = walkTypes[draw.IntN(len(walkTypes))].Name
	}
	if of := w.theme.types; len(of) > 0 && draw.IntN(4) > 0 {
		typ = of[draw.IntN(len(of))]
	}
	n := pawl.NewTask{Type: typ, MaxAttempts: 1 + draw.IntN(3), Payload: keyPayload(draw.IntN(3))}
	if typ != "planned" && (!accepts(typ) || draw.IntN(3) == 0) { // a task of one item is submitted sooner
		n.Items = newItems(draw, n.Type, draw.IntN(4), nil)
	}
	n.Dedupe.All = len(n.Items) == 0 && draw.IntN(3) == 0
	if draw.IntN(6) == 0 {
		at := w.p.Now().Add(10 * time.Second)
		n.RunAt = &at
	}
	task, err := first(svc.CreateTasks(ctx, []pawl.NewTask{n}))
	return w.noted(n.Items, task, err)
}

// noted keeps a task and the keys of its new items for later calls.
func (w *concurrentWalk) noted(items []pawl.NewItem, task pawl.Task, err error) error {
	if err != nil {
		return err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.types[task.ID] == "" { // the task is not known yet
		w.types[task.ID] = task.Type
		w.tasks = append(w.tasks, task.ID)
		if task.Type == "limited" {
			w.record.limited[task.ID] = keyOfPayload(task.Payload)
		}
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

// delete deletes a task in any state, but never the last task.
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
	w.record.gone[id] = true
	w.mu.Unlock()
	_, err := first(svc.DeleteTasks(asOperator(ctx), []pawl.TaskCall{{TaskID: id, Force: true}}))
	if err != nil { // the task may or may not exist now
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
	case 1, 2:
		req.Types = asideTypes
	case 3:
		req.Types = []string{"plain", "pieced"}
	}
	got, err := svc.Claim(ctx, req)
	for n := range got {
		w.claimed(claimOf(&got[n]))
	}
	return err
}

func (w *concurrentWalk) claimed(c walkClaim) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.claims = append(w.claims, c)
	w.items = append(w.items, c.ItemID)
}

func (w *concurrentWalk) suspend(ctx context.Context, draw *rand.Rand, svc pawl.Service) error {
	c, found := w.drawClaim(draw, "")
	if !found {
		return w.claim(ctx, draw, svc)
	}
	call, until, which := pawl.SuspendCall{Fence: c.Fence}, w.p.Now().Add(time.Minute), draw.IntN(4)
	if which > 0 {
		call.Until = &until
	}
	if which < 2 {
		call.Signal, call.Key = w.signal(), walkSignals[draw.IntN(len(walkSignals))]
	}
	_, err := first(svc.Suspend(ctx, []pawl.SuspendCall{call}))
	return err
}

// signal returns the name that items of this round wait for. Sent signals are stored.
func (w *concurrentWalk) signal() string { return fmt.Sprint("go", w.round) }

// walkSignals are the keys of signals.
var walkSignals = []string{"", "a"}

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
	n, title := draw.IntN(5), fmt.Sprint("title ", draw.IntN(5))
	call := pawl.TaskUpdate{TaskID: w.drawTask(draw), Priority: &n}
	if draw.IntN(3) == 0 {
		call.Title, call.Metadata = &title, []byte(`{"a":1}`)
	}
	_, err := first(svc.UpdateTasks(asOperator(ctx), []pawl.TaskUpdate{call}))
	return err
}

func (w *concurrentWalk) approve(ctx context.Context, draw *rand.Rand, svc pawl.Service) error {
	id, err := w.drawSubmitted(ctx, draw, svc)
	if err != nil {
		return err
	}
	return w.answered(first(svc.ApproveTasks(asOperator(ctx), []pawl.ApproveCall{{TaskID: id}})))
}

func (w *concurrentWalk) reject(ctx context.Context, draw *rand.Rand, svc pawl.Service) error {
	id, err := w.drawSubmitted(ctx, draw, svc)
	if err != nil {
		return err
	}
	return w.answered(first(svc.RejectTasks(asOperator(ctx), []pawl.RejectCall{{TaskID: id,
		Errors: []pawl.Complaint{{Code: "wrong", Message: "no"}}, AllowRework: draw.IntN(4) > 0}})))
}

// read lists the items of a task. Later calls then know them.
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
