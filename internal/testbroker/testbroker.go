// Package testbroker gives tests a RabbitMQ or NATS server: one that the environment
// names, or one that the test starts itself.
package testbroker

import (
	"context"
	"net"
	"net/url"
	"os"
	"testing"
	"time"

	"github.com/pawl-work/pawl/internal/testserver"
)

// RabbitMQ returns the URL in PAWL_TEST_RABBITMQ once the server answers. Without
// the variable it skips the test, or fails it when CI=true.
func RabbitMQ(t testing.TB) string { return fromEnv(t, "PAWL_TEST_RABBITMQ", "RabbitMQ") }

// NATS returns the URL in PAWL_TEST_NATS of a server with JetStream; see RabbitMQ.
func NATS(t testing.TB) string { return fromEnv(t, "PAWL_TEST_NATS", "NATS") }

func fromEnv(t testing.TB, variable, what string) string {
	t.Helper()
	name := os.Getenv(variable)
	if name == "" {
		if os.Getenv("CI") == "true" {
			t.Fatalf("%s is not set: set it to the URL of a %s server", variable, what)
		}
		t.Skipf("%s is not set: set it to the URL of a %s server", variable, what)
	}
	u, err := url.Parse(name)
	if err != nil {
		t.Fatalf("%s must be a URL", variable)
	}
	// The server may still be starting.
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	for {
		conn, err := new(net.Dialer).DialContext(ctx, "tcp", u.Host)
		if err == nil {
			_ = conn.Close()
			return name
		}
		select {
		case <-ctx.Done():
			t.Fatalf("%s: %v", variable, err)
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// Start starts a broker for one test, which may stop and restart it: start is
// testserver.NewNATS or testserver.NewRabbitMQ. The broker is ready on return and is
// removed when the test ends. Without the program the test is skipped, or fails
// when CI=true.
func Start(t testing.TB, start func() (*testserver.Broker, error)) *testserver.Broker {
	t.Helper()
	b, err := start()
	if err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatal(err)
		}
		t.Skip(err)
	}
	t.Cleanup(func() {
		if err := b.Stop(); err != nil {
			t.Error(err)
		}
	})
	if err := b.Ready(t.Context()); err != nil {
		t.Fatal(err)
	}
	return b
}
