package engine

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/engine/internal/identity"
	"github.com/pawl-work/pawl/engine/internal/logs"
	"github.com/pawl-work/pawl/engine/internal/relays"
	"github.com/pawl-work/pawl/engine/internal/schedules"
	"github.com/pawl-work/pawl/store"
)

// Adoption is what Adopt has done.
type Adoption struct {
	Adopted     *string `json:"adopted"` // original or copy; nil = the database was not quarantined
	Epoch       int64   `json:"epoch"`   // of the feed
	LeasesEnded int64   `json:"leases_ended"`
	Schedules   int64   `json:"schedules"` // how many begin from now, or are turned off
}

// Adopt ends the quarantine of the database. It becomes the one that acts: a new epoch of the feed
// and of the log begins, all leases end, schedules begin from now, and relays are disabled until
// a person says from where they go on. As a copy for tests it has relays and schedules off for good.
// In both cases its tokens are signed with a new key. A database that is not quarantined stays as it
// is. An adoption that was interrupted is repeated.
func (e *Engine) Adopt(ctx context.Context, asCopy bool) (Adoption, error) {
	var out Adoption
	if state, err := e.Identity(ctx); err != nil || !state.Quarantined {
		if err == nil {
			err = e.db.View(forAll(ctx), func(ctx context.Context, tx store.Tx) (err error) {
				out.Epoch, err = store.FeedEpoch(ctx, tx)
				return err
			})
		}
		return out, err
	}
	ctx = store.WithLimit(store.For(pawl.As(ctx, pawl.Caller{ActorType: pawl.ActorSystem}), store.Background), passLimit)
	var err error
	if out.LeasesEnded, err = e.endLeases(ctx); err != nil {
		return out, err
	}
	if err := e.feed.Log(ctx); err != nil { // what follows is of the new history
		return out, err
	}
	err = e.db.Do(ctx, func(ctx context.Context, tx store.Tx) (err error) {
		out.Epoch, out.Schedules, err = e.adopt(ctx, tx, asCopy)
		return err
	})
	if err != nil {
		return out, err
	}
	how := "original"
	if asCopy {
		how = "copy"
	}
	out.Adopted = &how
	e.k.Guard.Lift(ctx)
	return out, nil
}

// AdoptFrom is Adopt for the database that acts, whose relays go on at once, as by pawl.RelayKeeper's ResumeRelay, from their
// stored positions or from what the adoption does. Those that were disabled before stay so, and so do those that an interruption
// leaves. One that cannot go on stops no other: the error names it.
func (e *Engine) AdoptFrom(ctx context.Context, from string) (Adoption, error) {
	if from != pawl.RelayFromStored && from != pawl.RelayFromNow {
		return Adoption{}, pawl.Invalid("/relays", "must be %s or %s, not %q", pawl.RelayFromStored, pawl.RelayFromNow, from)
	}
	before, err := e.ListRelays(ctx)
	if err == nil && from == pawl.RelayFromNow {
		from, err = e.newestPosition(ctx)
	}
	if err != nil {
		return Adoption{}, err
	}
	out, err := e.Adopt(ctx, false)
	if err != nil || out.Adopted == nil {
		return out, err
	}
	for _, r := range before.Items {
		if r.DisabledAt != nil {
			continue
		}
		if _, failed := e.ResumeRelay(ctx, r.Sink, from); failed != nil {
			err = errors.Join(err, fmt.Errorf("the database was adopted, but its relay %s waits: %w", r.Sink, failed))
		}
	}
	return out, err
}

// newestPosition returns the newest position of the feed, once all that happened until now has one.
func (e *Engine) newestPosition(ctx context.Context) (string, error) {
	if err := e.feed.Log(ctx); err != nil {
		return "", err
	}
	head, err := e.feed.Head(forAll(ctx))
	return strconv.FormatInt(head, 10), err
}

// endLeases ends all leases, in batches.
func (e *Engine) endLeases(ctx context.Context) (ended int64, err error) {
	for {
		n, err := change(ctx, e, func(ctx context.Context, tx store.Tx) (int, effects, error) {
			items, err := allLeases(ctx, tx, revokeBatch)
			if err != nil || len(items) == 0 {
				return 0, effects{}, err
			}
			_, queued, err := store.RevokeLeases(ctx, tx, items, system, "the database was adopted")
			return len(queued), effects{queued: queued}, err
		})
		if ended += int64(n); err != nil || n == 0 {
			return ended, err
		}
	}
}

// adopt is the part of Adopt that is done as a whole.
func (e *Engine) adopt(ctx context.Context, tx store.Tx, asCopy bool) (epoch, fromNow int64, err error) {
	position, leaves, err := identity.Shared(ctx, tx)
	if err != nil {
		return 0, 0, err
	}
	if epoch, err = store.RaiseEpoch(ctx, tx, position); err != nil {
		return 0, 0, err
	}
	if err := logs.Begin(ctx, tx, leaves); err != nil {
		return 0, 0, err
	}
	if err := errors.Join(disableRelays(ctx, tx, asCopy), endGates(ctx, tx)); err != nil {
		return 0, 0, err
	}
	if fromNow, err = schedules.FromNow(ctx, tx, asCopy); err != nil {
		return 0, 0, err
	}
	secret := make([]byte, 32)
	_, _ = rand.Read(secret)
	if err := renewTokenSecret(ctx, tx, hex.EncodeToString(secret)); err != nil {
		return 0, 0, err
	}
	return epoch, fromNow, e.k.Guard.Adopt(ctx, tx, asCopy)
}

// disableRelays disables all relays: what the original has sent since is not known here.
func disableRelays(ctx context.Context, tx store.Tx, asCopy bool) error {
	return relays.Each(ctx, tx, func(now int64, r *pawl.Relay) error {
		at := store.Stamp(now)
		r.DisabledAt, r.FailingAt, r.Holder, r.HeldUntil = &at, nil, "", nil
		r.Error = "the database was adopted: `pawl relay resume " + r.Sink + " --from stored` sends what follows this position, also what " +
			"the original has sent since; `--from now` sends only what comes"
		if asCopy {
			r.Error = "the database is a copy for tests"
		}
		return nil
	})
}

// allLeases locks up to limit leases, expired ones too.
func allLeases(ctx context.Context, tx store.Tx, limit int) ([]string, error) {
	return store.ItemIDs(ctx, tx, placeSQL["all leases"], limit)
}

// endGates ends the leases of gates: the next sweep makes unknown what they have sent.
func endGates(ctx context.Context, tx store.Tx) error {
	now, err := tx.Now(ctx)
	if err == nil {
		_, err = tx.Exec(ctx, placeSQL["end gates"], now)
	}
	return err
}

// renewTokenSecret replaces the secret that signs task tokens: all tokens end.
func renewTokenSecret(ctx context.Context, tx store.Tx, secret string) error {
	_, err := tx.Exec(ctx, placeSQL["new secret"], secret)
	return err
}
