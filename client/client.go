// Package client implements pawl.Service over HTTP. Its methods, answers and errors are those
// of engine.Engine, so a program can use either. It imports only the standard library and
// Pawl's own packages.
package client

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"io"
	mathrand "math/rand/v2"
	"mime"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"syscall"
	"time"
	"unicode"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/api"
	"github.com/pawl-work/pawl/internal/asked"
)

// Options configures a client. The zero value sets the default of each option.
type Options struct {
	// HTTP makes the requests; nil = a client made by NewWith. Its Timeout, if set, cuts
	// claims that wait.
	HTTP *http.Client
	// RootCAs are the authorities that may sign the server's certificate; nil = the system's.
	// It is ignored if HTTP is set.
	RootCAs *x509.CertPool
	// Timeout bounds one request, besides the time a claim waits; 0 = 2 minutes. The verbs of
	// an operator, clones and forks have an hour. The context bounds the whole call.
	Timeout time.Duration
	// Tries is how often a call is sent in all while the server does not answer or asks the
	// client to try again later (503, 429, a key in flight); 0 = 4. The client gives mutating
	// calls an idempotency key of its own, which the server keeps for 15 minutes, so sending
	// them again does nothing twice. A claim, a sweep and other calls without a key that could
	// do something twice are sent again only if they cannot have been carried out.
	Tries int
	// NoKeys sends no idempotency keys except those of WithKey.
	NoKeys bool
	// Header adds headers to each request, such as the trace context of ctx: see package
	// tracing. It is called once for each try. Nil = none.
	Header func(ctx context.Context, h http.Header)
}

// Client makes calls to a server. It is safe for concurrent use.
//
// Filters are sent in the query string, where a comma separates values: a type whose name
// contains a comma cannot be used in a filter.
type Client struct {
	base string
	key  string
	opts Options
	bad  error // the address was invalid: every call returns this error
}

var _ pawl.Service = (*Client)(nil)

// New returns a client of the server at address ("http://127.0.0.1:7033", or
// "unix:/path/to/socket"). key is its API key; "" = none. With an invalid address, every call
// returns an error.
func New(address, key string) *Client { return NewWith(address, key, Options{}) }

// NewWith is New with options.
func NewWith(address, key string, o Options) *Client {
	c := &Client{base: strings.TrimSuffix(address, "/"), key: key}
	path, local := strings.CutPrefix(address, "unix:")
	switch u, err := url.Parse(address); {
	case local && o.HTTP != nil:
		c.bad = &pawl.Error{Code: pawl.CodeInvalid, Op: "client", Message: "a Unix socket needs the client's own HTTP; leave Options.HTTP nil"}
	case local && path != "":
		c.base = "http://localhost" // used only in the Host header
	case err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https":
		c.bad = &pawl.Error{Code: pawl.CodeInvalid, Op: "client",
			Message: strconv.Quote(address) + " is no http URL, and not unix: with a path", Err: err}
	}
	if o.HTTP == nil {
		t := http.DefaultTransport.(*http.Transport).Clone()
		t.MaxIdleConnsPerHost = 64 // a worker has many calls in flight
		if o.RootCAs != nil {
			t.TLSClientConfig = &tls.Config{RootCAs: o.RootCAs}
		}
		if local {
			t.Proxy = nil
			t.DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) {
				return new(net.Dialer).DialContext(ctx, "unix", path)
			}
		}
		o.HTTP = &http.Client{Transport: t}
	}
	if o.HTTP.CheckRedirect == nil { // a redirect would take key and payload to another server
		own := *o.HTTP
		own.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
		o.HTTP = &own
	}
	if o.Timeout <= 0 {
		o.Timeout = 2 * time.Minute
	}
	if o.Tries <= 0 {
		o.Tries = 4
	}
	c.opts = o
	return c
}

// request is one call to be sent.
type request struct {
	route api.Route
	id    string // the id in the path
	query url.Values
	body  []byte        // JSON; nil = none
	wait  time.Duration // how long the caller lets the server wait before it answers
	key   string        // idempotency key; "" = none
	brief bool          // the client made the key, for its own retries
	token string        // the task token to check; "" = none
}

// repeats reports whether the call may be sent again without harm.
func (r *request) repeats() bool {
	return r.key != "" || !r.route.TakesKey() || r.route.Has(api.Repeatable)
}

// keyed gives a mutating call its idempotency key: that of its context, or one that the client
// makes, which the tries of pawl.OneCall share. n tells the requests of one call apart.
func (c *Client) keyed(ctx context.Context, r *request, n int) {
	if !r.route.TakesKey() {
		return
	}
	key, _ := ctx.Value(keyOfCall{}).(string)
	if r.route.Has(api.NoGivenKey) {
		key = ""
	}
	own := key == "" && !c.opts.NoKeys && !r.route.Has(api.NoOwnKey|api.Repeatable)
	if own {
		key = cmp.Or(asked.Of[string](ctx, asked.Tries), rand.Text())
	}
	if key != "" && n > 0 {
		key += "#" + strconv.Itoa(n)
	}
	r.key, r.brief = key, own
}

type keyOfCall struct{}

// WithKey returns a context whose mutating calls carry an idempotency key, except for those that are made again and again
// (heartbeats, renewals) and those that begin a key. If the same call is
// made again with the key within 24 hours, by any process, it gets the first answer. One key
// serves each verb once: another request with the same key and verb is ErrKeyReused. A batch
// that is too large for one request is sent as several, under the key, then key#1, key#2 and
// so on.
func WithKey(ctx context.Context, key string) context.Context {
	return context.WithValue(ctx, keyOfCall{}, key)
}

// keySeconds is how long the server keeps a key that the client made.
const keySeconds = "900"

func (r *request) url(base string) string {
	id := strings.ReplaceAll(url.PathEscape(r.id), ":", "%3A")
	u := base + strings.Replace(r.route.Path, "{id}", id, 1)
	if len(r.query) > 0 {
		u += "?" + r.query.Encode()
	}
	return u
}

// do sends a request and decodes its answer into out; a nil out discards the answer.
func (c *Client) do(ctx context.Context, r request, out any) error {
	if c.bad != nil {
		return c.bad
	}
	pause := 50 * time.Millisecond
	for tries := c.opts.Tries; ; {
		err := c.once(ctx, &r, out)
		tries--
		if err == nil || tries <= 0 || !again(&r, err) {
			return err
		}
		wait := pause + mathrand.N(pause)
		var e *pawl.Error
		if errors.As(err, &e) && e.RetryAfter > longestWait {
			return err // the server asks for a longer wait than the client makes
		} else if e != nil {
			wait = max(wait, e.RetryAfter)
		}
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return err
		}
		pause *= 2
	}
}

// longestWait is the longest Retry-After that the client waits for.
const longestWait = 2 * time.Minute

// again reports whether a call is worth sending again: nothing of it was carried out, or it
// may be carried out twice.
func again(r *request, err error) bool {
	var e *pawl.Error
	if !errors.As(err, &e) {
		return false
	}
	switch e.Code {
	case pawl.CodeLimit, pawl.CodeKeyInFlight:
		return true
	case pawl.CodeUnavailable:
		return !isTLS(e.Err) && (errors.Is(e.Err, syscall.ECONNREFUSED) || r.repeats() && !errors.Is(e.Err, context.DeadlineExceeded))
	}
	return false
}

func (c *Client) once(ctx context.Context, r *request, out any) error {
	timeout := c.opts.Timeout + r.wait
	if (r.route.Role == api.Operator || r.route.Has(api.TakesLong)) && r.route.Method != http.MethodGet {
		timeout = max(timeout, time.Hour) // a sweep, a deletion or a copy may go over any number of rows
	}
	if strings.ContainsFunc(r.key, unicode.IsControl) {
		return &pawl.Error{Code: pawl.CodeInvalid, Op: r.route.Name, Message: "the idempotency key holds a control character"}
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, r.route.Method, r.url(c.base), bytes.NewReader(r.body))
	if err != nil {
		return &pawl.Error{Code: pawl.CodeInvalid, Op: r.route.Name, Message: "cannot be asked for over HTTP", Err: err}
	}
	c.headers(req, r)
	res, err := c.opts.HTTP.Do(req)
	if err != nil {
		return away(r, err)
	}
	defer res.Body.Close()
	data, err := io.ReadAll(res.Body)
	if err != nil {
		return away(r, err)
	}
	if res.StatusCode >= 300 {
		return refusal(r, res, data)
	}
	if out == nil || res.StatusCode == http.StatusNoContent {
		return nil
	}
	if err := json.Unmarshal(data, out); err != nil {
		return &pawl.Error{Code: pawl.CodeInternal, Op: r.route.Name, Message: "the answer is not Pawl's", Err: err}
	}
	return nil
}

func (c *Client) headers(req *http.Request, r *request) {
	if r.body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	if c.key != "" {
		req.Header.Set("Authorization", "Bearer "+c.key)
	}
	if r.key != "" {
		req.Header.Set(api.KeyHeader, `"`+strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(r.key)+`"`)
	}
	if r.brief {
		req.Header.Set(api.KeySecondsHeader, keySeconds)
	}
	if r.token != "" {
		req.Header.Set(api.TaskTokenHeader, r.token)
	}
	if c.opts.Header != nil {
		c.opts.Header(req.Context(), req.Header)
	}
	caller := pawl.CallerOf(req.Context())
	if caller.Namespace != pawl.DefaultNamespace {
		req.Header.Set(api.NamespaceHeader, url.PathEscape(caller.Namespace))
	}
	if caller.ActorType != "" || caller.ActorID != "" {
		req.Header.Set(api.ActorHeader, url.PathEscape(caller.ActorType)+"/"+url.PathEscape(caller.ActorID))
	}
}

// away is the error of a call that got no answer. It wraps err, so errors.Is finds a context
// that ended.
func away(r *request, err error) error {
	if isTLS(err) {
		return &pawl.Error{Code: pawl.CodeUnavailable, Op: r.route.Name, Message: "no TLS connection to the server", Err: err}
	}
	return &pawl.Error{Code: pawl.CodeUnavailable, Op: r.route.Name, Message: "the server does not answer", Err: err}
}

// isTLS reports whether a connection failed because of certificates or the TLS protocol: a
// retry does not help then.
func isTLS(err error) bool {
	return is[*tls.CertificateVerificationError](err) || is[tls.RecordHeaderError](err) || is[tls.AlertError](err)
}

func is[E error](err error) bool {
	var e E
	return errors.As(err, &e)
}

// refusal reads a problem. An answer that is not a problem comes from something between the
// client and the server, such as a proxy.
func refusal(r *request, res *http.Response, data []byte) error {
	var p api.Problem
	kind, _, _ := mime.ParseMediaType(res.Header.Get("Content-Type"))
	if kind != api.ProblemType || json.Unmarshal(data, &p) != nil {
		p = api.Problem{Code: pawl.CodeInternal, Detail: "the answer is not Pawl's: " + res.Status}
		switch res.StatusCode {
		case http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
			p.Code = pawl.CodeUnavailable
		case http.StatusTooManyRequests:
			p.Code = pawl.CodeLimit
		}
	}
	return failed(r, p, after(res.Header))
}

func failed(r *request, p api.Problem, after time.Duration) error {
	err := p.Err()
	var e *pawl.Error
	if errors.As(err, &e) {
		e.Op, e.RetryAfter = r.route.Name, after
	}
	return err
}

func after(h http.Header) time.Duration {
	seconds, _ := strconv.Atoi(h.Get("Retry-After")) // the server never sends a date
	return time.Duration(max(seconds, 0)) * time.Second
}
