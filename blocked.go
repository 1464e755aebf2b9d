package pawl

import "time"

// Blocked says what an item or a task that has not ended waits for while nobody
// works on it. It is computed when it is read, never stored: see docs/concepts.md.
type Blocked struct {
	Reason string     `json:"reason"`          // dependency, signal, scheduled, no_worker
	Detail string     `json:"detail"`          // which one, for people
	Until  *time.Time `json:"until,omitempty"` // when time alone moves it on
}

// The reasons of Blocked.
const (
	BlockedByDependency = "dependency" // items that it runs after have not completed
	BlockedBySignal     = "signal"     // a signal has not been sent
	BlockedByTime       = "scheduled"  // its run_at, its sleep or its back-off lies ahead
	BlockedByNoWorker   = "no_worker"  // it is queued, and no live worker takes its type
)

// BlockedReasons lists the reasons of Blocked.
var BlockedReasons = []string{BlockedByDependency, BlockedBySignal, BlockedByTime, BlockedByNoWorker}

// Pending counts what nobody works on, by why: Queued can be claimed now.
type Pending struct {
	Queued    int64 `json:"queued"`
	Scheduled int64 `json:"scheduled"`
	Waiting   int64 `json:"waiting"`
}
