// Package traces tests the traces of Pawl's programs with the receiver of the OpenTelemetry
// Collector. It is a module of its own, so that programs that use Pawl do not download the collector.
package traces

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"testing"

	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/client"
	"github.com/pawl-work/pawl/tracing"
	"github.com/pawl-work/pawl/worker"
)

// TestMain runs the tests, or the worker that they start as another process.
func TestMain(m *testing.M) {
	if server := os.Getenv("TRACES_WORKER_OF"); server != "" {
		if err := work(server); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	code := m.Run()
	_ = os.RemoveAll(binaryDir) // "" is nothing
	os.Exit(code)
}

// order is the input of the tasks.
type order struct {
	Budget string `json:"budget"`
	Child  string `json:"child"` // the type of the child; "" = none
	Below  string `json:"below"` // the type of the child's child
}

// work is a worker in Go, as its users write one that traces.
func work(server string) error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	exporter, err := otlptracehttp.New(ctx)
	if err != nil {
		return err
	}
	tp := sdktrace.NewTracerProvider(sdktrace.WithBatcher(exporter), sdktrace.WithIDGenerator(tracing.IDs{}))
	defer func() { _ = tp.Shutdown(context.WithoutCancel(ctx)) }()
	svc := client.NewWith(server, "", client.Options{Header: tracing.Inject})
	return worker.RunWith(ctx, svc, worker.Options{ID: "go-worker", TracerProvider: tp}, worker.Handler{Type: "order", Do: handle})
}

// handle reserves, runs a step that may spawn a child, and waits for it. Its first attempt fails.
func handle(ctx context.Context, input json.RawMessage) (json.RawMessage, error) {
	var in order
	if err := json.Unmarshal(input, &in); err != nil {
		return nil, err
	}
	lease, err := pawl.ItemFrom(ctx)
	if err != nil {
		return nil, err
	}
	if lease.Attempt == 1 {
		return nil, pawl.RetryAfter(0, fmt.Errorf("not yet"))
	}
	r, err := pawl.Reserve(ctx, in.Budget, 10)
	if err != nil {
		return nil, err
	}
	if err := r.Settle(ctx, 7); err != nil {
		return nil, err
	}
	id, err := pawl.Step(ctx, "spawn", func(ctx context.Context) (string, error) {
		if in.Child == "" {
			return "", nil
		}
		child, err := pawl.Spawn(ctx, "only", pawl.NewTask{Type: in.Child, Payload: json.RawMessage(`{"child":"` + in.Below + `"}`)})
		return child.ID, err
	})
	if err != nil || id == "" {
		return json.RawMessage(`{}`), err
	}
	if _, err := pawl.AwaitChildren(ctx, "child", pawl.ChildWait{IDs: []string{id}}); err != nil {
		return nil, err
	}
	return json.RawMessage(`{}`), nil
}
