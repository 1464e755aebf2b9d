// Package nats is a relay sink for NATS JetStream. It publishes to a stream that is
// stored on disk and drops repeated messages by their id.
package nats

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/relay"
)

// Options configure a sink. URL is required.
type Options struct {
	URL    string // nats:// or tls://; several servers are separated by commas
	Stream string // "" = PAWL; created if it does not exist, never changed
	Prefix string // first part of every subject; "" = pawl
}

// Kind is the sink's kind in the list of relays.
const Kind = "nats"

// answerTime bounds each wait for the server: to connect, to find the stream, and for
// the acknowledgements of a batch.
const answerTime = 10 * time.Second

// New returns a sink. It connects at the first Send; after that the NATS library
// reconnects by itself. A malformed URL is an invalid error.
func New(o Options) (relay.Sink, error) {
	if o.URL == "" {
		return nil, pawl.Invalid("/relay", "no NATS URL")
	}
	for server := range strings.SplitSeq(o.URL, ",") {
		if server = strings.TrimSpace(server); !strings.Contains(server, "://") {
			server = "nats://" + server // as the NATS library does
		}
		if _, err := url.Parse(server); err != nil {
			return nil, pawl.Invalid("/relay", "not a NATS URL") // err contains the URL and its password
		}
	}
	if o.Stream == "" {
		o.Stream = "PAWL"
	}
	if o.Prefix == "" {
		o.Prefix = "pawl"
	}
	return &sink{o: o}, nil
}

type sink struct {
	o      Options
	conn   *nats.Conn
	js     jetstream.JetStream
	stream bool // it exists
}

// Send implements relay.Sink.
func (s *sink) Send(ctx context.Context, messages []relay.Message) []error {
	results := make([]error, len(messages))
	if err := s.connect(ctx); err != nil {
		for i := range results {
			results[i] = err
		}
		return results
	}
	futures := make([]jetstream.PubAckFuture, len(messages))
	for i, m := range messages {
		msg := nats.NewMsg(s.o.Prefix + "." + m.Key())
		msg.Data = m.Body
		msg.Header.Set("Content-Type", relay.MediaType)
		if m.TraceParent != "" {
			msg.Header.Set("traceparent", m.TraceParent)
		}
		if m.TraceState != "" {
			msg.Header.Set("tracestate", m.TraceState)
		}
		futures[i], results[i] = s.js.PublishMsgAsync(msg, jetstream.WithMsgID(m.Unique()))
	}
	for i, f := range futures {
		if f != nil {
			results[i] = s.outcome(ctx, f)
		}
		switch {
		case errors.Is(results[i], nats.ErrMaxPayload):
			results[i] = pawl.Permanent(results[i])
		case errors.Is(results[i], nats.ErrReconnectBufExceeded):
			results[i] = errDisconnected
		}
	}
	return results
}

var errDisconnected = errors.New("NATS: the connection is lost and is being restored")

// outcome waits for one acknowledgement. A repeated message that the stream dropped is
// acknowledged too.
func (s *sink) outcome(ctx context.Context, f jetstream.PubAckFuture) error {
	select {
	case <-f.Ok():
		return nil
	case err := <-f.Err():
		if errors.Is(err, jetstream.ErrNoStreamResponse) {
			s.stream = false // connect looks for it again
		}
		return fmt.Errorf("NATS: %w", err)
	case <-ctx.Done():
		return ctx.Err()
	}
}

// connect opens the connection and creates the stream if necessary.
func (s *sink) connect(ctx context.Context) error {
	if s.conn == nil {
		servers := strings.Count(s.o.URL, ",") + 1 // tried one after another
		conn, err := nats.Connect(s.o.URL, nats.Name("pawl relay"),
			nats.Timeout(max(answerTime/time.Duration(servers), time.Second)), nats.FlusherTimeout(answerTime),
			nats.MaxReconnects(-1), nats.ReconnectWait(500*time.Millisecond),
			nats.ReconnectBufSize(-1)) // no buffer: the relay sends again, in order
		if err != nil {
			return fmt.Errorf("connecting to NATS: %w", err)
		}
		js, err := jetstream.New(conn, jetstream.WithPublishAsyncTimeout(answerTime))
		if err != nil {
			conn.Close()
			return err
		}
		s.conn, s.js = conn, js
	}
	if s.stream {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	_, err := s.js.Stream(ctx, s.o.Stream)
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		_, err = s.js.CreateStream(ctx, jetstream.StreamConfig{
			Name: s.o.Stream, Subjects: []string{s.o.Prefix + ".>"}, Storage: jetstream.FileStorage,
			Description: "events of Pawl",
		})
	}
	if err != nil {
		return fmt.Errorf("looking for the stream %s: %w", s.o.Stream, err)
	}
	s.stream = true
	return nil
}

// Close implements relay.Sink.
func (s *sink) Close() error {
	if s.conn != nil {
		s.conn.Close()
	}
	return nil
}
