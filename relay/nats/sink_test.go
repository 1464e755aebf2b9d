package nats_test

import (
	"crypto/rand"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/internal/testbroker"
	"github.com/pawl-work/pawl/relay"
	natsrelay "github.com/pawl-work/pawl/relay/nats"
)

// A URL that cannot be read is refused, and its password is not in the error: the state of a relay shows errors.
func TestAMalformedURLIsRefused(t *testing.T) {
	for _, url := range []string{"nats://pawl:s3cret%zz@localhost", "nats://localhost,nats://pawl:s3cret,2@localhost",
		"pawl:s3 cret@localhost", "nats://pawl:s3cret@local host", ""} {
		if _, err := natsrelay.New(natsrelay.Options{URL: url}); pawl.CodeOf(err) != pawl.CodeInvalid || strings.Contains(err.Error(), "s3") {
			t.Errorf("%q: %v", url, err)
		}
	}
	for _, url := range []string{"nats://localhost", "localhost:4222", "tls://pawl:secret@localhost:4222, nats://other"} {
		if _, err := natsrelay.New(natsrelay.Options{URL: url}); err != nil {
			t.Errorf("%q: %v", url, err)
		}
	}
}

// The sink creates the stream, and subjects name the event. A message that is sent twice is stored
// once. A message of another Pawl with the same number is a different one. A message that is too
// large is refused permanently.
func TestStream(t *testing.T) {
	url, name := testbroker.NATS(t), "PAWLTEST"+rand.Text()
	conn, err := nats.Connect(url)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	js, err := jetstream.New(conn)
	if err != nil {
		t.Fatal(err)
	}
	s, err := natsrelay.New(natsrelay.Options{URL: url, Stream: name, Prefix: name})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	defer js.DeleteStream(t.Context(), name)
	var batch []relay.Message
	for n := range 300 {
		batch = append(batch, relay.Message{
			Event: pawl.Event{
				ID:        fmt.Sprint("evt_", n),
				TaskID:    fmt.Sprint("tsk_", n),
				Namespace: "default",
				TaskType:  "a.b c>",
				Event:     "completed",
			},
			Origin: "/here", Body: fmt.Append(nil, n),
			TraceParent: traceParent(fmt.Sprint(n)), TraceState: "vendor=one",
		})
	}
	send := func() {
		t.Helper()
		for n, err := range s.Send(t.Context(), batch) {
			if err != nil {
				t.Errorf("%d: %v", n, err)
			}
		}
	}
	held := func(want uint64) {
		t.Helper()
		stream, err := js.Stream(t.Context(), name)
		if err != nil {
			t.Fatal(err)
		}
		if n := stream.CachedInfo().State.Msgs; n != want {
			t.Errorf("the stream holds %d, want %d", n, want)
		}
		m, err := stream.GetMsg(t.Context(), want)
		if err != nil || m.Subject != name+".default.a%2Eb%20c%3E.completed" || m.Header.Get("Content-Type") != "application/cloudevents+json" {
			t.Fatalf("%+v, %v", m, err)
		}
		if body := string(m.Data); m.Header.Get("tracestate") != "vendor=one" || m.Header.Get("traceparent") != traceParent(body) {
			t.Errorf("the message %s has the headers %v", body, m.Header)
		}
	}
	send()
	send()
	held(300)
	for i := range batch {
		batch[i].Origin = "/there"
	}
	send()
	held(600)
	batch[0].Event.ID, batch[0].Body = "evt_x", make([]byte, conn.MaxPayload()+1)
	if err := s.Send(t.Context(), batch[:1])[0]; err == nil {
		t.Error("what is too large was sent")
	} else if retryable, _ := pawl.RetryOf(err); retryable {
		t.Errorf("what is too large is tried again: %v", err)
	}
	if err := js.DeleteStream(t.Context(), name); err != nil {
		t.Fatal(err)
	}
	_ = s.Send(t.Context(), batch[1:2]) // finds it gone
	if err := s.Send(t.Context(), batch[1:2])[0]; err != nil {
		t.Errorf("the stream is not made anew: %v", err)
	}
	held(1)
}

// traceParent is the trace context of a message, by its body.
func traceParent(body string) string {
	return fmt.Sprintf("00-4bf92f3577b34da6a3ce929d0e0e4736-%016s-01", "1"+body)
}

// Servers that accept connections and do not answer delay a batch by 10 s together.
func TestSilentServers(t *testing.T) {
	t.Parallel()
	var urls []string
	for range 3 {
		l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close() // the kernel accepts
		urls = append(urls, "nats://"+l.Addr().String())
	}
	s, err := natsrelay.New(natsrelay.Options{URL: strings.Join(urls, ",")})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	began := time.Now()
	err = s.Send(t.Context(), []relay.Message{{Event: pawl.Event{ID: "evt_1"}}})[0]
	if retryable, _ := pawl.RetryOf(err); !retryable {
		t.Errorf("it answers %v", err)
	}
	if d := time.Since(began); d > 30*time.Second {
		t.Errorf("it took %v", d)
	}
}
