package worker

import (
	"context"
	"sync"
	"time"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/internal/clock"
)

// KeepAliveOptions configures KeepAlive; the zero value works.
type KeepAliveOptions struct {
	Interval     time.Duration // between heartbeats; 0 = a tenth of the lease (30 s for 300 s)
	LeaseSeconds int           // lease length that each heartbeat requests, 1…86400; 0 = the claim's
	MaxFailures  int           // consecutive failed heartbeats after which the lease counts as lost; 0 = 3
	KeepTrying   bool          // ignore MaxFailures: send heartbeats until the lease expires
	OnLeaseLost  func(error)   // called once, when the lease is lost or the item cancelled; Stop waits for it
}

// Keeper keeps one lease alive; see KeepAlive.
type Keeper struct {
	ctx    context.Context
	cancel context.CancelCauseFunc
	done   chan struct{}
	once   sync.Once
	stop   chan struct{}
}

// KeepAlive sends heartbeats for a lease that the caller claimed: the first after a
// second or one interval, whichever is sooner, then every interval of the monotonic
// clock. It stops when Stop is called, when ctx ends, or when the lease is lost: a
// heartbeat was refused, or MaxFailures consecutive ones failed. Call Stop before
// the item is completed or failed: a heartbeat after that is refused.
func KeepAlive(ctx context.Context, leaser pawl.Leaser, lease pawl.Lease, o KeepAliveOptions) *Keeper {
	k := &Keeper{done: make(chan struct{}), stop: make(chan struct{})}
	k.ctx, k.cancel = context.WithCancelCause(ctx)
	h := newLeaseState(lease, clock.Now())
	if o.LeaseSeconds > 0 {
		h.requestSeconds, h.interval = o.LeaseSeconds, heartbeatInterval(o.LeaseSeconds)
	}
	if o.Interval > 0 {
		h.interval = o.Interval
	}
	if o.MaxFailures > 0 {
		h.maxMisses = o.MaxFailures
	}
	h.keepTrying = o.KeepTrying
	go k.run(leaser, h, o.OnLeaseLost)
	return k
}

// Context is the context to do the work under. It ends when the lease is lost, with
// a cause that matches pawl.ErrLeaseLost; when the item is cancelled, with
// pawl.ErrCancelled; and when the keeper is stopped.
func (k *Keeper) Context() context.Context { return k.ctx }

// Running reports whether heartbeats are still being sent.
func (k *Keeper) Running() bool {
	select {
	case <-k.done:
		return false
	default:
		return true
	}
}

// Stop stops the heartbeats. With wait it returns when the last one is answered, or
// after timeout (0 = 5 s). It reports whether the keeper has ended. It may be called
// more than once.
func (k *Keeper) Stop(wait bool, timeout time.Duration) bool {
	k.once.Do(func() { close(k.stop) })
	if !wait {
		return !k.Running()
	}
	if timeout <= 0 {
		timeout = 5 * time.Second
	}
	timer := time.NewTimer(timeout)
	defer timer.Stop()
	select {
	case <-k.done:
		return true
	case <-timer.C:
		return false
	}
}

// run is the keeper's goroutine; its owner waits for it with Stop.
func (k *Keeper) run(leaser pawl.Leaser, h leaseState, onLost func(error)) {
	defer close(k.done)
	defer k.cancel(nil)
	timer := time.NewTimer(h.firstAfter())
	defer timer.Stop()
	for {
		select {
		case <-k.stop:
			return
		case <-k.ctx.Done():
			return
		case <-timer.C:
		}
		gone := k.heartbeat(leaser, &h)
		switch {
		case k.ctx.Err() != nil:
			return
		case gone == nil:
			timer.Reset(max(0, h.nextDue.Sub(clock.Now())))
			continue
		case !k.stopped():
			k.cancel(gone)
			if onLost != nil {
				onLost(gone)
			}
		}
		return
	}
}

// stopped reports whether Stop was called: an answer that arrives after it does not
// mean a lost lease.
func (k *Keeper) stopped() bool {
	select {
	case <-k.stop:
		return true
	default:
		return false
	}
}

func (k *Keeper) heartbeat(leaser pawl.Leaser, h *leaseState) error {
	ctx, cancel := context.WithTimeout(k.ctx, min(maxHeartbeatTimeout, max(h.interval, minHeartbeatTimeout)))
	defer cancel()
	sent := clock.Now()
	rs, err := leaser.Heartbeat(ctx, []pawl.HeartbeatCall{{Fence: h.lease.Fence(), LeaseSeconds: h.requestSeconds}})
	var b pawl.Beat
	if err = onlyError(rs, err); err == nil {
		b = rs[0].Value
	}
	return h.apply(sent, clock.Now(), b, err)
}
