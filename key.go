package pawl

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"sync"
	"time"
)

// Key is an idempotency key: (namespace, scope, key) and the hash of its
// request lead to the first answer.
type Key struct {
	Scope       string          `json:"scope"`
	Key         string          `json:"key,omitempty"` // as asked for; only its hash is stored
	RequestHash string          `json:"request_hash,omitempty"`
	Status      string          `json:"status"`             // pending, completed, failed
	Response    json.RawMessage `json:"response,omitempty"` // the answer, or the error of a failed one
	TaskID      string          `json:"task_id,omitempty"`
	ItemID      string          `json:"item_id,omitempty"`
	CreatedAt   time.Time       `json:"created_at"`
	CompletedAt *time.Time      `json:"completed_at,omitempty"`
	ExpiresAt   *time.Time      `json:"expires_at,omitempty"`
	LockedUntil *time.Time      `json:"locked_until,omitempty"` // pending: after it, another may take over
}

// Statuses of a key.
const (
	KeyPending   = "pending"
	KeyCompleted = "completed"
	KeyFailed    = "failed"
)

// KeyBegin opens a key. The answer says whether to run (Run) or that the first
// answer stands (Key.Response). Another request's key: ErrKeyReused; one under
// way: ErrKeyInFlight with RetryAfter.
type KeyBegin struct {
	Scope       string `json:"scope,omitempty"`
	Key         string `json:"key"`
	RequestHash string `json:"request_hash"`
	TaskID      string `json:"task_id,omitempty"`
	ItemID      string `json:"item_id,omitempty"`
	TTLSeconds  int64  `json:"ttl_seconds,omitempty"`  // 0 = 24 h; −1 = for ever
	LockSeconds int    `json:"lock_seconds,omitempty"` // 0 = 60
}

// KeyBegun answers a begin. Run means: the caller now holds the key, token in
// hand, and is to run and then complete or fail it.
type KeyBegun struct {
	Run   bool   `json:"run"`
	Token string `json:"token,omitempty"` // fences this run: a taken-over holder's answer is refused
	Key   Key    `json:"key"`
	// LockSeconds is how long the run holds the key without a renewal.
	LockSeconds int `json:"lock_seconds,omitempty"`
}

// KeyRenew makes the lease of a run begin anew. Another may take the key over
// when the lease has ended; until one does, it can still be renewed. A key does
// not expire before its lease ends.
type KeyRenew struct {
	Scope       string `json:"scope,omitempty"`
	Key         string `json:"key"`
	Token       string `json:"token"`
	LockSeconds int    `json:"lock_seconds,omitempty"` // from now; 0 = 60
}

// KeyDone ends a run: with the answer, or with the error of a failed one.
type KeyDone struct {
	Scope    string          `json:"scope,omitempty"`
	Key      string          `json:"key"`
	Token    string          `json:"token"`
	Response json.RawMessage `json:"response"`
}

// KeyName names a key.
type KeyName struct {
	Scope string `json:"scope,omitempty"`
	Key   string `json:"key"`
}

// KeyFilter selects keys, newest first.
type KeyFilter struct {
	Status string
	TaskID string
	ItemID string
	Page
}

// Idempotent carries whole calls out once for their key, as engine.Engine does. A
// service that does not implement it is offered to callers without such keys.
type Idempotent interface {
	// Idempotent runs a call and keeps its answer in one transaction.
	Idempotent(ctx context.Context, k KeyBegin, run func(context.Context, Service) (*Answer, error)) (answer Answer, replayed bool, err error)
	// IdempotentSteps does so for a call that runs in several transactions.
	IdempotentSteps(ctx context.Context, k KeyBegin, run func(context.Context, Service) (*Answer, error)) (answer Answer, replayed bool, err error)
}

// Answer is what a whole call was answered, as a door sent it; it is kept under
// the call's idempotency key and given again byte for byte.
type Answer struct {
	Code     int    // HTTP's, whatever the door
	Type     string // the media type of Body; "" = there is none
	Location string // of what the call made, if it says
	Body     []byte // text
}

// KeyRenewer renews the leases of keys; every KeyKeeper does.
type KeyRenewer interface {
	RenewKeys(ctx context.Context, calls []KeyRenew) ([]Result[Key], error)
}

// HoldKey renews the lease of a begun run, three times in its length, until stop
// is called; stop waits for a renewal that is under way. The context that it
// returns ends when a renewal is refused, because another has taken the key over;
// the refusal is its cause. A renewal that cannot be made is tried again.
func HoldKey(ctx context.Context, keys KeyRenewer, scope, key string, begun KeyBegun) (held context.Context, stop func()) {
	held, cancel := context.WithCancelCause(ctx)
	lock := cmp.Or(begun.LockSeconds, int(DefaultKeyLease/time.Second))
	call := KeyRenew{Scope: scope, Key: key, Token: begun.Token, LockSeconds: lock}
	every := time.Duration(lock) * time.Second / 3
	over, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		tick := time.NewTicker(every)
		defer tick.Stop()
		for {
			select {
			case <-over:
				return
			case <-tick.C:
			}
			try, done := context.WithTimeout(context.WithoutCancel(ctx), every)
			_, err := one(keys.RenewKeys(try, []KeyRenew{call}))
			done()
			if errors.Is(err, ErrConflict) || errors.Is(err, ErrNotFound) {
				cancel(err)
				return
			}
		}
	}()
	return held, sync.OnceFunc(func() {
		close(over)
		<-ended
		cancel(nil)
	})
}

// Once runs fn once for (key, request): whoever comes later with the same
// request gets the first result, byte for byte as JSON; with another request
// ErrKeyReused; while it runs ErrKeyInFlight, however long that takes, because
// the key's lease is renewed. An error of fn is kept to be read and the next call
// runs again. The scope is "once". If the process dies inside fn, or cannot reach
// the database for 60 s, another may run fn again: fn is at least once, its
// recorded answer exactly once. The context of fn ends when another has taken the
// key over.
func Once[T any](ctx context.Context, keys KeyKeeper, key string, request any, fn func(context.Context) (T, error)) (T, error) {
	var out T
	hash, err := HashOf(request)
	if err != nil {
		return out, err
	}
	begun, err := one(keys.BeginKeys(ctx, []KeyBegin{{Scope: "once", Key: key, RequestHash: hash}}))
	if err != nil {
		return out, err
	}
	if !begun.Run {
		return out, json.Unmarshal(begun.Key.Response, &out)
	}
	held, stop := HoldKey(ctx, keys, "once", key, begun)
	defer stop() // also when fn panics
	done := KeyDone{Scope: "once", Key: key, Token: begun.Token}
	if out, err = fn(held); err == nil {
		done.Response, err = json.Marshal(out)
	}
	stop()
	if err != nil {
		done.Response, _ = json.Marshal(Failure{Message: err.Error()})
		_, ferr := one(keys.FailKeys(context.WithoutCancel(ctx), []KeyDone{done}))
		return out, errors.Join(err, ferr)
	}
	_, err = one(keys.CompleteKeys(context.WithoutCancel(ctx), []KeyDone{done}))
	return out, err
}
