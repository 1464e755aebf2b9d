package main

import (
	"context"
	"os"

	"github.com/pawl-work/pawl/internal/testserver"
)

// brokers lists the message brokers that tests need: the variable that names one, Debian's
// package, and how to start a temporary one.
var brokers = []struct {
	name, variable, debian string
	find                   func() (string, error)
	start                  func() (*testserver.Broker, error)
}{
	{"RabbitMQ", "PAWL_TEST_RABBITMQ", "rabbitmq-server", testserver.FindRabbitMQ, testserver.NewRabbitMQ},
	{"NATS", "PAWL_TEST_NATS", "nats-server", testserver.FindNATS, testserver.NewNATS},
}

// startBrokers starts the brokers that the environment does not name and adds their
// URLs to env. It does not wait until they are ready: RabbitMQ starts while the tests
// are built, and the tests wait for it.
func startBrokers(ctx context.Context, env []string, report *Report) (with []string, stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	var running []*testserver.Broker
	for _, b := range brokers {
		if os.Getenv(b.variable) != "" {
			continue
		}
		broker, err := b.start()
		if err != nil {
			report.CouldNot(b.name, err.Error())
			continue
		}
		note("%s in %s", b.name, broker.Dir)
		running = append(running, broker)
		env = append(env, b.variable+"="+broker.URL)
		go func() {
			if err := broker.Ready(ctx); err != nil && ctx.Err() == nil {
				note("%v", err)
			}
		}()
	}
	return env, func() {
		cancel()
		for _, broker := range running {
			if err := broker.Stop(); err != nil {
				note("%v", err)
			}
		}
	}
}
