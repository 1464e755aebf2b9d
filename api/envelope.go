package api

import (
	"time"

	"github.com/pawl-work/pawl"
)

// Batch is the body of a verb on a collection.
type Batch[T any] struct {
	Items []T `json:"items"`
}

// Results answers a Batch, in the same order.
type Results[T any] struct {
	Results []Result[T] `json:"results"`
}

// Result answers one call of a batch. Status is the status that the single call would have
// had. Value is set on success, Error on failure.
type Result[T any] struct {
	Status       int      `json:"status"`
	Value        *T       `json:"value,omitempty"`
	Error        *Problem `json:"error,omitempty"`
	RetryAfterMS int64    `json:"retry_after_ms,omitempty"` // the Retry-After of the single call
}

// Leases answers a claim.
type Leases struct {
	Items []pawl.Lease `json:"items"`
	// NextAt is when a rate limit lets another item start; set if fewer items were claimed than
	// asked for because of it.
	NextAt *time.Time `json:"next_at,omitempty"`
}

// TaskView is a task as it is read: the whole task, or its id and the requested fields.
// Included holds what the caller asked to include.
type TaskView struct {
	pawl.Task
	Included *Included `json:"included,omitempty"`
}

// ItemView is an item as it is read: the whole item, or its id and the requested fields.
type ItemView struct {
	pawl.Item
	Included *ItemIncluded `json:"included,omitempty"`
}

// Included is what belongs to a task, as far as the caller asked for it.
type Included struct {
	Items       []pawl.Item             `json:"items,omitempty"`
	Parts       []pawl.ItemPart         `json:"parts,omitempty"`
	Events      []pawl.Event            `json:"events,omitempty"`
	Checkpoints []pawl.Checkpoint       `json:"checkpoints,omitempty"`
	Provenances []pawl.ProvenanceRecord `json:"provenances,omitempty"`
	Result      *pawl.TaskResult        `json:"result,omitempty"`
}

// ItemIncluded is what belongs to an item, as far as the caller asked for it.
type ItemIncluded struct {
	Parts       []pawl.ItemPart         `json:"parts,omitempty"`
	Events      []pawl.Event            `json:"events,omitempty"`
	Checkpoints []pawl.Checkpoint       `json:"checkpoints,omitempty"`
	Messages    []pawl.Message          `json:"messages,omitempty"`
	Provenances []pawl.ProvenanceRecord `json:"provenances,omitempty"`
}

// WorkerBody is what a worker states about itself in the registry.
type WorkerBody struct {
	WorkerID string   `json:"worker_id"`
	Name     string   `json:"name,omitempty"`
	Version  string   `json:"version,omitempty"`
	Types    []string `json:"types,omitempty"`
}

// RelayBody says where a relay goes on: stored, now, or a position of the feed; "" = stored.
type RelayBody struct {
	From string `json:"from,omitempty"`
}

// Counts answers with numbers by name.
type Counts struct {
	Counts map[string]int64 `json:"counts"`
}

// Condition answers health and ready.
type Condition struct {
	Status string `json:"status"`
}
