package worker

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/internal/clock"
)

const (
	aheadFor     = 50 * time.Millisecond // take ahead at most what is done in it
	claimMargin  = 15 * time.Second      // how much longer than it waits a claim may take
	shortestWait = time.Second           // a claim that finds nothing sooner is not repeated at once
	claimBackoff = 100 * time.Millisecond
	claimPause   = 5 * time.Second
)

// claims takes work until ctx ends, or until the service refuses to give any.
func (w *crew) claims(ctx context.Context) error {
	failing, idle := backoff{claimBackoff, claimPause}, backoff{claimBackoff, time.Second}
	var failed, empty int
	var last pawl.ClaimRequest
	more := false // it got all it asked for
	for ctx.Err() == nil {
		w.returnStale()
		req, ok := w.nextClaim(last, more)
		if !ok {
			w.awaitRoom(ctx)
			continue
		}
		start, idleBefore := clock.Now(), w.o.Drain && w.isIdle()
		leases, err := w.claim(ctx, req)
		switch {
		case err == nil:
			failed = 0
		case ctx.Err() != nil:
			return nil
		case !passing(err):
			w.log.Error("claims are refused", "error", err)
			return err
		default:
			if failed++; failed == 1 {
				w.log.Warn("claim failed; trying on", "error", err)
			}
			sleep(ctx, failing.after(failed, err))
			continue
		}
		now := clock.Now()
		last, more = req, len(leases) >= req.Limit
		w.take(ctx, leases, now)
		if len(leases) == 0 && idleBefore {
			return nil
		}
		if len(leases) > 0 || req.Prefetch || now.Sub(start) >= shortestWait {
			empty = 0
			continue
		}
		empty++
		sleep(ctx, idle.after(empty, nil))
	}
	return nil
}

// isIdle says that nothing is claimed, run or handed in: no item can come from
// here any more.
func (w *crew) isIdle() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.jobs) == 0 && len(w.ahead) == 0 && w.handing == 0
}

// claim makes one claim. One that waits for work ends with ctx; one that does
// not is short, and cut off it could leave items claimed by nobody who knows.
func (w *crew) claim(ctx context.Context, req pawl.ClaimRequest) ([]pawl.Lease, error) {
	if req.WaitSeconds == 0 {
		ctx = w.calls
	}
	ctx, cancel := context.WithTimeout(ctx, time.Duration(req.WaitSeconds)*time.Second+claimMargin)
	defer cancel()
	return w.c.Claim(ctx, req)
}

// nextClaim is what to ask for now: work for the free slots and, when there was
// more than they could take, what will be started within 50 ms. Taken ahead in
// halves, so that fast handlers are fed by few and large claims. Handlers may be
// done before the claim after theirs is made, so what goes ahead follows every
// full claim, whether slots have come free meanwhile or not.
func (w *crew) nextClaim(last pawl.ClaimRequest, more bool) (pawl.ClaimRequest, bool) {
	req := pawl.ClaimRequest{WorkerID: w.o.ID, Types: w.types, TaskID: w.o.TaskID, LeaseSeconds: w.o.LeaseSeconds}
	w.mu.Lock()
	defer w.mu.Unlock()
	free, places := w.o.Concurrency-len(w.jobs), w.placesAhead()
	ahead := 0
	if more && len(w.ahead) <= places/2 {
		ahead = places - len(w.ahead)
	}
	switch {
	case ahead > 0 && (free == 0 || !last.Prefetch):
		req.Limit, req.Prefetch = ahead, true
	case free > 0:
		if req.Limit = min(free, pawl.MaxClaim); !w.o.Drain {
			req.WaitSeconds = w.o.WaitSeconds
		}
	default:
		return req, false
	}
	return req, true
}

// placesAhead is how many items the handlers finish in 50 ms; the caller holds mu.
func (w *crew) placesAhead() int {
	if w.o.NoPrefetch || w.mean == 0 {
		return 0
	}
	return min(int(time.Duration(w.o.Concurrency)*aheadFor/w.mean), pawl.MaxClaim)
}

// take starts what was claimed, keeps what exceeds the slots, and gives back
// what came after the stop.
func (w *crew) take(ctx context.Context, leases []pawl.Lease, at time.Time) {
	jobs := make([]*job, len(leases))
	for i, l := range leases {
		jobs[i] = w.newJob(l, at)
	}
	if ctx.Err() != nil {
		w.giveBack(jobs)
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.ahead = append(w.ahead, jobs...)
	w.fill()
}

// fill starts what was taken ahead while slots are free; the caller holds mu.
func (w *crew) fill() {
	for !w.stopping && len(w.ahead) > 0 && len(w.jobs) < w.o.Concurrency {
		j := w.ahead[0]
		w.ahead = w.ahead[1:]
		w.start(j)
	}
}

// awaitRoom waits until a slot or a place ahead comes free, or until what was
// taken ahead has waited too long.
func (w *crew) awaitRoom(ctx context.Context) {
	var stale <-chan time.Time
	w.mu.Lock()
	if len(w.ahead) > 0 {
		j := w.ahead[0]
		timer := time.NewTimer(j.at.Add(j.hold.first()).Sub(clock.Now()))
		defer timer.Stop()
		stale = timer.C
	}
	w.mu.Unlock()
	select {
	case <-ctx.Done():
	case <-w.room:
	case <-stale:
	}
}

// returnStale gives back what was taken ahead and would by now need a
// heartbeat: the handlers are slower than they were, others may be free.
func (w *crew) returnStale() {
	now := clock.Now()
	w.mu.Lock()
	n := 0
	for n < len(w.ahead) && !now.Before(w.ahead[n].at.Add(w.ahead[n].hold.first())) {
		n++
	}
	stale := w.ahead[:n]
	w.ahead = w.ahead[n:]
	if n > 0 {
		w.mean = max(w.mean, now.Sub(stale[0].at)) // so much for the average: take no more for now
	}
	w.mu.Unlock()
	w.giveBack(stale)
}

// backoff grows from first to most, doubling, with a jitter of a quarter.
type backoff struct{ first, most time.Duration }

// after is the pause after the n-th failure in a row; the error may ask for more.
func (b backoff) after(n int, err error) time.Duration {
	d := b.most
	if n < 16 {
		d = min(b.first<<(n-1), b.most)
	}
	d = d*3/4 + rand.N(d/2)
	return max(d, retryAfter(err))
}

// sleep pauses; false when ctx ended first.
func sleep(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}
