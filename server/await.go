package server

import (
	"context"
	"net/http"
	"time"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/access"
)

// later is a read that is to run a second time, after a wait.
type later struct {
	ctx context.Context // of the caller, without the time limit of reads
	run func(http.ResponseWriter)
}

// waitForEnd reports whether the call is to wait for the end of a task. It then leaves the wait
// as the call's rest: the operation runs again after it, and what it returns now is dropped. A
// call that waits keeps neither the stack of the operation nor a share of the reads of its key.
func (s *server) waitForEnd(ctx context.Context, id string, seconds int) (waits bool, err error) {
	c := callOf(ctx)
	if seconds == 0 || c.waited {
		return false, nil
	}
	c.waited = true
	if over, err := s.isOver(ctx, id); over || err != nil {
		return false, err
	}
	if s.opts.Stopping.Err() != nil {
		return false, errStopping
	}
	again := c.again
	c.rest = func(w http.ResponseWriter, r *http.Request) {
		if err := s.untilEnd(again.ctx, id, time.Duration(seconds)*time.Second); err != nil {
			s.write(w, r, err)
			return
		}
		c.rest = nil
		again.run(w)
	}
	return true, nil
}

// isOver reads whether a task has ended or failed.
func (s *server) isOver(ctx context.Context, id string) (bool, error) {
	t, err := s.taskOf(ctx, id, []string{"state"})
	return t.State.Over(), err
}

// untilEnd waits until a task has ended or failed, or cannot be read, for a time at most, and
// not past the server's stop. It returns an error if the caller's key ends meanwhile, or if it
// has too many calls that wait.
func (s *server) untilEnd(ctx context.Context, id string, most time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, most)
	defer cancel()
	waiting, end, err := s.longCall(ctx)
	if err != nil {
		return err
	}
	defer end()
	_ = pawl.AwaitTask(waiting, s.svc, id, func(ctx context.Context) (bool, error) {
		ctx, end, err := s.reading(ctx)
		if err != nil {
			return false, err
		}
		defer end()
		return s.isOver(ctx, id)
	}) // why the task cannot be read, the operation finds too
	if why := access.Ended(waiting); why != nil {
		return why
	}
	return s.gate.CheckAgain(context.WithoutCancel(ctx), access.Of(ctx))
}
