// Package rabbitmq is a relay sink for RabbitMQ. It sends persistent messages to a durable
// topic exchange. A message counts as sent when the broker has confirmed it and a queue was
// bound for it.
package rabbitmq

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/relay"
)

// Options configure a sink. URL is required.
type Options struct {
	URL      string // amqp:// or amqps://
	Exchange string // a topic exchange; "" = pawl
	// Existing uses an exchange that exists; otherwise the sink declares it, durable.
	Existing bool
	// RefuseUnroutable refuses events that no queue is bound for: the relay counts and skips
	// them. Otherwise such an event is sent again until a queue is bound, and later events
	// wait.
	RefuseUnroutable bool
}

// Kind is the sink's kind in the list of relays.
const Kind = "rabbitmq"

const (
	// answerTime bounds the wait for the broker: to connect and open the channel, and from
	// one confirmation of a batch to the next.
	answerTime = 10 * time.Second
	heartbeat  = 10 * time.Second
	maxKey     = 255 // bytes, by AMQP 0-9-1
	// inFlight bounds the messages without a confirmation. The library delivers a returned
	// message before its confirmation. The channel for returned messages has this capacity,
	// so the library never blocks on it.
	inFlight = 1000
)

var errSilent = fmt.Errorf("RabbitMQ has not answered for %v", answerTime)

// New returns a sink. It connects at the first Send, and again when the connection was lost.
// A malformed URL is an invalid error.
func New(o Options) (relay.Sink, error) {
	if _, err := amqp.ParseURI(o.URL); err != nil {
		return nil, pawl.Invalid("/relay", "not a RabbitMQ URL") // err contains the URL and its password
	}
	if o.Exchange == "" {
		o.Exchange = "pawl"
	}
	return &sink{o: o}, nil
}

type sink struct {
	o        Options
	netConn  net.Conn // of conn: closing it unblocks a blocked write
	conn     *amqp.Connection
	ch       *amqp.Channel
	returned chan amqp.Return
}

// Send implements relay.Sink.
func (s *sink) Send(ctx context.Context, messages []relay.Message) []error {
	results := make([]error, len(messages))
	for from := 0; from < len(messages); from += inFlight {
		to := min(from+inFlight, len(messages))
		s.send(ctx, messages[from:to], results[from:to])
	}
	return results
}

func (s *sink) send(ctx context.Context, messages []relay.Message, results []error) {
	if err := s.connect(ctx); err != nil {
		for i := range results {
			results[i] = err
		}
		return
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer closeWhenDone(ctx, s.netConn)()
	silence := time.AfterFunc(answerTime, func() { cancel(errSilent) })
	defer silence.Stop()
	confirmations := make([]*amqp.DeferredConfirmation, len(messages))
	for i, m := range messages {
		key := m.Key()
		if len(key) > maxKey {
			results[i] = pawl.Permanent(fmt.Errorf("its routing key has %d bytes; AMQP allows at most %d", len(key), maxKey))
			continue
		}
		confirmations[i], results[i] = s.ch.PublishWithDeferredConfirm(s.o.Exchange, key, true, false, amqp.Publishing{
			ContentType:  relay.MediaType,
			DeliveryMode: amqp.Persistent,
			MessageId:    m.ID(),
			Timestamp:    m.Event.CreatedAt,
			Type:         m.Event.Event,
			AppId:        "pawl",
			Headers:      headers(m),
			Body:         m.Body,
		})
		silence.Reset(answerTime)
	}
	broken := false
	for i, c := range confirmations {
		if c != nil {
			results[i] = s.outcome(ctx, c)
			silence.Reset(answerTime)
		}
		broken = broken || (results[i] != nil && !errors.Is(results[i], errNack) && retryable(results[i]))
	}
	s.applyReturns(messages, results)
	if broken { // a late confirmation must not count for another message
		s.disconnect()
	}
}

// headers returns the headers of a message: its trace context, if it has one.
func headers(m relay.Message) amqp.Table {
	if m.TraceParent == "" {
		return nil
	}
	h := amqp.Table{"traceparent": m.TraceParent}
	if m.TraceState != "" {
		h["tracestate"] = m.TraceState
	}
	return h
}

var (
	errNack        = errors.New("RabbitMQ rejected the message: a queue is full, or the broker had an internal error")
	errUnconfirmed = errors.New("RabbitMQ has not confirmed the message: the connection was lost, or the exchange was deleted")
)

// outcome waits for one confirmation. The library reports false both when the broker rejects
// the message and when the channel is closed. In both cases the message may not be stored.
func (s *sink) outcome(ctx context.Context, c *amqp.DeferredConfirmation) error {
	acked, err := c.WaitContext(ctx)
	switch {
	case acked:
		return nil
	case err != nil || s.ch.IsClosed():
		return errors.Join(errUnconfirmed, context.Cause(ctx))
	default:
		return errNack
	}
}

func retryable(err error) bool {
	ok, _ := pawl.RetryOf(err)
	return ok
}

// applyReturns sets the errors of messages that were returned because no queue is bound for
// them. RabbitMQ confirms such messages too.
func (s *sink) applyReturns(messages []relay.Message, results []error) {
	for {
		select {
		case r, open := <-s.returned:
			if !open {
				return
			}
			for i, m := range messages {
				if m.ID() == r.MessageId && results[i] == nil {
					results[i] = fmt.Errorf("no queue is bound for %s (%d %s)", r.RoutingKey, r.ReplyCode, r.ReplyText)
					if s.o.RefuseUnroutable {
						results[i] = pawl.Permanent(results[i])
					}
				}
			}
		default:
			return
		}
	}
}

// connect opens the connection and the channel, and declares the exchange, if necessary. It
// gives up after answerTime when the broker accepts the connection and does not answer.
func (s *sink) connect(ctx context.Context) error {
	if s.ch != nil && !s.ch.IsClosed() {
		return nil
	}
	s.disconnect()
	ctx, cancel := context.WithTimeoutCause(ctx, answerTime, errSilent)
	defer cancel()
	err := s.dial(ctx)
	if err == nil {
		err = s.openChannel(ctx)
	}
	if err == nil {
		return nil
	}
	s.disconnect()
	if cause := context.Cause(ctx); cause != nil { // without an answer the library reports wrong credentials
		err = cause
	}
	return fmt.Errorf("connecting to RabbitMQ: %w", err)
}

func (s *sink) dial(ctx context.Context) (err error) {
	stop := func() bool { return true }
	s.conn, err = amqp.DialConfig(s.o.URL, amqp.Config{
		Heartbeat: heartbeat,
		Locale:    "en_US",
		Properties: amqp.Table{
			"connection_name": "pawl relay",
			"product":         "pawl",
		},
		Dial: func(network, addr string) (net.Conn, error) {
			conn, err := new(net.Dialer).DialContext(ctx, network, addr)
			if err == nil {
				s.netConn, stop = conn, closeWhenDone(ctx, conn)
			}
			return conn, err
		},
	})
	stop()
	return err
}

func (s *sink) openChannel(ctx context.Context) error {
	defer closeWhenDone(ctx, s.netConn)()
	ch, err := s.conn.Channel()
	if err == nil {
		err = ch.Confirm(false)
	}
	if err == nil && !s.o.Existing {
		err = ch.ExchangeDeclare(s.o.Exchange, amqp.ExchangeTopic, true, false, false, false, nil)
	}
	if err == nil {
		s.ch, s.returned = ch, ch.NotifyReturn(make(chan amqp.Return, inFlight))
	}
	return err
}

// closeWhenDone closes a connection when ctx ends, unless stop is called before. The
// library's calls take no context.
func closeWhenDone(ctx context.Context, conn net.Conn) (stop func() bool) {
	return context.AfterFunc(ctx, func() { _ = conn.Close() })
}

// disconnect closes the connection.
func (s *sink) disconnect() {
	if s.netConn != nil {
		_ = s.netConn.Close()
	}
	if s.conn != nil {
		_ = s.conn.Close()
	}
	s.conn, s.ch, s.netConn = nil, nil, nil
}

// Close implements relay.Sink.
func (s *sink) Close() error {
	s.disconnect()
	return nil
}
