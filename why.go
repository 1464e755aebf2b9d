package pawl

import (
	"context"
	"time"
)

// Why explains the state of an item: what it waits for, and how to change that. It is computed
// when it is read, never stored.
type Why struct {
	ItemID string `json:"item_id"`
	Status Status `json:"status"`
	Reason string `json:"reason"` // one of WhyReasons
	// Detail is a paragraph for people: what the item waits for, who held it last, what failed
	// and what happens next.
	Detail string     `json:"detail"`
	Since  time.Time  `json:"since"`             // when the reason began, as far as that is known
	NextAt *time.Time `json:"next_at,omitempty"` // when the state changes by itself; nil = not known, or never
	// Command is a complete command line of the program pawl, quoted for a POSIX shell. It
	// changes the state, or the state of what the item waits for. Of an item that has ended,
	// which nothing changes, it shows the item or creates a copy of the task.
	Command string `json:"command"`
	// Holder is who has the lease that the state depends on: that of the item, or of the item
	// that it waits for. Of several leases that use up a limit, or have reserved what a budget
	// lacks, it is the one whose worker is stalled, or has been silent longest. nil = no lease keeps the item from going on.
	Holder *Holder `json:"holder,omitempty"`
}

// Holder is a worker that holds a lease.
type Holder struct {
	WorkerID      string `json:"worker_id"`
	ItemID        string `json:"item_id"`        // the item that it holds
	SilentSeconds int64  `json:"silent_seconds"` // since its last call for the item
}

// The values of Why.Reason besides those of Blocked.Reason.
const (
	WhyQueued        = "queued"         // a live worker can claim it
	WhyRunning       = "running"        // a worker holds it and has called lately
	WhyStalled       = "stalled"        // its worker has missed DefaultStaleBeats heartbeats, or its lease is over and not swept
	WhyFailed        = "failed"         // it is failed or dead_lettered, or its task is since it could not be planned or applied
	WhyNeedsApproval = "needs_approval" // its result was submitted, and its task waits for a decision
	WhyEnded         = "ended"          // its state is final
)

// GoesOn reports whether the item needs no help: it has ended, is worked on, or goes on when a
// worker is free or its time comes.
func (w Why) GoesOn() bool {
	switch w.Reason {
	case WhyQueued, WhyRunning, WhyEnded, BlockedByTime:
		return true
	}
	return false
}

// WhyReasons lists the reasons of Why.
var WhyReasons = append([]string{WhyQueued, WhyRunning, WhyStalled, WhyFailed, WhyNeedsApproval, WhyEnded}, BlockedReasons...)

// Explainer explains states of items.
type Explainer interface {
	// Why explains the state of an item. Of a task, it explains the item that tells most about
	// the task's state. An unknown id is not_found.
	Why(ctx context.Context, id string) (Why, error)
}
