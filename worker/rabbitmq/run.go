package rabbitmq

import (
	"context"
	"fmt"
	"net"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/internal/clock"
)

// QueueOptions configures Run. URL and Queue are required. The queue must exist and be bound.
type QueueOptions struct {
	Options
	URL   string // amqp:// or amqps://
	Queue string
	// Prefetch bounds the messages in flight, including those kept for a pause; 0 = 100.
	Prefetch int
}

const (
	minReconnect = 100 * time.Millisecond
	maxReconnect = 10 * time.Second
	callTimeout  = 10 * time.Second // to connect, and to close
)

var errSilent = fmt.Errorf("RabbitMQ has not answered for %v", callTimeout)

// Run consumes a queue until ctx ends and passes work a claimer that claims what the
// messages name. It reconnects whenever the connection is lost.
//
//	rabbitmq.Run(ctx, eng, o, func(ctx context.Context, c pawl.Claimer) error {
//		return worker.Run(ctx, c, handlers...)
//	})
//
// It returns what work returns. The connection stays open until work has returned, so
// that the messages of items it finished last are acknowledged.
func Run(ctx context.Context, svc Service, o QueueOptions, work func(context.Context, pawl.Claimer) error) error {
	if _, err := amqp.ParseURI(o.URL); err != nil || o.Queue == "" {
		return pawl.Invalid("/queue", "a RabbitMQ URL and the name of a queue are needed")
	}
	if o.Prefetch <= 0 {
		o.Prefetch = 100
	}
	deliveries := make(chan amqp.Delivery)
	claimer := Drive(svc, deliveries, o.Options).(*driven)
	consuming, stop := context.WithCancel(context.WithoutCancel(ctx))
	done := make(chan struct{})
	go func() {
		defer close(done)
		o.consume(consuming, deliveries, claimer)
	}()
	err := work(ctx, claimer)
	stop()
	<-done
	return err
}

// consume keeps a connection open until ctx ends.
func (o QueueOptions) consume(ctx context.Context, into chan<- amqp.Delivery, d *driven) {
	wait, failed := minReconnect, false
	for ctx.Err() == nil {
		served, err := o.serve(ctx, into)
		if ctx.Err() != nil {
			return
		}
		if served {
			wait, failed = minReconnect, false
		}
		if !failed {
			d.o.Log.WarnContext(ctx, "connection to RabbitMQ lost; reconnecting", "queue", o.Queue, "error", err)
			failed = true
		}
		select {
		case <-ctx.Done():
		case <-time.After(wait):
		}
		wait = min(2*wait, maxReconnect)
	}
}

// serve forwards the deliveries of one connection.
func (o QueueOptions) serve(ctx context.Context, into chan<- amqp.Delivery) (served bool, err error) {
	conn, deliveries, err := o.connect(ctx)
	if conn != nil {
		defer func() { _ = conn.CloseDeadline(clock.Now().Add(callTimeout)) }()
	}
	if err != nil {
		return false, fmt.Errorf("connecting: %w", err)
	}
	lost := conn.NotifyClose(make(chan *amqp.Error, 1))
	for {
		select {
		case m, ok := <-deliveries:
			if !ok {
				return true, fmt.Errorf("the queue was deleted, or the connection was closed")
			}
			select {
			case into <- m:
			case <-ctx.Done():
				return true, nil
			}
		case e := <-lost:
			if e == nil {
				return true, fmt.Errorf("the connection was closed")
			}
			return true, e
		case <-ctx.Done():
			return true, nil
		}
	}
}

// connect opens a connection and a consumer on it. The library's calls take no context:
// a broker that does not answer for answerTime has its connection closed.
func (o QueueOptions) connect(ctx context.Context) (*amqp.Connection, <-chan amqp.Delivery, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, callTimeout, errSilent)
	defer cancel()
	stop := func() bool { return true }
	defer func() { stop() }()
	conn, err := amqp.DialConfig(o.URL, amqp.Config{
		Heartbeat: 10 * time.Second, Locale: "en_US", Properties: amqp.Table{"connection_name": "pawl worker"},
		Dial: func(network, addr string) (net.Conn, error) {
			c, err := new(net.Dialer).DialContext(ctx, network, addr)
			if err == nil {
				stop = context.AfterFunc(ctx, func() { _ = c.Close() })
			}
			return c, err
		},
	})
	var ch *amqp.Channel
	if err == nil {
		ch, err = conn.Channel()
	}
	if err == nil {
		err = ch.Qos(o.Prefetch, 0, false)
	}
	var deliveries <-chan amqp.Delivery
	if err == nil {
		deliveries, err = ch.Consume(o.Queue, "", false, false, false, false, nil)
	}
	if cause := context.Cause(ctx); err != nil && cause != nil {
		err = cause
	}
	return conn, deliveries, err
}
