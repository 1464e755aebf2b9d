package sweep

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/store"
)

// deleteBatch bounds the rows that one transaction removes; a smaller task is removed in
// one.
const deleteBatch = 5 * batch

// retiredAtOnce is how many tasks are archived and removed together, if they are small: their transaction takes some 20 ms.
const retiredAtOnce = 500

// retain archives and removes tasks that ended, failed or were dead-lettered, and have
// not changed since, longer ago than their retention: that of the options, or of their
// type. For each retention it reads the event log in order, up to the events that are
// too young. The event that ended a task leads to it; a failed task is found by its
// newest event, and has not changed either since its newest checkpoint or chunk. A task that cannot be
// archived stays, is counted, and is tried again by the next pass. So is one with consequences that
// are still to come: see store.StillPending. Many of them are set aside: see retainAside. A restored task is
// kept for one more retention, from the restore or from its newest event.
func (p *pass) retain(ctx context.Context) error {
	own, err := p.retentions(ctx)
	if err != nil {
		return p.logError(ctx, "retention", err)
	}
	if !p.archives(ctx) {
		return nil
	}
	for _, s := range retentionSpans(p.Options, own) {
		if s.age <= 0 {
			continue // for ever
		}
		if err := p.retainFor(ctx, s, own); err != nil {
			return p.logError(ctx, "retention", err)
		}
	}
	return nil
}

// retentionSpans returns all retentions: those of the options, and those of types.
func retentionSpans(o pawl.SweepOptions, own retentions) (all []retentionSpan) {
	for _, k := range []retentionRule{
		{retainCursor, ended, o.RetainTasks, func(r pawl.Retention) int { return r.TaskSeconds }},
		{retainCursor + ".failed", []string{string(pawl.TaskFailed)}, o.RetainFailed,
			func(r pawl.Retention) int { return r.FailedSeconds }},
		{retainCursor + ".dead", []string{string(pawl.TaskDeadLettered)}, o.RetainDead,
			func(r pawl.Retention) int { return r.DeadSeconds }},
	} {
		spans := []retentionSpan{{k, 0}}
		for r := range maps.Values(own) {
			if s := k.own(r); s > 0 && !slices.ContainsFunc(spans, func(o retentionSpan) bool { return o.seconds == s }) {
				rule := retentionRule{fmt.Sprintf("%s.%d", k.cursor, s), k.states, time.Duration(s) * time.Second, k.own}
				spans = append(spans, retentionSpan{rule, s})
			}
		}
		all = append(all, spans...)
	}
	return all
}

// ended are the final states of tasks.
var ended = []string{string(pawl.TaskCompleted), string(pawl.TaskRejected), string(pawl.TaskCancelled)}

// retentions are those that types set.
type retentions = map[store.TypeVersion]pawl.Retention

// retentionRule is how long tasks in some states are kept, and the cursor of its reader. own
// returns a type's own retention, in seconds.
type retentionRule struct {
	cursor string
	states []string
	age    time.Duration
	own    func(pawl.Retention) int
}

// retentionSpan is one retention: seconds is that of the types that set it, 0 = of the types that
// set none.
type retentionSpan struct {
	retentionRule
	seconds int
}

func (p *pass) retainFor(ctx context.Context, s retentionSpan, own retentions) error {
	if err := p.retainAside(ctx, s, own); err != nil {
		return err
	}
	if err := p.retainRestored(ctx, s, own); err != nil {
		return err
	}
	for {
		due, err := p.dueTasks(ctx, s, own)
		if err != nil || len(due.tasks)+len(due.later)+len(due.read.page)+len(due.read.done) == 0 {
			return err
		}
		if p.preview != nil {
			p.preview.note(s.cursor, due.tasks, due.read.page)
			if len(due.read.page) < batch || p.preview.full() {
				return nil
			}
			continue
		}
		again, err := p.retireDue(ctx, due)
		if err == nil {
			err = p.advanceCursor(ctx, s.cursor, &due, again)
		}
		if err != nil || len(due.read.page) < batch {
			return err
		}
	}
}

// retireDue archives and removes the tasks that are due. It returns those that are to be tried again.
func (p *pass) retireDue(ctx context.Context, due dueTasks) (again []string, err error) {
	again = due.later
	retire := func(ctx context.Context, tasks []string) error {
		n, err := p.Archive.Retire(ctx, tasks)
		p.stats.TasksPruned += n
		if len(tasks) == 1 && (locked(err) || errors.Is(err, store.ErrChanged)) {
			again, err = append(again, tasks[0]), nil
		}
		return err
	}
	for some := range slices.Chunk(due.tasks, retiredAtOnce) {
		err := halve(ctx, p, some, retire, func(id string, err error) {
			again = append(again, id)
			p.Log.ErrorContext(ctx, "a task could not be archived and stays", "task_id", id, "error", err)
		})
		if err != nil {
			return nil, err
		}
	}
	return again, nil
}

// retentions returns the retentions that types set. Versions of a type never change, so
// they are read again only when there are new ones.
func (p *pass) retentions(ctx context.Context) (own retentions, err error) {
	p.typesMu.Lock()
	defer p.typesMu.Unlock()
	err = p.DB.View(ctx, func(ctx context.Context, tx store.Tx) error {
		stamp, err := store.StampOfTypes(ctx, tx)
		if err == nil && (stamp != p.types || p.kept == nil) {
			p.kept, err = retentionsOfTypes(ctx, tx)
			p.types = stamp
		}
		own = p.kept
		return err
	})
	return own, err
}

// dueTasks are the tasks whose retention has passed: those that were left before,
// and those of the next page of the event log. later are those that are left: they have
// consequences that are still to come, or got checkpoints or chunks after their newest event.
type dueTasks struct {
	tasks, later []string
	read         record
	left         []string // by the passes before, among the others
}

func (p *pass) dueTasks(ctx context.Context, s retentionSpan, own retentions) (due dueTasks, err error) {
	at, read, err := p.eventsOlderThan(ctx, s.cursor, s.age, s.resting())
	if err != nil {
		return due, err
	}
	err = p.DB.View(ctx, func(ctx context.Context, tx store.Tx) error {
		due = dueTasks{read: read, left: at.Again}
		now, err := tx.Now(ctx)
		if err != nil {
			return err
		}
		tasks := slices.Clone(at.Again)
		for _, e := range read.all() {
			if s.resting() && e.Newest || !s.resting() && pawl.TaskState(e.TaskTo).Ended() {
				tasks = append(tasks, e.TaskID)
			}
		}
		read.move(&at)
		due.tasks, due.later, err = s.sort(ctx, tx, tasks, ago(now, s.age), at.Position, own)
		return err
	})
	return due, err
}

// resting reports whether the tasks have not ended, so that they may change.
func (s *retentionSpan) resting() bool { return !pawl.TaskState(s.states[0]).Ended() }

// sort returns those of the tasks that are due, and those that are left: see dueTasks. They must not have changed after
// by; a change with a number above passed is still to be read.
func (s *retentionSpan) sort(ctx context.Context, tx store.Tx, tasks []string, by, passed int64, own retentions) (
	due, later []string, err error,
) {
	slices.Sort(tasks)
	if tasks = slices.Compact(tasks); len(tasks) == 0 {
		return nil, nil, nil
	}
	if s.resting() {
		if tasks, later, err = restingSince(ctx, tx, tasks, s.states[0], by, passed); err != nil {
			return nil, nil, err
		}
	}
	if len(own) > 0 {
		of, err := store.TypesOfTasks(ctx, tx, append(tasks[:len(tasks):len(tasks)], later...))
		if err != nil {
			return nil, nil, err
		}
		others := func(id string) bool { return s.own(own[of[id]]) != s.seconds }
		tasks, later = slices.DeleteFunc(tasks, others), slices.DeleteFunc(later, others)
	}
	pending, err := store.StillPending(ctx, tx, tasks)
	later = append(later, pending...)
	return slices.DeleteFunc(tasks, func(id string) bool { return slices.Contains(pending, id) }), later, err
}

// advanceCursor moves a cursor past a page. It keeps the tasks to try again, which no later event leads
// to, and those that a pass of another server has left meanwhile.
func (p *pass) advanceCursor(ctx context.Context, cursor string, due *dueTasks, again []string) error {
	return p.do(ctx, func(ctx context.Context, tx store.Tx, now int64) error {
		at, err := lockCursor(ctx, tx, cursor)
		if err != nil {
			return err
		}
		due.read.move(&at)
		at.KeepAgain(due.left, again)
		for len(at.Again) > batch {
			if err := setAside(ctx, tx, now, cursor, p.NewID("left"), at.Again[:batch]); err != nil {
				return err
			}
			at.Again = at.Again[batch:]
		}
		return moveCursor(ctx, tx, now, cursor, at)
	})
}

// Delete removes a task with all its rows, in bounded batches. Its idempotency keys
// stay, without their links. Its events are removed too, except for one event `deleted`
// that names who deleted it. Deleting a task that does not exist is not an error.
func (s *Sweeper) Delete(ctx context.Context, namespace, taskID string, by store.Deletion) error {
	return s.delete(ctx, namespace, taskID, &by)
}

// DeleteEnded deletes those of the tasks that have ended and are neither parents nor children, as
// Delete does, but in one transaction. It returns their ids. If they are too large for one, it
// deletes none and returns nothing.
func (s *Sweeper) DeleteEnded(ctx context.Context, namespace string, taskIDs []string, by store.Deletion) (deleted []string, err error) {
	err = s.do(ctx, func(ctx context.Context, tx store.Tx, _ int64) (err error) {
		deleted, err = store.DeleteEnded(ctx, tx, namespace, taskIDs, &by, deleteBatch)
		return err
	})
	if errors.Is(err, store.ErrManyRows) {
		return nil, nil
	}
	return deleted, err
}

// Resume continues the deletion of a task, if one has begun.
func (s *Sweeper) Resume(ctx context.Context, namespace, taskID string) error {
	return s.delete(ctx, namespace, taskID, nil)
}

func (s *Sweeper) delete(ctx context.Context, namespace, taskID string, by *store.Deletion) error {
	for {
		var done bool
		var ended store.ChildrenEnded
		err := s.do(ctx, func(ctx context.Context, tx store.Tx, _ int64) (err error) {
			done = true
			if by == nil {
				begun, err := store.AreBeingDeleted(ctx, tx, []string{taskID})
				if err != nil || len(begun) == 0 {
					return err
				}
			}
			if ended, err = store.EndRemoved(ctx, tx, []string{taskID}); err != nil {
				return err
			}
			done, err = store.DeleteTask(ctx, tx, namespace, taskID, by, deleteBatch)
			return err
		})
		if err == nil {
			s.ChildrenEnded(ctx, ended)
		}
		if err != nil || done {
			return err
		}
	}
}
