package apikeys

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"errors"
	"strings"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/engine/internal/kernel"
	"github.com/pawl-work/pawl/store"
)

// CreateAPIKey makes an API key. It returns the token that the holder sends; only the
// token's hash is stored.
func (a *APIKeys) CreateAPIKey(ctx context.Context, n pawl.NewAPIKey) (key pawl.APIKey, token string, err error) {
	if n.Namespace == "" {
		n.Namespace = pawl.DefaultNamespace
	}
	if n.ActorType == "" {
		n.ActorType = pawl.ActorAPI
	}
	if n.ActorID == "" {
		n.ActorID = n.Name
	}
	if err := check(&n); err != nil {
		return key, "", err
	}
	id := a.k.IDs.Next("key")
	token = "pawl_" + strings.TrimPrefix(id, "key_") + "_" + rand.Text()
	r := row{
		SecretHash: hashToken(token),
		APIKey: pawl.APIKey{ID: id, Namespace: n.Namespace, Name: n.Name, Roles: n.Roles, Payloads: n.Payloads,
			Rate: n.Rate, ActorType: n.ActorType, ActorID: n.ActorID},
	}
	about := pawl.CallerOf(ctx)
	about.Namespace = n.Namespace
	err = a.k.DB.Do(pawl.As(ctx, about), func(ctx context.Context, tx store.Tx) error {
		now, err := tx.Now(ctx)
		if err != nil {
			return err
		}
		r.CreatedAt = store.Stamp(now)
		if n.Expires > 0 {
			at := r.CreatedAt.Add(n.Expires)
			r.ExpiresAt = &at
		}
		return insert(ctx, tx, r)
	})
	return r.APIKey, token, err
}

func hashToken(token string) string {
	sum := sha256.Sum256([]byte(token)) // 128 random bits need no salt, and no slow hash
	return hex.EncodeToString(sum[:])
}

// FindAPIKey returns the API key of a token. It returns ErrUnauthenticated if the token
// is unknown or its key is expired or revoked.
func (a *APIKeys) FindAPIKey(ctx context.Context, token string) (pawl.APIKey, error) {
	no := func(why string) (pawl.APIKey, error) {
		return pawl.APIKey{}, &pawl.Error{Code: pawl.CodeUnauthenticated, Message: why}
	}
	parts := strings.Split(token, "_")
	if len(parts) != 3 || parts[0] != "pawl" || len(parts[1]) != 26 || len(token) > 100 {
		return no("this is no API key of Pawl's")
	}
	var r row
	var found bool
	var now int64
	ctx = kernel.ForAll(ctx)
	err := a.k.DB.View(store.For(ctx, store.Heartbeats), func(ctx context.Context, tx store.Tx) (err error) { // not queued behind other reads
		if now, err = tx.Now(ctx); err != nil {
			return err
		}
		r, found, err = get(ctx, tx, "key_"+parts[1])
		return err
	})
	switch {
	case err != nil:
		return pawl.APIKey{}, err
	case !found || subtle.ConstantTimeCompare([]byte(r.SecretHash), []byte(hashToken(token))) != 1:
		return no("this API key is not known here")
	case r.RevokedAt != nil:
		return no("this API key has been revoked")
	case r.ExpiresAt != nil && r.ExpiresAt.UnixMicro() <= now:
		return no("this API key has expired")
	}
	return r.APIKey, nil
}

// ListAPIKeys lists the keys of all namespaces, newest first.
func (a *APIKeys) ListAPIKeys(ctx context.Context) (out []pawl.APIKey, err error) {
	err = a.k.DB.View(kernel.ForAll(ctx), func(ctx context.Context, tx store.Tx) error {
		rows, err := list(ctx, tx)
		out = make([]pawl.APIKey, len(rows))
		for i, r := range rows {
			out[i] = r.APIKey
		}
		return err
	})
	return out, err
}

// RevokeAPIKey revokes a key for good and ends the leases that were claimed with it.
// Their items are queued again; this is not counted as a failure. A server that knows the
// key accepts it for at most one more second. A lease that is claimed in that second is
// ended within another second. A lease that another transaction locks is left to the sweep, for which it is due at once.
func (a *APIKeys) RevokeAPIKey(ctx context.Context, id string) (key pawl.APIKey, err error) {
	ctx = kernel.ForAll(ctx)
	err = a.k.DB.Do(ctx, func(ctx context.Context, tx store.Tx) error {
		now, err := tx.Now(ctx)
		if err != nil {
			return err
		}
		found, err := revoke(ctx, tx, id, now)
		if err == nil && !found {
			err = pawl.NotFound("API key", id)
		}
		if err != nil {
			return err
		}
		r, _, err := get(ctx, tx, id)
		key = r.APIKey
		return err
	})
	if err == nil {
		err = a.k.Tasks(kernel.Origin{}).EndLeases(ctx, id, kernel.Actor(pawl.CallerOf(ctx), pawl.ActorUser, ""))
	}
	return key, err
}

// UseAPIKeys records that keys have just been used.
func (a *APIKeys) UseAPIKeys(ctx context.Context, uses []pawl.APIKeyUse) error {
	err := a.k.DB.Do(kernel.ForAll(ctx), func(ctx context.Context, tx store.Tx) error {
		now, err := tx.Now(ctx)
		if err != nil {
			return err
		}
		return use(ctx, tx, uses, now)
	})
	if !errors.Is(err, store.ErrFenced) {
		return err
	}
	if len(uses) > 1 { // a key of a namespace that is being moved; the move copies it as it is
		for _, u := range uses {
			if err := a.UseAPIKeys(ctx, []pawl.APIKeyUse{u}); err != nil {
				return err
			}
		}
	}
	return nil
}
