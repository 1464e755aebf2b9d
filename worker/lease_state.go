package worker

import (
	"errors"
	"fmt"
	"time"

	"github.com/pawl-work/pawl"
)

// firstHeartbeat is how long a handler runs before its first heartbeat, at most.
const firstHeartbeat = time.Second

// leaseState is a lease that is kept alive: when its next heartbeat is due and how
// many failed. Its times are of the local monotonic clock.
type leaseState struct {
	lease          pawl.Lease // as last extended
	serverTimeAt   time.Time  // the local time of lease.ServerTime
	expiresAt      time.Time  // when the lease expires, by the service's last answer
	interval       time.Duration
	nextDue        time.Time
	requestSeconds int // the lease length to request; 0 = the claim's
	misses         int
	maxMisses      int  // consecutive misses after which it counts as lost
	keepTrying     bool // ignore maxMisses
}

// heartbeatInterval is the time between the heartbeats of a lease of that length.
func heartbeatInterval(leaseSeconds int) time.Duration {
	return time.Duration(leaseSeconds) * time.Second / pawl.HeartbeatsPerLease
}

// newLeaseState tracks a lease that was claimed at a local time. The heartbeat
// interval is a tenth of the lease.
func newLeaseState(l pawl.Lease, at time.Time) leaseState {
	every := heartbeatInterval(l.LeaseSeconds)
	return leaseState{
		lease:        l,
		serverTimeAt: at,
		expiresAt:    at.Add(l.LeaseExpiresAt.Sub(l.ServerTime)),
		interval:     every,
		maxMisses:    pawl.DefaultHeartbeatMisses,
	}
}

// firstAfter is when the first heartbeat is due, counted from the start of the handler.
func (h *leaseState) firstAfter() time.Duration { return min(firstHeartbeat, h.interval) }

// now estimates the database's clock.
func (h *leaseState) now(local time.Time) time.Time {
	return h.lease.ServerTime.Add(local.Sub(h.serverTimeAt))
}

// dueSoon reports whether a heartbeat may be sent with others that are due now. All
// but the first may be sent early, by up to a tenth of the interval.
func (h *leaseState) dueSoon(now time.Time, beaten bool) bool {
	slack := time.Duration(0)
	if beaten {
		slack = h.interval / 10
	}
	return !now.Add(slack).Before(h.nextDue)
}

// apply applies the answer to a heartbeat. It returns nil while the lease is valid,
// ErrCancelled when the item was cancelled, and an error that matches ErrLeaseLost
// when the lease is lost or counts as lost.
func (h *leaseState) apply(sent, got time.Time, b pawl.Beat, err error) error {
	h.nextDue = sent.Add(h.interval)
	switch {
	case err == nil && b.Cancelled:
		return pawl.ErrCancelled
	case err == nil:
		h.misses = 0
		h.lease.LeaseExpiresAt, h.lease.LeaseSeconds, h.lease.ServerTime = b.LeaseExpiresAt, b.LeaseSeconds, b.ServerTime
		h.serverTimeAt, h.expiresAt = got, got.Add(b.LeaseExpiresAt.Sub(b.ServerTime))
		return nil
	}
	if gone := claimLoss(err); gone != nil {
		return gone
	}
	h.misses++
	switch {
	case !got.Before(h.expiresAt):
		return &pawl.Error{
			Code:    pawl.CodeLeaseLost,
			Op:      "heartbeat",
			Reason:  pawl.ReasonExpired,
			Message: "the lease expired while heartbeats failed",
			Err:     err,
		}
	case !h.keepTrying && h.misses >= h.maxMisses:
		return &pawl.Error{
			Code:    pawl.CodeLeaseLost,
			Op:      "heartbeat",
			Message: fmt.Sprintf("%d consecutive heartbeats failed", h.misses),
			Err:     err,
		}
	}
	if h.nextDue.After(h.expiresAt) {
		h.nextDue = h.expiresAt
	}
	return nil
}

// claimLoss returns ErrCancelled or an error that matches ErrLeaseLost if the refusal
// means that the claim is over, else nil.
func claimLoss(err error) error {
	var e *pawl.Error
	switch pawl.CodeOf(err) {
	case pawl.CodeLeaseLost:
		return err
	case pawl.CodeNotFound:
		return &pawl.Error{Code: pawl.CodeLeaseLost, Op: "heartbeat", Message: "the item was deleted", Err: err}
	case pawl.CodeConflict:
		if errors.As(err, &e) && e.State == string(pawl.ItemCancelled) {
			return pawl.ErrCancelled
		}
		return &pawl.Error{Code: pawl.CodeLeaseLost, Op: "heartbeat", Message: "the item is no longer leased", Err: err}
	}
	return nil
}

// isTransient reports whether the same call may succeed later: the database is
// unavailable, or the service had an internal error.
func isTransient(err error) bool {
	code := pawl.CodeOf(err)
	return err != nil && (code.Info().Retryable || code == pawl.CodeInternal)
}
