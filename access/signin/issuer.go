package signin

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/url"
	"sync"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"github.com/go-jose/go-jose/v4"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/access"
	"github.com/pawl-work/pawl/internal/clock"
)

const (
	askTimeout = 5 * time.Second  // of a request to the provider
	askEvery   = 10 * time.Second // how often an issuer's keys and addresses are read at most
	keysFresh  = 10 * time.Minute // after this time the keys are read again
	mostAnswer = 1 << 20          // bytes of an answer of the provider
	mostToken  = 16 << 10         // bytes of a token
)

// algorithms are those with a public key. Others, such as none and HMAC, are refused: with a
// public key as the secret of an HMAC, every caller could sign.
var algorithms = []jose.SignatureAlgorithm{
	jose.RS256, jose.RS384, jose.RS512, jose.PS256, jose.PS384, jose.PS512, jose.ES256, jose.ES384, jose.ES512, jose.EdDSA,
}

func algorithmNames() []string {
	out := make([]string, len(algorithms))
	for i, a := range algorithms {
		out[i] = string(a)
	}
	return out
}

// issuer is an identity provider: its addresses and its public keys, both cached.
type issuer struct {
	url    string
	client *http.Client

	asking sync.Mutex // held while the provider is asked
	mu     sync.Mutex
	found  *oidc.Provider // nil = not discovered yet
	jwks   string         // the address of the keys; "" = discovered
	keys   []jose.JSONWebKey
	read   time.Time // when keys were read
	tried  time.Time // when they were last asked for
	sought time.Time // when the addresses were
}

func newIssuer(address, jwks string, client *http.Client) (*issuer, error) {
	for _, a := range []string{address, jwks} {
		if err := checkURL(a); a != "" && err != nil {
			return nil, err
		}
	}
	if u, err := url.Parse(address); err != nil || address == "" || u.RawQuery != "" || u.Fragment != "" || len(address) > pawl.MaxIDLen {
		return nil, pawl.Invalid("", "the issuer %q is no address without query and fragment, of at most %d bytes", address, pawl.MaxIDLen)
	}
	if client == nil {
		client = &http.Client{}
	}
	bounded := *client
	bounded.Timeout = cmp.Or(client.Timeout, askTimeout)
	bounded.Transport = boundedAnswers{client.Transport}
	return &issuer{url: address, jwks: jwks, client: &bounded}, nil
}

// checkURL accepts https, and http on loopback.
func checkURL(address string) error {
	u, err := url.Parse(address)
	if err != nil || u.Host == "" || u.User != nil || u.Scheme != "https" && (u.Scheme != "http" || !access.Loopback(u.Hostname())) {
		return pawl.Invalid("", "%q is no https address (http is for loopback only)", address)
	}
	return nil
}

// boundedAnswers bounds the bodies of answers.
type boundedAnswers struct{ next http.RoundTripper }

func (b boundedAnswers) RoundTrip(r *http.Request) (*http.Response, error) {
	next := b.next
	if next == nil {
		next = http.DefaultTransport
	}
	res, err := next.RoundTrip(r)
	if err == nil {
		res.Body = struct {
			io.Reader
			io.Closer
		}{io.LimitReader(res.Body, mostAnswer), res.Body}
	}
	return res, err
}

func (i *issuer) context(ctx context.Context) context.Context {
	return oidc.ClientContext(ctx, i.client)
}

// provider returns the discovered addresses. They are read once.
func (i *issuer) provider(ctx context.Context) (*oidc.Provider, error) {
	i.asking.Lock()
	defer i.asking.Unlock()
	return i.discover(ctx)
}

func (i *issuer) discover(ctx context.Context) (*oidc.Provider, error) {
	i.mu.Lock()
	found, early := i.found, clock.Now().Sub(i.sought) < askEvery
	if found == nil && !early {
		i.sought = clock.Now()
	}
	i.mu.Unlock()
	if found != nil {
		return found, nil
	}
	if early {
		return nil, unavailable(i.url, errAsked)
	}
	found, err := oidc.NewProvider(i.context(context.WithoutCancel(ctx)), i.url)
	if err != nil {
		return nil, unavailable(i.url, err)
	}
	i.mu.Lock()
	i.found = found
	i.mu.Unlock()
	return found, nil
}

func unavailable(issuer string, err error) error {
	return &pawl.Error{Code: pawl.CodeUnavailable, Message: "the identity provider " + issuer + " does not answer as expected", Err: err}
}

var errAsked = errors.New("it was asked a moment ago")

var errSignature = errors.New("the signature is by no key of the issuer")

// VerifySignature returns the content of a token that a key of the issuer has signed. Keys that
// are not known are asked for, at most once in askEvery; while the issuer does not answer, the
// known ones are used. It implements oidc.KeySet.
func (i *issuer) VerifySignature(ctx context.Context, token string) ([]byte, error) {
	jws, err := jose.ParseSignedCompact(token, algorithms)
	if err != nil {
		return nil, err
	}
	keys, seen := i.known()
	if clock.Now().Sub(seen) > keysFresh {
		if err := i.refresh(ctx, seen, len(keys) == 0); err != nil && len(keys) == 0 {
			return nil, err
		}
		keys, seen = i.known()
	}
	if content, ok := verify(jws, keys); ok {
		return content, nil
	}
	_ = i.refresh(ctx, seen, true) // the known keys stay
	keys, _ = i.known()
	if content, ok := verify(jws, keys); ok {
		return content, nil
	}
	return nil, errSignature
}

func (i *issuer) known() ([]jose.JSONWebKey, time.Time) {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.keys, i.read
}

func verify(jws *jose.JSONWebSignature, keys []jose.JSONWebKey) ([]byte, bool) {
	header := jws.Signatures[0].Header
	for _, k := range keys {
		if header.KeyID != "" && k.KeyID != header.KeyID || k.Algorithm != "" && k.Algorithm != header.Algorithm {
			continue
		}
		if content, err := jws.Verify(k.Key); err == nil {
			return content, true
		}
	}
	return nil, false
}

// refresh reads the keys again, unless that was done since seen or was tried a moment ago. With
// wait it waits for another call that reads them.
func (i *issuer) refresh(ctx context.Context, seen time.Time, wait bool) error {
	if wait {
		i.asking.Lock()
	} else if !i.asking.TryLock() {
		return nil
	}
	defer i.asking.Unlock()
	i.mu.Lock()
	done, early := i.read.After(seen), clock.Now().Sub(i.tried) < askEvery
	if !done && !early {
		i.tried = clock.Now()
	}
	i.mu.Unlock()
	if done {
		return nil
	}
	if early {
		return unavailable(i.url, errAsked)
	}
	keys, err := i.ask(ctx)
	if err != nil {
		return err
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	i.keys, i.read = keys, clock.Now()
	return nil
}

// ask reads the keys of the issuer. Those that are not public, or not for signatures, are left out.
func (i *issuer) ask(ctx context.Context) ([]jose.JSONWebKey, error) {
	ctx = context.WithoutCancel(ctx) // the next calls need them too
	address := i.jwks
	if address == "" {
		found, err := i.discover(ctx)
		if err != nil {
			return nil, err
		}
		var meta struct {
			JWKS string `json:"jwks_uri"`
		}
		if err := cmp.Or(found.Claims(&meta), checkURL(meta.JWKS)); err != nil {
			return nil, unavailable(i.url, err)
		}
		address = meta.JWKS
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return nil, unavailable(i.url, err)
	}
	res, err := i.client.Do(req)
	if err != nil {
		return nil, unavailable(i.url, err)
	}
	defer res.Body.Close()
	var set struct {
		Keys []json.RawMessage `json:"keys"`
	}
	if err := json.NewDecoder(res.Body).Decode(&set); err != nil || res.StatusCode != http.StatusOK {
		return nil, unavailable(i.url, cmp.Or(err, errors.New(res.Status)))
	}
	var keys []jose.JSONWebKey
	for _, raw := range set.Keys {
		var k jose.JSONWebKey
		if k.UnmarshalJSON(raw) == nil && k.Valid() && k.IsPublic() && (k.Use == "" || k.Use == "sig") { // others may be of kinds unknown here
			keys = append(keys, k)
		}
	}
	if len(keys) == 0 {
		return nil, unavailable(i.url, errors.New("it has no public keys for signatures"))
	}
	return keys, nil
}
