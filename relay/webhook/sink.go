// Package webhook is a relay sink for HTTP endpoints, by the Standard Webhooks
// specification: one signed POST for each event, retried until the receiver answers 2xx.
// It reaches only public addresses, unless allowed otherwise, and follows no redirects.
package webhook

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pawl-work/pawl"
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
	if len(o.Secrets) == 0 {
		return nil, pawl.Invalid("/relay", "a webhook needs a secret to sign with")
	}
	slots := o.Concurrency
	if slots <= 0 {
		slots = 8
	}
	if o.Timeout <= 0 {
		o.Timeout = 15 * time.Second
	}
	p, err := NewPoster(o, slots)
	return &sink{poster: p, slots: make(chan struct{}, slots)}, err
}

type sink struct {
	poster *Poster
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
	header := http.Header{"Content-Type": {relay.MediaType}}
	if m.TraceParent != "" {
		header.Set("Traceparent", m.TraceParent)
	}
	if m.TraceState != "" {
		header.Set("Tracestate", m.TraceState)
	}
	res, err := s.poster.Post(ctx, m.ID(), m.Body, header)
	if err != nil {
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
		if after := RetryAfter(res.Header); after > 0 {
			return pawl.RetryAfter(after, err)
		}
	}
	return err
}

// Close implements relay.Sink.
func (s *sink) Close() error {
	s.poster.Close()
	return nil
}
