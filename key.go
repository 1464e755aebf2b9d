package pawl

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"time"

	"github.com/pawl-work/pawl/internal/asked"
)

// Key is an idempotency key: (namespace, scope, key) and the hash of its request
// identify the stored answer.
type Key struct {
	Scope       string          `json:"scope"`
	Key         string          `json:"key,omitempty"` // as the caller sent it; only its hash is stored
	RequestHash string          `json:"request_hash,omitempty"`
	Status      string          `json:"status"`             // pending, completed, failed
	Response    json.RawMessage `json:"response,omitempty"` // the answer, or the error of a failed call
	TaskID      string          `json:"task_id,omitempty"`
	ItemID      string          `json:"item_id,omitempty"`
	CreatedAt   time.Time       `json:"created_at"`
	CompletedAt *time.Time      `json:"completed_at,omitempty"`
	ExpiresAt   *time.Time      `json:"expires_at,omitempty"`
	LockedUntil *time.Time      `json:"locked_until,omitempty"` // pending: when another caller may take over
}

// Statuses of a key.
const (
	KeyPending   = "pending"
	KeyCompleted = "completed"
	KeyFailed    = "failed"
)

// KeyBegin opens a key. The answer says whether to run, or has the stored answer in
// Key.Response. A key of another request is ErrKeyReused. A key whose call is in flight
// is ErrKeyInFlight with RetryAfter.
type KeyBegin struct {
	Scope       string `json:"scope,omitempty"` // BeginKeys refuses scopes that begin with ReservedPrefix
	Key         string `json:"key"`
	RequestHash string `json:"request_hash"`
	TaskID      string `json:"task_id,omitempty"`
	ItemID      string `json:"item_id,omitempty"`
	TTLSeconds  int64  `json:"ttl_seconds,omitempty"`  // 0 = 24 h; −1 = never expires; else at least LockSeconds
	LockSeconds int    `json:"lock_seconds,omitempty"` // 0 = 60; at most MaxLockSeconds: renew the key
}

// KeyBegun is the answer to KeyBegin. If Run is set the caller holds the key by Token:
// it runs the call, and then completes or fails the key.
type KeyBegun struct {
	Run   bool   `json:"run"`
	Token string `json:"token,omitempty"` // fences this run: after another caller took over, it is refused
	Key   Key    `json:"key"`
	// LockSeconds is how long the run holds the key without renewing it.
	LockSeconds int `json:"lock_seconds,omitempty"`
}

// KeyRenew renews the lease of a run. Another caller may take the key over when the
// lease has ended; until then, it can still be renewed. A key does not expire before its
// lease ends.
type KeyRenew struct {
	Scope       string `json:"scope,omitempty"`
	Key         string `json:"key"`
	Token       string `json:"token"`
	LockSeconds int    `json:"lock_seconds,omitempty"` // from now; 0 = 60
}

// KeyDone ends a run, with the answer or with the error. The same call again gets the key
// as it is.
type KeyDone struct {
	Scope    string          `json:"scope,omitempty"`
	Key      string          `json:"key"`
	Token    string          `json:"token"`
	Response json.RawMessage `json:"response"`
}

// KeyName identifies a key.
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

// Idempotent executes whole calls once for their key; *engine.Engine implements it. A
// service without it cannot take idempotency keys for whole calls.
type Idempotent interface {
	// Idempotent runs a call and stores its answer in one transaction.
	Idempotent(ctx context.Context, k KeyBegin, run func(context.Context, Service) (*Answer, error)) (answer Answer, replayed bool, err error)
	// IdempotentSteps does the same for a call that needs several transactions.
	IdempotentSteps(ctx context.Context, k KeyBegin, run func(context.Context, Service) (*Answer, error)) (answer Answer, replayed bool,
		err error)
}

// Answer is a whole stored answer. It is kept under the call's idempotency key and
// returned again byte for byte.
type Answer struct {
	Code     int    // HTTP status, for every interface
	Type     string // media type of Body; "" = no body
	Location string // of the created resource, if any
	Body     []byte // text
}

// Once runs fn once for (key, request). Later calls with the same request get the first
// result, byte for byte as JSON. With another request they get ErrKeyReused, and while
// fn runs ErrKeyInFlight, because Once renews the key's lease. If fn returns an error,
// it is stored for reading, and the next call runs fn again. The scope is "once". If the
// process dies inside fn, or cannot reach the database for 60 s, another call may run fn
// again: fn runs at least once, and its recorded result is stored exactly once. A result
// that cannot be stored at once is sent again while the key is held. The context of fn
// ends when another call has taken the key over.
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
	held, hold := KeepKey(ctx, keys, "once", key, begun)
	defer hold.Stop() // also when fn panics
	done := KeyDone{Scope: "once", Key: key, Token: begun.Token}
	if out, err = fn(held); err == nil {
		done.Response, err = json.Marshal(out)
	}
	if err != nil {
		done.Response, _ = json.Marshal(Failure{Message: err.Error()})
		return out, errors.Join(err, hold.Settle(ctx, func(ctx context.Context) error {
			_, err := one(keys.FailKeys(ctx, []KeyDone{done}))
			return err
		}))
	}
	return out, hold.Settle(ctx, func(ctx context.Context) error {
		_, err := one(keys.CompleteKeys(ctx, []KeyDone{done}))
		return err
	})
}

// OneCall returns a context whose calls are tries of one call. A client that makes idempotency keys
// gives them one, so that a try whose answer was lost is not carried out twice.
func OneCall(ctx context.Context) context.Context {
	return asked.With(ctx, asked.Tries, rand.Text())
}
