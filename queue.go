package pawl

import "time"

// Queue is the items of one type in a namespace: what workers claim from. A type has its
// queue from its first item on, or since it was paused.
type Queue struct {
	Type string `json:"type"`
	// Paused: nothing is claimed. Items are created and queued as before, and leased items
	// go on. It is true while the queue or its whole namespace is paused.
	Paused            bool       `json:"paused"`
	PausedAt          *time.Time `json:"paused_at"`           // nil = the queue itself is not paused
	NamespacePausedAt *time.Time `json:"namespace_paused_at"` // nil = the namespace is not paused
	Queued            int64      `json:"queued"`              // claimable, were it not paused
	Leased            int64      `json:"leased"`              // held by workers, also beyond the end of the lease
	Waiting           int64      `json:"waiting"`
	Scheduled         int64      `json:"scheduled"`
	// OldestQueuedSeconds is how long the longest queued item has been queued, since it was
	// created or was queued again; 0 = none is queued.
	OldestQueuedSeconds int64 `json:"oldest_queued_seconds"`
}
