package pawl

import (
	"context"
	"time"
)

// TaskToken is what a task token stands for: the claim that it was issued with. The
// token is Lease.Token. It shows that its bearer works on the item now, or got the token
// from the worker. It is valid while the claim is the current one and its lease runs,
// however often the lease is extended. Only the database that issued it can read it.
type TaskToken struct {
	TaskID         string    `json:"task_id"`
	ItemID         string    `json:"item_id"`
	Namespace      string    `json:"namespace"`
	Type           string    `json:"type"`
	Key            string    `json:"key,omitempty"` // of the item
	WorkerID       string    `json:"worker_id"`
	Attempt        int       `json:"attempt"`
	LeaseExpiresAt time.Time `json:"lease_expires_at"`
}

// TokenReader checks task tokens.
type TokenReader interface {
	// CheckToken returns the claim of a token, by the database's clock. It returns
	// ErrInvalid for a text that is not a token of this database and the caller's
	// namespace; ErrLeaseLost with the reason if the lease is over; ErrConflict if the
	// item was handed in or has ended; ErrNotFound if the item was deleted.
	CheckToken(ctx context.Context, token string) (TaskToken, error)
}
