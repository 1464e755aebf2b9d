package worker

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/internal/clock"
)

const (
	cancelGrace      = time.Second     // Options.CancelGrace that is 0
	finalCallTimeout = 5 * time.Second // for the last results and releases
	registerEvery    = 30 * time.Second
)

// ErrGivenBack matches the error of Run when it stopped before all started items had
// finished.
var ErrGivenBack = errors.New("worker: stopped before all had finished")

// errStopping is the cause of the handlers' contexts after Options.StopGrace.
var errStopping = errors.New("worker: stopping")

// Stopped counts what a stop left unfinished. It matches ErrGivenBack. Prefetched
// items that were never started are released too, and not counted.
type Stopped struct {
	Released int // started, then released for other workers
	Lost     int // finished, but the result was not accepted in time; the item runs again after its lease
}

// Error implements error.
func (s *Stopped) Error() string {
	return fmt.Sprintf("%v: %d items released, %d results not accepted", ErrGivenBack, s.Released, s.Lost)
}

// Is reports whether target is ErrGivenBack.
func (s *Stopped) Is(target error) bool { return target == ErrGivenBack }

// stop waits for the handlers during the grace, cancels the rest, and waits until the
// results are reported.
func (w *runner) stop() error {
	end := clock.Now().Add(w.opts.StopGrace)
	w.mu.Lock()
	w.stopping = true
	ahead := w.prefetched
	w.prefetched = nil
	w.mu.Unlock()
	w.releaseJobs(ahead)

	idle := func() bool { return len(w.jobs) == 0 }
	if !w.await(idle, end.Sub(clock.Now())) {
		w.cancelWork(errStopping)
		if !w.await(idle, cmp.Or(w.opts.CancelGrace, cancelGrace)) {
			w.abandon()
		}
	}
	w.await(func() bool { return w.pendingResults == 0 }, max(finalCallTimeout, end.Sub(clock.Now())))
	w.cancelWork(nil)

	w.mu.Lock()
	defer w.mu.Unlock()
	s := w.stopped
	s.Lost = w.pendingResults
	if s != (Stopped{}) {
		return &s
	}
	return nil
}

// await waits until the condition holds, at most for limit. It returns false on time-out.
func (w *runner) await(condition func() bool, limit time.Duration) bool {
	timer := time.NewTimer(max(limit, 0))
	defer timer.Stop()
	for {
		w.mu.Lock()
		ok := condition()
		w.mu.Unlock()
		if ok {
			return true
		}
		select {
		case <-w.jobEnded:
		case <-timer.C:
			return false
		}
	}
}

// abandon releases the items of handlers that ignore their cancelled context.
func (w *runner) abandon() {
	w.mu.Lock()
	var left []*job
	for j := range w.jobs {
		if j.state == jobRunning {
			j.state = jobAbandoned
			left = append(left, j)
		}
	}
	w.stopped.Released += len(left)
	w.mu.Unlock()
	w.releaseJobs(left)
}

// releaseJobs releases jobs. The lease of a job that cannot be released expires.
func (w *runner) releaseJobs(jobs []*job) {
	for len(jobs) > 0 {
		n := min(len(jobs), pawl.MaxClaim)
		calls := make([]pawl.ReleaseCall, n)
		for i, j := range jobs[:n] {
			calls[i].Fence = j.fence
		}
		jobs = jobs[n:]
		ctx, cancel := context.WithTimeout(w.callCtx, finalCallTimeout)
		for try := 1; ; try++ {
			_, err := w.claimer.Release(ctx, calls)
			if err == nil {
				break
			}
			if !isTransient(err) || !sleep(ctx, retryBackoff.after(try, err)) {
				w.log.Warn("items could not be released; their leases will expire", "items", n, "error", err)
				break
			}
		}
		cancel()
	}
}

// registerLoop writes the worker into the registry now and every 30 s.
func (w *runner) registerLoop() {
	for {
		w.mu.Lock()
		inFlight := len(w.jobs) + len(w.prefetched)
		w.mu.Unlock()
		ctx, cancel := context.WithTimeout(w.callCtx, callTimeout)
		err := w.claimer.RegisterWorker(
			ctx,
			pawl.WorkerInfo{WorkerID: w.opts.ID, Name: w.opts.Name, Version: w.opts.Version, Types: w.types, InFlight: inFlight},
		)
		cancel()
		if err != nil && w.callCtx.Err() == nil {
			w.log.Warn("the worker could not be registered", "error", err)
		}
		if !sleep(w.callCtx, registerEvery) {
			return
		}
	}
}
