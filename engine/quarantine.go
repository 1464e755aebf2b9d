package engine

import (
	"cmp"
	"context"
	"os"
	"strings"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/engine/internal/identity"
	"github.com/pawl-work/pawl/engine/internal/logs"
	"github.com/pawl-work/pawl/store/postgres"
	"github.com/pawl-work/pawl/store/sqlite"
)

// IdentityTrust is the value of Options.Identity that lets every database act.
const IdentityTrust = "trust"

// openGuard finds out whether the database may act at its place.
func (e *Engine) openGuard(ctx context.Context) (*identity.Guard, error) {
	switch how := cmp.Or(e.opts.Identity, os.Getenv("PAWL_IDENTITY")); {
	case how == IdentityTrust || e.opts.DB != nil:
		return identity.Trusted(), nil
	case how != "" && how != "check":
		return nil, &pawl.Error{Code: pawl.CodeInvalid, Op: "open", Message: "an identity is check or trust"}
	}
	return identity.Open(ctx, identity.Options{DB: e.k.Base.DB, Log: e.log, Lifted: e.adopted})
}

// Acts refuses what acts, while the database is quarantined. What uses an engine from outside asks
// it before it acts without a verb of the engine.
func (e *Engine) Acts(ctx context.Context, op string) error { return e.acts(ctx, op) }

// Quarantined reports whether the database is quarantined: reads work, and nothing acts.
func (e *Engine) Quarantined() bool { return e.k.Guard.Quarantined() }

// QuarantineReason says why the database is quarantined; "" = it is not.
func (e *Engine) QuarantineReason() string { return e.k.Guard.Why() }

// Identity says where the database is, and whether it may act there. It waits until an engine
// that knows the database could have answered.
func (e *Engine) Identity(ctx context.Context) (identity.State, error) {
	if e.k.Guard.Trusting() {
		return identity.State{KnownPlaces: []string{}}, nil
	}
	return e.k.Guard.Now(ctx)
}

// ExpectPlace admits the database once at the place that a URL names, before it is moved there.
func (e *Engine) ExpectPlace(ctx context.Context, url string) error {
	if err := e.acts(ctx, "expect"); err != nil {
		return err
	}
	named, err := named(url)
	if err != nil {
		return err
	}
	return identity.Expect(ctx, e.db, named)
}

func named(url string) (string, error) {
	scheme, _, _ := strings.Cut(url, ":")
	switch scheme {
	case "sqlite":
		path, _, _, err := sqlite.SplitURL(url)
		if err != nil {
			return "", err
		}
		return sqlite.Named(path)
	case "postgres", "postgresql":
		return postgres.Named(url)
	}
	return "", &pawl.Error{Code: pawl.CodeInvalid, Op: "adopt", Message: "a database URL begins with sqlite: or postgres://"}
}

// adopted is what an engine does when the quarantine of its database is over.
func (e *Engine) adopted(ctx context.Context) error {
	if err := e.readSecret(ctx); err != nil {
		return err
	}
	if err := logs.Rekey(ctx, e.logged); err != nil {
		e.logError(ctx, "the signing key of the adopted log could not be made; `pawl log rotate` makes it", err)
	}
	_, err := e.feed.Head(ctx)
	return err
}
