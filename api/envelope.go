package api

import (
	"encoding/json"
	"time"

	"github.com/pawl-work/pawl"
)

// Batch is the body of a verb on a collection.
type Batch[T any] struct {
	Items []T `json:"items"`
}

// Results answers a Batch, in its order.
type Results[T any] struct {
	Results []Result[T] `json:"results"`
}

// Result answers one call of a batch: Status is what the single call would have
// had; Value or Error, whichever Status says, is there.
type Result[T any] struct {
	Status       int      `json:"status"`
	Value        *T       `json:"value,omitempty"`
	Error        *Problem `json:"error,omitempty"`
	RetryAfterMS int64    `json:"retry_after_ms,omitempty"` // the single call's Retry-After
}

// Leases answers a claim.
type Leases struct {
	Items []pawl.Lease `json:"items"`
}

// Holder is the fence of a verb whose path names the item.
type Holder struct {
	WorkerID string `json:"worker_id"`
	Attempt  int    `json:"attempt"`
}

// Fence is the whole fence.
func (h Holder) Fence(item string) pawl.Fence {
	return pawl.Fence{ItemID: item, WorkerID: h.WorkerID, Attempt: h.Attempt}
}

// The bodies of an item's verbs: the call without the item, which the path names.
type (
	// HeartbeatBody extends a lease; LeaseSeconds 0 = the claim's.
	HeartbeatBody struct {
		Holder
		LeaseSeconds int `json:"lease_seconds,omitempty"`
	}
	// ProgressBody reports how far an item is.
	ProgressBody struct {
		Holder
		Progress *int    `json:"progress,omitempty"`
		Stage    *string `json:"stage,omitempty"`
	}
	// CheckpointBody saves a checkpoint.
	CheckpointBody struct {
		Holder
		pawl.NewCheckpoint
	}
	// CompleteBody hands in a result.
	CompleteBody struct {
		Holder
		Result     json.RawMessage  `json:"result,omitempty"`
		Provenance *pawl.Provenance `json:"provenance,omitempty"`
	}
	// FailBody says that the attempt failed.
	FailBody struct {
		Holder
		Error        pawl.Failure     `json:"error"`
		Retryable    *bool            `json:"retryable,omitempty"`
		RetryAfterMS *int64           `json:"retry_after_ms,omitempty"`
		Provenance   *pawl.Provenance `json:"provenance,omitempty"`
	}
	// ReleaseBody gives the item back.
	ReleaseBody struct {
		Holder
	}
	// SuspendBody gives the lease up until a time or a signal.
	SuspendBody struct {
		Holder
		Until  *time.Time `json:"until,omitempty"`
		Signal string     `json:"signal,omitempty"`
		Key    string     `json:"key,omitempty"`
	}
)

// RevokeBody is the body of revoke_lease.
type RevokeBody struct {
	Attempt int    `json:"attempt,omitempty" doc:"Only the lease of this attempt; absent = whichever holds it."`
	Reason  string `json:"reason,omitempty"`
}

// TaskVerb is the body of cancel, retry and bury. ItemIDs narrows the verb to
// some items; empty = all that it applies to.
type TaskVerb struct {
	ItemIDs []string `json:"item_ids,omitempty"`
	Reason  string   `json:"reason,omitempty"`
}

// TaskView is a task as it is read: all of it, or the fields that were asked for
// and id, and what was to be included.
type TaskView struct {
	pawl.Task
	Included *Included `json:"included,omitempty"`
}

// ItemView is an item as it is read: all of it, or the fields that were asked
// for and id.
type ItemView struct {
	pawl.Item
}

// Included is what belongs to a task, as far as it was asked for.
type Included struct {
	Items       []pawl.Item             `json:"items,omitempty"`
	Events      []pawl.Event            `json:"events,omitempty"`
	Checkpoints []pawl.Checkpoint       `json:"checkpoints,omitempty"`
	Provenances []pawl.ProvenanceRecord `json:"provenances,omitempty"`
	Result      *pawl.TaskResult        `json:"result,omitempty"`
}

// TaskPatch is the body of a task's PATCH: pawl.TaskUpdate without the task,
// which the path names, and the version, which If-Match names.
type TaskPatch struct {
	Title    *string         `json:"title,omitempty"`
	Priority *int            `json:"priority,omitempty"`
	Metadata json.RawMessage `json:"metadata,omitempty"`
}

// TaskLike is the body of clone: pawl.TaskClone without the task.
type TaskLike struct {
	Payload     json.RawMessage `json:"payload,omitempty"`
	Title       *string         `json:"title,omitempty"`
	Priority    *int            `json:"priority,omitempty"`
	RunAt       *time.Time      `json:"run_at,omitempty"`
	RequestedBy *pawl.Requester `json:"requested_by,omitempty"`
	Metadata    json.RawMessage `json:"metadata,omitempty"`
}

// NewItems is the body of add_items.
type NewItems struct {
	Items []pawl.NewItem `json:"items"`
}

// KeyBeginBody is the body of a key's begin.
type KeyBeginBody struct {
	Scope       string `json:"scope,omitempty"`
	RequestHash string `json:"request_hash"`
	TaskID      string `json:"task_id,omitempty"`
	ItemID      string `json:"item_id,omitempty"`
	TTLSeconds  int64  `json:"ttl_seconds,omitempty"`
	LockSeconds int    `json:"lock_seconds,omitempty"`
}

// KeyRenewBody is the body of a key's renewal.
type KeyRenewBody struct {
	Scope       string `json:"scope,omitempty"`
	Token       string `json:"token"`
	LockSeconds int    `json:"lock_seconds,omitempty"`
}

// KeyDoneBody is the body of a key's complete and fail.
type KeyDoneBody struct {
	Scope    string          `json:"scope,omitempty"`
	Token    string          `json:"token"`
	Response json.RawMessage `json:"response"`
}

// WorkerBody is the body of a worker's entry: what a worker says of itself.
type WorkerBody struct {
	WorkerID string   `json:"worker_id"`
	Name     string   `json:"name,omitempty"`
	Version  string   `json:"version,omitempty"`
	Types    []string `json:"types,omitempty"`
}

// Counts answers with numbers by name.
type Counts struct {
	Counts map[string]int64 `json:"counts"`
}

// Condition answers health and ready.
type Condition struct {
	Status string `json:"status"`
}
