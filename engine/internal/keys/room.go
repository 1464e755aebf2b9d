// Package keys is the room of idempotency keys: those that programs begin and end themselves, and those under which whole
// calls are carried out once.
package keys

import (
	"context"
	"sync"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/engine/internal/kernel"
	"github.com/pawl-work/pawl/store"
)

// Keys are the idempotency keys of a database. Its methods are those of pawl.Service and pawl.Idempotent.
type Keys struct {
	k *kernel.Kernel
	// answering has the keys of calls in flight in this process: [3]string{namespace, scope, key}.
	answering *sync.Map
}

// New returns the keys of a database.
func New(k *kernel.Kernel) *Keys { return &Keys{k, &sync.Map{}} }

// Over returns the keys over another Kernel of the database.
func Over(ks *Keys, k *kernel.Kernel) *Keys { return &Keys{k, ks.answering} }

// Declared is the declaration of the room. A key names the task or item that it is about, and stays without it. The marks
// of copies are in the same table, in a namespace and a scope of their own.
func Declared() kernel.Room {
	return kernel.Room{
		Name: "keys",
		Tables: []kernel.Table{{Name: "idempotency_keys", Key: "namespace", Values: []string{"response"},
			Plain:   []string{"namespace", "scope", "key_hash", "request_hash", "status", "token", "content_type", "location"},
			Changes: "when its run ends, or another begins it; no event tells of it"}},
		Steps: []store.Step{{Name: "expired keys", Run: removeExpired}, {Name: "old keys", Run: removeOld, Preview: countOld}},
		Rules: []store.RuleSearch{{Rule: store.Rule{Name: "keys",
			Says:   "a pending key has a holder and an end of its lease, any other key the time of its answer",
			Repair: "delete the key"}, SQL: texts["wrong keys"]}},
	}
}

// removeExpired removes the keys that have expired.
func removeExpired(ctx context.Context, p store.Sweeping) error {
	return remove(ctx, p, "remove expired", 0)
}

// removeOld removes the keys without expiry whose call ended longer than RetainKeys ago.
func removeOld(ctx context.Context, p store.Sweeping) error {
	if p.Options.RetainKeys <= 0 {
		return nil
	}
	return remove(ctx, p, "remove old", p.Options.RetainKeys.Microseconds())
}

func remove(ctx context.Context, p store.Sweeping, query string, age int64) error {
	n, err := p.Repeat(ctx, func(ctx context.Context, tx store.Tx, now int64, limit int) (int64, error) {
		return tx.Exec(ctx, texts[query], now-age, limit)
	})
	p.Stats.KeysPruned += n
	return err
}

// countOld counts the keys that have expired, and those that removeOld would remove.
func countOld(ctx context.Context, tx store.Tx, o *pawl.SweepOptions, out *pawl.Prunable) error {
	now, err := tx.Now(ctx)
	if err != nil {
		return err
	}
	endedBy := int64(0) // no age: keys are kept
	if o.RetainKeys > 0 {
		endedBy = now - o.RetainKeys.Microseconds()
	}
	_, err = store.Row(ctx, tx, []any{&out.Keys}, texts["count old"], now, endedBy)
	return err
}
