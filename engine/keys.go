package engine

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"regexp"
	"strings"
	"time"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/engine/internal/rules"
	"github.com/pawl-work/pawl/internal/idform"
	"github.com/pawl-work/pawl/store"
)

// BeginKeys opens idempotency keys; see pawl.KeyBegin and docs/contract.md §5.
func (e *Engine) BeginKeys(ctx context.Context, calls []pawl.KeyBegin) ([]pawl.Result[pawl.KeyBegun], error) {
	calls = idform.Calls(calls)
	if err := e.acts(ctx, "begin"); err != nil {
		return nil, err
	}
	c := pawl.CallerOf(ctx)
	return each(ctx, "begin", calls, func(ctx context.Context, k *pawl.KeyBegin) (pawl.KeyBegun, error) {
		if err := cmp.Or(checkKeyBegin(k), checkKeyScope(k)); err != nil {
			return pawl.KeyBegun{}, err
		}
		var out pawl.KeyBegun
		var refused error
		err := e.db.Do(ctx, func(ctx context.Context, tx store.Tx) (err error) {
			var row keyRow
			if out, row, refused, err = e.beginKey(ctx, tx, c.Namespace, k, nil); err != nil || !out.Run {
				return err
			}
			held, _, err := readKey(ctx, tx, c.Namespace, row.Scope, row.Hash, false)
			out.Key, out.Key.Key = held.Key, k.Key
			return err
		})
		if err == nil {
			err = refused // returned after the commit, which keeps what the refusal counted
		}
		return out, err
	})
}

// beginKey begins a key and returns its row as it is then. code is not nil if the whole
// answer of a call will be stored.
func (e *Engine) beginKey(
	ctx context.Context,
	tx store.Tx,
	ns string,
	k *pawl.KeyBegin,
	code *int,
) (out pawl.KeyBegun, row keyRow, refused, err error) {
	now, err := tx.Now(ctx)
	if err != nil {
		return out, row, nil, err
	}
	row = e.keyRow(k, now)
	if row.Code = code; code == nil {
		row.Hash = ownHash(k.Scope, k.Key)
	}
	if err := keep(ctx, tx, ns, k.TaskID, k.ItemID); err != nil {
		return out, row, nil, err
	}
	missing := known(ctx, tx, ns, k.TaskID, k.ItemID) // a key that was begun while they existed is still valid
	opened := false
	if missing == nil {
		if opened, err = openKey(ctx, tx, ns, row, now); err != nil {
			return out, row, nil, err
		}
	}
	if !opened {
		old, found, err := readKey(ctx, tx, ns, row.Scope, row.Hash, true)
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
			if err := reopenKey(ctx, tx, ns, row, now); err != nil {
				return out, row, nil, err
			}
		case old.RequestHash != "" && old.RequestHash != k.RequestHash:
			refused = &pawl.Error{Code: pawl.CodeKeyReused, Op: "begin"}
			return out, row, refused, hitKey(ctx, tx, ns, row.Scope, row.Hash, 0)
		case old.Status == pawl.KeyCompleted:
			old.Key.Key = k.Key
			return pawl.KeyBegun{Key: old.Key}, old, nil, hitKey(ctx, tx, ns, row.Scope, row.Hash, 1)
		case old.Status == pawl.KeyPending && old.Locked > now:
			refused = inFlight(time.Duration(old.Locked-now) * time.Microsecond)
			return out, row, refused, hitKey(ctx, tx, ns, row.Scope, row.Hash, 0)
		default: // it failed, or its lease has run out
			if err := takeOverKey(ctx, tx, ns, row); err != nil {
				return out, row, nil, err
			}
		}
	}
	return pawl.KeyBegun{Run: true, Token: row.Token, LockSeconds: lockSeconds(k.LockSeconds)}, row, nil, nil
}

func (e *Engine) keyRow(k *pawl.KeyBegin, now int64) keyRow {
	row := keyRow{
		Key:   pawl.Key{Scope: k.Scope, RequestHash: k.RequestHash, TaskID: k.TaskID, ItemID: k.ItemID},
		Hash:  keyHash(k.Key),
		Token: e.k.IDs.Next("run"),
	}
	ttl := time.Duration(k.TTLSeconds) * time.Second
	if ttl == 0 {
		ttl = pawl.DefaultKeyTTL
	}
	if ttl > 0 {
		row.Expires = now + ttl.Microseconds() // not before row.Locked: CheckKeyBegin
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
// its lock or reads it. In all other scopes it is keyHash.
func ownHash(scope, key string) string {
	if callScope.MatchString(scope) {
		return "own:" + keyHash(key)
	}
	return keyHash(key)
}

// keyHash returns what is stored of a key. The key itself may hold a secret or be long.
func keyHash(key string) string {
	sum := sha256.Sum256([]byte(key))
	return hex.EncodeToString(sum[:])
}

// CompleteKeys stores the answers of runs. A call that is repeated, because its answer was
// lost, gets the key as the first one left it.
func (e *Engine) CompleteKeys(ctx context.Context, calls []pawl.KeyDone) ([]pawl.Result[pawl.Key], error) {
	if err := e.acts(ctx, "complete"); err != nil {
		return nil, err
	}
	return e.settleKeys(ctx, pawl.KeyCompleted, calls)
}

// FailKeys stores the errors of runs; the next begin with the same hash runs again.
func (e *Engine) FailKeys(ctx context.Context, calls []pawl.KeyDone) ([]pawl.Result[pawl.Key], error) {
	if err := e.acts(ctx, "fail"); err != nil {
		return nil, err
	}
	return e.settleKeys(ctx, pawl.KeyFailed, calls)
}

func (e *Engine) settleKeys(ctx context.Context, status string, calls []pawl.KeyDone) ([]pawl.Result[pawl.Key], error) {
	c := pawl.CallerOf(ctx)
	return eachIn(ctx, &answers{op: status, unbounded: true}, calls, func(ctx context.Context, k *pawl.KeyDone) (pawl.Key, error) {
		if err := checkKeyDone(k); err != nil {
			return pawl.Key{}, err
		}
		return e.heldKey(ctx, c.Namespace, status, pawl.KeyName{Scope: k.Scope, Key: k.Key}, ownHash(k.Scope, k.Key),
			func(ctx context.Context, tx store.Tx, hash string, now int64) (bool, error) {
				response := rules.OrNull(k.Response)
				if err := e.k.Blobs.Use(ctx, tx, now, status, blobsIn(k.Response)); err != nil && pawl.CodeOf(err) != pawl.CodeInvalid {
					return false, err // the result of a run is never refused
				}
				held, err := settleKey(ctx, tx, c.Namespace, k.Scope, hash, k.Token, status, response, now)
				if err != nil || held {
					return held, err
				}
				is, found, err := readKey(ctx, tx, c.Namespace, k.Scope, hash, false)
				return found && is.Token == k.Token && is.Status == status && is.Code == nil && rules.OrNull(is.Response) == response, err
			})
	})
}

// RenewKeys renews the leases of runs.
func (e *Engine) RenewKeys(ctx context.Context, calls []pawl.KeyRenew) ([]pawl.Result[pawl.Key], error) {
	if err := e.acts(ctx, "renew"); err != nil {
		return nil, err
	}
	return e.renewKeys(ctx, calls, func(k *pawl.KeyRenew) string { return ownHash(k.Scope, k.Key) })
}

// callKeys renews the leases of calls that are carried out under their keys.
type callKeys struct{ *Engine }

// RenewKeys implements pawl.KeyRenewer.
func (e callKeys) RenewKeys(ctx context.Context, calls []pawl.KeyRenew) ([]pawl.Result[pawl.Key], error) {
	return e.renewKeys(ctx, calls, func(k *pawl.KeyRenew) string { return keyHash(k.Key) })
}

func (e *Engine) renewKeys(ctx context.Context, calls []pawl.KeyRenew, hash func(*pawl.KeyRenew) string) ([]pawl.Result[pawl.Key], error) {
	c := pawl.CallerOf(ctx)
	return each(ctx, "renew", calls, func(ctx context.Context, k *pawl.KeyRenew) (pawl.Key, error) {
		if err := checkKeyRenew(k); err != nil {
			return pawl.Key{}, err
		}
		return e.heldKey(ctx, c.Namespace, "renew", pawl.KeyName{Scope: k.Scope, Key: k.Key}, hash(k),
			func(ctx context.Context, tx store.Tx, hash string, now int64) (bool, error) {
				return renewKey(ctx, tx, c.Namespace, k.Scope, hash, k.Token, lockedUntil(now, k.LockSeconds))
			})
	})
}

// heldKey changes a key that a run holds. change reports whether the run holds it.
func (e *Engine) heldKey(
	ctx context.Context,
	ns, op string,
	k pawl.KeyName,
	hash string,
	change func(ctx context.Context, tx store.Tx, hash string, now int64) (bool, error),
) (pawl.Key, error) {
	var out keyRow
	err := e.db.Do(ctx, func(ctx context.Context, tx store.Tx) error {
		now, err := tx.Now(ctx)
		if err != nil {
			return err
		}
		held, err := change(ctx, tx, hash, now)
		if err != nil {
			return err
		}
		var found bool
		if out, found, err = readKey(ctx, tx, ns, k.Scope, hash, false); err != nil {
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
func (e *Engine) GetKeys(ctx context.Context, names []pawl.KeyName) ([]pawl.Result[pawl.Key], error) {
	return each(ctx, "get", names, func(ctx context.Context, k *pawl.KeyName) (pawl.Key, error) {
		if err := checkKeyName(k); err != nil {
			return pawl.Key{}, err
		}
		return view(ctx, e, func(ctx context.Context, tx store.Tx, ns string) (pawl.Key, error) {
			now, err := tx.Now(ctx)
			if err != nil {
				return pawl.Key{}, err
			}
			row, found, err := readKey(ctx, tx, ns, k.Scope, ownHash(k.Scope, k.Key), false)
			if err == nil && (!found || row.Code != nil || row.Expires != 0 && row.Expires <= now) {
				err = pawl.NotFound("key", k.Key)
			}
			row.Key.Key = k.Key
			return row.Key, err
		})
	})
}

// ListKeys lists keys, newest first.
func (e *Engine) ListKeys(ctx context.Context, q pawl.KeyFilter) (pawl.List[pawl.Key], error) {
	q = idform.Call(q)
	if err := rules.CheckPage(&q.Page); err != nil {
		return pawl.List[pawl.Key]{}, err
	}
	return view(ctx, e, func(ctx context.Context, tx store.Tx, ns string) (pawl.List[pawl.Key], error) {
		return keysPage(ctx, tx, ns, q)
	})
}

// checkKeyBegin checks the call that begins an idempotency key.
func checkKeyBegin(k *pawl.KeyBegin) error {
	var f rules.Fields
	f.KeyName(k.Scope, k.Key)
	f.Text("/request_hash", k.RequestHash, 1, pawl.MaxKeyLen)
	f.Text("/task_id", k.TaskID, 0, pawl.MaxIDLen)
	f.Text("/item_id", k.ItemID, 0, pawl.MaxIDLen)
	f.Number("/lock_seconds", k.LockSeconds, 0, pawl.MaxLockSeconds)
	if k.TTLSeconds < -1 || k.TTLSeconds > int64(pawl.MaxDelay/time.Second) {
		f.Add("/ttl_seconds", "must lie between -1 and %d", int64(pawl.MaxDelay/time.Second))
	}
	if lock := int64(cmp.Or(k.LockSeconds, int(pawl.DefaultKeyLease/time.Second))); k.TTLSeconds > 0 && k.TTLSeconds < lock {
		f.Add("/ttl_seconds", "is shorter than the %d seconds for which a run holds the key (lock_seconds)", lock)
	}
	return f.Err("begin")
}

// checkKeyScope checks the scope of a key that a caller begins itself. Pawl begins the keys of
// reserved scopes.
func checkKeyScope(k *pawl.KeyBegin) error {
	if strings.HasPrefix(k.Scope, pawl.ReservedPrefix) {
		return pawl.Invalid("/scope", "begins with %s, which is reserved for keys of Pawl's own", pawl.ReservedPrefix)
	}
	return nil
}

// checkKeyDone checks the call that completes or fails an idempotency key.
func checkKeyDone(k *pawl.KeyDone) error {
	var f rules.Fields
	f.KeyName(k.Scope, k.Key)
	f.Text("/token", k.Token, 1, pawl.MaxKeyLen)
	f.JSON("/response", k.Response, pawl.MaxPayloadBytes)
	return f.Err("complete")
}

// checkKeyRenew checks the call that extends the lease of an idempotency key.
func checkKeyRenew(k *pawl.KeyRenew) error {
	var f rules.Fields
	f.KeyName(k.Scope, k.Key)
	f.Text("/token", k.Token, 1, pawl.MaxKeyLen)
	f.Number("/lock_seconds", k.LockSeconds, 0, pawl.MaxLockSeconds)
	return f.Err("renew")
}

// checkKeyName checks the name of an idempotency key that is read.
func checkKeyName(k *pawl.KeyName) error {
	var f rules.Fields
	f.KeyName(k.Scope, k.Key)
	return f.Err("get")
}

// keep keeps a task, and the task of an item, from being deleted until the transaction ends: a key that refers to them
// has no foreign key. What is gone is not an error. "" is none.
func keep(ctx context.Context, tx store.Tx, namespace, taskID, itemID string) error {
	if taskID == "" && itemID == "" {
		return nil
	}
	_, err := store.TaskIDs(ctx, tx, keySQL["keep tasks"], store.TaskID(taskID), store.ItemID(itemID), namespace)
	return err
}

// openKey inserts a key. It returns false when the key exists or when another open
// transaction inserts it.
func openKey(ctx context.Context, tx store.Tx, namespace string, k keyRow, now int64) (bool, error) {
	n, err := tx.Exec(ctx, keySQL["open key"], namespace, k.Scope, k.Hash, k.RequestHash, k.Token,
		store.TaskID(k.TaskID), store.ItemID(k.ItemID), now, nullable(k.Expires), k.Locked, k.Code)
	return n == 1, err
}

// reopenKey starts again a key that counts as absent.
func reopenKey(ctx context.Context, tx store.Tx, namespace string, k keyRow, now int64) error {
	_, err := tx.Exec(ctx, keySQL["reopen key"], namespace, k.Scope, k.Hash, k.RequestHash, k.Token,
		store.TaskID(k.TaskID), store.ItemID(k.ItemID), now, nullable(k.Expires), k.Locked, k.Code)
	return err
}

// takeOverKey gives a key to another run when its holder is gone or has failed. It does not expire before the run's lease ends.
func takeOverKey(ctx context.Context, tx store.Tx, namespace string, k keyRow) error {
	_, err := tx.Exec(ctx, keySQL["take over key"], namespace, k.Scope, k.Hash, k.Token, k.Locked)
	return err
}

// renewKey extends the lease of a run until a time, and the key at least as long. It
// returns false when the token is not the key's.
func renewKey(ctx context.Context, tx store.Tx, namespace, scope, hash, token string, until int64) (bool, error) {
	n, err := tx.Exec(ctx, keySQL["renew key"], namespace, scope, hash, token, until)
	return n == 1, err
}

// hitKey counts a begin that found a live key. replays is 1 when the stored answer was
// sent again.
func hitKey(ctx context.Context, tx store.Tx, namespace, scope, hash string, replays int) error {
	_, err := tx.Exec(ctx, keySQL["hit key"], namespace, scope, hash, replays)
	return err
}

// settleKey stores the answer of a run. It returns false when the token is not the key's, or the
// key is one of a call.
func settleKey(ctx context.Context, tx store.Tx, namespace, scope, hash, token, status, response string, now int64) (bool, error) {
	n, err := tx.Exec(ctx, keySQL["settle key"], namespace, scope, hash, token, status, response, now)
	return n == 1, err
}

// settleAnswer stores the answer of a call. It returns false when the token is not the
// key's.
func settleAnswer(ctx context.Context, tx store.Tx, namespace, scope, hash, token string, a pawl.Answer, now int64) (bool, error) {
	n, err := tx.Exec(ctx, keySQL["settle answer"], namespace, scope, hash, token, string(a.Body), a.Code,
		store.Text(a.Type), store.Text(a.Location), now)
	return n == 1, err
}

// dropKey removes a key whose run had no outcome, if the token is still the key's.
func dropKey(ctx context.Context, tx store.Tx, namespace, scope, hash, token string) error {
	_, err := tx.Exec(ctx, keySQL["drop key"], namespace, scope, hash, token)
	return err
}

// keyStats counts a namespace's keys, without those that belong to calls.
func keyStats(ctx context.Context, tx store.Tx, namespace string) (pawl.KeyStats, error) {
	var s pawl.KeyStats
	_, err := store.Row(ctx, tx, []any{&s.Pending, &s.Completed, &s.Failed, &s.Hits, &s.Misses, &s.Replays}, keySQL["key stats"], namespace)
	return s, err
}

func nullable(n int64) *int64 {
	if n == 0 {
		return nil
	}
	return &n
}
