// Package webhook is a relay sink for HTTP endpoints, by the Standard Webhooks
// specification: one signed POST for each event, retried until the receiver answers 2xx.
// It reaches only public addresses, unless allowed otherwise, and follows no redirects.
package webhook

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/internal/clock"
	"github.com/pawl-work/pawl/relay"
)

// Options configure a sink. URL and Secrets are required.
type Options struct {
	URL string // http:// or https://
	// Secrets sign every message, each with a signature of its own: whsec_ and the
	// base64 of 24 to 64 bytes. To rotate a secret, give the new and the old one.
	Secrets []string
	// AllowPrivate lets the sink reach addresses that are not public, for example
	// localhost.
	AllowPrivate bool
	// Timeout bounds one request, from the DNS lookup to the end of the response; 0 = 15
	// s.
	Timeout time.Duration
	// Concurrency bounds the requests in flight, each for another task; 0 = 8.
	Concurrency int
}

// Kind is the sink's kind in the list of relays.
const Kind = "webhook"

// The defaults of a relay to a webhook.
const (
	Batch        = 64
	MaxTries     = 20                 // of one event while others are accepted: about seven minutes
	DisableAfter = 3 * 24 * time.Hour // without a success
)

const (
	maxBody     = 1 << 20  // bytes of a request
	maxResponse = 16 << 10 // bytes of a response that are read
)

// New returns a sink. A bad URL or secret is an invalid error.
func New(o Options) (relay.Sink, error) {
	u, err := url.Parse(o.URL)
	if err != nil || (u.Scheme != "http" && u.Scheme != "https") || u.Host == "" {
		return nil, pawl.Invalid("/relay", "a webhook's URL must begin with https:// or http://")
	}
	if len(o.Secrets) == 0 {
		return nil, pawl.Invalid("/relay", "a webhook needs a secret to sign with")
	}
	s := &sink{url: o.URL, slots: make(chan struct{}, max(o.Concurrency, 1))}
	if o.Concurrency <= 0 {
		s.slots = make(chan struct{}, 8)
	}
	for _, secret := range o.Secrets {
		key, err := standardwebhooks.NewWebhook(secret)
		if err != nil || !strings.HasPrefix(secret, prefix) || len(secret) < len(prefix)+32 {
			return nil, pawl.Invalid("/relay", "a webhook's secret must be %s followed by the base64 of 24 to 64 bytes", prefix)
		}
		s.keys = append(s.keys, key)
	}
	if o.Timeout <= 0 {
		o.Timeout = 15 * time.Second
	}
	dialer := &net.Dialer{Timeout: o.Timeout}
	if !o.AllowPrivate {
		dialer.ControlContext = refusePrivate
	}
	s.client = &http.Client{
		Timeout: o.Timeout,
		// No Proxy: it would dial instead of us, and the address would not be checked.
		Transport: &http.Transport{
			DialContext:            dialer.DialContext,
			ForceAttemptHTTP2:      true,
			TLSHandshakeTimeout:    o.Timeout,
			MaxIdleConnsPerHost:    cap(s.slots),
			IdleConnTimeout:        time.Minute,
			MaxResponseHeaderBytes: 64 << 10,
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	return s, nil
}

const prefix = "whsec_"

type sink struct {
	url    string
	keys   []*standardwebhooks.Webhook
	client *http.Client
	slots  chan struct{}
}

var errSilent = errors.New("not sent: the receiver has not answered any earlier request of this batch")

// Send implements relay.Sink. When as many requests as may be in flight have timed out and
// none was answered, it does not send the rest of the batch.
func (s *sink) Send(ctx context.Context, messages []relay.Message) []error {
	results := make([]error, len(messages))
	var all sync.WaitGroup
	var answered atomic.Bool
	var silent atomic.Int64
	for i, m := range messages {
		select {
		case s.slots <- struct{}{}:
		case <-ctx.Done():
			results[i] = ctx.Err()
			continue
		}
		if !answered.Load() && silent.Load() >= int64(cap(s.slots)) {
			results[i] = errSilent
			<-s.slots
			continue
		}
		all.Go(func() {
			results[i] = s.post(ctx, m)
			if late := net.Error(nil); errors.As(results[i], &late) && late.Timeout() {
				silent.Add(1)
			} else {
				answered.Store(true)
			}
			<-s.slots
		})
	}
	all.Wait()
	return results
}

func (s *sink) post(ctx context.Context, m relay.Message) error {
	if len(m.Body) > maxBody {
		return pawl.Permanent(fmt.Errorf("the event has %d bytes; at most %d are allowed", len(m.Body), maxBody))
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, s.url, bytes.NewReader(m.Body))
	if err != nil {
		return err
	}
	now := clock.Now()
	signatures := make([]string, len(s.keys))
	for i, key := range s.keys {
		if signatures[i], err = key.Sign(m.ID(), now, m.Body); err != nil {
			return err
		}
	}
	req.Header.Set("Content-Type", relay.MediaType)
	req.Header.Set("User-Agent", "pawl")
	if m.TraceParent != "" {
		req.Header.Set("Traceparent", m.TraceParent)
	}
	if m.TraceState != "" {
		req.Header.Set("Tracestate", m.TraceState)
	}
	req.Header.Set(standardwebhooks.HeaderWebhookID, m.ID())
	req.Header.Set(standardwebhooks.HeaderWebhookTimestamp, strconv.FormatInt(now.Unix(), 10))
	req.Header.Set(standardwebhooks.HeaderWebhookSignature, strings.Join(signatures, " "))
	res, err := s.client.Do(req)
	if err != nil {
		var u *url.Error // its text contains the URL, which may hold a secret
		if errors.As(err, &u) {
			err = u.Err
		}
		return err
	}
	defer res.Body.Close()
	_, _ = io.Copy(io.Discard, io.LimitReader(res.Body, maxResponse)) // so that the connection can be reused
	return resultOf(res)
}

// resultOf turns a response into the result of Send. No status makes the event permanent: a
// receiver with a bug answers 400 to every event.
func resultOf(res *http.Response) error {
	err := fmt.Errorf("the receiver answered %d", res.StatusCode)
	switch code := res.StatusCode; {
	case code/100 == 2:
		return nil
	case code == http.StatusGone:
		return errors.Join(err, relay.ErrGone)
	case code/100 == 3:
		return errors.Join(err, errors.New("redirects are not followed"))
	case code == http.StatusTooManyRequests || code == http.StatusServiceUnavailable:
		return retryAfterHeader(err, res.Header.Get("Retry-After"))
	}
	return err
}

// maxRetryAfter is the longest delay that a receiver may ask for.
const maxRetryAfter = time.Hour

// retryAfterHeader applies Retry-After, in seconds or as a date.
func retryAfterHeader(err error, header string) error {
	if n, bad := strconv.Atoi(header); bad == nil && n > 0 {
		return pawl.RetryAfter(min(time.Duration(min(n, 1<<20))*time.Second, maxRetryAfter), err)
	}
	if at, bad := http.ParseTime(header); bad == nil {
		return pawl.RetryAfter(min(max(at.Sub(clock.Now()), 0), maxRetryAfter), err)
	}
	return err
}

// Close implements relay.Sink.
func (s *sink) Close() error {
	s.client.CloseIdleConnections()
	return nil
}
