package dashboard

import (
	"context"
	"net/url"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/internal/clock"
)

// The pages of what belongs to the whole database: sweeps, relays and API keys.

// keyManager lists and revokes API keys; an engine is one.
type keyManager interface {
	ListAPIKeys(ctx context.Context) ([]pawl.APIKey, error)
	RevokeAPIKey(ctx context.Context, id string) (pawl.APIKey, error)
}

// sweepsPage is the totals and the newest passes.
type sweepsPage struct {
	pawl.SweepTotals
	Passes section[pawl.SweepStats]
}

func (d *server) sweeps(v *request) (any, error) {
	stats, err := d.svc.Stats(v.Context())
	if err != nil {
		return nil, err
	}
	v.shows("/v1/sweeps", pawlCommand("stats"))
	return &sweepsPage{stats.Sweeps, sectionOf(d.svc.ListSweeps(v.Context(), v.pageOf("cursor", mediumRows)))}, nil
}

// relaysPage is all relays.
type relaysPage struct {
	pawl.List[pawl.Relay]
	MayKeep bool
}

func (d *server) relays(v *request) (any, error) {
	v.shows("/v1/relays", pawlCommand("relay", "ls"))
	list, err := d.svc.ListRelays(v.Context())
	return &relaysPage{list, true}, err
}

// maxKeys is how many keys a page shows.
const maxKeys = 200

// apiKey is an API key with its state.
type apiKey struct {
	pawl.APIKey
	State string // valid, expired, revoked
}

// keysPage is the newest API keys. No secret is among what the server knows of them.
type keysPage struct {
	Items []apiKey
	More  int // that are not shown
}

func (d *server) keys(v *request) (any, error) {
	m, ok := d.svc.(keyManager)
	if !ok {
		return nil, pawl.ErrNotFound
	}
	keys, err := m.ListAPIKeys(v.Context())
	p := &keysPage{More: max(0, len(keys)-maxKeys)}
	for _, k := range keys[:len(keys)-p.More] {
		state := "valid"
		switch now := clock.Now(); {
		case k.RevokedAt != nil:
			state = "revoked"
		case k.ExpiresAt != nil && !k.ExpiresAt.After(now):
			state = "expired"
		}
		p.Items = append(p.Items, apiKey{k, state})
	}
	return p, err
}

// revokeKey revokes a key. The form repeats its id, so that no single press of a button does it.
func revokeKey(ctx context.Context, d *server, id string, form url.Values) error {
	m, ok := d.svc.(keyManager)
	if !ok {
		return pawl.ErrNotFound
	}
	if form.Get("sure") != id {
		return pawl.Invalid("/sure", "is not checked: a key is revoked for good")
	}
	_, err := m.RevokeAPIKey(ctx, id)
	return err
}
