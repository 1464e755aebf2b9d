package engine

import (
	"context"
	"maps"
	"slices"
	"sync"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/engine/internal/apikeys"
	"github.com/pawl-work/pawl/store"
)

// ofAttempts caches what never changes of an attempt. When it is full, the older half is dropped.
type ofAttempts[V any] struct {
	mu       sync.Mutex
	new, old map[claimAttempt]V
}

const attemptsKept = 50_000

func (o *ofAttempts[V]) note(a claimAttempt, v V) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.new == nil || len(o.new) >= attemptsKept {
		o.old, o.new = o.new, map[claimAttempt]V{}
	}
	o.new[a] = v
}

func (o *ofAttempts[V]) of(a claimAttempt) (V, bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	v, known := o.new[a]
	if !known {
		v, known = o.old[a]
	}
	return v, known
}

func (o *ofAttempts[V]) forget() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.new, o.old = nil, nil
}

// noteKeys remembers the API key of claims.
func (e *Engine) noteKeys(ctx context.Context, c pawl.Caller, rows []store.Claimed) {
	if c.Key == "" || len(rows) == 0 {
		return
	}
	e.after(func() {
		for i := range rows {
			e.leaseKeys.note(claimAttempt{ItemID: rows[i].ItemID, N: rows[i].Attempt}, c.Key)
		}
		e.root.claimedWith(c.Key) // the check runs after this transaction, on the root
	})
}

// holdsLease reports whether the caller's API key holds the lease of an item.
func (e *Engine) holdsLease(ctx context.Context, tx store.Tx, it store.ItemRow) (bool, error) {
	key := pawl.CallerOf(ctx).Key
	if key == "" || !it.State.Leased() {
		return false, nil
	}
	now, err := tx.Now(ctx)
	if err != nil || it.LeaseExpires <= now {
		return false, err
	}
	keys, err := keysOfLeases(ctx, tx, []string{it.ID})
	return keys[claimAttempt{ItemID: it.ID, N: it.Attempt}] == key, err
}

// keyLasts refuses the lease of an item that was claimed with an API key that has ended; the sweep is about to end it.
func (e *Engine) keyLasts(ctx context.Context, item string) error {
	return e.db.View(ctx, func(ctx context.Context, tx store.Tx) error {
		keys, err := keysOfLeases(ctx, tx, []string{item})
		if err != nil || len(keys) == 0 {
			return err
		}
		ended, err := apikeys.EndedOf(ctx, tx, slices.Collect(maps.Values(keys)))
		if err == nil && len(ended) > 0 {
			err = &pawl.Error{Code: pawl.CodeLeaseLost, Reason: pawl.ReasonReleased, Message: string(store.EndedKey)}
		}
		return err
	})
}

// leasesOfOtherKeys returns an error for each fence whose lease was claimed with
// another API key, whatever worker id the caller gives.
func (e *Engine) leasesOfOtherKeys(ctx context.Context, c pawl.Caller, fences []pawl.Fence) (map[pawl.Fence]error, error) {
	if c.Key == "" {
		return nil, nil
	}
	known := map[claimAttempt]string{}
	var ask []string
	for _, f := range fences {
		a := claimAttempt{ItemID: f.ItemID, N: f.Attempt}
		if key, noted := e.leaseKeys.of(a); noted {
			known[a] = key
		} else {
			ask = append(ask, f.ItemID)
		}
	}
	if len(ask) > 0 {
		var keys map[claimAttempt]string
		err := e.db.View(ctx, func(ctx context.Context, tx store.Tx) (err error) {
			keys, err = keysOfLeases(ctx, tx, ask)
			return err
		})
		if err != nil {
			return nil, err
		}
		for a, key := range keys {
			known[a] = key
			e.after(func() { e.leaseKeys.note(a, key) })
		}
	}
	var out map[pawl.Fence]error
	for _, f := range fences {
		if key, is := known[claimAttempt{ItemID: f.ItemID, N: f.Attempt}]; is && key != c.Key {
			it, _, err := e.k.Item(ctx, f.ItemID)
			if err == nil {
				err = &pawl.Error{
					Code:    pawl.CodeLeaseLost,
					Reason:  pawl.ReasonTaken,
					State:   string(it.State),
					Holder:  it.LastWorkerID,
					Attempt: it.Attempt,
					Message: "the lease belongs to another API key",
				}
			}
			if out == nil {
				out = map[pawl.Fence]error{}
			}
			out[f] = err
		}
	}
	return out, nil
}

// claimAttempt is one claim of an item.
type claimAttempt struct {
	ItemID string
	N      int
}

// keysOfLeases returns the API keys that the leases of items were claimed with. A lease
// that was claimed without a key is not in the answer.
func keysOfLeases(ctx context.Context, tx store.Tx, items []string) (map[claimAttempt]string, error) {
	out := map[claimAttempt]string{}
	err := store.EachRow(ctx, tx, func(rows store.Rows) error {
		var a claimAttempt
		var key string
		if err := rows.Scan((*store.ItemID)(&a.ItemID), &a.N, &key); err != nil {
			return err
		}
		out[a] = key
		return nil
	}, revokeSQL["keys of leases"], store.ItemList(items))
	return out, err
}
