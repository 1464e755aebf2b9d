package pawl

import "time"

// Blocked says what an item or task that no worker holds, and that has not ended, is
// waiting for. It is computed when it is read, never stored: see docs/concepts.md.
type Blocked struct {
	Reason string     `json:"reason"`          // one of BlockedReasons
	Detail string     `json:"detail"`          // what exactly, as text for people
	Until  *time.Time `json:"until,omitempty"` // when it ends by itself
}

// Pending counts items that no worker holds, by reason. Queued items can be claimed now, unless their
// queue is paused.
type Pending struct {
	Queued    int64 `json:"queued"`
	Scheduled int64 `json:"scheduled"`
	Waiting   int64 `json:"waiting"`
}
