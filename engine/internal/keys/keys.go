package keys

import (
	"cmp"
	"context"
	"fmt"
	"regexp"
	"time"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/engine/internal/kernel"
	"github.com/pawl-work/pawl/engine/internal/rules"
	"github.com/pawl-work/pawl/internal/idform"
	"github.com/pawl-work/pawl/store"
)

// BeginKeys opens idempotency keys; see pawl.KeyBegin and docs/contract.md §5.
func (ks *Keys) BeginKeys(ctx context.Context, calls []pawl.KeyBegin) ([]pawl.Result[pawl.KeyBegun], error) {
	calls = idform.Calls(calls)
	if err := ks.k.Acts(ctx, "begin"); err != nil {
		return nil, err
	}
	c := pawl.CallerOf(ctx)
	return kernel.Each(ctx, "begin", calls, func(ctx context.Context, k *pawl.KeyBegin) (pawl.KeyBegun, error) {
		if err := cmp.Or(checkBegin(k), checkScope(k)); err != nil {
			return pawl.KeyBegun{}, err
		}
		var out pawl.KeyBegun
		var refused error
		err := ks.k.DB.Do(ctx, func(ctx context.Context, tx store.Tx) (err error) {
			var row stored
			if out, row, refused, err = ks.begin(ctx, tx, c.Namespace, k, nil); err != nil || !out.Run {
				return err
			}
			held, _, err := read(ctx, tx, c.Namespace, row.Scope, row.Hash, false)
			out.Key, out.Key.Key = held.Key, k.Key
			return err
		})
		if err == nil {
			err = refused // returned after the commit, which keeps what the refusal counted
		}
		return out, err
	})
}

// begin begins a key and returns its row as it is then. code is not nil if the whole
// answer of a call will be stored.
func (ks *Keys) begin(
	ctx context.Context,
	tx store.Tx,
	ns string,
	k *pawl.KeyBegin,
	code *int,
) (out pawl.KeyBegun, row stored, refused, err error) {
	now, err := tx.Now(ctx)
	if err != nil {
		return out, row, nil, err
	}
	row = ks.row(k, now)
	if row.Code = code; code == nil {
		row.Hash = ownHash(k.Scope, k.Key)
	}
	if err := keep(ctx, tx, ns, k.TaskID, k.ItemID); err != nil {
		return out, row, nil, err
	}
	missing := store.Known(ctx, tx, ns, k.TaskID, k.ItemID) // a key that was begun while they existed is still valid
	opened := false
	if missing == nil {
		if opened, err = change(ctx, tx, "open", ns, row.Scope, row.Hash, row.args(now)...); err != nil {
			return out, row, nil, err
		}
	}
	if !opened {
		old, found, err := read(ctx, tx, ns, row.Scope, row.Hash, true)
		if err != nil {
			return out, row, nil, err
		}
		switch {
		case missing != nil && (!found || old.Expires != 0 && old.Expires <= now):
			return out, row, nil, missing
		case !found: // another transaction has begun the key and has not committed
			return out, row, inFlight(time.Second), nil
		case code == nil && old.Code != nil: // no caller names a call like this: see callScope
			return out, row, pawl.Invalid("/scope", "belongs to a call that Pawl answers"), nil
		case old.Expires != 0 && old.Expires <= now, // an expired key counts as absent,
			code != nil && old.Code == nil: // and so does, for a call, one that a caller began
			if _, err := change(ctx, tx, "reopen", ns, row.Scope, row.Hash, row.args(now)...); err != nil {
				return out, row, nil, err
			}
		case old.RequestHash != "" && old.RequestHash != k.RequestHash:
			refused = &pawl.Error{Code: pawl.CodeKeyReused, Op: "begin"}
			return out, row, refused, hit(ctx, tx, ns, row, 0)
		case old.Status == pawl.KeyCompleted:
			old.Key.Key = k.Key
			return pawl.KeyBegun{Key: old.Key}, old, nil, hit(ctx, tx, ns, row, 1)
		case old.Status == pawl.KeyPending && old.Locked > now:
			refused = inFlight(time.Duration(old.Locked-now) * time.Microsecond)
			return out, row, refused, hit(ctx, tx, ns, row, 0)
		default: // it failed, or its lease has run out
			if _, err := change(ctx, tx, "take over", ns, row.Scope, row.Hash, row.Token, row.Locked); err != nil {
				return out, row, nil, err
			}
		}
	}
	return pawl.KeyBegun{Run: true, Token: row.Token, LockSeconds: lockSeconds(k.LockSeconds)}, row, nil, nil
}

// hit counts a begin that found a live key. replays is 1 when the stored answer was sent again.
func hit(ctx context.Context, tx store.Tx, ns string, row stored, replays int) error {
	_, err := change(ctx, tx, "hit", ns, row.Scope, row.Hash, replays)
	return err
}

func (ks *Keys) row(k *pawl.KeyBegin, now int64) stored {
	row := stored{
		Key:   pawl.Key{Scope: k.Scope, RequestHash: k.RequestHash, TaskID: k.TaskID, ItemID: k.ItemID},
		Hash:  rules.KeyHash(k.Key),
		Token: ks.k.IDs.Next("run"),
	}
	ttl := time.Duration(k.TTLSeconds) * time.Second
	if ttl == 0 {
		ttl = pawl.DefaultKeyTTL
	}
	if ttl > 0 {
		row.Expires = now + ttl.Microseconds() // not before row.Locked: checkBegin
	}
	row.Locked = lockedUntil(now, k.LockSeconds)
	return row
}

func lockSeconds(asked int) int {
	return cmp.Or(asked, int(pawl.DefaultKeyLease/time.Second))
}

func lockedUntil(now int64, asked int) int64 {
	return now + int64(lockSeconds(asked))*int64(time.Second/time.Microsecond)
}

// callScope is the form of the scopes in which calls with an idempotency key are kept.
var callScope = regexp.MustCompile(`^(?:[A-Z]+|mcp) |^` + regexp.QuoteMeta(pawl.ReservedPrefix))

// ownHash returns the hash under which a key is stored that callers begin themselves. In a scope
// of calls it is not that of any call's key: so no caller writes the stored answer of a call, takes
// its lock or reads it. In all other scopes it is rules.KeyHash.
func ownHash(scope, key string) string {
	if callScope.MatchString(scope) {
		return "own:" + rules.KeyHash(key)
	}
	return rules.KeyHash(key)
}

// CompleteKeys stores the answers of runs. A call that is repeated, because its answer was
// lost, gets the key as the first one left it.
func (ks *Keys) CompleteKeys(ctx context.Context, calls []pawl.KeyDone) ([]pawl.Result[pawl.Key], error) {
	if err := ks.k.Acts(ctx, "complete"); err != nil {
		return nil, err
	}
	return ks.end(ctx, pawl.KeyCompleted, calls)
}

// FailKeys stores the errors of runs; the next begin with the same hash runs again.
func (ks *Keys) FailKeys(ctx context.Context, calls []pawl.KeyDone) ([]pawl.Result[pawl.Key], error) {
	if err := ks.k.Acts(ctx, "fail"); err != nil {
		return nil, err
	}
	return ks.end(ctx, pawl.KeyFailed, calls)
}

func (ks *Keys) end(ctx context.Context, status string, calls []pawl.KeyDone) ([]pawl.Result[pawl.Key], error) {
	c := pawl.CallerOf(ctx)
	short := kernel.Answers{Op: status, Unbounded: true}
	return kernel.EachIn(ctx, &short, calls, func(ctx context.Context, k *pawl.KeyDone) (pawl.Key, error) {
		if err := checkDone(k); err != nil {
			return pawl.Key{}, err
		}
		return ks.held(ctx, c.Namespace, status, pawl.KeyName{Scope: k.Scope, Key: k.Key}, ownHash(k.Scope, k.Key),
			func(ctx context.Context, tx store.Tx, hash string, now int64) (bool, error) {
				response := rules.OrNull(k.Response)
				if err := ks.refer(ctx, tx, status, response); err != nil {
					return false, err
				}
				held, err := change(ctx, tx, "settle", c.Namespace, k.Scope, hash, k.Token, status, response, now)
				if err != nil || held {
					return held, err
				}
				is, found, err := read(ctx, tx, c.Namespace, k.Scope, hash, false)
				return found && is.Token == k.Token && is.Status == status && is.Code == nil && rules.OrNull(is.Response) == response, err
			})
	})
}

// refer keeps the blobs that the result of a run refers to. It is stored whatever it refers to.
func (ks *Keys) refer(ctx context.Context, tx store.Tx, op, result string) error {
	err := ks.k.Refer(ctx, &kernel.Write{Tx: tx}, op, result)
	if pawl.CodeOf(err) == pawl.CodeInvalid {
		return nil
	}
	return err
}

// RenewKeys renews the leases of runs.
func (ks *Keys) RenewKeys(ctx context.Context, calls []pawl.KeyRenew) ([]pawl.Result[pawl.Key], error) {
	if err := ks.k.Acts(ctx, "renew"); err != nil {
		return nil, err
	}
	return ks.renewed(ctx, calls, func(k *pawl.KeyRenew) string { return ownHash(k.Scope, k.Key) })
}

// callKeys renews the leases of calls that are carried out under their keys.
type callKeys struct{ *Keys }

// RenewKeys implements pawl.KeyRenewer.
func (ks callKeys) RenewKeys(ctx context.Context, calls []pawl.KeyRenew) ([]pawl.Result[pawl.Key], error) {
	return ks.renewed(ctx, calls, func(k *pawl.KeyRenew) string { return rules.KeyHash(k.Key) })
}

func (ks *Keys) renewed(ctx context.Context, calls []pawl.KeyRenew, hash func(*pawl.KeyRenew) string) ([]pawl.Result[pawl.Key], error) {
	c := pawl.CallerOf(ctx)
	return kernel.Each(ctx, "renew", calls, func(ctx context.Context, k *pawl.KeyRenew) (pawl.Key, error) {
		if err := checkRenew(k); err != nil {
			return pawl.Key{}, err
		}
		return ks.held(ctx, c.Namespace, "renew", pawl.KeyName{Scope: k.Scope, Key: k.Key}, hash(k),
			func(ctx context.Context, tx store.Tx, hash string, now int64) (bool, error) {
				return change(ctx, tx, "renew", c.Namespace, k.Scope, hash, k.Token, lockedUntil(now, k.LockSeconds))
			})
	})
}

// held changes a key that a run holds. change reports whether the run holds it.
func (ks *Keys) held(
	ctx context.Context,
	ns, op string,
	k pawl.KeyName,
	hash string,
	change func(ctx context.Context, tx store.Tx, hash string, now int64) (bool, error),
) (pawl.Key, error) {
	var out stored
	err := ks.k.DB.Do(ctx, func(ctx context.Context, tx store.Tx) error {
		now, err := tx.Now(ctx)
		if err != nil {
			return err
		}
		held, err := change(ctx, tx, hash, now)
		if err != nil {
			return err
		}
		var found bool
		if out, found, err = read(ctx, tx, ns, k.Scope, hash, false); err != nil {
			return err
		}
		if !found {
			return pawl.NotFound("key", k.Key)
		}
		if !held {
			return &pawl.Error{
				Code:    pawl.CodeConflict,
				Op:      op,
				State:   out.Status,
				Allowed: []string{},
				Message: fmt.Sprintf("the key is %s, and this run does not hold it", out.Status),
			}
		}
		return nil
	})
	out.Key.Key = k.Key
	return out.Key, err
}

// GetKeys reads keys. An expired key is absent.
func (ks *Keys) GetKeys(ctx context.Context, names []pawl.KeyName) ([]pawl.Result[pawl.Key], error) {
	return kernel.Each(ctx, "get", names, func(ctx context.Context, k *pawl.KeyName) (pawl.Key, error) {
		if err := checkName(k); err != nil {
			return pawl.Key{}, err
		}
		return kernel.Read(ctx, ks.k, func(ctx context.Context, tx store.Tx, ns string) (pawl.Key, error) {
			now, err := tx.Now(ctx)
			if err != nil {
				return pawl.Key{}, err
			}
			row, found, err := read(ctx, tx, ns, k.Scope, ownHash(k.Scope, k.Key), false)
			if err == nil && (!found || row.Code != nil || row.Expires != 0 && row.Expires <= now) {
				err = pawl.NotFound("key", k.Key)
			}
			row.Key.Key = k.Key
			return row.Key, err
		})
	})
}

// ListKeys lists keys, newest first.
func (ks *Keys) ListKeys(ctx context.Context, q pawl.KeyFilter) (pawl.List[pawl.Key], error) {
	q = idform.Call(q)
	if err := rules.CheckPage(&q.Page); err != nil {
		return pawl.List[pawl.Key]{}, err
	}
	return kernel.Read(ctx, ks.k, func(ctx context.Context, tx store.Tx, ns string) (pawl.List[pawl.Key], error) {
		return page(ctx, tx, ns, q)
	})
}
