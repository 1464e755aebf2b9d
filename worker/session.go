package worker

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/internal/clock"
)

// session is the pawl.Session of a handler. Its calls are retried while the database
// is unavailable and the lease may be valid. An answer that the claim is over
// cancels the handler's context.
type session struct {
	w *runner
	j *job
}

func (s *session) Lease() pawl.Lease {
	s.w.mu.Lock()
	defer s.w.mu.Unlock()
	return s.j.lease.lease
}

func (s *session) Now() time.Time {
	now := clock.Now()
	s.w.mu.Lock()
	defer s.w.mu.Unlock()
	return s.j.lease.now(now)
}

func (s *session) Resume(ctx context.Context) (out pawl.ResumeState, err error) {
	_, err = s.retryUntilLost(ctx, func(ctx context.Context) (err error) {
		out, err = s.w.claimer.Resume(ctx, s.j.fence.ItemID)
		return err
	})
	return out, err
}

func (s *session) Save(ctx context.Context, c pawl.NewCheckpoint) (ref pawl.CheckpointRef, err error) {
	_, err = s.retryUntilLost(ctx, func(ctx context.Context) (err error) {
		ref, err = pawl.SaveCheckpoint(ctx, s.w.claimer, s.j.fence, c)
		return err
	})
	return ref, err
}

func (s *session) Progress(ctx context.Context, call pawl.ProgressCall) error {
	call.Fence = s.j.fence
	_, err := s.retryUntilLost(ctx, func(ctx context.Context) error {
		rs, err := s.w.claimer.Progress(ctx, []pawl.ProgressCall{call})
		return onlyError(rs, err)
	})
	return err
}

// Suspend gives the lease up. Heartbeats stop first, so that none is answered with
// lease_lost for a lease that the worker gave up.
func (s *session) Suspend(ctx context.Context, call pawl.SuspendCall) error {
	if err := s.w.drain(s.j); err != nil {
		return err
	}
	if !s.setState(jobRunning, jobSuspended) {
		return &pawl.Error{Code: pawl.CodeLeaseLost, Op: "suspend", Message: "the claim is over"}
	}
	call.Fence = s.j.fence
	retry := s.retryUntilLost
	if call.Children != nil {
		retry = s.callAboutOthers
	}
	unsure, err := retry(ctx, func(ctx context.Context) error {
		rs, err := s.w.claimer.Suspend(ctx, []pawl.SuspendCall{call})
		return onlyError(rs, err)
	})
	var e *pawl.Error
	if unsure && errors.As(err, &e) && e.Code == pawl.CodeLeaseLost && e.Reason == pawl.ReasonReleased {
		err = nil // an earlier try succeeded
	}
	if err != nil {
		s.setState(jobSuspended, jobRunning)
		if call.Children == nil || pawl.CodeOf(err) != pawl.CodeNotFound {
			s.checkLoss(err)
		}
	}
	return err
}

func (s *session) ReserveBudget(ctx context.Context, budget string, call pawl.ReserveCall) (out pawl.Reserved, err error) {
	call.ItemID, call.WorkerID, call.Attempt = s.j.fence.ItemID, s.j.fence.WorkerID, s.j.fence.Attempt
	_, err = s.callAboutOthers(ctx, func(ctx context.Context) (err error) {
		out, err = s.w.claimer.ReserveBudget(ctx, budget, call)
		return err
	})
	return out, err
}

func (s *session) SettleBudget(ctx context.Context, budget string, call pawl.SettleCall) (out pawl.Settled, err error) {
	call.ItemID, call.WorkerID, call.Attempt = s.j.fence.ItemID, s.j.fence.WorkerID, s.j.fence.Attempt
	_, err = s.callAboutOthers(ctx, func(ctx context.Context) (err error) {
		out, err = s.w.claimer.SettleBudget(ctx, budget, call)
		return err
	})
	return out, err
}

// TaskResult implements pawl.ResultSession.
func (s *session) TaskResult(ctx context.Context, taskID string) (out pawl.TaskResult, err error) {
	reader, ok := s.w.claimer.(interface {
		TaskResult(ctx context.Context, id string) (pawl.TaskResult, error)
	})
	if !ok {
		return out, &pawl.Error{Code: pawl.CodeInvalid, Op: "result", Message: "what this worker claims from reads no results"}
	}
	var refused error // says nothing about the claim
	_, err = s.retryUntilLost(ctx, func(ctx context.Context) error {
		if out, refused = reader.TaskResult(ctx, taskID); isTransient(refused) {
			return refused
		}
		return nil
	})
	return out, cmp.Or(err, refused)
}

// callAboutOthers is retryUntilLost for a call that names other things than the item: a budget,
// a child, the task as a parent. That one of these is missing or in another state does not
// end the claim. If the refusal is about the claim after all, the next heartbeat finds out.
func (s *session) callAboutOthers(ctx context.Context, do func(context.Context) error) (unsure bool, err error) {
	var refused error
	unsure, err = s.retryUntilLost(ctx, func(ctx context.Context) error {
		err := do(ctx)
		var e *pawl.Error
		if errors.As(err, &e) && (e.Code == pawl.CodeNotFound || e.Code == pawl.CodeConflict && e.State != string(pawl.ItemCancelled)) {
			refused = err
			return nil
		}
		return err
	})
	return unsure, cmp.Or(err, refused)
}

func (s *session) SpawnChild(ctx context.Context, call pawl.SpawnCall) (out pawl.Task, err error) {
	call.Fence = s.j.fence
	_, err = s.callAboutOthers(ctx, func(ctx context.Context) error {
		rs, err := s.w.claimer.Spawn(ctx, []pawl.SpawnCall{call})
		if err = onlyError(rs, err); err == nil {
			out = rs[0].Value
		}
		return err
	})
	return out, err
}

// setState is a compare-and-set of the job's state.
func (s *session) setState(from, to jobState) bool {
	s.w.mu.Lock()
	defer s.w.mu.Unlock()
	if s.j.state != from {
		return false
	}
	s.j.state = to
	signal(s.w.wakeHeartbeat)
	return true
}

// retryUntilLost retries a call until it is answered, the context or the worker ends,
// or the claim is over. It reports whether a try before the last may have succeeded.
func (s *session) retryUntilLost(ctx context.Context, do func(context.Context) error) (unsure bool, err error) {
	ctx, cancel := context.WithCancel(pawl.OneCall(ctx))
	defer cancel()
	defer context.AfterFunc(s.w.callCtx, cancel)()
	for n := 1; ; n++ {
		if err = withTimeout(ctx, callTimeout, do); err == nil {
			return unsure, nil
		}
		s.checkLoss(err)
		if !isTransient(err) || ctx.Err() != nil || !s.w.mayHold(s.j) {
			return unsure, err
		}
		unsure = true
		if !sleep(ctx, retryBackoff.after(n, err)) {
			return unsure, err
		}
	}
}

func withTimeout(ctx context.Context, limit time.Duration, do func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	return do(ctx)
}

// checkLoss cancels the handler's context when an answer means that the claim is over.
func (s *session) checkLoss(err error) {
	if gone := claimLoss(err); gone != nil {
		s.w.endClaim(s.j, gone)
	}
}

func onlyError[R any](rs []pawl.Result[R], err error) error {
	if err == nil && len(rs) != 1 {
		err = errPartialAnswer
	}
	if err != nil {
		return err
	}
	return rs[0].Err
}
