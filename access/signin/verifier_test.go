package signin_test

import (
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/access"
	"github.com/pawl-work/pawl/access/signin"
	"github.com/pawl-work/pawl/internal/testidp"
)

func groups(t *testing.T, entries ...string) access.Groups {
	t.Helper()
	g, err := access.ParseGroups(entries)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

func verifier(t *testing.T, idp *testidp.Provider, claims signin.Claims) *signin.Verifier {
	t.Helper()
	claims.Roles = groups(t, "ops=operator,reader@*", "/billing=submitter@billing")
	v, err := signin.NewVerifier(signin.VerifierOptions{Issuers: []string{idp.URL}, Audiences: []string{"api", "pawl"}, Claims: claims})
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func TestATokenNamesItsHolder(t *testing.T) {
	idp := testidp.New(t)
	for what, c := range map[string]struct {
		claims signin.Claims
		token  testidp.Claims
		name   string
		grants int
	}{
		"groups":      {signin.Claims{}, testidp.Claims{"groups": []string{"x", "ops"}}, "ann", 1},
		"one group":   {signin.Claims{}, testidp.Claims{"groups": "/billing", "aud": []string{"x", "api"}}, "ann", 1},
		"two groups":  {signin.Claims{}, testidp.Claims{"groups": []any{"/billing", 7, "ops"}}, "ann", 2},
		"no group":    {signin.Claims{}, testidp.Claims{"groups": []string{"OPS", "op", "opss"}}, "ann", 0},
		"the subject": {signin.Claims{}, testidp.Claims{"preferred_username": nil, "groups": "ops"}, "248289", 1},
		"a path": {signin.Claims{Groups: "realm_access.roles"},
			testidp.Claims{"realm_access": testidp.Claims{"roles": []string{"ops"}}}, "ann", 1},
		"a name with dots": {signin.Claims{Groups: "https://x.test/g"}, testidp.Claims{"https://x.test/g": "ops"}, "ann", 1},
		"the email": {signin.Claims{Name: "email"},
			testidp.Claims{"email": "a@x.test", "email_verified": true, "groups": "ops"}, "a@x.test", 1},
		"an unproved email":  {signin.Claims{Name: "email"}, testidp.Claims{"email": "a@x.test", "groups": "ops"}, "", 0},
		"a disproved email":  {signin.Claims{Name: "email"}, testidp.Claims{"email": "a@x.test", "email_verified": false}, "", 0},
		"no such claim":      {signin.Claims{Name: "upn"}, testidp.Claims{"groups": "ops"}, "", 0},
		"no subject":         {signin.Claims{}, testidp.Claims{"sub": nil}, "", 0},
		"a number":           {signin.Claims{}, testidp.Claims{"sub": 7}, "", 0},
		"control characters": {signin.Claims{}, testidp.Claims{"preferred_username": "a\nb"}, "", 0},
		"a long name":        {signin.Claims{}, testidp.Claims{"preferred_username": strings.Repeat("a", 256)}, "", 0},
	} {
		who, err := verifier(t, idp, c.claims).Principal(t.Context(), idp.Token(c.token))
		if c.name == "" {
			if !errors.Is(err, pawl.ErrUnauthenticated) {
				t.Errorf("%s: %v %v", what, who, err)
			}
			continue
		}
		if err != nil || who.Name != c.name || who.ID != idp.URL+"#248289" || len(who.Grants) != c.grants || who.Expires.IsZero() {
			t.Errorf("%s: %+v %v", what, who, err)
		}
	}
}

// Tokens that every caller could make, or that are for another service or another time, are refused.
func TestTokensThatAreRefused(t *testing.T) {
	idp := testidp.New(t)
	v := verifier(t, idp, signin.Claims{})
	key, name := idp.Key()
	good := idp.With(testidp.Claims{"groups": "ops"})
	der, err := x509.MarshalPKIXPublicKey(&key.PublicKey)
	if err != nil {
		t.Fatal(err)
	}
	public := pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der})
	other, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now().Unix()
	signed := testidp.Sign(t, jose.RS256, key, name, good)
	parts := strings.Split(signed, ".")
	changed := base64.RawURLEncoding.EncodeToString([]byte(`{"iss":"` + idp.URL + `","sub":"root"}`))
	none := base64.RawURLEncoding.EncodeToString([]byte(`{"alg":"none"}`))
	for what, token := range map[string]string{
		"alg none":                   none + "." + parts[1] + ".",
		"alg none with a signature":  none + "." + parts[1] + "." + parts[2],
		"no signature":               parts[0] + "." + parts[1] + ".",
		"the public key as a secret": testidp.Sign(t, jose.HS256, public, name, good),
		"its DER as a secret":        testidp.Sign(t, jose.HS256, der, "", good),
		"the HMAC key of the set":    testidp.Sign(t, jose.HS256, []byte("a key of another use, and no public one"), "hmac", good),
		"another key, same kid":      testidp.Sign(t, jose.RS256, other, name, good),
		"another key, no kid":        testidp.Sign(t, jose.RS256, other, "", good),
		"an unknown kid":             testidp.Sign(t, jose.RS256, key, "other", good),
		"for logout":                 testidp.Sign(t, jose.RS256, key, name, good, "typ", "logout+jwt"),
		"changed claims":             parts[0] + "." + changed + "." + parts[2],
		"another issuer":             idp.Token(testidp.Claims{"iss": "https://elsewhere.test"}),
		"no issuer":                  idp.Token(testidp.Claims{"iss": nil}),
		"its issuer in another case": idp.Token(testidp.Claims{"iss": nil, "Iss": idp.URL}),
		"two issuers":                idp.Token(testidp.Claims{"iss": "https://elsewhere.test", "ISS": idp.URL}),
		"another audience":           idp.Token(testidp.Claims{"aud": []string{"shop"}}),
		"no audience":                idp.Token(testidp.Claims{"aud": nil}),
		"expired":                    idp.Token(testidp.Claims{"exp": now - 31}),
		"without an end":             idp.Token(testidp.Claims{"exp": nil}),
		"an end that is text":        idp.Token(testidp.Claims{"exp": "never"}),
		"an end far away":            idp.Token(testidp.Claims{"exp": 1e300}),
		"not yet":                    idp.Token(testidp.Claims{"nbf": now + 60}),
		"issued in the future":       idp.Token(testidp.Claims{"iat": now + 60}),
		"too long":                   idp.Token(testidp.Claims{"x": strings.Repeat("x", 20_000)}),
		"nothing":                    "..",
	} {
		if who, err := v.Principal(t.Context(), token); !errors.Is(err, pawl.ErrUnauthenticated) {
			t.Errorf("%s: %+v %v", what, who, err)
		}
	}
	for what, c := range map[string]testidp.Claims{"just expired": {"exp": now - 10}, "of a fast clock": {"nbf": now + 10, "iat": now + 10}} {
		if _, err := v.Principal(t.Context(), idp.Token(c)); err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
	if _, err := v.Principal(t.Context(), testidp.Sign(t, jose.RS256, key, name, good, "typ", "at+jwt")); err != nil {
		t.Errorf("an access token: %v", err)
	}
}

// Curves are accepted beside RSA, and the address of the keys may be given.
func TestKeysOfEachKind(t *testing.T) {
	ec, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	_, ed, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	set := jose.JSONWebKeySet{Keys: []jose.JSONWebKey{{Key: ec.Public(), KeyID: "ec"}, {Key: ed.Public(), KeyID: "ed", Algorithm: "EdDSA"}}}
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		raw, _ := set.Keys[0].MarshalJSON()
		more, _ := set.Keys[1].MarshalJSON()
		_, _ = w.Write([]byte(`{"keys":[{"kty":"of the future"},` + string(raw) + "," + string(more) + "]}"))
	}))
	defer srv.Close()
	v, err := signin.NewVerifier(signin.VerifierOptions{Issuers: []string{"https://idp.test"}, Audiences: []string{"api"}, JWKS: srv.URL})
	if err != nil {
		t.Fatal(err)
	}
	c := testidp.Claims{"iss": "https://idp.test", "aud": "api", "sub": "robot", "exp": time.Now().Unix() + 60}
	for name, token := range map[string]string{
		"ec": testidp.Sign(t, jose.ES256, ec, "ec", c), "ed": testidp.Sign(t, jose.EdDSA, ed, "ed", c),
	} {
		if who, err := v.Principal(t.Context(), token); err != nil || who.ID != "https://idp.test#robot" {
			t.Errorf("%s: %v %v", name, who, err)
		}
	}
}

// keysOnly answers requests for keys without a network, so that time can be simulated.
type keysOnly struct{ idp *testidp.Provider }

func (k keysOnly) RoundTrip(r *http.Request) (*http.Response, error) {
	w := httptest.NewRecorder()
	k.idp.Config.Handler.ServeHTTP(w, r)
	return w.Result(), nil
}

// New keys are found at once, keys are asked for at a bounded rate, and while the issuer is down the
// known keys are used.
func TestKeysAreReadAgain(t *testing.T) {
	idp := testidp.New(t)
	synctest.Test(t, func(t *testing.T) {
		v, err := signin.NewVerifier(signin.VerifierOptions{
			Issuers: []string{idp.URL}, Audiences: []string{"pawl"}, JWKS: idp.URL + "/keys", Client: &http.Client{Transport: keysOnly{idp}},
		})
		if err != nil {
			t.Fatal(err)
		}
		is := func(what, token string, code pawl.Code, asked int) {
			t.Helper()
			if _, err := v.Principal(t.Context(), token); pawl.CodeOf(err) != code || idp.Asked != asked {
				t.Errorf("%s: %v, and the keys were read %d times, not %d", what, err, idp.Asked, asked)
			}
		}
		idp.Down = true
		is("no keys", idp.Token(nil), pawl.CodeUnavailable, 1)
		is("asked a moment ago", idp.Token(nil), pawl.CodeUnavailable, 1)
		idp.Down = false
		time.Sleep(11 * time.Second)
		is("the first key", idp.Token(nil), "", 2)
		old := idp.Token(nil)
		idp.Rotate()
		is("rotated within a moment", idp.Token(nil), pawl.CodeUnauthenticated, 2)
		time.Sleep(11 * time.Second)
		is("the second key", idp.Token(nil), "", 3)
		is("the first key again", old, pawl.CodeUnauthenticated, 3)
		key, _ := idp.Key()
		for range 50 {
			is("unknown", testidp.Sign(t, jose.RS256, key, "unknown", idp.With(nil)), pawl.CodeUnauthenticated, 3)
		}
		idp.Down = true
		time.Sleep(time.Hour)
		is("an outage", idp.Token(nil), "", 4)
		is("still", idp.Token(nil), "", 4)
		time.Sleep(11 * time.Second)
		is("an unknown key in an outage", testidp.Sign(t, jose.RS256, key, "unknown", idp.With(nil)), pawl.CodeUnauthenticated, 5)
	})
}

func TestOptionsThatCannotWork(t *testing.T) {
	verifiers := map[string]signin.VerifierOptions{
		"no issuer":     {Audiences: []string{"a"}},
		"no audience":   {Issuers: []string{"https://a.test"}},
		"an empty one":  {Issuers: []string{"https://a.test"}, Audiences: []string{""}},
		"plain http":    {Issuers: []string{"http://a.test"}, Audiences: []string{"a"}},
		"a query":       {Issuers: []string{"https://a.test?x"}, Audiences: []string{"a"}},
		"keys of two":   {Issuers: []string{"https://a.test", "https://b.test"}, Audiences: []string{"a"}, JWKS: "https://a.test/k"},
		"a long leeway": {Issuers: []string{"https://a.test"}, Audiences: []string{"a"}, Leeway: time.Hour},
	}
	for what, o := range verifiers {
		if _, err := signin.NewVerifier(o); !errors.Is(err, pawl.ErrInvalid) {
			t.Errorf("%s: %v", what, err)
		}
	}
	good := signin.ProviderOptions{Issuer: "https://a.test", ClientID: "p", RedirectURL: "https://p.test/ui/oidc/callback"}
	for what, change := range map[string]func(*signin.ProviderOptions){
		"no client":        func(o *signin.ProviderOptions) { o.ClientID = "" },
		"no issuer":        func(o *signin.ProviderOptions) { o.Issuer = "" },
		"plain http":       func(o *signin.ProviderOptions) { o.RedirectURL = "http://p.test/ui/oidc/callback" },
		"another path":     func(o *signin.ProviderOptions) { o.RedirectURL = "https://p.test/callback" },
		"scopes of no use": func(o *signin.ProviderOptions) { o.Scopes = []string{"email"} },
	} {
		o := good
		change(&o)
		if _, err := signin.NewProvider(o); !errors.Is(err, pawl.ErrInvalid) {
			t.Errorf("%s: %v", what, err)
		}
	}
	for _, entry := range []string{"ops", "=reader", "ops=", "ops=admin", "ops=reader,", "ops=reader@", "ops=reader@a,"} {
		if _, err := access.ParseGroups([]string{entry}); !errors.Is(err, pawl.ErrInvalid) {
			t.Errorf("%q: %v", entry, err)
		}
	}
}
