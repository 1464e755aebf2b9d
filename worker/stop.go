package worker

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/internal/clock"
)

const (
	afterCut  = time.Second     // for handlers to return once their contexts are cancelled
	lastCalls = 5 * time.Second // for what is left to be handed in or given back
	regular   = 30 * time.Second
)

// ErrGivenBack is matched by what Run returns when it stopped before all that
// was begun had finished.
var ErrGivenBack = errors.New("worker: stopped before all had finished")

// errStopping is the cause of the handlers' contexts when the grace is over.
var errStopping = errors.New("worker: stopping")

// Stopped says what a stop cut short. It matches ErrGivenBack. What was only
// taken ahead and never begun is given back too, and not counted.
type Stopped struct {
	Released int // begun, and given back uncounted for others to do
	Lost     int // finished, but the database did not take the result in time; done again after the lease
}

// Error says how many.
func (s *Stopped) Error() string {
	return fmt.Sprintf("%v: %d given back, %d results not taken", ErrGivenBack, s.Released, s.Lost)
}

// Is matches ErrGivenBack.
func (s *Stopped) Is(target error) bool { return target == ErrGivenBack }

// stop waits for the handlers as long as the grace lasts, cuts the rest short,
// and sees to it that what there is gets handed in.
func (w *crew) stop() error {
	end := clock.Now().Add(w.o.StopGrace)
	w.mu.Lock()
	w.stopping = true
	ahead := w.ahead
	w.ahead = nil
	w.mu.Unlock()
	w.giveBack(ahead)

	idle := func() bool { return len(w.jobs) == 0 }
	if !w.await(idle, end.Sub(clock.Now())) {
		w.cut(errStopping)
		if !w.await(idle, afterCut) {
			w.abandon()
		}
	}
	w.await(func() bool { return w.handing == 0 }, max(lastCalls, end.Sub(clock.Now())))
	w.cut(nil)

	w.mu.Lock()
	defer w.mu.Unlock()
	s := w.tally
	s.Lost = w.handing
	if s != (Stopped{}) {
		return &s
	}
	return nil
}

// await waits until something is so, at most for a while; false when it is not.
func (w *crew) await(so func() bool, limit time.Duration) bool {
	timer := time.NewTimer(max(limit, 0))
	defer timer.Stop()
	for {
		w.mu.Lock()
		ok := so()
		w.mu.Unlock()
		if ok {
			return true
		}
		select {
		case <-w.changed:
		case <-timer.C:
			return false
		}
	}
}

// abandon gives back what handlers that ignore their context hold.
func (w *crew) abandon() {
	w.mu.Lock()
	var left []*job
	for j := range w.jobs {
		if j.verdict == working {
			j.verdict = abandoned
			left = append(left, j)
		}
	}
	w.tally.Released += len(left)
	w.mu.Unlock()
	w.giveBack(left)
}

// giveBack releases jobs at once; what cannot be released runs out by itself.
func (w *crew) giveBack(jobs []*job) {
	for len(jobs) > 0 {
		n := min(len(jobs), pawl.MaxClaim)
		calls := make([]pawl.ReleaseCall, n)
		for i, j := range jobs[:n] {
			calls[i].Fence = j.fence
		}
		jobs = jobs[n:]
		ctx, cancel := context.WithTimeout(w.calls, lastCalls)
		for try := 1; ; try++ {
			_, err := w.c.Release(ctx, calls)
			if err == nil {
				break
			}
			if !passing(err) || !sleep(ctx, handInPause.after(try, err)) {
				w.log.Warn("items could not be given back; their leases run out", "items", n, "error", err)
				break
			}
		}
		cancel()
	}
}

// register enters the worker into the registry now and every 30 s.
func (w *crew) register() {
	for {
		w.mu.Lock()
		inFlight := len(w.jobs) + len(w.ahead)
		w.mu.Unlock()
		ctx, cancel := context.WithTimeout(w.calls, handInCall)
		err := w.c.RegisterWorker(ctx, pawl.WorkerInfo{WorkerID: w.o.ID, Name: w.o.Name, Version: w.o.Version, Types: w.types, InFlight: inFlight})
		cancel()
		if err != nil && w.calls.Err() == nil {
			w.log.Warn("the registry did not take this worker", "error", err)
		}
		if !sleep(w.calls, regular) {
			return
		}
	}
}
