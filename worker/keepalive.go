package worker

import (
	"context"
	"sync"
	"time"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/internal/clock"
)

// KeepAliveOptions steer the heartbeats of one lease; the zero value works.
type KeepAliveOptions struct {
	Interval     time.Duration // between heartbeats; 0 = a tenth of the lease (30 s of 300)
	LeaseSeconds int           // how long each heartbeat makes the lease, 1…86400; 0 = the claim's
	MaxFailures  int           // heartbeats in a row that may fail before the lease counts as lost; 0 = 3
	KeepTrying   bool          // let them fail until the lease's own end
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

// KeepAlive sends heartbeats for a lease claimed by hand: the first after a
// second or one interval, whichever is sooner, then every interval, by the
// monotonic clock. It goes on until Stop, until ctx ends, or until the lease is
// lost: refused, or MaxFailures heartbeats in a row went unanswered. Call Stop
// before the item is completed or failed: a heartbeat after that is refused.
func KeepAlive(ctx context.Context, leaser pawl.Leaser, lease pawl.Lease, o KeepAliveOptions) *Keeper {
	k := &Keeper{done: make(chan struct{}), stop: make(chan struct{})}
	k.ctx, k.cancel = context.WithCancelCause(ctx)
	h := newHold(lease, clock.Now())
	if o.LeaseSeconds > 0 {
		h.ask, h.every = o.LeaseSeconds, time.Duration(o.LeaseSeconds)*time.Second/10
	}
	if o.Interval > 0 {
		h.every = o.Interval
	}
	if o.MaxFailures > 0 {
		h.allowed = o.MaxFailures
	}
	h.toEnd = o.KeepTrying
	go k.run(leaser, h, o.OnLeaseLost)
	return k
}

// Context ends when the lease is lost, with a cause that matches
// pawl.ErrLeaseLost; when the item is cancelled, with pawl.ErrCancelled; and
// when the keeper is stopped. Do the work under it.
func (k *Keeper) Context() context.Context { return k.ctx }

// Running says whether heartbeats are still being sent.
func (k *Keeper) Running() bool {
	select {
	case <-k.done:
		return false
	default:
		return true
	}
}

// Stop ends the heartbeats. With wait it returns when the last one is answered,
// after at most timeout (0 = 5 s), and says whether it has ended. It may be
// called more than once.
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
func (k *Keeper) run(leaser pawl.Leaser, h hold, onLost func(error)) {
	defer close(k.done)
	defer k.cancel(nil)
	timer := time.NewTimer(h.first())
	defer timer.Stop()
	for {
		select {
		case <-k.stop:
			return
		case <-k.ctx.Done():
			return
		case <-timer.C:
		}
		gone := k.beat(leaser, &h)
		switch {
		case k.ctx.Err() != nil:
			return
		case gone == nil:
			timer.Reset(max(0, h.due.Sub(clock.Now())))
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

// stopped says whether Stop was called: an answer that comes after it is
// nobody's loss.
func (k *Keeper) stopped() bool {
	select {
	case <-k.stop:
		return true
	default:
		return false
	}
}

func (k *Keeper) beat(leaser pawl.Leaser, h *hold) error {
	ctx, cancel := context.WithTimeout(k.ctx, min(longestBeatCall, max(h.every, shortestBeatCall)))
	defer cancel()
	sent := clock.Now()
	rs, err := leaser.Heartbeat(ctx, []pawl.HeartbeatCall{{Fence: h.lease.Fence(), LeaseSeconds: h.ask}})
	var b pawl.Beat
	if err = single(rs, err); err == nil {
		b = rs[0].Value
	}
	return h.answer(sent, clock.Now(), b, err)
}
