// Package testidp is an identity provider for tests: discovery, keys, the code flow with PKCE, and
// tokens.
package testidp

import (
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
	"sync"
	"testing"

	"github.com/go-jose/go-jose/v4"

	"github.com/pawl-work/pawl/internal/clock"
)

// Claims are the claims of a token.
type Claims map[string]any

// Provider is the identity provider. The fields may be changed between requests.
type Provider struct {
	*httptest.Server
	t *testing.T

	mu      sync.Mutex
	Client  string        // the id of its only client
	Secret  string        // of the client
	User    Claims        // the claims of who logs in; they take the place of the usual ones
	Info    Claims        // more, at the userinfo endpoint
	Down    bool          // the keys are not available
	Asked   int           // how often the keys were asked for
	Lifts   func(*Claims) // changes an ID token before it is signed
	Refuses string        // the error with which it sends the browser back
	keys    []*rsa.PrivateKey
	codes   map[string]url.Values // the queries that codes were issued for
}

// New starts a provider with one key.
func New(t *testing.T) *Provider {
	p := &Provider{t: t, Client: "pawl", Secret: "s3cret", codes: map[string]url.Values{}}
	p.Rotate()
	mux := http.NewServeMux()
	mux.HandleFunc("GET /.well-known/openid-configuration", func(w http.ResponseWriter, _ *http.Request) {
		send(w, Claims{"issuer": p.URL, "authorization_endpoint": p.URL + "/authorize", "token_endpoint": p.URL + "/token",
			"jwks_uri": p.URL + "/keys", "userinfo_endpoint": p.URL + "/userinfo", "end_session_endpoint": p.URL + "/logout",
			"id_token_signing_alg_values_supported": []string{"RS256", "HS256", "none"}})
	})
	mux.HandleFunc("GET /keys", p.serveKeys)
	mux.HandleFunc("GET /authorize", p.authorize)
	mux.HandleFunc("POST /token", p.token)
	mux.HandleFunc("GET /userinfo", func(w http.ResponseWriter, _ *http.Request) {
		info := Claims{"sub": p.claims()["sub"]}
		maps.Copy(info, p.Info)
		send(w, info)
	})
	mux.HandleFunc("GET /logout", func(w http.ResponseWriter, r *http.Request) { send(w, r.URL.Query()) })
	p.Server = httptest.NewServer(mux)
	t.Cleanup(p.Close)
	return p
}

func send(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(v)
}

// Rotate replaces the key; its name is its number.
func (p *Provider) Rotate() {
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		p.t.Fatal(err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.keys = append(p.keys, key)
}

// Set changes the provider while it serves.
func (p *Provider) Set(change func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	change()
}

// Key is the newest key, and its name.
func (p *Provider) Key() (*rsa.PrivateKey, string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.keys[len(p.keys)-1], strconv.Itoa(len(p.keys))
}

func (p *Provider) serveKeys(w http.ResponseWriter, _ *http.Request) {
	key, name := p.Key()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.Asked++
	if p.Down {
		http.Error(w, "down", http.StatusServiceUnavailable)
		return
	}
	send(w, jose.JSONWebKeySet{Keys: []jose.JSONWebKey{
		{Key: []byte("a key of another use, and no public one"), KeyID: "hmac", Algorithm: "HS256", Use: "sig"},
		{Key: &key.PublicKey, KeyID: name, Use: "sig"},
	}})
}

func (p *Provider) claims() Claims {
	now := clock.Now().Unix()
	c := Claims{"iss": p.URL, "aud": p.Client, "sub": "248289", "preferred_username": "ann", "iat": now, "exp": now + 300}
	p.mu.Lock()
	defer p.mu.Unlock()
	maps.Copy(c, p.User)
	return c
}

// Token signs the usual claims with the changes, of which nil leaves a claim out.
func (p *Provider) Token(changes Claims) string {
	key, name := p.Key()
	return Sign(p.t, jose.RS256, key, name, p.With(changes))
}

// With returns the usual claims with changes.
func (p *Provider) With(changes Claims) Claims {
	c := p.claims()
	maps.Copy(c, changes)
	maps.DeleteFunc(c, func(_ string, v any) bool { return v == nil })
	return c
}

// Sign signs claims with any algorithm and key, with the header "kid" if name is not empty.
func Sign(t *testing.T, alg jose.SignatureAlgorithm, key any, name string, c Claims, headers ...string) string {
	t.Helper()
	o := &jose.SignerOptions{}
	if name != "" {
		o.WithHeader("kid", name)
	}
	for i := 0; i < len(headers); i += 2 {
		o.WithHeader(jose.HeaderKey(headers[i]), headers[i+1])
	}
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: alg, Key: key}, o)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := json.Marshal(c)
	if err != nil {
		t.Fatal(err)
	}
	jws, err := signer.Sign(raw)
	if err != nil {
		t.Fatal(err)
	}
	text, err := jws.CompactSerialize()
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// authorize sends the browser back with a code, as if the user had logged in.
func (p *Provider) authorize(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	back := url.Values{"state": {q.Get("state")}, "iss": {p.URL}}
	if q.Get("client_id") != p.Client || q.Get("response_type") != "code" || q.Get("code_challenge_method") != "S256" {
		http.Error(w, "a flow without PKCE", http.StatusBadRequest)
		return
	}
	if p.Refuses != "" {
		back.Set("error", p.Refuses)
	} else {
		back.Set("code", p.Code(q))
	}
	http.Redirect(w, r, q.Get("redirect_uri")+"?"+back.Encode(), http.StatusFound)
}

// Code issues a code for the query of an authorization.
func (p *Provider) Code(q url.Values) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	code := rand.Text()
	p.codes[code] = q
	return code
}

func (p *Provider) token(w http.ResponseWriter, r *http.Request) {
	id, secret, _ := r.BasicAuth()
	p.mu.Lock()
	q, known := p.codes[r.PostFormValue("code")]
	delete(p.codes, r.PostFormValue("code"))
	p.mu.Unlock()
	sum := sha256.Sum256([]byte(r.PostFormValue("code_verifier")))
	switch {
	case id != p.Client || secret != p.Secret:
		w.WriteHeader(http.StatusUnauthorized)
		send(w, Claims{"error": "invalid_client"})
	case !known, q.Get("client_id") != id, q.Get("redirect_uri") != r.PostFormValue("redirect_uri"),
		q.Get("code_challenge") != base64.RawURLEncoding.EncodeToString(sum[:]):
		w.WriteHeader(http.StatusBadRequest)
		send(w, Claims{"error": "invalid_grant"})
	default:
		c := p.claims()
		c["nonce"] = q.Get("nonce")
		if p.Lifts != nil {
			p.Lifts(&c)
		}
		send(w, Claims{"access_token": "opaque", "token_type": "Bearer", "expires_in": 300, "id_token": p.Token(c)})
	}
}
