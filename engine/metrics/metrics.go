// Package metrics makes Prometheus metrics of what an engine does. A server has them at GET
// /metrics. A program that opens an engine without a server registers them itself:
//
//	m := metrics.New()
//	eng.Observe(m)
//	registry.MustRegister(m)
package metrics

import (
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/pawl-work/pawl"
)

// The bounds of labels: of further types and namespaces, all metrics say Other.
const (
	MaxTypes      = 200
	MaxNamespaces = 100
	Other         = "other"
)

var (
	callBuckets  = []float64{.0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 5, 30}
	groupBuckets = []float64{1, 2, 4, 8, 16, 32, 64, 128, 256, 512}
	workBuckets  = []float64{.01, .05, .25, 1, 5, 15, 60, 300, 900, 3600, 14400}
)

// Metrics implements pawl.Observer and prometheus.Collector. Histograms have classic and native
// buckets.
type Metrics struct {
	claim, waits, pickups, runs, leases *prometheus.HistogramVec // by namespace and type
	complete, heartbeat                 *prometheus.HistogramVec // by namespace
	groups                              *prometheus.HistogramVec // by verb
	events, expirations                 *prometheus.CounterVec
	swept                               prometheus.Histogram
	recovered, failed, sweepErrors      prometheus.Counter

	mu         sync.Mutex
	types      map[string]bool
	namespaces map[string]bool
}

var _ pawl.Observer = (*Metrics)(nil)

func histogram(name, help string, buckets []float64) prometheus.HistogramOpts {
	return prometheus.HistogramOpts{Name: name, Help: help, Buckets: buckets,
		NativeHistogramBucketFactor: 1.1, NativeHistogramMaxBucketNumber: 100, NativeHistogramMinResetDuration: time.Hour}
}

// New returns metrics that nothing has observed yet.
func New() *Metrics {
	of := func(name, help string, buckets []float64, labels ...string) *prometheus.HistogramVec {
		return prometheus.NewHistogramVec(histogram(name, help, buckets), labels)
	}
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
	}
	total := func(name, help string) prometheus.Counter {
		return prometheus.NewCounter(prometheus.CounterOpts{Name: name, Help: help})
	}
	return &Metrics{
		claim: of("pawl_claim_seconds", "How long claims took that returned items, without the wait for work; once for each type returned.",
			callBuckets, "namespace", "type"),
		waits:   of("pawl_queue_wait_seconds", "How long claimed items were queued.", workBuckets, "namespace", "type"),
		pickups: of("pawl_pickup_seconds", "From the creation of an item to its first claim.", workBuckets, "namespace", "type"),
		runs: of("pawl_run_seconds", "How long attempts took that completed, submitted a result or failed.",
			workBuckets, "namespace", "type"),
		leases:      of("pawl_lease_age_seconds", "How long leases lasted, whatever ended them.", workBuckets, "namespace", "type"),
		complete:    of("pawl_complete_seconds", "How long calls of complete took.", callBuckets, "namespace"),
		heartbeat:   of("pawl_heartbeat_seconds", "How long calls of heartbeat took.", callBuckets, "namespace"),
		groups:      of("pawl_group_commit_calls", "Concurrent calls that one transaction carried out.", groupBuckets, "verb"),
		events:      counter("pawl_events_total", "Events by the type of their task.", "namespace", "type", "event"),
		expirations: counter("pawl_lease_expirations_total", "Leases that ran out.", "namespace", "type"),
		swept:       prometheus.NewHistogram(histogram("pawl_sweep_seconds", "How long passes of the sweep took.", workBuckets)),
		recovered:   total("pawl_sweep_recovered_total", "Items that the sweep took back from lost workers and queued again."),
		failed:      total("pawl_sweep_failed_total", "Items that the sweep failed because their lease ran out at the last attempt."),
		sweepErrors: total("pawl_sweep_errors_total", "Errors in steps of the sweep."),
		types:       map[string]bool{},
		namespaces:  map[string]bool{},
	}
}

func (m *Metrics) collectors() []prometheus.Collector {
	return []prometheus.Collector{m.claim, m.waits, m.pickups, m.runs, m.leases, m.complete, m.heartbeat, m.groups,
		m.events, m.expirations, m.swept, m.recovered, m.failed, m.sweepErrors}
}

// Describe implements prometheus.Collector.
func (m *Metrics) Describe(out chan<- *prometheus.Desc) {
	for _, c := range m.collectors() {
		c.Describe(out)
	}
}

// Collect implements prometheus.Collector.
func (m *Metrics) Collect(out chan<- prometheus.Metric) {
	for _, c := range m.collectors() {
		c.Collect(out)
	}
}

// Type returns the label of a type: the type, or Other when MaxTypes others were seen before it.
func (m *Metrics) Type(typ string) string { return m.bound(m.types, MaxTypes, typ) }

// Namespace is Type for namespaces.
func (m *Metrics) Namespace(namespace string) string {
	return m.bound(m.namespaces, MaxNamespaces, namespace)
}

func (m *Metrics) bound(seen map[string]bool, most int, name string) string {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !seen[name] {
		if len(seen) >= most {
			return Other
		}
		seen[name] = true
	}
	return name
}

// Counted implements pawl.Observer.
func (m *Metrics) Counted(c pawl.CountedEvents) {
	namespace, typ := m.Namespace(c.Namespace), m.Type(c.Type)
	for event, n := range c.Events {
		m.events.WithLabelValues(namespace, typ, event).Add(float64(n))
	}
	m.expirations.WithLabelValues(namespace, typ).Add(float64(c.Events["lease_expired"]))
	for _, of := range []struct {
		histogram *prometheus.HistogramVec
		seconds   []float64
	}{{m.waits, c.Waits}, {m.pickups, c.Pickups}, {m.runs, c.Runs}, {m.leases, c.Leases}} {
		if len(of.seconds) == 0 {
			continue
		}
		h := of.histogram.WithLabelValues(namespace, typ)
		for _, s := range of.seconds {
			h.Observe(s)
		}
	}
}

// Took implements pawl.Observer.
func (m *Metrics) Took(verb, namespace string, types []string, took time.Duration) {
	namespace = m.Namespace(namespace)
	switch verb {
	case "claim":
		for _, typ := range types {
			m.claim.WithLabelValues(namespace, m.Type(typ)).Observe(took.Seconds())
		}
	case "complete":
		m.complete.WithLabelValues(namespace).Observe(took.Seconds())
	case "heartbeat":
		m.heartbeat.WithLabelValues(namespace).Observe(took.Seconds())
	}
}

// Committed implements pawl.Observer.
func (m *Metrics) Committed(verb string, calls int) {
	m.groups.WithLabelValues(verb).Observe(float64(calls))
}

// Swept implements pawl.Observer.
func (m *Metrics) Swept(s pawl.SweepStats) {
	m.swept.Observe(float64(s.ScanDurationMS) / 1e3)
	m.recovered.Add(float64(s.Recovered))
	m.failed.Add(float64(s.Failed))
	m.sweepErrors.Add(float64(s.Errors))
}
