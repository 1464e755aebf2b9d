package worker

import (
	"context"
	"errors"
	"time"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/internal/clock"
)

// session is a running job as its handler sees it. Its calls are made again
// while the database is away and the lease may hold; one that says that the
// claim is over ends the handler's context.
type session struct {
	w *crew
	j *job
}

func (s *session) Lease() pawl.Lease {
	s.w.mu.Lock()
	defer s.w.mu.Unlock()
	return s.j.hold.lease
}

func (s *session) Now() time.Time {
	now := clock.Now()
	s.w.mu.Lock()
	defer s.w.mu.Unlock()
	return s.j.hold.now(now)
}

func (s *session) Resume(ctx context.Context) (out pawl.ResumeState, err error) {
	_, err = s.insist(ctx, func(ctx context.Context) (err error) {
		out, err = s.w.c.Resume(ctx, s.j.fence.ItemID)
		return err
	})
	return out, err
}

func (s *session) Save(ctx context.Context, c pawl.NewCheckpoint) (ref pawl.CheckpointRef, err error) {
	_, err = s.insist(ctx, func(ctx context.Context) (err error) {
		ref, err = pawl.SaveCheckpoint(ctx, s.w.c, s.j.fence, c)
		return err
	})
	return ref, err
}

func (s *session) Progress(ctx context.Context, call pawl.ProgressCall) error {
	call.Fence = s.j.fence
	_, err := s.insist(ctx, func(ctx context.Context) error {
		rs, err := s.w.c.Progress(ctx, []pawl.ProgressCall{call})
		return single(rs, err)
	})
	return err
}

// Suspend gives the lease up: heartbeats stop before it, so that none is
// answered with the loss of a lease that was let go.
func (s *session) Suspend(ctx context.Context, call pawl.SuspendCall) error {
	s.w.drain(s.j)
	if !s.turn(working, resting) {
		return &pawl.Error{Code: pawl.CodeLeaseLost, Op: "suspend", Message: "the claim is over"}
	}
	call.Fence = s.j.fence
	unsure, err := s.insist(ctx, func(ctx context.Context) error {
		rs, err := s.w.c.Suspend(ctx, []pawl.SuspendCall{call})
		return single(rs, err)
	})
	var e *pawl.Error
	if unsure && errors.As(err, &e) && e.Code == pawl.CodeLeaseLost && e.Reason == pawl.ReasonReleased {
		err = nil // an earlier try was carried out
	}
	if err != nil {
		s.turn(resting, working)
		s.judge(err)
	}
	return err
}

// turn changes the job's verdict, if it is what it should be.
func (s *session) turn(from, to verdict) bool {
	s.w.mu.Lock()
	defer s.w.mu.Unlock()
	if s.j.verdict != from {
		return false
	}
	s.j.verdict = to
	signal(s.w.poke)
	return true
}

// insist makes a call until it is answered, the context or the worker ends, or
// the claim is over. It says whether a try before the last may have been
// carried out.
func (s *session) insist(ctx context.Context, do func(context.Context) error) (unsure bool, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(s.w.calls, cancel)()
	for n := 1; ; n++ {
		if err = within(ctx, handInCall, do); err == nil {
			return unsure, nil
		}
		s.judge(err)
		if !passing(err) || ctx.Err() != nil || !s.w.held(s.j) {
			return unsure, err
		}
		unsure = true
		if !sleep(ctx, handInPause.after(n, err)) {
			return unsure, err
		}
	}
}

func within(ctx context.Context, limit time.Duration, do func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	return do(ctx)
}

// judge ends the handler's context when an answer says that the claim is over.
func (s *session) judge(err error) {
	if gone := loss(err); gone != nil {
		s.w.lose(s.j, gone)
	}
}

func single[R any](rs []pawl.Result[R], err error) error {
	if err == nil && len(rs) != 1 {
		err = errShort
	}
	if err != nil {
		return err
	}
	return rs[0].Err
}
