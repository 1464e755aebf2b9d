package server

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humachi"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/access"
	observed "github.com/pawl-work/pawl/engine/metrics"
	"github.com/pawl-work/pawl/internal/clock"
)

// metrics is what GET /metrics reports: the requests of this process, and the values of the
// gauges.
type metrics struct {
	registry *prometheus.Registry
	took     *prometheus.HistogramVec
	streams  *prometheus.GaugeVec   // open, by route
	errors   *prometheus.CounterVec // by code
	pools    func() []pawl.Pool     // nil = the service has none
	gate     *access.Gate
	gauges   []func(context.Context) ([]pawl.Gauge, error)

	observed *observed.Metrics // what the engine does

	mu    sync.Mutex
	last  *reading // nil = none yet
	reads *reading // in progress; nil = none
}

// observable is implemented by an engine.
type observable interface{ Observe(pawl.Observer) }

// pooled is implemented by an engine.
type pooled interface{ Pools() []pawl.Pool }

// gaugeReader is implemented by an engine.
type gaugeReader interface {
	Gauges(context.Context) ([]pawl.Gauge, error)
}

func newMetrics(svc pawl.Service, gauges []func(context.Context) ([]pawl.Gauge, error), gate *access.Gate) *metrics {
	m := &metrics{
		registry: prometheus.NewRegistry(), // not the global registry: one process may have two servers
		took: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "pawl_http_request_seconds", Help: "How long requests took; claims that wait and streams too.",
			Buckets: []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 5, 30, 60},
		}, []string{"route", "method", "status"}),
		streams: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "pawl_streams_open", Help: "Streams of server-sent events that the API is sending."}, []string{"route"}),
		errors: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "pawl_errors_total", Help: "Errors that the API answered with; of a batch, each of its calls."}, []string{"code"}),
		gate:     gate,
		gauges:   gauges,
		observed: observed.New(),
	}
	for _, e := range pawl.Errors { // a counter that begins at its first error would hide it from rates
		m.errors.WithLabelValues(string(e.Code))
	}
	m.registry.MustRegister(m.took, m.streams, m.errors, m, collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	if e, ok := svc.(observable); ok {
		e.Observe(m.observed)
	}
	if p, ok := svc.(pooled); ok {
		m.pools = p.Pools
	}
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

// streaming counts a stream of a route; end must be called when it ends.
func (m *metrics) streaming(route string) (end func()) {
	open := m.streams.WithLabelValues(route)
	open.Inc()
	return open.Dec
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
	m.collectPools(out)
	gauges, err := m.current()
	if err != nil {
		out <- prometheus.NewInvalidMetric(prometheus.NewInvalidDesc(err), err)
		return
	}
	m.observed.Collect(out)
	for _, g := range m.bounded(gauges) {
		var names, values []string
		for i := 0; i+1 < len(g.Labels); i += 2 {
			names, values = append(names, g.Labels[i]), append(values, g.Labels[i+1])
		}
		out <- prometheus.MustNewConstMetric(prometheus.NewDesc(g.Name, g.Help, names, nil), prometheus.GaugeValue, g.Value, values...)
	}
}

var (
	poolMax   = prometheus.NewDesc("pawl_pool_max_connections", "Connections that a pool may have.", []string{"pool"}, nil)
	poolConns = prometheus.NewDesc("pawl_pool_connections", "Connections of a pool.", []string{"pool", "state"}, nil)
	poolWaits = prometheus.NewDesc("pawl_pool_waits_total", "Calls that found no idle connection in a pool.", []string{"pool"}, nil)
)

// collectPools reports the pools of connections to the database.
func (m *metrics) collectPools(out chan<- prometheus.Metric) {
	if m.pools == nil {
		return
	}
	for _, p := range m.pools() {
		gauge := func(d *prometheus.Desc, n int, labels ...string) {
			out <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, float64(n), labels...)
		}
		gauge(poolMax, p.Max, p.Name)
		gauge(poolConns, p.InUse, p.Name, "in_use")
		gauge(poolConns, p.Idle, p.Name, "idle")
		out <- prometheus.MustNewConstMetric(poolWaits, prometheus.CounterValue, float64(p.Waits), p.Name)
	}
}

// scrapeWait is how long a scrape waits for the gauges to be read again, if it has some that are
// not older than gaugesOld. On a large database it then answers with those.
const (
	scrapeWait = 10 * time.Millisecond
	gaugesOld  = time.Minute
)

// reading is one reading of the gauges, shared by the scrapes that wait for it.
type reading struct {
	done   chan struct{}
	gauges []pawl.Gauge
	err    error
	at     time.Time // when it began
	next   time.Time // when the gauges are read again
}

// current returns the gauges, and begins to read them again when it is time.
func (m *metrics) current() ([]pawl.Gauge, error) {
	now := clock.Now()
	m.mu.Lock()
	old, r := m.last, m.reads
	if r == nil && (old == nil || !now.Before(old.next)) {
		r = &reading{done: make(chan struct{}), at: now}
		m.reads = r
		go m.readAgain(r)
	}
	m.mu.Unlock()
	if r == nil {
		return old.gauges, old.err
	}
	if old != nil && old.err == nil && now.Sub(old.at) < max(gaugesOld, 2*old.next.Sub(old.at)) {
		timer := time.NewTimer(scrapeWait)
		defer timer.Stop()
		select {
		case <-r.done:
		case <-timer.C:
			return old.gauges, nil
		}
	}
	<-r.done
	return r.gauges, r.err
}

// readAgain reads the gauges within a minute.
func (m *metrics) readAgain(r *reading) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	for _, read := range m.gauges {
		var gauges []pawl.Gauge
		if gauges, r.err = read(ctx); r.err != nil {
			break
		}
		r.gauges = append(r.gauges, gauges...)
	}
	now := clock.Now()
	if r.next = now; r.err == nil {
		r.next = now.Add(max(gaugesKeep, 20*now.Sub(r.at)))
	}
	m.mu.Lock()
	m.last, m.reads = r, nil
	m.mu.Unlock()
	close(r.done)
}

// bounded replaces types and namespaces beyond the bounds of labels by "other". It adds up what
// is then the same; of ages it keeps the highest.
func (m *metrics) bounded(gauges []pawl.Gauge) []pawl.Gauge {
	out := make([]pawl.Gauge, 0, len(gauges))
	places := map[string]int{}
	for _, g := range gauges {
		g.Labels = slices.Clone(g.Labels)
		for i := 0; i+1 < len(g.Labels); i += 2 {
			switch g.Labels[i] {
			case "type":
				g.Labels[i+1] = m.observed.Type(g.Labels[i+1])
			case "namespace":
				g.Labels[i+1] = m.observed.Namespace(g.Labels[i+1])
			}
		}
		key := g.Name + "\x00" + strings.Join(g.Labels, "\x00")
		at, there := places[key]
		switch {
		case !there:
			places[key] = len(out)
			out = append(out, g)
		case strings.HasSuffix(g.Name, "_seconds"):
			out[at].Value = max(out[at].Value, g.Value)
		default:
			out[at].Value += g.Value
		}
	}
	return out
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
