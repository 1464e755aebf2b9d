package worker

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/internal/clock"
)

const (
	prefetchWindow     = 50 * time.Millisecond // take ahead at most what is done in it
	claimTimeoutMargin = 15 * time.Second      // how much longer than it waits a claim may take
	minEmptyWait       = time.Second           // a claim that finds nothing sooner is not repeated at once
	minClaimBackoff    = 100 * time.Millisecond
	maxClaimBackoff    = 5 * time.Second
)

const (
	// quarantineWait is how long a worker of a quarantined database waits between claims.
	quarantineWait = 2 * time.Second
	// quarantineLog is how often it logs that it waits.
	quarantineLog = time.Minute
)

// claimLoop claims items until ctx ends, or until the service refuses the claims.
func (w *runner) claimLoop(ctx context.Context) error {
	failing, idle := backoff{minClaimBackoff, maxClaimBackoff}, backoff{minClaimBackoff, time.Second}
	var failed, empty int
	var last pawl.ClaimRequest
	var quarantined time.Time // the last time that this was logged
	more := false             // the last claim was full
	for ctx.Err() == nil {
		w.releaseStale()
		req, ok := w.nextClaim(last, more)
		if !ok {
			w.awaitSlot(ctx)
			continue
		}
		start, idleBefore := clock.Now(), w.opts.Drain && w.isIdle()
		leases, err := w.claim(ctx, req)
		switch {
		case err == nil:
			failed = 0
		case ctx.Err() != nil:
			return nil
		case errors.Is(err, pawl.ErrQuarantined):
			if now := clock.Now(); now.Sub(quarantined) >= quarantineLog {
				quarantined = now
				w.log.Warn("the database is quarantined; waiting until it is adopted", "error", err)
			}
			sleep(ctx, quarantineWait)
			continue
		case !isTransient(err):
			w.log.Error("claim refused; the worker stops", "error", err)
			return err
		default:
			if failed++; failed == 1 {
				w.log.Warn("claim failed; retrying", "error", err)
			}
			sleep(ctx, failing.after(failed, err))
			continue
		}
		now := clock.Now()
		last, more = req, len(leases) >= req.Limit
		w.startOrPrefetch(ctx, leases, now)
		if len(leases) == 0 && idleBefore {
			return nil
		}
		if len(leases) > 0 || req.Prefetch || now.Sub(start) >= minEmptyWait {
			empty = 0
			continue
		}
		empty++
		sleep(ctx, idle.after(empty, nil))
	}
	return nil
}

// isIdle reports whether no item is prefetched, running or being reported. An idle
// worker makes no further items claimable.
func (w *runner) isIdle() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.jobs) == 0 && len(w.prefetched) == 0 && w.pendingResults == 0
}

// claim makes one claim. A long poll ends with ctx. A claim that does not wait is
// short and is not cancelled: cancelling it could leave items claimed by a worker
// that does not know of them.
func (w *runner) claim(ctx context.Context, req pawl.ClaimRequest) ([]pawl.Lease, error) {
	if req.WaitSeconds == 0 {
		ctx = w.callCtx
	}
	ctx, cancel := context.WithTimeout(ctx, time.Duration(req.WaitSeconds)*time.Second+claimTimeoutMargin)
	defer cancel()
	return w.claimer.Claim(ctx, req)
}

// nextClaim returns the next request: items for the free slots or, after a full
// claim, items to prefetch: as many as will be started within 50 ms. It prefetches
// when the buffer is at most half full, so that fast handlers need few large
// claims. A prefetch follows every full claim, also when slots are free: fast
// handlers may finish before the next claim is made.
func (w *runner) nextClaim(last pawl.ClaimRequest, more bool) (pawl.ClaimRequest, bool) {
	req := pawl.ClaimRequest{WorkerID: w.opts.ID, Types: w.types, TaskID: w.opts.TaskID, LeaseSeconds: w.opts.LeaseSeconds}
	w.mu.Lock()
	defer w.mu.Unlock()
	free, places := w.opts.Concurrency-len(w.jobs), w.prefetchLimit()
	ahead := 0
	if more && len(w.prefetched) <= places/2 {
		ahead = places - len(w.prefetched)
	}
	switch {
	case ahead > 0 && (free == 0 || !last.Prefetch):
		req.Limit, req.Prefetch = ahead, true
	case free > 0:
		if req.Limit = min(free, pawl.MaxClaim); !w.opts.Drain {
			req.WaitSeconds = w.opts.WaitSeconds
		}
	default:
		return req, false
	}
	return req, true
}

// prefetchLimit is how many items the handlers finish in 50 ms; the caller holds mu.
func (w *runner) prefetchLimit() int {
	if w.opts.NoPrefetch || w.meanTime == 0 {
		return 0
	}
	return min(int(time.Duration(w.opts.Concurrency)*prefetchWindow/w.meanTime), pawl.MaxClaim)
}

// startOrPrefetch starts claimed items in the free slots and keeps the rest as
// prefetched. After the stop it releases them all.
func (w *runner) startOrPrefetch(ctx context.Context, leases []pawl.Lease, at time.Time) {
	jobs := make([]*job, len(leases))
	for i, l := range leases {
		jobs[i] = w.newJob(l, at)
	}
	if ctx.Err() != nil {
		w.releaseJobs(jobs)
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.prefetched = append(w.prefetched, jobs...)
	w.startPrefetched()
}

// startPrefetched starts prefetched items while slots are free. The caller holds mu.
func (w *runner) startPrefetched() {
	for !w.stopping && len(w.prefetched) > 0 && len(w.jobs) < w.opts.Concurrency {
		j := w.prefetched[0]
		w.prefetched = w.prefetched[1:]
		w.start(j)
	}
}

// awaitSlot waits until a slot comes free, or until the oldest prefetched item has
// waited too long.
func (w *runner) awaitSlot(ctx context.Context) {
	var stale <-chan time.Time
	w.mu.Lock()
	if len(w.prefetched) > 0 {
		j := w.prefetched[0]
		timer := time.NewTimer(j.claimedAt.Add(j.lease.firstAfter()).Sub(clock.Now()))
		defer timer.Stop()
		stale = timer.C
	}
	w.mu.Unlock()
	select {
	case <-ctx.Done():
	case <-w.slotFreed:
	case <-stale:
	}
}

// releaseStale releases prefetched items that would need a heartbeat by now: the
// handlers have become slower, and other workers may be free.
func (w *runner) releaseStale() {
	now := clock.Now()
	w.mu.Lock()
	n := 0
	for n < len(w.prefetched) && !now.Before(w.prefetched[n].claimedAt.Add(w.prefetched[n].lease.firstAfter())) {
		n++
	}
	stale := w.prefetched[:n]
	w.prefetched = w.prefetched[n:]
	if n > 0 {
		w.meanTime = max(w.meanTime, now.Sub(stale[0].claimedAt)) // the average was too low: stop prefetching for now
	}
	w.mu.Unlock()
	w.releaseJobs(stale)
}

// backoff is exponential, from min to max, with a jitter of ±25 %.
type backoff struct{ min, max time.Duration }

// after is the pause after the n-th consecutive failure, or the error's RetryAfter
// if that is longer.
func (b backoff) after(n int, err error) time.Duration {
	d := b.max
	if n < 16 {
		d = min(b.min<<(n-1), b.max)
	}
	d = d*3/4 + rand.N(d/2)
	return max(d, retryAfter(err))
}

// sleep returns false when ctx ended before the time was over.
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
