package rabbitmq_test

import (
	"context"
	"net"
	"testing"
	"time"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/worker/rabbitmq"
)

// A worker ends with its work, although its broker accepts the connection and does not answer.
func TestASilentBrokerHoldsNoWorker(t *testing.T) {
	t.Parallel()
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	began := time.Now()
	o := rabbitmq.QueueOptions{URL: "amqp://pawl:secret@" + l.Addr().String(), Queue: "work"}
	err = rabbitmq.Run(t.Context(), nil, o, func(context.Context, pawl.Claimer) error {
		c, err := l.Accept()
		if err == nil {
			_, err = c.Read(make([]byte, 8)) // the protocol's header
		}
		return err
	})
	if d := time.Since(began); err != nil || d > 20*time.Second {
		t.Errorf("it ended after %v: %v", d, err)
	}
}
