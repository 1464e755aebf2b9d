package engine

import (
	"context"
	"errors"

	"github.com/pawl-work/pawl/engine/internal/taskwait"
	"github.com/pawl-work/pawl/internal/idform"
)

// AwaitTask calls look at once and after each change of a task, until look is done or fails;
// see pawl.AwaitTask. Waiting calls hold no connection and read nothing. A commit of this
// process wakes them at once, one of another process as soon as it is known here: on SQLite
// from the file's change counter, on PostgreSQL from a notice or after PollInterval. Close
// ends the wait: it is then unavailable. Within a transaction a task that has not ended is
// invalid.
func (e *Engine) AwaitTask(ctx context.Context, id string, look func(ctx context.Context) (done bool, err error)) error {
	id = idform.Task(id)
	if e.scope != nil { // it sees no other transaction's commits
		done, err := look(ctx)
		if done || err != nil {
			return err
		}
		return e.notInTx("await")
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(e.open, func() { cancel(taskwait.ErrClosed) })()
	err := e.waits.Await(ctx, id, look)
	if err != nil && errors.Is(context.Cause(ctx), taskwait.ErrClosed) {
		return taskwait.ErrClosed
	}
	return err
}
