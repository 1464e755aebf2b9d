package access

import (
	"cmp"
	"context"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/internal/clock"
)

// Principal is a caller without an API key: an identity provider or a trusted proxy says who
// it is.
type Principal struct {
	// ID is the same at every login: issuer#subject, or proxy#user. Leases that the principal
	// claims belong to it, and events have it as their key_id.
	ID string `json:"id"`
	// Name is the actor's: events name user/Name.
	Name    string    `json:"name"`
	Grants  []Grant   `json:"grants"`
	Expires time.Time `json:"expires,omitzero"` // zero = never
}

// Grant is the roles of a principal in a namespace, or in pawl.AnyNamespace.
type Grant struct {
	Namespace string   `json:"namespace"`
	Roles     []string `json:"roles"`
}

// Tokens verifies the tokens of identity providers; *signin.Verifier implements it.
type Tokens interface {
	// Principal returns whom a token names. It returns ErrUnauthenticated for a token that is
	// not valid, ErrForbidden for a principal without roles, and an error of code unavailable
	// if the keys of the issuer cannot be read.
	Principal(ctx context.Context, token string) (Principal, error)
}

func (p *Principal) roles(namespace string) []string {
	for _, g := range p.Grants {
		if g.Namespace == namespace {
			return g.Roles
		}
	}
	return nil
}

// in returns the principal's roles in a namespace, in the form of an API key. A principal
// without roles there gets those of the default namespace, or of its first grant; the key then
// refuses calls for the namespace that was asked.
func (p *Principal) in(namespace string) *pawl.APIKey {
	k := &pawl.APIKey{ID: p.ID, Name: p.Name, ActorType: pawl.ActorUser, ActorID: p.Name}
	everywhere := p.roles(pawl.AnyNamespace)
	if len(everywhere) > 0 {
		k.Namespace = pawl.AnyNamespace
		k.Roles = slices.Compact(slices.Sorted(slices.Values(slices.Concat(everywhere, p.roles(cmp.Or(namespace, pawl.DefaultNamespace))))))
		return k
	}
	for _, name := range []string{namespace, pawl.DefaultNamespace, p.Grants[0].Namespace} {
		if k.Namespace, k.Roles = name, p.roles(name); len(k.Roles) > 0 {
			break
		}
	}
	return k
}

func (p *Principal) check() error {
	switch {
	case len(p.Grants) == 0:
		return &pawl.Error{Code: pawl.CodeForbidden, Message: "no role is mapped to the groups of " + p.Name}
	case !p.Expires.IsZero() && !clock.Now().Before(p.Expires):
		return &pawl.Error{Code: pawl.CodeUnauthenticated, Message: "the login of " + p.Name + " has expired"}
	}
	return nil
}

// Asking returns the pass of a call that names a namespace and an actor.
func (p Pass) Asking(c pawl.Caller) Pass {
	p.Asked = c
	if p.who != nil {
		p.Key = p.who.in(c.Namespace)
	}
	return p
}

// Roams reports whether the caller may choose among namespaces.
func (p Pass) Roams() bool {
	return p.Key != nil && (p.Key.Namespace == pawl.AnyNamespace || p.who != nil && len(p.who.Grants) > 1)
}

// Namespaces returns those among which the caller may choose; nil = all.
func (p Pass) Namespaces() (out []string) {
	if p.who == nil {
		return nil
	}
	for _, g := range p.who.Grants {
		if g.Namespace == pawl.AnyNamespace {
			return nil
		}
		out = append(out, g.Namespace)
	}
	return out
}

// EnterAs identifies a principal that has logged in. It returns ErrUnauthenticated if the login
// has expired, ErrForbidden if the principal has no roles, and ErrLimit if it makes too many
// calls.
func (g *Gate) EnterAs(who Principal) (Pass, error) {
	if err := who.check(); err != nil {
		return Pass{}, err
	}
	p := Pass{Key: who.in(""), who: &who}
	return p, g.Count(p, 1)
}

// EnterRequest identifies the caller of a request, whose context may already have the pass of
// its caller: by its Authorization header, or by the headers of a trusted proxy. It returns the
// errors of Enter.
func (g *Gate) EnterRequest(r *http.Request) (Pass, error) {
	if p := Of(r.Context()); p.Key != nil {
		return p, nil
	}
	auth := r.Header.Values("Authorization")
	if len(auth) > 1 {
		return Pass{}, &pawl.Error{Code: pawl.CodeUnauthenticated, Message: "Authorization is given more than once"}
	}
	scheme, _, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	if f := forwardedOf(r.Context()); f.user != nil && !strings.EqualFold(scheme, "Bearer") {
		return g.enterUser(f)
	} else if f.refused != nil && len(auth) == 0 && g.o.Required {
		return Pass{}, f.refused
	}
	return g.Enter(From(r.Context(), r.RemoteAddr), Bearer(r.Header))
}

// AllowLogin returns ErrLimit if the address of a context (see From) has tried too many wrong keys or
// logins.
func (g *Gate) AllowLogin(ctx context.Context) error { return g.wrong.check(ctx, "wrong logins") }

// WrongLogin counts a login that failed as a wrong key.
func (g *Gate) WrongLogin(ctx context.Context) { g.wrong.tried(ctx) }
