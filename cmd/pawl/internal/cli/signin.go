package cli

import (
	"errors"
	"os"
	"strings"
	"time"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/access"
	"github.com/pawl-work/pawl/access/signin"
)

// SignInConfig says who identifies callers besides API keys.
type SignInConfig struct {
	Groups      []string    `koanf:"groups"`
	GroupsClaim string      `koanf:"groups_claim"`
	NameClaim   string      `koanf:"name_claim"`
	OIDC        oidcConfig  `koanf:"oidc"`
	JWT         jwtConfig   `koanf:"jwt"`
	Proxy       proxyConfig `koanf:"proxy"`
}

type oidcConfig struct {
	Issuer     string   `koanf:"issuer"`
	ClientID   string   `koanf:"client_id"`
	Secret     string   `koanf:"client_secret"`
	SecretFile string   `koanf:"client_secret_file"`
	Redirect   string   `koanf:"redirect_url"`
	After      string   `koanf:"after_logout_url"`
	Scopes     []string `koanf:"scopes"`
}

type jwtConfig struct {
	Issuers   []string      `koanf:"issuers"`
	Audiences []string      `koanf:"audiences"`
	JWKS      string        `koanf:"jwks_url"`
	Leeway    time.Duration `koanf:"leeway"`
}

type proxyConfig struct {
	From   []string `koanf:"from"`
	User   string   `koanf:"user_header"`
	Groups string   `koanf:"groups_header"`
}

// SignIn is what identifies callers besides API keys. What is not configured is nil.
type SignIn struct {
	Provider *signin.Provider
	Verifier *signin.Verifier
	Proxy    *access.Proxy
	Users    bool // there is at least one way to call without an API key
}

// SignIn returns what the settings describe. It refuses settings that contradict each other, or
// that have no effect. guarded says that every call needs a key; hosts are those of serve.hosts.
func (c SignInConfig) SignIn(guarded bool, hosts []string) (s SignIn, err error) {
	o, j, p := c.OIDC, c.JWT, c.Proxy
	oidc := o.Issuer+o.ClientID+o.Secret+o.SecretFile+o.Redirect+o.After != "" || len(o.Scopes) > 0
	jwt := len(j.Issuers) > 0 || len(j.Audiences) > 0 || j.JWKS != "" || j.Leeway != 0
	header := p.User != "" || p.Groups != ""
	s.Users = oidc || jwt || header
	switch {
	case s.Users && !guarded:
		return s, Invalid("serve.oidc, serve.jwt and serve.proxy.user_header need serve.auth: required. Without it, " +
			"every caller on loopback may do everything, whoever it is")
	case s.Users && len(c.Groups) == 0:
		return s, Invalid("serve.groups is empty: nobody would have a role. Write GROUP=ROLE,ROLE@NAMESPACE")
	case !s.Users && len(c.Groups) > 0:
		return s, Invalid("serve.groups has no effect without serve.oidc, serve.jwt or serve.proxy.user_header")
	case !oidc && !jwt && c.GroupsClaim+c.NameClaim != "":
		return s, Invalid("serve.groups_claim and serve.name_claim have no effect without serve.oidc or serve.jwt")
	case header && (p.User == "" || len(p.From) == 0):
		return s, Invalid("a proxy that names users needs serve.proxy.user_header and serve.proxy.from: " +
			"without its addresses, every caller could name any user")
	case header && len(hosts) == 0:
		return s, Invalid("a proxy that names users needs serve.hosts, the names under which it is reached: without them, a web page " +
			"that makes its own name resolve to the proxy acts as the user (DNS rebinding)")
	case strings.EqualFold(p.User, "Authorization") || p.User != "" && strings.EqualFold(p.User, p.Groups):
		return s, Invalid("serve.proxy.user_header must be a header of its own, not %q", p.User)
	case o.Secret != "" && o.SecretFile != "":
		return s, Invalid("serve.oidc.client_secret and serve.oidc.client_secret_file exclude each other: give one of them")
	}
	groups, err := access.ParseGroups(c.Groups)
	if err != nil {
		return s, of("serve.groups", err)
	}
	claims := signin.Claims{Name: c.NameClaim, Groups: c.GroupsClaim, Roles: groups}
	if oidc {
		if o.SecretFile != "" {
			raw, err := os.ReadFile(o.SecretFile)
			if o.Secret = strings.TrimSpace(string(raw)); err != nil || o.Secret == "" {
				return s, Invalid("serve.oidc.client_secret_file %s cannot be read, or is empty", o.SecretFile)
			}
		}
		if s.Provider, err = signin.NewProvider(signin.ProviderOptions{
			Issuer: o.Issuer, ClientID: o.ClientID, ClientSecret: o.Secret, RedirectURL: o.Redirect, AfterLogout: o.After, Scopes: o.Scopes,
			Claims: claims,
		}); err != nil {
			return s, of("serve.oidc", err)
		}
	}
	if jwt {
		if s.Verifier, err = signin.NewVerifier(signin.VerifierOptions{
			Issuers: j.Issuers, Audiences: j.Audiences, JWKS: j.JWKS, Leeway: j.Leeway, Claims: claims,
		}); err != nil {
			return s, of("serve.jwt", err)
		}
	}
	if len(p.From) > 0 {
		s.Proxy, err = access.NewProxy(access.ProxyOptions{From: p.From, UserHeader: p.User, GroupsHeader: p.Groups, Groups: groups})
	}
	return s, of("serve.proxy.from", err)
}

// of says which setting an error is about.
func of(setting string, err error) error {
	var e *pawl.Error
	if errors.As(err, &e) && len(e.Fields) > 0 {
		return Invalid("%s: %s", setting, e.Fields[0].Message)
	}
	return err
}
