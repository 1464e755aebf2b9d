package server

import (
	"context"
	"strconv"
	"sync"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humachi"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/access"
	"github.com/pawl-work/pawl/internal/clock"
)

// metrics is what GET /metrics reports: the requests of this process, and the values of the
// gauges.
type metrics struct {
	registry *prometheus.Registry
	took     *prometheus.HistogramVec
	gate     *access.Gate
	gauges   []func(context.Context) ([]pawl.Gauge, error)

	mu   sync.Mutex
	read []pawl.Gauge
	next time.Time
}

// gaugeReader is implemented by an engine.
type gaugeReader interface {
	Gauges(context.Context) ([]pawl.Gauge, error)
}

func newMetrics(gauges []func(context.Context) ([]pawl.Gauge, error), gate *access.Gate) *metrics {
	m := &metrics{
		registry: prometheus.NewRegistry(), // not the global registry: one process may have two servers
		took: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "pawl_http_request_seconds", Help: "How long requests took; claims that wait and streams too.",
			Buckets: []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 5, 30, 60},
		}, []string{"route", "method", "status"}),
		gate:   gate,
		gauges: gauges,
	}
	m.registry.MustRegister(m.took, m, collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return m
}

// observe counts a request. A request without a route is counted without its method, so the
// labels are bounded whatever is sent.
func (m *metrics) observe(route, method string, status int, took time.Duration) {
	if route == "" {
		method = ""
	}
	m.took.WithLabelValues(route, method, strconv.Itoa(status)).Observe(took.Seconds())
}

// Describe implements prometheus.Collector. It names no metrics: they are known only when
// read.
func (m *metrics) Describe(chan<- *prometheus.Desc) {}

// gaugesKeep bounds the cost of scrapes. The gauges are read again after this time, or after
// twenty times the time that reading them took, whichever is longer.
const gaugesKeep = 5 * time.Second

var refused = prometheus.NewDesc("pawl_refusals_total", "Calls refused for want of a key, a role, a namespace or patience.",
	[]string{"route", "code"}, nil)

// Collect implements prometheus.Collector. If a gauge cannot be read, the scrape fails: an old
// value would look current.
func (m *metrics) Collect(out chan<- prometheus.Metric) {
	for r, n := range m.gate.Refusals() {
		out <- prometheus.MustNewConstMetric(refused, prometheus.CounterValue, float64(n), r.Route, string(r.Code))
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if began := clock.Now(); !began.Before(m.next) {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		m.read = m.read[:0]
		for _, read := range m.gauges {
			gs, err := read(ctx)
			if err != nil {
				out <- prometheus.NewInvalidMetric(prometheus.NewInvalidDesc(err), err)
				return
			}
			m.read = append(m.read, gs...)
		}
		now := clock.Now()
		m.next = now.Add(max(gaugesKeep, 20*now.Sub(began)))
	}
	for _, g := range m.read {
		var names, values []string
		for i := 0; i+1 < len(g.Labels); i += 2 {
			names, values = append(names, g.Labels[i]), append(values, g.Labels[i+1])
		}
		out <- prometheus.MustNewConstMetric(prometheus.NewDesc(g.Name, g.Help, names, nil), prometheus.GaugeValue, g.Value, values...)
	}
}

// metricsRoute registers GET /metrics.
func (s *server) metricsRoute() {
	h := promhttp.HandlerFor(s.metrics.registry, promhttp.HandlerOpts{})
	add(s, "metrics", func(context.Context, *nothing) (*huma.StreamResponse, error) {
		return &huma.StreamResponse{Body: func(c huma.Context) {
			r, w := humachi.Unwrap(c)
			h.ServeHTTP(w, r)
		}}, nil
	})
}
