package engine

import (
	"context"
	"time"
)

// Runner is a Run in progress; see Start.
type Runner struct {
	cancel context.CancelFunc
	done   chan struct{}
}

// Start calls Run in a new goroutine, until Stop or the end of ctx.
func (e *Engine) Start(ctx context.Context) *Runner {
	ctx, cancel := context.WithCancel(ctx)
	r := &Runner{cancel: cancel, done: make(chan struct{})}
	go func() {
		defer close(r.done)
		defer cancel()
		_ = e.Run(ctx) // it returns an error only if this program is excluded; every call returns that error too
	}()
	return r
}

// Running reports whether Run is in progress.
func (r *Runner) Running() bool {
	select {
	case <-r.done:
		return false
	default:
		return true
	}
}

// Stop ends Run and reports whether it has ended. With wait, it first waits until the
// pass in progress has been cut off, for at most timeout (0 = 10 s). It may be called
// more than once.
func (r *Runner) Stop(wait bool, timeout time.Duration) bool {
	r.cancel()
	if !wait {
		return !r.Running()
	}
	if timeout <= 0 {
		timeout = 10 * time.Second
	}
	timer := time.NewTimer(timeout)
	defer timer.Stop()
	select {
	case <-r.done:
		return true
	case <-timer.C:
		return false
	}
}
