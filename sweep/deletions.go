package sweep

import (
	"context"
	"time"

	"github.com/pawl-work/pawl/store"
)

const (
	// interruptedAfter is the age of a deletion that has not ended when a pass carries it on. One that is still
	// running is only helped.
	interruptedAfter = 10 * time.Minute
	// lookedDeletions bounds the tombstones that one read covers.
	lookedDeletions = 10 * batch
)

// deletions carries on deletions that were interrupted: their tombstones are there, and their tasks too. The first
// pass of a process looks at all tombstones, each later one at those that have come since, and at all again from the
// first whose task could not be removed. Removals of retention have no tombstone: retain tries them again.
func (p *pass) deletions(ctx context.Context) error {
	ctx = store.WithLockWait(ctx, lockWait)
	after, stuck := p.deleted, false
	for {
		var read []tombstoned
		err := p.DB.View(ctx, func(ctx context.Context, tx store.Tx) error {
			now, err := tx.Now(ctx)
			if err != nil {
				return err
			}
			by := ago(now, interruptedAfter)
			if after.At > by { // the clock went back
				after = tombstoned{}
			}
			read, err = tombstonesAfter(ctx, tx, after, by, lookedDeletions)
			return err
		})
		if err != nil {
			return p.logError(ctx, "deletions", err)
		}
		for _, t := range read {
			if after = t; t.There {
				if err := p.Resume(ctx, t.Namespace, t.TaskID); err != nil {
					if mustStop(ctx, err) {
						return err
					}
					stuck = true
					p.logResume(ctx, t.TaskID, err)
				}
			}
			if !stuck {
				p.deleted = t
			}
		}
		if len(read) < lookedDeletions {
			return nil
		}
	}
}

// logResume logs that a deletion could not be carried on.
func (p *pass) logResume(ctx context.Context, taskID string, err error) {
	if locked(err) {
		p.Log.DebugContext(ctx, "another transaction locks a row; the next sweep tries again", "error", err)
		return
	}
	p.stats.Errors++
	p.Log.ErrorContext(ctx, "a deletion that was interrupted could not be carried on; the next sweep tries again",
		"task_id", taskID, "error", err)
}
