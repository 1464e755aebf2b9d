package traces

import (
	"context"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.opentelemetry.io/collector/component/componenttest"
	"go.opentelemetry.io/collector/config/configgrpc"
	"go.opentelemetry.io/collector/config/configoptional"
	"go.opentelemetry.io/collector/consumer/consumertest"
	"go.opentelemetry.io/collector/pdata/ptrace"
	"go.opentelemetry.io/collector/receiver/otlpreceiver"
	"go.opentelemetry.io/collector/receiver/receivertest"
)

// collector is the OTLP receiver of the OpenTelemetry Collector, which keeps what it gets.
type collector struct {
	*testing.T
	address string
	sink    *consumertest.TracesSink
}

func startCollector(t *testing.T) *collector {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := l.Addr().String()
	l.Close()
	c := &collector{T: t, address: address, sink: new(consumertest.TracesSink)}
	factory := otlpreceiver.NewFactory()
	cfg := factory.CreateDefaultConfig().(*otlpreceiver.Config)
	cfg.Protocols.GRPC = configoptional.None[configgrpc.ServerConfig]()
	cfg.Protocols.HTTP.GetOrInsertDefault().ServerConfig.NetAddr.Endpoint = address
	r, err := factory.CreateTraces(context.Background(), receivertest.NewNopSettings(factory.Type()), cfg, c.sink)
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Start(context.Background(), componenttest.NewNopHost()); err != nil {
		t.Fatal(err)
	}
	stop := sync.OnceFunc(func() { _ = r.Shutdown(context.Background()) })
	t.Cleanup(stop)
	return c
}

// span is one span with what the tests ask for.
type span struct {
	ptrace.Span
	service string
}

func (s span) id() string     { return s.SpanID().String() }
func (s span) parent() string { return s.ParentSpanID().String() }
func (s span) attr(name string) string {
	v, ok := s.Attributes().Get(name)
	if !ok {
		return ""
	}
	return v.AsString()
}

// links returns the ids of the spans that a span is linked to for a reason.
func (s span) links(reason string) (out []string) {
	for _, l := range s.Links().All() {
		if v, ok := l.Attributes().Get("pawl.link"); ok && v.Str() == reason {
			out = append(out, l.SpanID().String())
		}
	}
	return out
}

// spans returns the spans of a trace that have arrived.
func (c *collector) spans(traceID string) (out []span) {
	for _, t := range c.sink.AllTraces() {
		for _, r := range t.ResourceSpans().All() {
			service, _ := r.Resource().Attributes().Get("service.name")
			for _, s := range r.ScopeSpans().All() {
				for _, one := range s.Spans().All() {
					if traceID == "" || one.TraceID().String() == traceID {
						out = append(out, span{one, service.AsString()})
					}
				}
			}
		}
	}
	return out
}

// await waits until spans of these names have arrived, each "service: name" or "service: name
// outcome".
func (c *collector) await(traceID string, names ...string) []span {
	c.Helper()
	var missing []string
	for end := time.Now().Add(60 * time.Second); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		all := c.spans(traceID)
		missing = slices.DeleteFunc(slices.Clone(names), func(name string) bool {
			return slices.ContainsFunc(all, func(s span) bool { return s.is(name) })
		})
		if len(missing) == 0 {
			return all
		}
	}
	c.Fatalf("no spans %q; there are\n%s", missing, c.drawn(traceID))
	return nil
}

func (s span) is(name string) bool {
	full := s.service + ": " + s.Name()
	return full == name || full+" "+s.attr("pawl.outcome") == name || full+" "+s.attr("pawl.event.name") == name
}

// one returns the only span of a name.
func one(t *testing.T, all []span, name string) span {
	t.Helper()
	found := slices.DeleteFunc(slices.Clone(all), func(s span) bool { return !s.is(name) })
	if len(found) != 1 {
		t.Fatalf("there are %d spans %q", len(found), name)
	}
	return found[0]
}

// drawn lists the spans of a trace, for messages of tests.
func (c *collector) drawn(traceID string) string {
	var b strings.Builder
	for _, s := range c.spans(traceID) {
		fmt.Fprintf(&b, "%s %s ← %s  %s: %s %v\n", s.TraceID(), s.id(), s.parent(), s.service, s.Name(), s.Attributes().AsRaw())
	}
	return b.String()
}
