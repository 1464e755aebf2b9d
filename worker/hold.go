package worker

import (
	"errors"
	"fmt"
	"time"

	"github.com/pawl-work/pawl"
)

// firstBeat is how long a handler may run without a heartbeat.
const firstBeat = time.Second

// hold is one lease being kept: when its next heartbeat is due and how many
// failed. Its times are of the local monotonic clock.
type hold struct {
	lease   pawl.Lease // as last extended
	told    time.Time  // when lease.ServerTime was
	end     time.Time  // when the lease ends, as far as is known here
	every   time.Duration
	due     time.Time
	ask     int // the length to ask for; 0 = the claim's
	misses  int
	allowed int  // misses in a row that lose it
	toEnd   bool // nothing but the lease's end loses it
}

// newHold keeps a lease that was claimed at a local time. Its first heartbeat
// is due when the work has gone on for a second or a tenth of the lease.
func newHold(l pawl.Lease, at time.Time) hold {
	every := time.Duration(l.LeaseSeconds) * time.Second / 10
	return hold{lease: l, told: at, end: at.Add(l.LeaseExpiresAt.Sub(l.ServerTime)), every: every, allowed: pawl.DefaultHeartbeatMisses}
}

// first is how long the lease may go without its first heartbeat.
func (h *hold) first() time.Duration { return min(firstBeat, h.every) }

// now is the database's clock, as far as is known here.
func (h *hold) now(local time.Time) time.Time { return h.lease.ServerTime.Add(local.Sub(h.told)) }

// near says whether a heartbeat may go along with others that are due: from the
// second on, when its own would follow within a tenth of its interval.
func (h *hold) near(now time.Time, beaten bool) bool {
	slack := time.Duration(0)
	if beaten {
		slack = h.every / 10
	}
	return !now.Add(slack).Before(h.due)
}

// answer takes in the answer to a heartbeat. It returns nil while the lease
// holds, ErrCancelled when the item was cancelled, and an error that matches
// ErrLeaseLost when the lease is lost or given up for lost.
func (h *hold) answer(sent, got time.Time, b pawl.Beat, err error) error {
	h.due = sent.Add(h.every)
	switch {
	case err == nil && b.Cancelled:
		return pawl.ErrCancelled
	case err == nil:
		h.misses = 0
		h.lease.LeaseExpiresAt, h.lease.LeaseSeconds, h.lease.ServerTime = b.LeaseExpiresAt, b.LeaseSeconds, b.ServerTime
		h.told, h.end = got, got.Add(b.LeaseExpiresAt.Sub(b.ServerTime))
		return nil
	}
	if gone := loss(err); gone != nil {
		return gone
	}
	h.misses++
	switch {
	case !got.Before(h.end):
		return &pawl.Error{Code: pawl.CodeLeaseLost, Op: "heartbeat", Reason: pawl.ReasonExpired, Message: "the lease ran out while heartbeats failed", Err: err}
	case !h.toEnd && h.misses >= h.allowed:
		return &pawl.Error{Code: pawl.CodeLeaseLost, Op: "heartbeat", Message: fmt.Sprintf("%d heartbeats in a row failed", h.misses), Err: err}
	}
	if h.due.After(h.end) {
		h.due = h.end
	}
	return nil
}

// loss reads from a refusal that the claim is over: ErrCancelled, an error that
// matches ErrLeaseLost, or nil when it says no such thing.
func loss(err error) error {
	var e *pawl.Error
	switch pawl.CodeOf(err) {
	case pawl.CodeLeaseLost:
		return err
	case pawl.CodeNotFound:
		return &pawl.Error{Code: pawl.CodeLeaseLost, Op: "heartbeat", Message: "the item is gone", Err: err}
	case pawl.CodeConflict:
		if errors.As(err, &e) && e.State == string(pawl.ItemCancelled) {
			return pawl.ErrCancelled
		}
		return &pawl.Error{Code: pawl.CodeLeaseLost, Op: "heartbeat", Message: "the item is out of work", Err: err}
	}
	return nil
}

// passing says that the same call may succeed later: the database is away, or
// something of ours is broken for now.
func passing(err error) bool {
	code := pawl.CodeOf(err)
	return err != nil && (code.Info().Retryable || code == pawl.CodeInternal)
}
