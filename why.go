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

// The reasons why an item does not go on.
const (
	// The values of Why.Reason besides those of Blocked.Reason.
	WhyQueued        = "queued"         // a live worker can claim it
	WhyRunning       = "running"        // a worker holds it and has called lately
	WhyStalled       = "stalled"        // its worker has missed DefaultStaleBeats heartbeats, or its lease is over and not swept
	WhyFailed        = "failed"         // it is failed or dead_lettered, or its task is since it could not be planned or applied
	WhyNeedsApproval = "needs_approval" // its result was submitted, and its task waits for a decision
	WhyEnded         = "ended"          // its state is final

	// The values of Blocked.Reason.
	BlockedByDependency = "dependency"     // an item in its After has not completed
	BlockedBySignal     = "signal"         // its signal has not been sent
	BlockedByChildren   = "children"       // it waits for children of its task
	BlockedByBudget     = "budget"         // a budget is exhausted: until its next period, or until it is changed
	BlockedByEffect     = "effect_unknown" // a person has to decide about an effect, which is unknown or waits for an approval
	BlockedByTime       = "scheduled"      // its run_at, sleep or back-off is in the future
	BlockedByPause      = "paused"         // it is queued, and its queue or its namespace is paused
	// It is queued, and its queue, or the queue's limits for its key, allow no more leases.
	BlockedByConcurrency = "concurrency"
	BlockedByRate        = "rate"      // it is queued, and its queue or key has started as many items as its rate allows
	BlockedByOrder       = "order"     // it is queued, and an item of its key that was created before it has not ended
	BlockedByNoWorker    = "no_worker" // it is queued, and no live worker handles its type

	// WorkerLive is how long a worker counts as live after it was last seen. Workers register
	// again every 30 s, and a claim waits for at most 60 s.
	WorkerLive = 2 * time.Minute
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

// The lists of the reasons.
var (
	// BlockedReasons lists the reasons of Blocked.
	BlockedReasons = []string{BlockedByDependency, BlockedBySignal, BlockedByChildren, BlockedByBudget, BlockedByEffect, BlockedByTime,
		BlockedByPause,
		BlockedByConcurrency, BlockedByRate, BlockedByOrder, BlockedByNoWorker}

	// WhyReasons lists the reasons of Why.
	WhyReasons = append([]string{WhyQueued, WhyRunning, WhyStalled, WhyFailed, WhyNeedsApproval, WhyEnded}, BlockedReasons...)
)

// Explainer explains states of items.
type Explainer interface {
	// Why explains the state of an item. Of a task, it explains the item that tells most about
	// the task's state. An unknown id is not_found.
	Why(ctx context.Context, id string) (Why, error)
}
