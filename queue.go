package pawl

import (
	"context"
	"encoding/json"
	"slices"
	"time"

	"github.com/pawl-work/pawl/internal/asked"
)

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
	QueueLimits
}

// QueueLimits says how much of a queue is held by workers at once, and how fast it is claimed.
// Limits are global: they hold over all processes together, at every moment. A lease holds a
// slot until it ends. A lower limit ends no lease. The zero value has no limits.
type QueueLimits struct {
	Concurrency *int       `json:"concurrency,omitempty"` // leases at once, 1…1000000
	PerWorker   *int       `json:"per_worker,omitempty"`  // leases at once of each worker, 1…1000000
	Rate        *Rate      `json:"rate,omitempty"`
	PerKey      *KeyLimits `json:"per_key,omitempty"`
}

// Patch returns the patch that sets exactly these limits: those that are nil are removed.
func (l QueueLimits) Patch() QueuePatch {
	raw, err := json.Marshal(struct {
		Concurrency *int       `json:"concurrency"`
		PerWorker   *int       `json:"per_worker"`
		Rate        *Rate      `json:"rate"`
		PerKey      *KeyLimits `json:"per_key"`
	}(l))
	if err != nil {
		panic(err) // numbers and text always encode
	}
	return raw
}

// QueuePatch is a JSON Merge Patch (RFC 7396) of QueueLimits: null removes a member, one that is
// absent stays.
type QueuePatch json.RawMessage

// MarshalJSON returns the patch.
func (p QueuePatch) MarshalJSON() ([]byte, error) { return json.RawMessage(p).MarshalJSON() }

// UnmarshalJSON keeps the text.
func (p *QueuePatch) UnmarshalJSON(b []byte) error {
	*p = slices.Clone(b)
	return nil
}

// IsZero reports whether there are no limits.
func (l *QueueLimits) IsZero() bool { return *l == QueueLimits{} }

// Rate limits starts (claims) by a token bucket. A period of Seconds sees at most Burst + Limit starts.
// What is released or expires was a start too.
type Rate struct {
	Limit   int `json:"limit"`           // starts per Seconds, 1…1000000
	Seconds int `json:"seconds"`         // 1…2678400
	Burst   int `json:"burst,omitempty"` // starts at once after a pause, 1…1000000; 0 = Limit
}

// KeyLimits are limits for each key of a queue. The key of an item is the value at a JSON
// Pointer into its input, or else into its task's payload, or else into its task's metadata.
// A value that is no text is its JSON. Without a value the key is "", which is a key like others.
// Keys take turns.
type KeyLimits struct {
	Pointer     string         `json:"pointer"`
	Concurrency *int           `json:"concurrency,omitempty"` // leases at once of each key, 1…1000000
	Rate        *Rate          `json:"rate,omitempty"`        // of each key
	Weights     map[string]int `json:"weights,omitempty"`     // items that a key has in a turn, 1…1000; a key that is not named has 1
	// Order "created" takes the items of a key one at a time in the order in which they were
	// created. An item that is leased, in back-off or suspended holds up those after it.
	// Priorities do not count. "" = by priority, several at once.
	Order string `json:"order,omitempty"`
	// Fair false: keys do not take turns. Of the keys that are looked at, the items of the
	// highest priority, and then the oldest, come first. nil = true.
	Fair *bool `json:"fair,omitempty"`
}

// WithNextAt has the claims of a context set next: to the time at which a rate limit lets another
// item start, if a claim got fewer items than it asked for because of the limit; else to the
// zero time.
func WithNextAt(ctx context.Context, next *time.Time) context.Context {
	return asked.With(ctx, asked.NextAt, next)
}
