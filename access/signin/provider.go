package signin

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/coreos/go-oidc/v3/oidc"
	"golang.org/x/oauth2"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/access"
	"github.com/pawl-work/pawl/internal/clock"
)

// CallbackPath is the path of ProviderOptions.RedirectURL, behind the prefix of the dashboard.
const CallbackPath = "/ui/oidc/callback"

// ProviderOptions configure a Provider. Issuer, ClientID and RedirectURL are required.
type ProviderOptions struct {
	Issuer, ClientID string
	ClientSecret     string // "" = a public client
	// RedirectURL is where the provider sends the browser back: this server's address and
	// CallbackPath.
	RedirectURL string
	// AfterLogout is where the provider sends the browser after a logout; "" = nowhere.
	AfterLogout string
	Scopes      []string // none = openid, profile and email
	Claims      Claims
	// Client sends the requests to the provider; nil = one with a timeout of 5 s.
	Client *http.Client
}

// Provider logs users in by OpenID Connect: the authorization code flow with PKCE (S256).
type Provider struct {
	o      ProviderOptions
	issuer *issuer
}

// NewProvider returns ErrInvalid for options that cannot work. It does not call the provider.
func NewProvider(o ProviderOptions) (*Provider, error) {
	if o.ClientID == "" {
		return nil, pawl.Invalid("", "OpenID Connect needs a client id")
	}
	if err := checkURL(o.RedirectURL); err != nil {
		return nil, err
	}
	if u, err := url.Parse(o.RedirectURL); err != nil || !strings.HasSuffix(u.Path, CallbackPath) || u.RawQuery != "" || u.Fragment != "" {
		return nil, pawl.Invalid("", "the redirect URL %q must have a path that ends with %s", o.RedirectURL, CallbackPath)
	}
	if err := checkURL(o.AfterLogout); o.AfterLogout != "" && err != nil {
		return nil, err
	}
	if len(o.Scopes) == 0 {
		o.Scopes = []string{oidc.ScopeOpenID, "profile", "email"}
	}
	if !slices.Contains(o.Scopes, oidc.ScopeOpenID) {
		return nil, pawl.Invalid("", "the scopes must have openid")
	}
	i, err := newIssuer(o.Issuer, "", o.Client)
	return &Provider{o: o, issuer: i}, err
}

// Issuer is the address of the provider.
func (p *Provider) Issuer() string { return p.o.Issuer }

// Flow is what a login has to know when the browser returns. It is a secret of that browser.
type Flow struct {
	State    string `json:"state"`
	Nonce    string `json:"nonce"`
	Verifier string `json:"verifier"`
}

// Begin returns the address of the provider where the user logs in. The error is unavailable.
func (p *Provider) Begin(ctx context.Context) (address string, f Flow, err error) {
	config, _, err := p.config(ctx)
	if err != nil {
		return "", f, err
	}
	f = Flow{State: rand.Text(), Nonce: rand.Text(), Verifier: oauth2.GenerateVerifier()}
	return config.AuthCodeURL(f.State, oidc.Nonce(f.Nonce), oauth2.S256ChallengeOption(f.Verifier)), f, nil
}

func (p *Provider) config(ctx context.Context) (*oauth2.Config, *oidc.Provider, error) {
	found, err := p.issuer.provider(ctx)
	if err != nil {
		return nil, nil, err
	}
	return &oauth2.Config{
		ClientID: p.o.ClientID, ClientSecret: p.o.ClientSecret, Endpoint: found.Endpoint(), RedirectURL: p.o.RedirectURL, Scopes: p.o.Scopes,
	}, found, nil
}

// Finish ends a login with the query that the browser brings back. It returns the principal, which
// may have no roles, and the ID token, a hint for the logout. It returns ErrUnauthenticated if the
// provider has refused the login or what it says is not valid, and an error of code unavailable
// if it does not answer.
func (p *Provider) Finish(ctx context.Context, f Flow, back url.Values) (who access.Principal, idToken string, err error) {
	switch iss := back.Get("iss"); {
	case f.State == "" || subtle.ConstantTimeCompare([]byte(back.Get("state")), []byte(f.State)) != 1:
		return who, "", refused("this login was not begun in this browser, or is over; log in again")
	case iss != "" && iss != p.o.Issuer:
		return who, "", refused("the login comes from another identity provider")
	case back.Get("error") != "":
		return who, "", refused("the identity provider has refused the login: " + code(back.Get("error")))
	case back.Get("code") == "":
		return who, "", refused("the identity provider has sent no code")
	}
	config, found, err := p.config(ctx)
	if err != nil {
		return who, "", err
	}
	ctx = p.issuer.context(ctx)
	token, err := config.Exchange(ctx, back.Get("code"), oauth2.VerifierOption(f.Verifier))
	if err != nil {
		if said := new(oauth2.RetrieveError); errors.As(err, &said) && said.Response.StatusCode < http.StatusInternalServerError {
			return who, "", refused("the identity provider does not accept the login: " + code(said.ErrorCode))
		}
		return who, "", unavailable(p.o.Issuer, err)
	}
	idToken, _ = token.Extra("id_token").(string)
	claims, err := p.verify(ctx, idToken, f.Nonce)
	if err != nil {
		return who, "", err
	}
	if lookUp(claims, p.o.Claims.groupsClaim()) == nil && found.UserInfoEndpoint() != "" {
		if err := addUserInfo(ctx, found, token, claims); err != nil {
			return who, "", unavailable(p.o.Issuer, err)
		}
	}
	who, err = p.o.Claims.principal(p.o.Issuer, claims, clock.Now().AddDate(1, 0, 0)) // the session ends before
	return who, idToken, err
}

// code returns an error code of OAuth; "unknown" for what is none.
func code(text string) string {
	if len(text) > 64 || strings.Trim(text, "abcdefghijklmnopqrstuvwxyz_") != "" || text == "" {
		return "unknown"
	}
	return text
}

// verify checks an ID token: signature, issuer, audience, times and nonce.
func (p *Provider) verify(ctx context.Context, idToken, nonce string) (map[string]any, error) {
	content, err := p.issuer.VerifySignature(ctx, idToken)
	if pawl.CodeOf(err) == pawl.CodeUnavailable {
		return nil, err
	}
	var token *oidc.IDToken
	if err == nil {
		checks := &oidc.Config{ClientID: p.o.ClientID, SupportedSigningAlgs: algorithmNames(), Now: clock.Now}
		token, err = oidc.NewVerifier(p.o.Issuer, p.issuer, checks).Verify(ctx, idToken)
	}
	if err != nil {
		return nil, &pawl.Error{Code: pawl.CodeUnauthenticated, Message: "the identity provider's token is not valid", Err: err}
	}
	claims, err := claimsOf(content)
	audiences := audiencesOf(claims)
	azp, ofParty := claims["azp"]
	said, _ := claims["nonce"].(string)
	_, expires, _ := seconds(claims, "exp")
	switch {
	case err != nil:
		return nil, refused("the token's claims are no JSON object")
	case claims["iss"] != p.o.Issuer || claims["sub"] != token.Subject || !expires: // the library takes names in any case
		return nil, refused("the token lacks a claim")
	case subtle.ConstantTimeCompare([]byte(said), []byte(nonce)) != 1:
		return nil, refused("the token is of another login")
	case !slices.Contains(audiences, p.o.ClientID), ofParty && azp != p.o.ClientID, len(audiences) > 1 && !ofParty:
		return nil, refused("the token is for another client")
	}
	return claims, nil
}

// addUserInfo adds the claims that only the provider's userinfo endpoint has.
func addUserInfo(ctx context.Context, found *oidc.Provider, token *oauth2.Token, claims map[string]any) error {
	info, err := found.UserInfo(ctx, oauth2.StaticTokenSource(token))
	if err != nil {
		return err
	}
	var more map[string]any
	if err := info.Claims(&more); err != nil {
		return err
	}
	if info.Subject != claims["sub"] {
		return errors.New("its userinfo is of another user")
	}
	for name, v := range more {
		if _, there := claims[name]; !there {
			claims[name] = v
		}
	}
	return nil
}

// LogoutURL returns the address where the provider ends its own session of the user; "" if it
// has none, or does not answer. idToken is a hint, "" = none.
func (p *Provider) LogoutURL(ctx context.Context, idToken string) string {
	found, err := p.issuer.provider(ctx)
	if err != nil {
		return ""
	}
	var meta struct {
		End string `json:"end_session_endpoint"`
	}
	if found.Claims(&meta) != nil || checkURL(meta.End) != nil {
		return ""
	}
	u, err := url.Parse(meta.End)
	if err != nil {
		return ""
	}
	q := u.Query()
	q.Set("client_id", p.o.ClientID)
	if idToken != "" {
		q.Set("id_token_hint", idToken)
	}
	if p.o.AfterLogout != "" {
		q.Set("post_logout_redirect_uri", p.o.AfterLogout)
	}
	u.RawQuery = q.Encode()
	return u.String()
}
