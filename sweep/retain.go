package sweep

import (
	"context"
	"errors"
	"slices"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/store"
)

// deleteBatch bounds the rows that one transaction removes; a task with fewer
// goes in one.
const deleteBatch = 5 * batch

// maxAgain bounds the tasks that a cursor remembers to try again.
const maxAgain = 1000

// retain archives and removes tasks that ended longer than RetainTasks ago. It
// reads the record in order and stops at what is younger; the event that ended a
// task leads to it. A task that cannot be archived is left, counted and tried
// again by the next pass. One that was brought back from its archive is kept for
// as long again.
func (p *pass) retain(ctx context.Context) error {
	if p.Options.RetainTasks <= 0 {
		return nil
	}
	for {
		tasks, page, err := p.retired(ctx)
		if err != nil || len(tasks)+len(page) == 0 {
			return p.mishap(ctx, "retention", err)
		}
		var again []string
		for some := range slices.Chunk(tasks, 50) {
			err := halve(ctx, p, some, p.retire, func(id string, err error) {
				again = append(again, id)
				p.Log.ErrorContext(ctx, "a task could not be archived and stays", "task_id", id, "error", err)
			})
			if err != nil {
				return p.mishap(ctx, "retention", err)
			}
		}
		if err := p.passBy(ctx, page, again); err != nil || len(page) < batch {
			return p.mishap(ctx, "retention", err)
		}
	}
}

// retired lists tasks whose time is up: those that failed before, those that
// were brought back long ago, and those that the next page of the record ended.
func (p *pass) retired(ctx context.Context) (tasks []string, page []store.Entry, err error) {
	at, page, err := p.aged(ctx, retainCursor, p.Options.RetainTasks)
	if err != nil {
		return nil, nil, err
	}
	err = p.DB.View(ctx, func(ctx context.Context, tx store.Tx) error {
		now, err := tx.Now(ctx)
		if err != nil {
			return err
		}
		tasks, err = store.RestoredBy(ctx, tx, ago(now, p.Options.RetainTasks), batch)
		return err
	})
	tasks = append(tasks, at.Again...)
	for _, e := range page {
		if pawl.TaskState(e.TaskTo).Ended() {
			tasks = append(tasks, e.TaskID)
		}
	}
	return tasks, page, err
}

// passBy moves the cursor behind a page. The tasks to try again are kept, up to
// a bound; the log has them all.
func (p *pass) passBy(ctx context.Context, page []store.Entry, again []string) error {
	return p.do(ctx, func(ctx context.Context, tx store.Tx, now int64) error {
		at, err := store.HoldCursor(ctx, tx, retainCursor)
		if err != nil {
			return err
		}
		if len(page) > 0 {
			at.Position = max(at.Position, page[len(page)-1].ID)
		}
		at.Again = again[:min(len(again), maxAgain)]
		return store.MoveCursor(ctx, tx, now, retainCursor, at)
	})
}

// errChanged says that a task got an event between its archive and its removal.
var errChanged = errors.New("the task changed while it was archived")

// retire archives some tasks, then removes them. The archives are on the disk
// before the transaction that notes them and takes the first rows.
func (p *pass) retire(ctx context.Context, tasks []string) error {
	var written []archived
	for _, id := range tasks {
		namespace, gone, err := p.halfGone(ctx, id)
		if err != nil {
			return err
		}
		if gone {
			err = p.Delete(ctx, namespace, id)
		} else if namespace != "" {
			var a archived
			a, err = p.write(ctx, namespace, id)
			written = append(written, a)
		} else {
			err = p.do(ctx, func(ctx context.Context, tx store.Tx, _ int64) error { return store.ForgetRestored(ctx, tx, id) })
		}
		if err != nil {
			return err
		}
	}
	var rest []archived
	err := p.do(ctx, func(ctx context.Context, tx store.Tx, _ int64) error {
		rest = nil
		for _, a := range written {
			newest, err := store.NewestEvent(ctx, tx, a.TaskID)
			if err != nil {
				return err
			}
			if newest == 0 { // another server has removed it
				continue
			}
			if newest != a.newest {
				return errChanged
			}
			if err := store.KeepArchive(ctx, tx, a.namespace, a.Archived); err != nil {
				return err
			}
			done, err := store.DeleteTask(ctx, tx, a.namespace, a.TaskID, deleteBatch)
			if err != nil {
				return err
			}
			if !done {
				rest = append(rest, a)
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	p.stats.TasksPruned += int64(len(written))
	for _, a := range rest {
		if err := p.Delete(ctx, a.namespace, a.TaskID); err != nil {
			return err
		}
	}
	return nil
}

// halfGone says whose a task is, "" when it is gone, and whether its deletion
// was begun and cut off: its archive, if it was to have one, is written then.
func (p *pass) halfGone(ctx context.Context, id string) (namespace string, gone bool, err error) {
	err = p.DB.View(ctx, func(ctx context.Context, tx store.Tx) (err error) {
		if namespace, err = store.NamespaceOfTask(ctx, tx, id); err != nil || namespace == "" {
			return err
		}
		gone, err = store.BeingDeleted(ctx, tx, id)
		return err
	})
	return namespace, gone, err
}

// Delete removes a task and all that hangs on it, in bounded batches; idempotency
// keys stay, without their links. No event is left, for the record of the task
// goes with it. A task that is not there is not an error.
func (s *Sweeper) Delete(ctx context.Context, namespace, taskID string) error {
	for {
		var done bool
		err := s.do(ctx, func(ctx context.Context, tx store.Tx, _ int64) (err error) {
			done, err = store.DeleteTask(ctx, tx, namespace, taskID, deleteBatch)
			return err
		})
		if err != nil || done {
			return err
		}
	}
}
