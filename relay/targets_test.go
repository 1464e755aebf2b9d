package relay_test

import (
	"context"
	"io"
	"net"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/internal/testbroker"
	"github.com/pawl-work/pawl/internal/testserver"
	"github.com/pawl-work/pawl/relay"
	natsrelay "github.com/pawl-work/pawl/relay/nats"
	"github.com/pawl-work/pawl/relay/rabbitmq"
	"github.com/pawl-work/pawl/relay/webhook"
)

func mustOf[T any](t *testing.T) func(v T, err error) T {
	return func(v T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

// restarter returns functions that kill a broker and start it again.
func restarter(t *testing.T, b *testserver.Broker) (down, up func()) {
	return b.Kill, func() {
		t.Helper()
		if err := b.Start(); err != nil {
			t.Fatal(err)
		}
		if err := b.Ready(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
}

// rabbitTarget is a RabbitMQ with a durable queue for all events. RabbitMQ may lose a binding that
// was made shortly before it was killed (3.10 does so once in about fifty times). This target
// always loses it, and then binds the queue again.
func rabbitTarget(t *testing.T) target {
	b := testbroker.Start(t, testserver.NewRabbitMQ)
	channel := func() *amqp.Channel {
		conn := mustOf[*amqp.Connection](t)(amqp.Dial(b.URL))
		t.Cleanup(func() { _ = conn.Close() })
		return mustOf[*amqp.Channel](t)(conn.Channel())
	}
	ch := channel()
	if err := ch.ExchangeDeclare("pawl", "topic", true, false, false, false, nil); err != nil {
		t.Fatal(err)
	}
	q := mustOf[amqp.Queue](t)(ch.QueueDeclare("all", true, false, false, false, nil))
	bind := func(ch *amqp.Channel) {
		if err := ch.QueueBind(q.Name, "#", "pawl", false, nil); err != nil {
			t.Fatal(err)
		}
	}
	bind(ch)
	v := target{
		sink: func() relay.Sink { return mustOf[relay.Sink](t)(rabbitmq.New(rabbitmq.Options{URL: b.URL})) },
		arrived: func(want int) []pawl.Event {
			deliveries := mustOf[<-chan amqp.Delivery](t)(channel().Consume("all", "", true, false, false, false, nil))
			var got []pawl.Event
			seen := map[string]bool{}
			for len(seen) < want {
				select {
				case d := <-deliveries:
					e := event(t, d.Body)
					got, seen[e.ID] = append(got, e), true
					if d.MessageId != e.ID || d.DeliveryMode != amqp.Persistent || d.RoutingKey != "default."+relay.Escape(e.TaskType)+"."+e.Event {
						t.Errorf("%s came as %s, mode %d, for %s", e.ID, d.MessageId, d.DeliveryMode, d.RoutingKey)
					}
				case <-time.After(time.Minute):
					return got
				}
			}
			return got
		},
	}
	down, up := restarter(t, b)
	v.down = func() {
		if err := ch.QueueUnbind(q.Name, "#", "pawl", nil); err != nil {
			t.Error(err)
		}
		down()
	}
	v.up = func() {
		up()
		bind(channel())
	}
	return v
}

// natsTarget is a NATS server; the sink creates its stream.
func natsTarget(t *testing.T) target {
	b := testbroker.Start(t, testserver.NewNATS)
	v := target{
		once: true,
		sink: func() relay.Sink { return mustOf[relay.Sink](t)(natsrelay.New(natsrelay.Options{URL: b.URL})) },
		arrived: func(want int) []pawl.Event {
			conn := mustOf[*nats.Conn](t)(nats.Connect(b.URL))
			defer conn.Close()
			js := mustOf[jetstream.JetStream](t)(jetstream.New(conn))
			stream := mustOf[jetstream.Stream](t)(js.Stream(t.Context(), "PAWL"))
			held := mustOf[*jetstream.StreamInfo](t)(stream.Info(t.Context())).State.Msgs
			consumer := mustOf[jetstream.Consumer](t)(stream.OrderedConsumer(t.Context(), jetstream.OrderedConsumerConfig{}))
			var got []pawl.Event
			for uint64(len(got)) < held {
				batch := mustOf[jetstream.MessageBatch](t)(consumer.Fetch(min(1000, int(held)-len(got)), jetstream.FetchMaxWait(time.Minute)))
				before := len(got)
				for m := range batch.Messages() {
					got = append(got, event(t, m.Data()))
				}
				if len(got) == before {
					t.Fatalf("%d of %d messages could be read: %v", len(got), held, batch.Error())
				}
			}
			return got
		},
	}
	v.down, v.up = restarter(t, b)
	return v
}

// webhookTarget is a receiver of webhooks; while it is down its port refuses connections.
func webhookTarget(t *testing.T) target {
	var mu sync.Mutex
	var got []pawl.Event
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}
		mu.Lock()
		defer mu.Unlock()
		got = append(got, event(t, body))
		w.WriteHeader(http.StatusNoContent)
	})
	addr := "127.0.0.1:0"
	var srv *http.Server
	v := target{
		down: func() { _ = srv.Close() },
		up: func() {
			ln, err := new(net.ListenConfig).Listen(context.Background(), "tcp", addr)
			if err != nil {
				t.Fatal(err)
			}
			addr = ln.Addr().String()
			srv = &http.Server{Handler: handler, ReadHeaderTimeout: time.Minute}
			go srv.Serve(ln)
		},
		arrived: func(int) []pawl.Event {
			mu.Lock()
			defer mu.Unlock()
			return got
		},
	}
	v.up()
	t.Cleanup(v.down)
	url := "http://" + addr + "/hook"
	v.sink = func() relay.Sink {
		return mustOf[relay.Sink](
			t,
		)(
			webhook.New(webhook.Options{URL: url, Secrets: []string{"whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"}, AllowPrivate: true}),
		)
	}
	return v
}
