package keys

import (
	"cmp"
	"strings"
	"time"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/engine/internal/rules"
)

// checkBegin checks the call that begins an idempotency key.
func checkBegin(k *pawl.KeyBegin) error {
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

// checkScope checks the scope of a key that a caller begins itself. Pawl begins the keys of
// reserved scopes.
func checkScope(k *pawl.KeyBegin) error {
	if strings.HasPrefix(k.Scope, pawl.ReservedPrefix) {
		return pawl.Invalid("/scope", "begins with %s, which is reserved for keys of Pawl's own", pawl.ReservedPrefix)
	}
	return nil
}

// checkDone checks the call that completes or fails an idempotency key.
func checkDone(k *pawl.KeyDone) error {
	var f rules.Fields
	f.KeyName(k.Scope, k.Key)
	f.Text("/token", k.Token, 1, pawl.MaxKeyLen)
	f.JSON("/response", k.Response, pawl.MaxPayloadBytes)
	return f.Err("complete")
}

// checkRenew checks the call that extends the lease of an idempotency key.
func checkRenew(k *pawl.KeyRenew) error {
	var f rules.Fields
	f.KeyName(k.Scope, k.Key)
	f.Text("/token", k.Token, 1, pawl.MaxKeyLen)
	f.Number("/lock_seconds", k.LockSeconds, 0, pawl.MaxLockSeconds)
	return f.Err("renew")
}

// checkName checks the name of an idempotency key that is read.
func checkName(k *pawl.KeyName) error {
	var f rules.Fields
	f.KeyName(k.Scope, k.Key)
	return f.Err("get")
}
