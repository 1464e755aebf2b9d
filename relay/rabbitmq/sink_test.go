package rabbitmq_test

import (
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/internal/testbroker"
	"github.com/pawl-work/pawl/relay"
	"github.com/pawl-work/pawl/relay/rabbitmq"
)

// exchange returns an exchange for one test, and a channel to inspect it.
func exchange(t *testing.T) (url, name string, ch *amqp.Channel) {
	t.Helper()
	url, name = testbroker.RabbitMQ(t), "pawl-test-"+rand.Text()
	conn, err := amqp.Dial(url)
	if err == nil {
		ch, err = conn.Channel()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = ch.ExchangeDelete(name, false, false)
		_ = conn.Close()
	})
	return url, name, ch
}

func queue(t *testing.T, ch *amqp.Channel, exchange, key string, args amqp.Table) string {
	t.Helper()
	q, err := ch.QueueDeclare("", false, false, true, false, args)
	if err == nil {
		err = ch.QueueBind(q.Name, key, exchange, false, nil)
	}
	if err != nil {
		t.Fatal(err)
	}
	return q.Name
}

func open(t *testing.T, o rabbitmq.Options) relay.Sink {
	t.Helper()
	s, err := rabbitmq.New(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

func message(n int, typ, event string) relay.Message {
	return relay.Message{
		Event: pawl.Event{ID: fmt.Sprint("evt_", n), TaskID: fmt.Sprint("tsk_", n), Namespace: "default", TaskType: typ, Event: event},
		Body:  []byte(`{}`),
	}
}

// The broker confirms messages that no queue is bound for, too, after it has returned them.
// Such a message is refused, or waits for a queue. The other messages of its batch are sent.
func TestUnroutableMessagesAreNotSent(t *testing.T) {
	url, name, ch := exchange(t)
	refuse := open(t, rabbitmq.Options{URL: url, Exchange: name, RefuseUnroutable: true})
	await := open(t, rabbitmq.Options{URL: url, Exchange: name})
	if err := refuse.Send(t.Context(), []relay.Message{message(0, "a.b", "leased")})[0]; err == nil {
		t.Error("a message that no queue is bound for counts as sent")
	}
	q := queue(t, ch, name, "default.a%2Eb.completed", nil)
	var batch []relay.Message
	for n := range 400 {
		batch = append(batch, message(n, "a.b", []string{"leased", "completed"}[n%2]))
	}
	for sink, final := range map[relay.Sink]bool{refuse: true, await: false} {
		for n, err := range sink.Send(t.Context(), batch) {
			retryable, _ := pawl.RetryOf(err)
			if bound := n%2 == 1; (err == nil) != bound || (!bound && retryable == final) {
				t.Errorf("%d: %v", n, err)
			}
		}
	}
	if got, err := ch.QueueDeclarePassive(q, false, false, true, false, nil); err != nil || got.Messages != 400 {
		t.Errorf("%d messages, %v", got.Messages, err)
	}
	queue(t, ch, name, "#", nil)
	for n, err := range await.Send(t.Context(), batch) {
		if err != nil {
			t.Errorf("%d: %v", n, err)
		}
	}
}

// A full queue rejects messages. The sink reports which ones were accepted, and keeps the
// connection.
func TestFullQueueSaysNo(t *testing.T) {
	url, name, ch := exchange(t)
	s := open(t, rabbitmq.Options{URL: url, Exchange: name})
	if err := s.Send(t.Context(), []relay.Message{message(0, "a", "leased")})[0]; err == nil {
		t.Error("no queue, no refusal")
	}
	q := queue(t, ch, name, "#", amqp.Table{"x-max-length": 3, "x-overflow": "reject-publish"})
	send := func() (taken int) {
		var batch []relay.Message
		for n := range 10 {
			batch = append(batch, message(n, "a", "leased"))
		}
		for n, err := range s.Send(t.Context(), batch) {
			if retryable, _ := pawl.RetryOf(err); err == nil {
				taken++
			} else if !retryable {
				t.Errorf("%d: %v", n, err)
			}
		}
		return taken
	}
	if n := send(); n == 10 || n == 0 {
		t.Errorf("%d were taken", n)
	}
	if n, err := ch.QueuePurge(q, false); err != nil || n == 0 {
		t.Fatal(n, err)
	}
	if send() == 0 {
		t.Error("none was taken by an empty queue")
	}
}

// A message has the trace context of its delivery in its headers; one without has no headers.
func TestTraceContext(t *testing.T) {
	url, name, ch := exchange(t)
	s := open(t, rabbitmq.Options{URL: url, Exchange: name})
	_ = s.Send(t.Context(), []relay.Message{message(0, "a", "leased")}) // makes the exchange
	q := queue(t, ch, name, "#", nil)
	const parent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
	batch := []relay.Message{message(0, "a", "leased"), message(1, "a", "leased"), message(2, "a", "leased")}
	batch[0].TraceParent, batch[0].TraceState, batch[1].TraceParent = parent, "vendor=one", parent
	if err := errors.Join(s.Send(t.Context(), batch)...); err != nil {
		t.Fatal(err)
	}
	for n, want := range []string{`map[traceparent:` + parent + ` tracestate:vendor=one]`, `map[traceparent:` + parent + `]`, `map[]`} {
		m, ok, err := ch.Get(q, true)
		if got := fmt.Sprint(map[string]any(m.Headers)); !ok || err != nil || got != want {
			t.Errorf("message %d has the headers %s, want %s (%t, %v)", n, got, want, ok, err)
		}
	}
}

// When the exchange is deleted, messages are not confirmed, and the sink declares the
// exchange again.
func TestExchangeThatGoesAway(t *testing.T) {
	url, name, ch := exchange(t)
	s := open(t, rabbitmq.Options{URL: url, Exchange: name})
	_ = s.Send(t.Context(), []relay.Message{message(0, "a", "leased")})
	if err := ch.ExchangeDelete(name, false, false); err != nil {
		t.Fatal(err)
	}
	for n, err := range s.Send(t.Context(), []relay.Message{message(0, "a", "leased"), message(1, "a", "leased")}) {
		if retryable, _ := pawl.RetryOf(err); err == nil || !retryable {
			t.Errorf("%d: %v", n, err)
		}
	}
	_ = s.Send(t.Context(), []relay.Message{message(0, "a", "leased")}) // makes it
	queue(t, ch, name, "#", nil)
	if err := s.Send(t.Context(), []relay.Message{message(0, "a", "leased")})[0]; err != nil {
		t.Error(err)
	}
}

// A message with a routing key that is too long is refused permanently.
func TestKeyThatIsTooLong(t *testing.T) {
	url, name, ch := exchange(t)
	s := open(t, rabbitmq.Options{URL: url, Exchange: name})
	_ = s.Send(t.Context(), []relay.Message{message(0, "a", "leased")})
	queue(t, ch, name, "#", nil)
	answers := s.Send(t.Context(), []relay.Message{message(0, strings.Repeat(".", 120), "leased"), message(1, "a", "leased")})
	if retryable, _ := pawl.RetryOf(answers[0]); answers[0] == nil || retryable || answers[1] != nil {
		t.Errorf("%v", answers)
	}
}

// The error for a malformed URL does not contain its password.
func TestURLIsChecked(t *testing.T) {
	_, err := rabbitmq.New(rabbitmq.Options{URL: "amqp://me:hidden@host:port"})
	if !errors.Is(err, pawl.ErrInvalid) || strings.Contains(err.Error(), "hidden") {
		t.Errorf("%v", err)
	}
}
