package rules

import (
	"fmt"
	"slices"

	"github.com/pawl-work/pawl"
)

// Item is an item as the store reads it, with fields that callers do not see.
type Item struct {
	pawl.Item
	LeftBy       string // how its last claim ended, or why it was given up: expired, released, suspended, failed, deadline
	LeaseExpires int64
	Acceptance   bool
}

// CheckFence judges a verb that carries a fence, in the order of docs/contract.md §3,
// after "unknown item": taken, expired or released, conflict. Nil means that the claim
// holds and that the state allows the verb.
func CheckFence(it Item, f pawl.Fence, now int64, verb string) error {
	lost := func(reason, format string, args ...any) error {
		return &pawl.Error{
			Code:    pawl.CodeLeaseLost,
			Op:      verb,
			Reason:  reason,
			State:   string(it.State),
			Holder:  it.LastWorkerID,
			Attempt: it.Attempt,
			Message: fmt.Sprintf(format, args...),
		}
	}
	if f.Attempt != it.Attempt || f.WorkerID != it.LastWorkerID {
		if it.LastWorkerID == "" {
			return lost(pawl.ReasonTaken, "the item has not been claimed")
		}
		return lost(pawl.ReasonTaken, "the lease was lost to %s, attempt %d; claim again", it.LastWorkerID, it.Attempt)
	}
	if !it.State.Ended() {
		switch {
		case it.State.Leased() && it.LeaseExpires <= now, !it.State.Leased() && it.LeftBy == "expired":
			return lost(pawl.ReasonExpired, "the lease of attempt %d has run out; claim again", it.Attempt)
		case it.LeftBy == pawl.FailedByDeadline, it.LeftBy == pawl.FailedByScheduleToStart:
			return lost(pawl.ReasonExpired, "the item was given up (%s) after attempt %d; stop", it.LeftBy, it.Attempt)
		case it.LeftBy == "revoked":
			return lost(pawl.ReasonReleased, "the lease of attempt %d was revoked; stop, and claim again", it.Attempt)
		case it.LeftBy == "released", it.LeftBy == "suspended", it.LeftBy == "rejected":
			return lost(pawl.ReasonReleased, "attempt %d gave its lease up; claim again", it.Attempt)
		}
	}
	if it.State.Leased() && !(verb == "complete" && it.Acceptance) {
		return nil
	}
	return Conflict(verb, string(it.State), Allowed(it))
}

// Allowed returns the verbs that an item's state and type allow: a result that must be
// accepted is submitted, any other item is completed.
func Allowed(it Item) []string {
	other := "submit"
	if it.Acceptance && it.Kind == pawl.KindWork {
		other = "complete"
	}
	verbs := it.State.Allowed()
	return slices.DeleteFunc(append(make([]string, 0, len(verbs)), verbs...), func(v string) bool { return it.State.Leased() && v == other })
}

// Conflict returns the refusal of a verb that the state does not allow.
func Conflict(op, state string, allowed []string) error {
	return &pawl.Error{
		Code:    pawl.CodeConflict,
		Op:      op,
		State:   state,
		Allowed: allowed,
		Message: fmt.Sprintf("the state is %s, which does not allow %s", state, op),
	}
}
