package rules

import (
	"cmp"
	"strings"
	"time"

	"github.com/pawl-work/pawl"
)

// CheckKeyBegin checks the call that begins an idempotency key.
func CheckKeyBegin(k *pawl.KeyBegin) error {
	var f Fields
	f.keyName(k.Scope, k.Key)
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

// CheckKeyScope checks the scope of a key that a caller begins itself. Pawl begins the keys of
// reserved scopes.
func CheckKeyScope(k *pawl.KeyBegin) error {
	if strings.HasPrefix(k.Scope, pawl.ReservedPrefix) {
		return pawl.Invalid("/scope", "begins with %s, which is reserved for keys of Pawl's own", pawl.ReservedPrefix)
	}
	return nil
}

// CheckKeyDone checks the call that completes or fails an idempotency key.
func CheckKeyDone(k *pawl.KeyDone) error {
	var f Fields
	f.keyName(k.Scope, k.Key)
	f.Text("/token", k.Token, 1, pawl.MaxKeyLen)
	f.JSON("/response", k.Response, pawl.MaxPayloadBytes)
	return f.Err("complete")
}

// CheckKeyRenew checks the call that extends the lease of an idempotency key.
func CheckKeyRenew(k *pawl.KeyRenew) error {
	var f Fields
	f.keyName(k.Scope, k.Key)
	f.Text("/token", k.Token, 1, pawl.MaxKeyLen)
	f.Number("/lock_seconds", k.LockSeconds, 0, pawl.MaxLockSeconds)
	return f.Err("renew")
}

// CheckKeyName checks the name of an idempotency key that is read.
func CheckKeyName(k *pawl.KeyName) error {
	var f Fields
	f.keyName(k.Scope, k.Key)
	return f.Err("get")
}

// keyName checks the name of an idempotency key.
func (f *Fields) keyName(scope, key string) {
	f.Text("/scope", scope, 0, pawl.MaxScopeLen)
	f.Text("/key", key, 1, pawl.MaxKeyLen)
}

// CheckProvenance checks what a call states about its caller; nil is valid.
func CheckProvenance(verb string, p *pawl.Provenance) error {
	if p == nil {
		return nil
	}
	var f Fields
	f.Text("/provenance/agent_id", p.AgentID, 0, pawl.MaxIDLen)
	f.Text("/provenance/agent_name", p.AgentName, 0, pawl.MaxIDLen)
	f.Text("/provenance/agent_version", p.AgentVersion, 0, pawl.MaxIDLen)
	f.Text("/provenance/model", p.Model, 0, pawl.MaxIDLen)
	f.Text("/provenance/request_fingerprint", p.RequestFingerprint, 0, pawl.MaxFingerprintLen)
	f.Text("/provenance/idempotency_key", p.IdempotencyKey, 0, pawl.MaxKeyLen)
	f.Object("/provenance/extra", &p.Extra, pawl.MaxMetadataBytes)
	return f.Err(verb)
}
