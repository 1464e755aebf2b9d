// Package rabbitmq is a relay's way to RabbitMQ: persistent messages to a
// durable topic exchange, each confirmed by the broker and none taken for sent
// that no queue wants.
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

// Options steer a sink. URL is required.
type Options struct {
	URL      string // amqp:// or amqps://
	Exchange string // a topic exchange; "" = pawl
	// Existing takes the exchange as it is; else it is declared, durable.
	Existing bool
	// SetAside gives up events that no queue is bound for: the relay counts them and
	// goes on. Else they are tried again until a queue is bound, and those behind
	// them wait.
	SetAside bool
}

// Kind is what the list of relays calls such a sink.
const Kind = "rabbitmq"

const (
	// answerTime bounds the wait for the broker: to connect, with all that belongs to
	// it, and then from one confirmation of a wave to the next.
	answerTime = 10 * time.Second
	heartbeat  = 10 * time.Second
	keyLimit   = 255 // bytes, by AMQP 0-9-1
	// inFlight bounds the messages without an answer. The library hands every
	// return to us before the confirmation that follows it; the channel for them
	// has room for all, so none is overlooked and nothing waits.
	inFlight = 1000
)

var errSilent = fmt.Errorf("RabbitMQ has not answered for %v", answerTime)

// New makes a sink that connects when it first sends, and again whenever its
// connection is lost. A URL that is none is invalid.
func New(o Options) (relay.Sink, error) {
	if _, err := amqp.ParseURI(o.URL); err != nil {
		return nil, pawl.Invalid("/relay", "not a RabbitMQ URL") // err repeats it, password and all
	}
	if o.Exchange == "" {
		o.Exchange = "pawl"
	}
	return &sink{o: o}, nil
}

type sink struct {
	o        Options
	wire     net.Conn // below conn: closing it unblocks a blocked write
	conn     *amqp.Connection
	ch       *amqp.Channel
	returned chan amqp.Return
}

// Send implements relay.Sink.
func (s *sink) Send(ctx context.Context, messages []relay.Message) []error {
	answers := make([]error, len(messages))
	for from := 0; from < len(messages); from += inFlight {
		to := min(from+inFlight, len(messages))
		s.send(ctx, messages[from:to], answers[from:to])
	}
	return answers
}

func (s *sink) send(ctx context.Context, messages []relay.Message, answers []error) {
	if err := s.connect(ctx); err != nil {
		for i := range answers {
			answers[i] = err
		}
		return
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer closeAfter(ctx, s.wire)()
	silence := time.AfterFunc(answerTime, func() { cancel(errSilent) })
	defer silence.Stop()
	confirmations := make([]*amqp.DeferredConfirmation, len(messages))
	for i, m := range messages {
		key := m.Key()
		if len(key) > keyLimit {
			answers[i] = pawl.Permanent(fmt.Errorf("its routing key has %d bytes, AMQP knows %d at most", len(key), keyLimit))
			continue
		}
		confirmations[i], answers[i] = s.ch.PublishWithDeferredConfirm(s.o.Exchange, key, true, false, amqp.Publishing{
			ContentType:  relay.MediaType,
			DeliveryMode: amqp.Persistent,
			MessageId:    m.ID(),
			Timestamp:    m.Event.CreatedAt,
			Type:         m.Event.Event,
			AppId:        "pawl",
			Body:         m.Body,
		})
		silence.Reset(answerTime)
	}
	broken := false
	for i, c := range confirmations {
		if c != nil {
			answers[i] = s.outcome(ctx, c)
			silence.Reset(answerTime)
		}
		broken = broken || (answers[i] != nil && !errors.Is(answers[i], errNack) && retryable(answers[i]))
	}
	s.unroutable(messages, answers)
	if broken { // a late confirmation must not be taken for another message's
		s.drop()
	}
}

var (
	errNack = errors.New("RabbitMQ did not take it: a queue is full, or it had a mishap")
	errCut  = errors.New("RabbitMQ has not confirmed it: the connection was lost, or the exchange is gone")
)

// outcome waits for one confirmation. A channel that is closed answers false,
// like a broker that says no; both mean that the message is not there for sure.
func (s *sink) outcome(ctx context.Context, c *amqp.DeferredConfirmation) error {
	acked, err := c.WaitContext(ctx)
	switch {
	case acked:
		return nil
	case err != nil || s.ch.IsClosed():
		return errors.Join(errCut, context.Cause(ctx))
	default:
		return errNack
	}
}

func retryable(err error) bool {
	ok, _ := pawl.RetryOf(err)
	return ok
}

// unroutable answers for messages that came back: RabbitMQ confirms them too.
func (s *sink) unroutable(messages []relay.Message, answers []error) {
	for {
		select {
		case r, open := <-s.returned:
			if !open {
				return
			}
			for i, m := range messages {
				if m.ID() == r.MessageId && answers[i] == nil {
					answers[i] = fmt.Errorf("no queue is bound for %s (%d %s)", r.RoutingKey, r.ReplyCode, r.ReplyText)
					if s.o.SetAside {
						answers[i] = pawl.Permanent(answers[i])
					}
				}
			}
		default:
			return
		}
	}
}

// connect makes sure of a channel that confirms, and of the exchange. A broker that
// accepts connections and does not answer is given up after answerTime.
func (s *sink) connect(ctx context.Context) error {
	if s.ch != nil && !s.ch.IsClosed() {
		return nil
	}
	s.drop()
	ctx, cancel := context.WithTimeoutCause(ctx, answerTime, errSilent)
	defer cancel()
	err := s.dial(ctx)
	if err == nil {
		err = s.prepare(ctx)
	}
	if err == nil {
		return nil
	}
	s.drop()
	if cause := context.Cause(ctx); cause != nil { // the library takes silence for wrong credentials
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
			wire, err := new(net.Dialer).DialContext(ctx, network, addr)
			if err == nil {
				s.wire, stop = wire, closeAfter(ctx, wire)
			}
			return wire, err
		},
	})
	stop()
	return err
}

func (s *sink) prepare(ctx context.Context) error {
	defer closeAfter(ctx, s.wire)()
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

// closeAfter closes a connection when ctx ends, unless it is stopped before: the
// library's calls take no context.
func closeAfter(ctx context.Context, wire net.Conn) (stop func() bool) {
	return context.AfterFunc(ctx, func() { _ = wire.Close() })
}

// drop lets go of the connection.
func (s *sink) drop() {
	if s.wire != nil {
		_ = s.wire.Close()
	}
	if s.conn != nil {
		_ = s.conn.Close()
	}
	s.conn, s.ch, s.wire = nil, nil, nil
}

// Close implements relay.Sink.
func (s *sink) Close() error {
	s.drop()
	return nil
}
