package webhook

import (
	"bytes"
	"context"
	"errors"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/internal/clock"
)

const prefix = "whsec_"

// Poster sends signed requests to one URL. It reaches only public addresses, unless allowed
// otherwise, and follows no redirects.
type Poster struct {
	url    string
	keys   []*standardwebhooks.Webhook
	client *http.Client
}

// NewPoster returns a poster that keeps up to conns connections. A bad URL or secret is an invalid
// error.
func NewPoster(o Options, conns int) (*Poster, error) {
	u, err := url.Parse(o.URL)
	if err != nil || (u.Scheme != "http" && u.Scheme != "https") || u.Host == "" {
		return nil, pawl.Invalid("/relay", "a webhook's URL must begin with https:// or http://")
	}
	p := &Poster{url: o.URL}
	for _, secret := range o.Secrets {
		key, err := standardwebhooks.NewWebhook(secret)
		if err != nil || !strings.HasPrefix(secret, prefix) || len(secret) < len(prefix)+32 {
			return nil, pawl.Invalid("/relay", "a webhook's secret must be %s followed by the base64 of 24 to 64 bytes", prefix)
		}
		p.keys = append(p.keys, key)
	}
	dialer := &net.Dialer{Timeout: o.Timeout}
	if !o.AllowPrivate {
		dialer.ControlContext = refusePrivate
	}
	p.client = &http.Client{
		Timeout: o.Timeout,
		// No Proxy: it would dial instead of us, and the address would not be checked.
		Transport: &http.Transport{
			DialContext:            dialer.DialContext,
			ForceAttemptHTTP2:      true,
			TLSHandshakeTimeout:    o.Timeout,
			MaxIdleConnsPerHost:    conns,
			IdleConnTimeout:        time.Minute,
			MaxResponseHeaderBytes: 64 << 10,
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	return p, nil
}

// Post sends a signed body under an id. An error does not contain the URL, which may hold a secret.
func (p *Poster) Post(ctx context.Context, id string, body []byte, header http.Header) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, p.url, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	now := clock.Now()
	signatures := make([]string, len(p.keys))
	for i, key := range p.keys {
		if signatures[i], err = key.Sign(id, now, body); err != nil {
			return nil, err
		}
	}
	req.Header = header
	req.Header.Set("User-Agent", "pawl")
	req.Header.Set(standardwebhooks.HeaderWebhookID, id)
	req.Header.Set(standardwebhooks.HeaderWebhookTimestamp, strconv.FormatInt(now.Unix(), 10))
	req.Header.Set(standardwebhooks.HeaderWebhookSignature, strings.Join(signatures, " "))
	res, err := p.client.Do(req)
	if u := (*url.Error)(nil); errors.As(err, &u) {
		err = u.Err
	}
	return res, err
}

// Close closes the connections that are idle.
func (p *Poster) Close() { p.client.CloseIdleConnections() }

// maxRetryAfter is the longest delay that a receiver may ask for.
const maxRetryAfter = time.Hour

// RetryAfter reads Retry-After, in seconds or as a date; 0 = it is not there.
func RetryAfter(h http.Header) time.Duration {
	text := h.Get("Retry-After")
	if n, err := strconv.Atoi(text); err == nil && n > 0 {
		return min(time.Duration(min(n, 1<<20))*time.Second, maxRetryAfter)
	}
	if at, err := http.ParseTime(text); err == nil {
		return min(max(at.Sub(clock.Now()), 0), maxRetryAfter)
	}
	return 0
}
