package signin

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/access"
	"github.com/pawl-work/pawl/internal/clock"
)

// DefaultLeeway is how far the clocks of an issuer and of this server may differ; MostLeeway
// bounds VerifierOptions.Leeway.
const (
	DefaultLeeway = 30 * time.Second
	MostLeeway    = 5 * time.Minute
)

// VerifierOptions configure a Verifier. Issuers and Audiences are required.
type VerifierOptions struct {
	// Issuers are the values that the claim iss may have: https addresses.
	Issuers []string
	// Audiences are the values of which the claim aud needs one.
	Audiences []string
	// JWKS is the address of the keys of the only issuer; "" = the issuers' discovery documents
	// name them.
	JWKS string
	// Leeway is how far the clocks may differ; 0 = DefaultLeeway, at most MostLeeway.
	Leeway time.Duration
	Claims Claims
	// Client sends the requests to the issuers; nil = one with a timeout of 5 s.
	Client *http.Client
}

// Verifier verifies JSON web tokens (RFC 7519) that issuers have signed with a private key. It
// reads the issuers' public keys when it needs them. It implements access.Tokens.
type Verifier struct {
	o       VerifierOptions
	issuers map[string]*issuer
}

// NewVerifier returns ErrInvalid for options that cannot work. It does not call the issuers.
func NewVerifier(o VerifierOptions) (*Verifier, error) {
	switch {
	case len(o.Issuers) == 0:
		return nil, pawl.Invalid("", "tokens need an issuer")
	case len(o.Audiences) == 0 || slices.Contains(o.Audiences, ""):
		return nil, pawl.Invalid("", "tokens need an audience: without one, tokens for other services would be accepted")
	case o.JWKS != "" && len(o.Issuers) > 1:
		return nil, pawl.Invalid("", "an address of keys is for one issuer, and there are %d", len(o.Issuers))
	case o.Leeway < 0 || o.Leeway > MostLeeway:
		return nil, pawl.Invalid("", "the leeway must be between 0 and %s", MostLeeway)
	}
	if o.Leeway == 0 {
		o.Leeway = DefaultLeeway
	}
	v := &Verifier{o: o, issuers: map[string]*issuer{}}
	for _, name := range o.Issuers {
		i, err := newIssuer(name, o.JWKS, o.Client)
		if err != nil {
			return nil, err
		}
		v.issuers[name] = i
	}
	return v, nil
}

// types are the values of the header typ that a token of the API may have. Others are tokens
// for another use, such as logout+jwt.
var types = []string{"", "jwt", "at+jwt", "application/at+jwt"}

// Principal returns whom a token names.
func (v *Verifier) Principal(ctx context.Context, token string) (access.Principal, error) {
	parts := strings.Split(token, ".")
	var header, said map[string]any // names of a map match exactly, those of a struct in any case
	if len(token) > mostToken || len(parts) != 3 || decode(parts[0], &header) != nil || decode(parts[1], &said) != nil {
		return access.Principal{}, refused("this is no JSON web token")
	}
	typ, isText := header["typ"].(string)
	if _, there := header["typ"]; there && !isText || !slices.Contains(types, strings.ToLower(typ)) {
		return access.Principal{}, refused("the token is not for access: its typ is " + typ)
	}
	iss, _ := said["iss"].(string)
	from := v.issuers[iss]
	if from == nil {
		return access.Principal{}, refused("the token is of an issuer that this server does not know")
	}
	content, err := from.VerifySignature(ctx, token)
	if pawl.CodeOf(err) == pawl.CodeUnavailable {
		return access.Principal{}, err
	}
	if err != nil {
		return access.Principal{}, refused("the token's signature is not valid")
	}
	claims, err := claimsOf(content)
	if err != nil {
		return access.Principal{}, refused("the token's claims are no JSON object")
	}
	expires, err := v.check(claims)
	if err != nil {
		return access.Principal{}, err
	}
	return v.o.Claims.principal(from.url, claims, expires)
}

// check checks for whom and when a token is valid.
func (v *Verifier) check(claims map[string]any) (expires time.Time, err error) {
	if !slices.ContainsFunc(audiencesOf(claims), func(a string) bool { return slices.Contains(v.o.Audiences, a) }) {
		return expires, refused("the token is for another audience")
	}
	now := clock.Now()
	end, there, ok := seconds(claims, "exp")
	expires = end.Add(v.o.Leeway)
	if !there || !ok || !now.Before(expires) {
		return expires, refused("the token has expired, or does not say when it does")
	}
	for _, name := range []string{"nbf", "iat"} {
		if from, _, ok := seconds(claims, name); !ok || from.After(now.Add(v.o.Leeway)) {
			return expires, refused("the token is not valid yet (" + name + ")")
		}
	}
	return expires, nil
}

// audiencesOf returns whom a token is for.
func audiencesOf(claims map[string]any) (audiences []string) {
	switch a := claims["aud"].(type) {
	case string:
		return []string{a}
	case []any:
		for _, one := range a {
			text, _ := one.(string)
			audiences = append(audiences, text)
		}
	}
	return audiences
}

func claimsOf(content []byte) (claims map[string]any, err error) {
	in := json.NewDecoder(bytes.NewReader(content))
	in.UseNumber()
	err = in.Decode(&claims)
	return claims, err
}

func decode(part string, into any) error {
	raw, err := base64.RawURLEncoding.DecodeString(part)
	if err != nil {
		return err
	}
	return json.Unmarshal(raw, into)
}
