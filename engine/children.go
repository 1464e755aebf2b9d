package engine

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"golang.org/x/sync/errgroup"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/engine/internal/kernel"
	"github.com/pawl-work/pawl/engine/internal/rules"
	"github.com/pawl-work/pawl/internal/idform"
	"github.com/pawl-work/pawl/store"
)

const (
	// childPage bounds the children that one transaction looks at.
	childPage = 500
	// passOnAtOnce is how many children a call cancels before it is answered. The others follow.
	passOnAtOnce = 1000
)

// createChildren inserts drafts of children, those of one parent in one transaction. If the
// parent is refused, so are they all.
func (e *Engine) createChildren(ctx context.Context, out []pawl.Result[pawl.Task], drafts []draft) error {
	for len(drafts) > 0 {
		parent := *drafts[0].task.ParentID
		same := slices.DeleteFunc(slices.Clone(drafts), func(d draft) bool { return *d.task.ParentID != parent })
		drafts = slices.DeleteFunc(drafts, func(d draft) bool { return *d.task.ParentID == parent })
		err := e.createTogether(ctx, out, same)
		switch pawl.CodeOf(err) {
		case pawl.CodeNotFound, pawl.CodeConflict, pawl.CodeLimit:
			for i := range same {
				out[same[i].ord].Err = err
			}
		default:
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// Spawn creates children under leases; see pawl.Spawner.
func (e *Engine) Spawn(ctx context.Context, calls []pawl.SpawnCall) ([]pawl.Result[pawl.Task], error) {
	calls = idform.Calls(calls)
	if err := e.acts(ctx, "spawn"); err != nil {
		return nil, err
	}
	return withProvenance(ctx, e, "create", calls, subjectOfTask, (*Engine).spawnAll)
}

func (e *Engine) spawnAll(ctx context.Context, calls []pawl.SpawnCall) ([]pawl.Result[pawl.Task], error) {
	return kernel.Each(ctx, "spawn", calls, e.spawn)
}

func (e *Engine) spawn(ctx context.Context, call *pawl.SpawnCall) (pawl.Task, error) {
	if err := checkSpawn(call); err != nil {
		return pawl.Task{}, err
	}
	if err := e.ours(ctx, call.Fence); err != nil {
		return pawl.Task{}, err
	}
	parent, err := view(ctx, e, func(ctx context.Context, tx store.Tx, ns string) (string, error) {
		return taskOfItem(ctx, tx, ns, call.ItemID)
	})
	if err != nil {
		return pawl.Task{}, err
	}
	task := call.Task
	task.ParentID = parent
	d, err := e.draft(ctx, &task, "", new(drafting))
	if err != nil {
		return pawl.Task{}, err
	}
	d.task.Spawned = store.Spawned{ItemID: call.ItemID, Key: store.Text(call.Key)}
	if err := e.referTask(ctx, "spawn", d.task.ID, d.blobs()); err != nil {
		return pawl.Task{}, err
	}
	for try := 1; ; try++ {
		out, err := e.spawnOnce(ctx, call, parent, d)
		if pawl.CodeOf(err) != pawl.CodeConflict || try == maxTries || errors.Is(err, pawl.ErrLeaseLost) {
			return out, err
		}
		// Another item of the task may have spawned a child with this key meanwhile.
	}
}

// spawnOnce locks the parent and then the item's lease, as all calls do that lock both.
func (e *Engine) spawnOnce(ctx context.Context, call *pawl.SpawnCall, parent string, d draft) (pawl.Task, error) {
	var out pawl.Task
	var made []created
	held := false
	ns := pawl.CallerOf(ctx).Namespace
	err := e.db.Do(ctx, func(ctx context.Context, tx store.Tx) error {
		out, made, held = pawl.Task{}, nil, false
		if _, err := store.ShareTask(ctx, tx, ns, parent); err != nil {
			return err
		}
		_, ok, err := store.LockFenced(ctx, tx, fenceRow(pawl.CallerOf(ctx), call.Fence))
		if held = ok; err != nil || !ok {
			return err
		}
		older, err := childByKey(ctx, tx, parent, call.Key)
		if err != nil {
			return err
		}
		if older != "" {
			out, err = store.GetTask(ctx, tx, ns, older)
			if out.Deduplicated = true; pawl.CodeOf(err) == pawl.CodeNotFound {
				return rules.KeyTaken(pawl.Task{ID: older, State: rules.RemovedByRetention})
			}
			return err
		}
		if made, err = e.insertInTx(ctx, tx, []draft{d}); err == nil {
			out = d.Answer(made[0].now)
		}
		return err
	})
	if err == nil && !held {
		it, now, err := e.k.Item(ctx, call.ItemID)
		if err == nil {
			err = rules.CheckFence(rules.Item(it), call.Fence, now, "spawn")
		}
		if err == nil {
			err = &pawl.Error{Code: pawl.CodeUnavailable, Op: "spawn", Message: "another call is changing the item; try again"}
		}
		return pawl.Task{}, err
	}
	if err == nil && made != nil {
		e.after(func() { e.created([]draft{d}, made[0].now) })
	}
	return out, err
}

// suspendFor checks the children that suspensions wait for, and returns the calls that may be
// carried out. It stores the errors of the others.
func (e *Engine) suspendFor(ctx context.Context, calls []pawl.SuspendCall, out []pawl.Result[pawl.Moved]) (good []int, err error) {
	for i := range calls {
		w := calls[i].Children
		if w == nil {
			good = append(good, i)
			continue
		}
		ids := make([]string, len(w.IDs))
		for n, id := range w.IDs {
			ids[n] = idform.Task(id)
		}
		calls[i].Children = &pawl.ChildWait{Name: w.Name, IDs: ids, Need: w.Need, OnFailure: w.OnFailure}
		if out[i].Err = checkChildWait(calls[i].Children); out[i].Err != nil {
			continue
		}
		_, out[i].Err = view(ctx, e, func(ctx context.Context, tx store.Tx, ns string) (none struct{}, err error) {
			task, err := taskOfItem(ctx, tx, ns, calls[i].ItemID)
			if err != nil {
				return none, err
			}
			return none, store.OwnChildren(ctx, tx, task, ids)
		})
		if code := pawl.CodeOf(out[i].Err); code == pawl.CodeUnavailable || code == pawl.CodeInternal {
			return nil, out[i].Err
		}
		if out[i].Err == nil {
			good = append(good, i)
		}
	}
	return good, nil
}

// childWait returns the wait to store.
func childWait(w *pawl.ChildWait) *store.ChildWait {
	if w == nil {
		return nil
	}
	out := &store.ChildWait{Name: store.Text(w.Name), IDs: slices.Compact(slices.Sorted(slices.Values(w.IDs))),
		Need: int(w.Need), OnFailure: w.OnFailure}
	if w.Need == pawl.NeedAll {
		out.Need = len(out.IDs)
	}
	if out.OnFailure == "" {
		out.OnFailure = pawl.OnFailureFail
	}
	return out
}

// passOnTo cancels the children of one parent, or those of one wait, until it has cancelled most
// or more. It returns how many it cancelled. Children that other transactions lock are left out,
// up to patience of them; then it ends with the error of a lock, and is to be called again.
func (e *Engine) passOnTo(ctx context.Context, p *passedOn, most, patience int) (n int, err error) {
	reason := "its parent " + p.TaskID + " was cancelled"
	switch {
	case p.Deletes:
		reason = "its parent " + p.TaskID + " is deleted"
	case p.ItemID != "":
		reason = "another child of its parent " + p.TaskID + " failed"
	}
	held := &heldChildren{patience: patience}
	if p.Deletes {
		var room atomic.Int64
		room.Store(int64(most))
		gone, err := e.deleteChildrenOf(ctx, p, reason, held, &room)
		n = most - int(max(0, room.Load()))
		switch {
		case err == nil && !gone && held.err == nil && room.Load() > 0:
			return n, errMoreChildren
		case err != nil || !gone && held.err == nil:
			return n, err
		}
	}
	for after := ""; !p.Deletes; {
		var live []string
		from := after
		err := e.db.Do(ctx, func(ctx context.Context, tx store.Tx) (err error) {
			live, after, err = p.Next(ctx, tx, from, childPage)
			return err
		})
		if err == nil {
			err = e.cancelChildren(ctx, live, reason, held)
		}
		if n += len(live); err != nil || after != "" && n >= most {
			return n, err
		}
		if after == "" {
			break
		}
	}
	if held.err != nil {
		return n, held.err
	}
	if p.By != nil {
		e.log.InfoContext(ctx, "task deleted", "task_id", p.TaskID, "namespace", p.Namespace, "actor", p.By.Actor.ID)
		return n, e.sweeper.Delete(ctx, p.Namespace, p.TaskID, *p.By)
	}
	return n, e.db.Do(ctx, func(ctx context.Context, tx store.Tx) error { return p.Done(ctx, tx) })
}

// heldChildren counts children that other transactions lock.
type heldChildren struct {
	patience int   // how many may be left out
	err      error // of the last one
}

// leaves reports whether a child is left out because of an error. The next ones wait less for locks.
func (h *heldChildren) leaves(err error) bool {
	if !errors.Is(err, store.ErrLocked) || h.patience == 0 {
		return false
	}
	h.patience--
	h.err = err
	return true
}

func (h *heldChildren) wait(ctx context.Context) context.Context {
	if h.err == nil {
		return ctx
	}
	return store.WithLockWait(ctx, lockedRow)
}

// cancelChildren cancels tasks; one that has ended meanwhile stays as it is.
func (e *Engine) cancelChildren(ctx context.Context, ids []string, reason string, held *heldChildren) error {
	var rest []string
	for some := range slices.Chunk(ids, childrenTogether) {
		some, err := e.cancelTogether(ctx, some, reason)
		if err != nil {
			return err
		}
		rest = append(rest, some...)
	}
	for _, id := range rest {
		ctx := held.wait(ctx)
		call := pawl.TaskCall{TaskID: id, Reason: reason}
		err := e.cancelAhead(ctx, &call, cancelBatch)
		if err == nil {
			err = e.cancelChild(ctx, &call)
		}
		code := pawl.CodeOf(err)
		if err != nil && code != pawl.CodeConflict && code != pawl.CodeNotFound && !held.leaves(err) {
			return err
		}
	}
	e.childrenEnded(ctx, ids)
	return nil
}

// cancelChild cancels a task. Its own children are left to the caller.
func (e *Engine) cancelChild(ctx context.Context, call *pawl.TaskCall) error {
	_, err := change(ctx, e, func(ctx context.Context, tx store.Tx) (pawl.Task, effects, error) {
		task, then, err := e.changeIn(ctx, tx, "cancel", call)
		then.passOn = false
		return task, then, err
	})
	if err == nil {
		e.endMessages(ctx, nil, call.TaskID)
	}
	return err
}

// deleteChildren deletes the children of a task that have not ended, before the task itself. gone
// says that the task may be removed now. Otherwise it is removed after the other children.
func (e *Engine) deleteChildren(ctx context.Context, c pawl.Caller, call pawl.TaskCall, by store.Deletion,
	most *atomic.Int64) (gone bool, err error) {
	p := passedOn{Namespace: c.Namespace, TaskID: call.TaskID, Deletes: true}
	if !call.Force {
		live, err := e.liveChild(ctx, &p)
		if err == nil && live != "" {
			err = &pawl.Error{Code: pawl.CodeConflict, Op: "delete", Allowed: []string{},
				Message: "its child " + live + " has not ended; cancel its children first, or delete with force"}
		}
		return err == nil, err
	}
	if err := e.db.Do(ctx, func(ctx context.Context, tx store.Tx) error {
		_, err := store.PassOn(ctx, tx, call.TaskID, true)
		return err
	}); err != nil {
		return false, err
	}
	gone, err = e.deleteChildrenOf(ctx, &p, "its parent "+call.TaskID+" is deleted", &heldChildren{}, most)
	if err != nil || gone {
		return gone, err
	}
	err = e.db.Do(ctx, func(ctx context.Context, tx store.Tx) error {
		return deleteAfterChildren(ctx, tx, call.TaskID, by)
	})
	return false, err
}

// liveChild returns a child that has not ended; "" = none.
func (e *Engine) liveChild(ctx context.Context, p *passedOn) (id string, err error) {
	p = &passedOn{Namespace: p.Namespace, TaskID: p.TaskID} // nothing is marked
	for after := ""; ; {
		var live []string
		err := e.db.View(ctx, func(ctx context.Context, tx store.Tx) (err error) {
			live, after, err = p.Next(ctx, tx, after, childPage)
			return err
		})
		if err != nil || len(live) > 0 || after == "" {
			return strings.Join(live[:min(1, len(live))], ""), err
		}
	}
}

// deleteChildrenOf marks the children of a parent that have not ended, and deletes them, and the
// children of these, at most as many as most says. gone says that none is left.
func (e *Engine) deleteChildrenOf(ctx context.Context, p *passedOn, reason string, held *heldChildren,
	most *atomic.Int64) (gone bool, err error) {
	for after := ""; ; {
		from := after
		err := e.db.Do(ctx, func(ctx context.Context, tx store.Tx) (err error) {
			_, after, err = p.Next(ctx, tx, from, childPage)
			return err
		})
		if err != nil {
			return false, err
		}
		if after == "" {
			break
		}
	}
	doomed := func(after string, limit int) ([]string, error) {
		return view(ctx, e, func(ctx context.Context, tx store.Tx, _ string) ([]string, error) {
			return p.Doomed(ctx, tx, after, limit)
		})
	}
	for after := ""; most.Load() > 0; {
		page, err := doomed(after, childPage)
		if err == nil && len(page) > 0 {
			after = page[len(page)-1]
			err = e.deleteSome(ctx, p, page, reason, held, most)
		}
		if err != nil {
			return false, err
		}
		if len(page) == 0 {
			break
		}
	}
	left, err := doomed("", 1)
	return len(left) == 0, err
}

// deletesAtOnce is how many children of one parent are deleted at the same time, where transactions
// write beside each other.
const deletesAtOnce = 8

// deleteSome deletes children of a parent that is deleted, and the children of these. Those that have no
// children are cancelled together, and then removed together.
func (e *Engine) deleteSome(ctx context.Context, p *passedOn, ids []string, reason string, held *heldChildren,
	most *atomic.Int64) error {
	c := pawl.CallerOf(ctx)
	by := store.Deletion{Key: c.Key, Reason: reason, Bulk: e.origin.Bulk, Actor: actor(c, pawl.ActorUser, "")}
	for some := range slices.Chunk(ids, childrenTogether) {
		if room := most.Add(-int64(len(some))) + int64(len(some)); room < int64(len(some)) {
			some = some[:max(0, room)]
		}
		if len(some) == 0 {
			return nil
		}
		live, err := e.cancelTogether(ctx, some, reason)
		if err != nil {
			return err
		}
		err = e.eachChild(ctx, live, held, func(ctx context.Context, call pawl.TaskCall) error {
			err := e.cancelToDelete(ctx, c, call)
			if pawl.CodeOf(err) == pawl.CodeNotFound {
				err = nil
			}
			return err
		}, reason)
		if err != nil {
			return err
		}
		gone, err := e.sweeper.DeleteEnded(ctx, p.Namespace, some, by)
		if err != nil && !errors.Is(err, store.ErrLocked) {
			return err
		}
		rest := slices.DeleteFunc(slices.Clone(some), func(id string) bool { return slices.Contains(gone, id) })
		err = e.eachChild(ctx, rest, held, func(ctx context.Context, call pawl.TaskCall) error {
			err := e.deleteTask(ctx, c, call, most)
			if pawl.CodeOf(err) == pawl.CodeNotFound {
				err = e.db.Do(ctx, func(ctx context.Context, tx store.Tx) error { return p.Spare(ctx, tx, call.TaskID) })
			}
			return err
		}, reason)
		if err != nil {
			return err
		}
	}
	return nil
}

// eachChild runs one for each child. Some run at the same time where transactions write beside each
// other. Children that other transactions lock are left out, if held has patience.
func (e *Engine) eachChild(ctx context.Context, ids []string, held *heldChildren,
	one func(ctx context.Context, call pawl.TaskCall) error, reason string) error {
	var g errgroup.Group
	if g.SetLimit(1); e.db.Dialect().ParallelWrites {
		g.SetLimit(deletesAtOnce)
	}
	var locked sync.Mutex
	for _, id := range ids {
		g.Go(func() error {
			locked.Lock()
			ctx := held.wait(ctx)
			locked.Unlock()
			err := one(ctx, pawl.TaskCall{TaskID: id, Force: true, Reason: reason})
			locked.Lock()
			defer locked.Unlock()
			if err != nil && held.leaves(err) {
				return nil
			}
			return err
		})
	}
	return g.Wait()
}

// errMoreChildren is that of a parent of which a child is still being deleted: the next pass goes on.
var errMoreChildren = errors.New("a child is still being deleted")
