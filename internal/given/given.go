// Package given answers what servers a test may use: those that the environment
// names, as `make test` does.
package given

import (
	"context"
	"net"
	"net/url"
	"os"
	"testing"
	"time"
)

// RabbitMQ is the URL of a RabbitMQ server that answers; without one the test is
// skipped, or fails when CI=true.
func RabbitMQ(t testing.TB) string { return named(t, "PAWL_TEST_RABBITMQ", "RabbitMQ") }

// NATS is the URL of a NATS server with JetStream that answers; see RabbitMQ.
func NATS(t testing.TB) string { return named(t, "PAWL_TEST_NATS", "NATS") }

func named(t testing.TB, variable, what string) string {
	t.Helper()
	name := os.Getenv(variable)
	if name == "" {
		if os.Getenv("CI") == "true" {
			t.Fatalf("%s names no %s", variable, what)
		}
		t.Skipf("%s names no %s", variable, what)
	}
	u, err := url.Parse(name)
	if err != nil {
		t.Fatalf("%s is no URL", variable)
	}
	// It may be starting still.
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
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
