package pawl

import (
	"context"
	"time"
)

// TaskToken is what a task token stands for: the claim it came with. The token is
// Lease.Token: whoever bears it works on the item now, or has it from somebody
// who does. It is good for as long as the claim is the item's current one and its
// lease runs, however often that is extended, and tells nobody anything but the
// database that made it.
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

// TokenReader knows task tokens.
type TokenReader interface {
	// CheckToken says what a token stands for, by the database's clock:
	// ErrInvalid for what is no token of this database and the caller's namespace;
	// when its lease is over, ErrLeaseLost with the reason, or ErrConflict when the
	// item has been handed in or has ended; ErrNotFound when it has been deleted.
	CheckToken(ctx context.Context, token string) (TaskToken, error)
}
