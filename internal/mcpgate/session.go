package mcpgate

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"time"

	"github.com/pawl-work/pawl"
)

// TypePrefix begins the types of the tasks that gates make for themselves.
const TypePrefix = "gate."

// Holder makes the task of a session and holds its lease.
type Holder interface {
	pawl.TaskMaker
	pawl.Leaser
	pawl.Finisher
}

// Session is a task that a gate made for itself, and its claim.
type Session struct {
	Fence pawl.Fence
	svc   Holder
	log   *slog.Logger
	every time.Duration
	stop  context.CancelFunc
	ended chan struct{}
	lost  error // why the lease was lost; read it when ended is closed
}

// sessionLease is the lease of a session's item.
const sessionLease = 30

// Begin makes a task gate.NAME with one item, claims it, and keeps its lease until End. The context ends when
// the lease is lost. A task that it cannot claim is cancelled.
func Begin(ctx context.Context, svc Holder, o Options) (context.Context, *Session, error) {
	name, lease := o.Name, cmp.Or(o.SessionLease, sessionLease)
	task, err := pawl.Create(ctx, svc, pawl.NewTask{Type: TypePrefix + name, Title: "Calls of tools through the gate " + name, MaxAttempts: 1})
	if err != nil {
		return ctx, nil, err
	}
	host, _ := os.Hostname() // it is only a name
	worker := fmt.Sprintf("gate-%s-%s-%d", name, host, os.Getpid())
	leases, err := svc.Claim(ctx, pawl.ClaimRequest{WorkerID: worker, TaskID: task.ID, LeaseSeconds: lease})
	if err == nil && len(leases) != 1 {
		err = &pawl.Error{Code: pawl.CodeConflict, Op: "gate", TaskID: task.ID, Message: "task " + task.ID +
			" was not claimed: its namespace or its queue is paused or at a limit, or another worker has it"}
	}
	if err != nil { // no worker claims the task
		ending, cancel := context.WithTimeout(context.WithoutCancel(ctx), endTime)
		defer cancel()
		_, failed := pawl.Cancel(ending, svc, task.ID, "the session of the gate did not begin")
		return ctx, nil, errors.Join(err, failed)
	}
	ctx, stop := context.WithCancel(ctx)
	s := &Session{Fence: leases[0].Fence(), svc: svc, log: o.Log, every: time.Duration(lease) * time.Second / 3, stop: stop,
		ended: make(chan struct{})}
	go s.keep(ctx)
	return ctx, s, nil
}

// keep extends the lease. It ends the session when the lease is lost.
func (s *Session) keep(ctx context.Context) {
	defer close(s.ended)
	tick := time.NewTicker(s.every)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		rs, err := s.svc.Heartbeat(ctx, []pawl.HeartbeatCall{{Fence: s.Fence}})
		if err == nil {
			err = rs[0].Err
		}
		switch {
		case err == nil && rs[0].Value.Cancelled, errors.Is(err, pawl.ErrLeaseLost):
			s.lost = &pawl.Error{Code: pawl.CodeLeaseLost, Op: "gate", Err: err,
				Message: "the session of the gate has ended: its item " + s.Fence.ItemID + " was cancelled, or its lease was lost"}
			s.stop()
			return
		case err != nil && ctx.Err() == nil:
			s.log.WarnContext(ctx, "the lease of the session was not extended", "item", s.Fence.ItemID, "error", err)
		}
	}
}

// End completes the item of the session, or fails it if the session failed. It is lease_lost if the lease was lost before.
func (s *Session) End(ctx context.Context, failed error) error {
	s.stop()
	if <-s.ended; s.lost != nil {
		return s.lost
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), endTime)
	defer cancel()
	var err error
	if failed != nil {
		again := false
		why := pawl.Failure{Code: "session", Message: failed.Error()}
		_, err = s.svc.Fail(ctx, []pawl.FailCall{{Fence: s.Fence, Error: why, Retryable: &again}})
	} else {
		_, err = pawl.Complete(ctx, s.svc, s.Fence, nil)
	}
	return err
}
