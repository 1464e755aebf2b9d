package pawl

import "time"

// Blocked says what an item or task that no worker holds, and that has not ended, is
// waiting for. It is computed when it is read, never stored: see docs/concepts.md.
type Blocked struct {
	Reason string     `json:"reason"`          // one of BlockedReasons
	Detail string     `json:"detail"`          // what exactly, as text for people
	Until  *time.Time `json:"until,omitempty"` // when it ends by itself
}

// The values of Blocked.Reason.
const (
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
)

// BlockedReasons lists the reasons of Blocked.
var BlockedReasons = []string{BlockedByDependency, BlockedBySignal, BlockedByChildren, BlockedByBudget, BlockedByEffect, BlockedByTime,
	BlockedByPause,
	BlockedByConcurrency, BlockedByRate, BlockedByOrder, BlockedByNoWorker}

// Pending counts items that no worker holds, by reason. Queued items can be claimed now, unless their
// queue is paused.
type Pending struct {
	Queued    int64 `json:"queued"`
	Scheduled int64 `json:"scheduled"`
	Waiting   int64 `json:"waiting"`
}
