package engine

import (
	"context"
	"time"
)

// Runner is an engine's Run under way; see Start.
type Runner struct {
	cancel context.CancelFunc
	done   chan struct{}
}

// Start runs the engine's Run until Stop or the end of ctx, for those who own no
// goroutine for it.
func (e *Engine) Start(ctx context.Context) *Runner {
	ctx, cancel := context.WithCancel(ctx)
	r := &Runner{cancel: cancel, done: make(chan struct{})}
	go func() {
		defer close(r.done)
		defer cancel()
		_ = e.Run(ctx) // it returns nil when ctx ends or the engine is closed, and only then
	}()
	return r
}

// Running says whether it still runs.
func (r *Runner) Running() bool {
	select {
	case <-r.done:
		return false
	default:
		return true
	}
}

// Stop ends it. With wait it returns when the pass under way has been cut off,
// after at most timeout (0 = 10 s), and says whether it has ended. It may be
// called more than once.
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
