package pawl

import "time"

// WorkerInfo is one worker of the registry. LastSeenAt moves with every claim
// and heartbeat, at most every few seconds; InFlight counts its leases.
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

// Stats is how things stand in a namespace, read now.
type Stats struct {
	ItemsByState   map[ItemState]int64 `json:"items_by_state"`
	TasksByState   map[TaskState]int64 `json:"tasks_by_state"`
	TasksPending   Pending             `json:"tasks_pending"` // the queued tasks, by what their items wait for
	Leases         int64               `json:"leases"`
	ExpiredLeases  int64               `json:"expired_leases"` // run out, not yet swept
	StaleLeases    int64               `json:"stale_leases"`   // no heartbeat for 4 of its intervals
	OldestQueuedAt *time.Time          `json:"oldest_queued_at,omitempty"`
	Workers        int64               `json:"workers"`
	Checkpoints    int64               `json:"checkpoints"`
	Events         int64               `json:"events"`
	Keys           KeyStats            `json:"keys"`
	Sweeps         SweepTotals         `json:"sweeps"`
}

// KeyStats counts over the idempotency keys that are kept.
type KeyStats struct {
	Pending   int64 `json:"pending"`
	Completed int64 `json:"completed"`
	Failed    int64 `json:"failed"`
	Hits      int64 `json:"hits"`    // begins that found a live key
	Misses    int64 `json:"misses"`  // begins that opened or took over one
	Replays   int64 `json:"replays"` // hits answered with the stored answer
}

// Gauge is one number about how things stand now, for whoever watches: a
// Prometheus gauge. Labels alternate between names and values.
type Gauge struct {
	Name   string
	Help   string
	Labels []string
	Value  float64
}
