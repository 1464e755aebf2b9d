package bulk

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/engine/internal/kernel"
	"github.com/pawl-work/pawl/internal/clock"
	"github.com/pawl-work/pawl/store"
)

// apart changes the tasks of state.Apart, each by a call of the verb in a transaction of its own,
// so that no lock is held for longer than one task takes. Those that another transaction locks stay in state.Apart, and are
// not tried again for bulkReport.
func (r *run) apart(ctx context.Context) error {
	before, tasks, left, now := r.state, []task(nil), []task(nil), clock.Now()
	for _, t := range before.Apart {
		if at, held := r.held[t.ID]; held && now.Sub(at) < bulkReport {
			left = append(left, t)
		} else if r.touched[t.ID] && r.call.Verb != pawl.BulkCancel && r.call.Verb != pawl.BulkDelete { // these may be half done
			r.state.Matched, r.state.Changed = r.state.Matched+1, r.state.Changed+1
		} else {
			tasks = append(tasks, t)
		}
	}
	if len(left) == len(before.Apart) {
		return nil
	}
	locked, err := r.each(ctx, tasks)
	if err != nil {
		r.state = before
		return err
	}
	r.state.Apart, now = append(left, locked...), clock.Now()
	for _, t := range tasks {
		delete(r.held, t.ID)
	}
	for _, t := range locked {
		if r.held == nil {
			r.held = map[string]time.Time{}
		}
		r.held[t.ID] = now
	}
	if err := r.save(ctx); err != nil || len(r.state.Apart) <= bulkLeft {
		return err
	}
	return errHeld
}

// errHeld says that a call cannot go on for now: other transactions lock its tasks.
var errHeld = &pawl.Error{Code: pawl.CodeUnavailable, Op: "bulk", Message: "other transactions lock tasks of the call"}

// each applies the verb to tasks one by one. It returns those that another transaction locks.
func (r *run) each(ctx context.Context, tasks []task) (locked []task, err error) {
	ctx = store.WithLockWait(pawl.As(ctx, r.caller), kernel.LockedRow)
	writers := 1
	if r.k.DB.Dialect().ParallelWrites {
		writers = bulkWriters
	}
	var mu sync.Mutex
	err = inParts(ctx, tasks, writers, func(part []task) error {
		errs, err := r.verb(ctx, part)
		if err != nil {
			return err
		}
		mu.Lock()
		defer mu.Unlock()
		some, err := r.count(part, errs)
		locked = append(locked, some...)
		return err
	})
	return locked, err
}

// inParts calls do with the parts of tasks, at most a number of them at a time. After an error it
// begins no other part, and returns the error: nothing may take the tasks as done.
func inParts(ctx context.Context, tasks []task, writers int, do func(part []task) error) error {
	all, ctx := errgroup.WithContext(ctx)
	all.SetLimit(writers)
	for part := range slices.Chunk(tasks, bulkPart) {
		all.Go(func() error {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			return do(part)
		})
	}
	return all.Wait()
}

// errUnchanged stands for a task that was as asked for already.
var errUnchanged = errors.New("unchanged")

// verb applies the verb to some tasks. It returns an error for each, nil where it was applied.
func (r *run) verb(ctx context.Context, tasks []task) ([]error, error) {
	tasksOf := r.k.Tasks(kernel.Origin{Bulk: r.item.TaskID})
	out := make([]error, len(tasks))
	if r.call.Verb == pawl.BulkUpdate {
		calls := make([]pawl.TaskUpdate, len(tasks))
		for i, t := range tasks {
			calls[i] = r.call.Update.Call(t.ID)
		}
		rs, err := tasksOf.UpdateTasks(ctx, calls)
		for i := range rs {
			if out[i] = rs[i].Err; out[i] == nil && rs[i].Value.Version == tasks[i].Version {
				out[i] = errUnchanged
			}
		}
		return out, err
	}
	calls := make([]pawl.TaskCall, len(tasks))
	for i, t := range tasks {
		calls[i] = pawl.TaskCall{TaskID: t.ID, Reason: r.call.Reason, Force: r.call.Force}
	}
	if r.call.Verb == pawl.BulkDelete {
		if err := r.cancelBefore(ctx, tasks); err != nil {
			return nil, err
		}
		gone, err := r.deleteEnded(ctx, tasks)
		if err != nil {
			return nil, err
		}
		at := make([]int, 0, len(calls))
		for i := range calls {
			if !slices.Contains(gone, calls[i].TaskID) {
				calls[len(at)], at = calls[i], append(at, i)
			}
		}
		if len(at) == 0 {
			return out, nil
		}
		rs, err := tasksOf.DeleteTasks(ctx, calls[:len(at)])
		for i := range rs {
			out[at[i]] = rs[i].Err
		}
		return out, err
	}
	calls, at, err := r.onlyGroup(ctx, calls)
	if err != nil {
		return nil, err
	}
	for i := range out {
		out[i] = errUnchanged // nothing of the group is left in the task
	}
	change := map[string]func(context.Context, []pawl.TaskCall) ([]pawl.Result[pawl.Task], error){
		pawl.BulkCancel: tasksOf.CancelTasks, pawl.BulkRetry: tasksOf.RetryTasks, pawl.BulkBury: tasksOf.BuryTasks}[r.call.Verb]
	rs, err := change(ctx, calls)
	for i := range rs {
		out[at[i]] = rs[i].Err
	}
	return out, err
}

// cancelBefore cancels tasks that are deleted by force, those that are plain in one transaction. A
// delete cancels the others.
func (r *run) cancelBefore(ctx context.Context, tasks []task) error {
	if !r.call.Force {
		return nil
	}
	ids := make([]string, len(tasks))
	for i, t := range tasks {
		ids[i] = t.ID
	}
	var done store.PlainApplied
	err := r.k.DB.Do(ctx, func(ctx context.Context, tx store.Tx) error {
		held, err := store.LockTasks(ctx, tx, r.item.Namespace, ids)
		if err != nil {
			return err
		}
		now, err := store.NowAgain(ctx, tx)
		if err != nil {
			return err
		}
		done, err = store.ApplyToPlain(ctx, tx, now, store.Change{Namespace: r.item.Namespace, Verb: pawl.BulkCancel,
			Actor: kernel.Actor(r.caller, pawl.ActorUser, ""), Reason: store.Text(r.call.Reason), Data: r.data()}, held)
		return err
	})
	if err != nil {
		r.k.Log.WarnContext(ctx, "tasks of a bulk call are cancelled one by one", "task_id", r.item.TaskID, "error", err)
		return ctx.Err()
	}
	r.tasks.Follow(ctx, kernel.After{Queued: done.Released, Children: done.Children})
	return nil
}

// deleteEnded deletes those of the tasks that have ended and belong to no others in one transaction,
// and returns their ids. If that fails, the tasks are deleted one by one.
func (r *run) deleteEnded(ctx context.Context, tasks []task) ([]string, error) {
	if err := r.tasks.Log(ctx); err != nil { // what is removed is in the log before
		return nil, err
	}
	ids := make([]string, len(tasks))
	for i, t := range tasks {
		ids[i] = t.ID
	}
	by := store.Deletion{Key: r.caller.Key, Reason: r.call.Reason, Bulk: r.item.TaskID}
	by.Actor = kernel.Actor(r.caller, pawl.ActorUser, "")
	gone, err := r.tasks.DeleteEnded(ctx, r.item.Namespace, ids, by)
	if err != nil {
		r.k.Log.WarnContext(ctx, "tasks of a bulk call are deleted one by one", "task_id", r.item.TaskID, "error", err)
		return nil, ctx.Err()
	}
	for _, id := range gone {
		r.k.Log.InfoContext(ctx, "task deleted", "task_id", id, "namespace", r.item.Namespace, "actor", r.caller.ActorID)
	}
	return gone, nil
}

// onlyGroup limits calls to the items of the group of failures that the filter names, if it names
// one. at has the place of each call that is left.
func (r *run) onlyGroup(ctx context.Context, calls []pawl.TaskCall) (left []pawl.TaskCall, at []int, err error) {
	var items map[string][]string
	if r.filter.Failure != "" {
		ids := make([]string, len(calls))
		for i := range calls {
			ids[i] = calls[i].TaskID
		}
		items, err = kernel.Read(ctx, r.k, func(ctx context.Context, tx store.Tx, ns string) (map[string][]string, error) {
			return store.ItemsOfFailure(ctx, tx, ns, r.filter.Failure, ids)
		})
	}
	for i, c := range calls {
		of, in := items[c.TaskID]
		if c.ItemIDs = of; items == nil || in {
			left, at = append(left, c), append(at, i)
		}
	}
	return left, at, err
}

// count counts outcomes, and returns the tasks that another transaction locks. It returns an error that is not about a task:
// the step is then repeated.
func (r *run) count(tasks []task, errs []error) (locked []task, err error) {
	for _, err := range errs {
		if code := pawl.CodeOf(err); code == pawl.CodeUnavailable && !errors.Is(err, store.ErrLocked) || errors.Is(err, context.Canceled) {
			return nil, err
		}
	}
	for i, err := range errs {
		if errors.Is(err, store.ErrLocked) {
			locked = append(locked, tasks[i])
			continue
		}
		if r.touched[tasks[i].ID] && pawl.CodeOf(err) == pawl.CodeConflict {
			err = nil // this call has cancelled it before
		}
		r.state.count(tasks[i].ID, err)
	}
	return locked, nil
}

// count counts the outcome of a task.
func (s *state) count(taskID string, err error) {
	s.Matched++
	switch code := pawl.CodeOf(err); {
	case err == nil:
		s.Changed++
	case err == errUnchanged, code == pawl.CodeConflict, code == pawl.CodeNotFound:
		s.Skipped++
	default:
		s.Failed++
		if len(s.Errors) < pawl.MaxBulkErrors {
			message := []rune(err.Error())
			s.Errors = append(s.Errors[:len(s.Errors):len(s.Errors)],
				pawl.BulkError{TaskID: taskID, Code: code, Message: string(message[:min(len(message), pawl.MaxBulkErrorLen)])})
		}
	}
}
