package cli

import (
	"cmp"
	"context"
	"strings"
	"sync/atomic"
	"time"

	"github.com/spf13/cobra"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"

	"github.com/pawl-work/pawl/internal/clock"
	"github.com/pawl-work/pawl/tracing"
)

// traceConfig says where spans go. What it leaves out, the variables of OpenTelemetry say.
type traceConfig struct {
	Endpoint string `koanf:"endpoint"`
}

const (
	noTraces       = "off"
	flushTime      = 2 * time.Second // for the spans of a process that ends
	exportLogPause = time.Minute     // between two log lines about a collector that does not answer
	defaultService = "pawl"
)

// Traced runs a command with App.Traces, if the settings or the variables of OpenTelemetry name a
// collector. A collector that does not answer delays nothing: spans that find the queue full are
// dropped.
func Traced(a *App, run func(*cobra.Command, []string) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		a.forMany = true
		end, err := a.startTraces(cmd.Context())
		if err != nil {
			return err
		}
		defer end()
		return run(cmd, args)
	}
}

// startTraces sets App.Traces. end sends the spans that are left.
func (a *App) startTraces(ctx context.Context) (end func(), err error) {
	to, err := a.collector()
	if err != nil || to == nil {
		return func() {}, err
	}
	a.logExportErrors()
	exporter, err := otlptrace.New(ctx, to)
	if err != nil {
		return nil, err
	}
	about, err := resource.New(ctx, resource.WithAttributes(
		attribute.String("service.name", defaultService),
		attribute.String("service.version", ReadVersion().Version),
	), resource.WithTelemetrySDK(), resource.WithFromEnv()) // OTEL_SERVICE_NAME comes last and wins
	if err != nil {
		return nil, Invalid("OTEL_RESOURCE_ATTRIBUTES: %v", err)
	}
	tp := sdktrace.NewTracerProvider(sdktrace.WithBatcher(exporter), sdktrace.WithIDGenerator(tracing.IDs{}), sdktrace.WithResource(about))
	a.Traces = tp
	return func() {
		ending, cancel := context.WithTimeout(context.WithoutCancel(ctx), flushTime)
		defer cancel()
		if err := tp.Shutdown(ending); err != nil {
			a.Log().Warn("spans were lost: the collector of traces did not take them in time", "error", err)
		}
	}, nil
}

// collector returns where spans are sent; nil = nowhere.
func (a *App) collector() (*collector, error) {
	given := a.Config.Trace.Endpoint
	byEnv := cmp.Or(a.Getenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"), a.Getenv("OTEL_EXPORTER_OTLP_ENDPOINT"))
	disabled := strings.EqualFold(a.Getenv("OTEL_SDK_DISABLED"), "true") || a.Getenv("OTEL_TRACES_EXPORTER") == "none"
	if given == noTraces || given == "" && (disabled || byEnv == "") {
		return nil, nil
	}
	protocol := cmp.Or(a.Getenv("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL"), a.Getenv("OTEL_EXPORTER_OTLP_PROTOCOL"), "http/protobuf")
	if protocol != "http/protobuf" {
		return nil, Invalid("traces are sent by the protocol http/protobuf; OTEL_EXPORTER_OTLP_PROTOCOL is %q", protocol)
	}
	return newCollector(a.Getenv, given)
}

// logExportErrors logs what goes wrong while spans are sent, at most once a minute.
func (a *App) logExportErrors() {
	var next atomic.Int64
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(err error) {
		now := clock.Now().UnixNano()
		if at := next.Load(); now >= at && next.CompareAndSwap(at, now+int64(exportLogPause)) {
			a.Log().Warn("spans are not taken by the collector of traces; work goes on", "error", err)
		}
	}))
}

// fromCaller returns the context of a command, which continues the trace context of the
// variables TRACEPARENT and TRACESTATE, as programs of workers have them. A command that works
// for many callers does not continue it.
func (a *App) fromCaller(ctx context.Context) context.Context {
	if a.forMany {
		return ctx
	}
	return tracing.Remote(ctx, a.Getenv("TRACEPARENT"), a.Getenv("TRACESTATE"))
}
