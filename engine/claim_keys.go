package engine

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/pawl-work/pawl/engine/internal/apikeys"
	"github.com/pawl-work/pawl/store"
)

// keyCheckDelay is the time between a claim with an API key and the check of that key.
const keyCheckDelay = time.Second

// claimKeys holds the API keys that items were claimed with since the last check. A claim
// may commit after its key was revoked and the key's leases were ended. So each key is
// looked up after its claims, once a second for all keys. Either the check finds the
// revocation, or the revocation comes later and finds the leases.
type claimKeys struct {
	mu       sync.Mutex
	due      map[string]bool
	checking bool
	work     sync.WaitGroup
}

// claimedWith schedules the check of an API key; the claim must be committed.
func (e *Engine) claimedWith(key string) {
	k := &e.claimKeys
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.due == nil {
		k.due = map[string]bool{}
	}
	k.due[key] = true
	if !k.checking && e.open.Err() == nil {
		k.checking = true
		k.work.Go(e.checkClaimKeys)
	}
}

// checkClaimKeys runs until no key is due, or the engine is closed.
func (e *Engine) checkClaimKeys() {
	k := &e.claimKeys
	timer := time.NewTimer(keyCheckDelay)
	defer timer.Stop()
	for {
		select {
		case <-e.open.Done():
			return // the sweep of another engine, or of the next start, ends the leases
		case <-timer.C:
		}
		k.mu.Lock()
		ids := slices.Collect(maps.Keys(k.due))
		clear(k.due)
		k.checking = len(ids) > 0
		k.mu.Unlock()
		if len(ids) == 0 {
			return
		}
		if err := e.endRevoked(store.For(e.open, store.Background), ids); err != nil {
			e.logError(e.open, "looking up API keys that items were claimed with failed; retrying", err)
			k.mu.Lock()
			for _, id := range ids {
				k.due[id] = true
			}
			k.mu.Unlock()
		}
		timer.Reset(keyCheckDelay)
	}
}

// wait waits for the check in progress. The engine must be closed.
func (k *claimKeys) wait() {
	k.mu.Lock() // a claim that began before the close has started its check by now
	clear(k.due)
	k.mu.Unlock()
	k.work.Wait()
}

// endRevoked ends the leases of those of ids that are revoked or have expired.
func (e *Engine) endRevoked(ctx context.Context, ids []string) error {
	ended, err := view(ctx, e, func(ctx context.Context, tx store.Tx, _ string) ([]string, error) {
		return apikeys.EndedOf(ctx, tx, ids)
	})
	for i := 0; err == nil && i < len(ended); i++ {
		err = e.revokeKey(ctx, ended[i], system)
	}
	return err
}
