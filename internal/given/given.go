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

	"github.com/pawl-work/pawl/internal/throwaway"
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

// Own is a broker of the test's own, to be stopped and started: throwaway.NewNATS
// or throwaway.NewRabbitMQ. It answers, and is gone when the test ends. Without
// the program the test is skipped, or fails when CI=true.
func Own(t testing.TB, start func() (*throwaway.Broker, error)) *throwaway.Broker {
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
