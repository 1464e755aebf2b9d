package bulk

import (
	"context"
	"slices"
	"time"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/engine/internal/kernel"
	"github.com/pawl-work/pawl/engine/internal/rules"
	"github.com/pawl-work/pawl/internal/clock"
	"github.com/pawl-work/pawl/store"
)

// outcomes are those of the tasks of a batch.
type outcomes struct {
	of    map[string]error // by task; nil = changed. What is not in it is left to apart
	after follow
}

// follow is what follows from a change, after its commit.
type follow struct {
	queued   []store.DueItem // items to report to waiting claims
	children []string        // tasks that are children, and may have ended
}

// batch changes tasks in one transaction, which also saves how far the call is: after a crash,
// no task is changed again. Tasks that need more than the batch does are left to apart, and
// if the batch fails, all of them are: a failure of one task must not be that of the others.
// It returns how many tasks it has dealt with: the first ones, as many as fit into bulkTime.
func (r *run) batch(ctx context.Context, tasks []pawl.Task) (n int, err error) {
	var took time.Duration
	if r.call.Verb != pawl.BulkDelete && r.prioritiesFit(ctx, tasks) { // a delete takes several transactions
		n, took, err = r.commit(ctx, tasks, r.change)
	}
	if err == nil && n == 0 {
		n, took, err = r.commit(ctx, tasks, func(context.Context, store.Tx, []string) (outcomes, error) { return outcomes{}, nil })
	}
	r.k.Log.DebugContext(ctx, "a batch of a bulk call", "task_id", r.item.TaskID, "tasks", n, "took", took)
	r.size = nextSize(n, took, bulkLeast, r.most())
	return n, err
}

// most returns how many tasks the next batch has at most.
func (r *run) most() int {
	switch {
	case len(r.state.Apart) > len(r.held):
		return bulkApart
	case r.k.DB.Dialect().ParallelWrites:
		return bulkLocked
	default:
		return pawl.BulkStep
	}
}

// nextSize returns how many tasks the next transaction takes: as many as take bulkTime by the
// last one, at least and at most a number, and at most twice as many as the last one had.
func nextSize(last int, took time.Duration, least, most int) int {
	fit := int(float64(last) * float64(bulkTime) / float64(max(took, time.Microsecond)))
	return min(max(fit, least), 2*max(last, bulkFirst), most)
}

// prioritiesFit reports whether the queues of the tasks' types take the priority of an update.
func (r *run) prioritiesFit(ctx context.Context, tasks []pawl.Task) bool {
	if r.call.Verb != pawl.BulkUpdate || r.call.Update.Priority == nil {
		return true
	}
	fit := map[string]bool{}
	for _, t := range tasks {
		if !fit[t.Type] && r.tasks.CheckQueue(ctx, t.Type, *r.call.Update.Priority) != nil {
			return false
		}
		fit[t.Type] = true
	}
	return true
}

// commit changes tasks and saves how far the call is, in one transaction. It returns how many
// tasks it has dealt with, and how long it had the transaction. They are 0 if the change failed;
// it is then logged, and nothing is saved.
//
// Where one transaction writes at a time, it looks at the clock after every few tasks, and leaves
// the others to the next transaction when bulkTime is over. Elsewhere all tasks are locked
// together, in the order of their ids, so that two transactions do not wait for each other.
func (r *run) commit(ctx context.Context, tasks []pawl.Task,
	change func(ctx context.Context, tx store.Tx, ids []string) (outcomes, error)) (n int, took time.Duration, err error) {
	part := bulkPart
	if r.k.DB.Dialect().ParallelWrites {
		part = len(tasks)
	}
	var next state
	var after follow
	var failed error
	var began time.Time
	err = r.locked(ctx, func(ctx context.Context, tx store.Tx) error {
		began = clock.Now()
		n, next, after = 0, r.state, follow{}
		for some := range slices.Chunk(tasks, part) {
			var done outcomes
			if done, failed = change(ctx, tx, idsOfTasks(some)); failed != nil {
				return failed
			}
			next.add(some, done.of)
			after.queued, after.children = append(after.queued, done.after.queued...), append(after.children, done.after.children...)
			if n += len(some); clock.Now().Sub(began) >= bulkTime {
				break
			}
		}
		next.Cursor = tasks[n-1].ID
		return save(ctx, tx, r.item.TaskID, string(rules.Encode(next)))
	})
	if err == nil {
		r.state = next
		took = clock.Now().Sub(began)
		r.tasks.Follow(pawl.As(ctx, r.caller), kernel.After{Queued: after.queued, Children: after.children})
		return n, took, nil
	}
	if failed == nil || ctx.Err() != nil {
		return 0, 0, err
	}
	r.k.Log.WarnContext(ctx, "a batch of a bulk call failed; its tasks are changed one by one", "task_id", r.item.TaskID, "error", err)
	return 0, 0, nil
}

func idsOfTasks(tasks []pawl.Task) []string {
	ids := make([]string, len(tasks))
	for i := range tasks {
		ids[i] = tasks[i].ID
	}
	return ids
}

// add counts the outcomes of tasks. Those without one are to be changed apart.
func (s *state) add(tasks []pawl.Task, of map[string]error) {
	for _, t := range tasks {
		if err, ok := of[t.ID]; ok {
			s.count(t.ID, err)
		} else {
			s.Apart = append(s.Apart[:len(s.Apart):len(s.Apart)], task{t.ID, t.Version})
		}
	}
}

// change applies the verb to tasks, as the calls of the verb do, with the same statements for all.
// Its own rows are locked by then: the tasks that others lock are not waited for as long.
func (r *run) change(ctx context.Context, tx store.Tx, ids []string) (out outcomes, err error) {
	if r.k.DB.Dialect().ParallelWrites {
		if err := store.BoundLockWait(ctx, tx, kernel.LockedRow); err != nil {
			return out, err
		}
	}
	held, err := store.LockTasks(ctx, tx, r.item.Namespace, ids)
	if err != nil {
		return out, err
	}
	now, err := store.NowAgain(ctx, tx)
	if err != nil {
		return out, err
	}
	out.of = make(map[string]error, len(ids))
	for _, id := range ids {
		out.of[id] = pawl.NotFound("task", id)
	}
	for _, id := range held {
		delete(out.of, id)
	}
	by, data := kernel.Actor(r.caller, pawl.ActorUser, ""), r.data()
	if r.call.Verb == pawl.BulkUpdate {
		return out, r.update(ctx, tx, now, held, &out)
	}
	if held, err = r.inGroup(ctx, tx, held, &out); err != nil {
		return out, err
	}
	done, err := store.ApplyToPlain(ctx, tx, now, store.Change{Namespace: r.item.Namespace, Verb: r.call.Verb, Actor: by,
		Reason: store.Text(r.call.Reason), Data: data}, held)
	for id, moved := range done.Tasks {
		if out.of[id] = nil; !moved {
			out.of[id] = errUnchanged
		}
	}
	out.after = follow{done.Released, done.Children}
	return out, err
}

// inGroup returns the locked tasks of the group of failures that the filter names: all
// if it names none.
func (r *run) inGroup(ctx context.Context, tx store.Tx, held []string, out *outcomes) (left []string, err error) {
	if r.filter.Failure == "" {
		return held, nil
	}
	items, err := store.ItemsOfFailure(ctx, tx, r.item.Namespace, r.filter.Failure, held)
	for _, id := range held {
		if _, in := items[id]; in {
			left = append(left, id)
		} else {
			out.of[id] = errUnchanged
		}
	}
	return left, err
}

// update updates locked tasks. A task of many items that gets another priority is left to apart.
func (r *run) update(ctx context.Context, tx store.Tx, now int64, ids []string, out *outcomes) error {
	call := r.call.Update.Call("")
	seen, err := store.TasksToUpdate(ctx, tx, ids)
	if err != nil {
		return err
	}
	var chosen, moving []string
	for _, t := range seen {
		err := rules.CheckUpdatable(t, &call)
		if err == nil {
			_, _, err = rules.Update(t, &call)
		}
		moves := call.Priority != nil && *call.Priority != t.Priority
		switch {
		case err != nil:
			out.of[t.ID] = err
		case moves && t.Items > 1:
		case moves:
			moving = append(moving, t.ID)
			fallthrough
		default:
			chosen = append(chosen, t.ID)
		}
	}
	if len(moving) > 0 {
		if out.after.queued, err = store.Reprioritize(ctx, tx, moving, *call.Priority); err != nil {
			return err
		}
	}
	if seen, err = store.LockToUpdate(ctx, tx, now, r.item.Namespace, chosen); err != nil {
		return err
	}
	var updated []store.UpdatedTask
	for _, t := range seen {
		if err := rules.CheckUpdatable(t, &call); err != nil {
			return err // it has ended while the counters were locked
		}
		with, diff, err := rules.Update(t, &call)
		if err != nil {
			return err
		}
		if out.of[t.ID] = nil; diff == "" {
			out.of[t.ID] = errUnchanged
			continue
		}
		updated = append(updated, store.UpdatedTask{Task: with, Diff: diff})
	}
	return store.UpdateTasks(ctx, tx, now, updated, r.data(), kernel.Actor(r.caller, pawl.ActorUser, ""))
}

// locked runs fn under the lease, in one transaction that has locked the task of the call and
// then its item, as a cancel does.
func (r *run) locked(ctx context.Context, fn func(ctx context.Context, tx store.Tx) error) error {
	held := false
	err := r.k.DB.Do(ctx, func(ctx context.Context, tx store.Tx) error {
		if err := store.LockTaskRow(ctx, tx, r.item.Namespace, r.item.TaskID); err != nil {
			return err
		}
		_, ok, err := store.LockFenced(ctx, tx, kernel.Fence(pawl.CallerOf(ctx), r.fence))
		if held = ok; err != nil || !ok {
			return err
		}
		return fn(ctx, tx)
	})
	if err == nil && !held {
		err = &pawl.Error{Code: pawl.CodeLeaseLost, Op: "progress", Message: "the lease of the bulk call has ended"}
	}
	return err
}

// goOn changes the tasks in state.Apart that were not changed before the call was interrupted.
func (r *run) goOn(ctx context.Context) error {
	if len(r.state.Apart) == 0 {
		return nil
	}
	ids := make([]string, len(r.state.Apart))
	for i, t := range r.state.Apart {
		ids[i] = t.ID
	}
	err := r.k.DB.View(ctx, func(ctx context.Context, tx store.Tx) error {
		touched, err := touched(ctx, tx, ids, r.data())
		r.touched = make(map[string]bool, len(touched))
		for _, id := range touched {
			r.touched[id] = true
		}
		return err
	})
	if err != nil {
		return err
	}
	return r.apart(ctx)
}

// rest changes the tasks that other transactions have locked so far, as soon as they are free. If none becomes free for
// bulkHeld, the call makes room for others.
func (r *run) rest(ctx context.Context) error {
	least, since := len(r.state.Apart), clock.Now()
	for len(r.state.Apart) > 0 {
		if n := len(r.state.Apart); n < least {
			least, since = n, clock.Now()
		} else if clock.Now().Sub(since) > bulkHeld {
			return errHeld
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(kernel.LockedRow):
		}
		err := r.apart(ctx)
		if err == nil {
			err = r.report(ctx, false)
		}
		if err != nil {
			return err
		}
	}
	return nil
}
