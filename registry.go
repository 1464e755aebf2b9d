package pawl

import "time"

// WorkerInfo is one registered worker. LastSeenAt is updated by claims and heartbeats,
// at most every few seconds; InFlight is the number of its leases.
type WorkerInfo struct {
	WorkerID   string    `json:"worker_id"`
	Name       string    `json:"name,omitempty"`
	Version    string    `json:"version,omitempty"`
	Types      []string  `json:"types,omitempty"`
	InFlight   int       `json:"in_flight"`
	StartedAt  time.Time `json:"started_at"`
	LastSeenAt time.Time `json:"last_seen_at"`
}

// WorkerFilter selects workers, last seen first.
type WorkerFilter struct {
	SeenSince time.Time // zero = all
	Page
}

// Stats are the current numbers of a namespace.
type Stats struct {
	ItemsByState   map[ItemState]int64 `json:"items_by_state"`
	TasksByState   map[TaskState]int64 `json:"tasks_by_state"`
	TasksPending   Pending             `json:"tasks_pending"` // the queued tasks, by what their items wait for
	Leases         int64               `json:"leases"`
	ExpiredLeases  int64               `json:"expired_leases"` // run out and not swept yet
	StaleLeases    int64               `json:"stale_leases"`   // without a heartbeat for four of its intervals
	OldestQueuedAt *time.Time          `json:"oldest_queued_at,omitempty"`
	Streaming      int64               `json:"streaming_messages"` // that have not ended
	Stalled        int64               `json:"stalled_messages"`   // of those, the ones that no worker writes; see MessageFilter
	Workers        int64               `json:"workers"`
	Checkpoints    int64               `json:"checkpoints"`
	Events         int64               `json:"events"`
	Keys           KeyStats            `json:"keys"`
	Sweeps         SweepTotals         `json:"sweeps"`
}

// KeyStats counts the idempotency keys that are stored.
type KeyStats struct {
	Pending   int64 `json:"pending"`
	Completed int64 `json:"completed"`
	Failed    int64 `json:"failed"`
	Hits      int64 `json:"hits"`    // calls that found a live key
	Misses    int64 `json:"misses"`  // calls that opened a key or took one over
	Replays   int64 `json:"replays"` // hits that were answered with the stored answer
}

// Gauge is one current number for monitoring, as a Prometheus gauge. Labels alternates
// between names and values.
type Gauge struct {
	Name   string
	Help   string
	Labels []string
	Value  float64
}
