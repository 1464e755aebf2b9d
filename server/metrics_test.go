package server_test

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/engine/metrics"
	"github.com/pawl-work/pawl/pawltest"
	"github.com/pawl-work/pawl/server"
)

func TestMetrics(t *testing.T) {
	h := open(t)
	srv := h.srv
	for _, b := range []string{`{"type":"a","payload":1}`, `{"type":"a","payload":2}`, `{"type":"b","payload":1}`, `nonsense`, `{"type":5}`} {
		resp, err := http.Post(srv.URL+"/v1/tasks", "application/json", strings.NewReader(b))
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
	}
	if _, err := h.p.Service.Claim(t.Context(), pawl.ClaimRequest{WorkerID: "w", Types: []string{"b"}}); err != nil {
		t.Fatal(err)
	}
	if err := h.p.Service.RegisterWorker(t.Context(), pawl.WorkerInfo{WorkerID: "w", Types: []string{"b"}}); err != nil {
		t.Fatal(err)
	}
	req, _ := http.NewRequest("BREW", srv.URL+"/coffee", nil)
	if resp, err := http.DefaultClient.Do(req); err != nil {
		t.Fatal(err)
	} else {
		_ = resp.Body.Close()
	}
	raw := scraped(t, srv.URL)
	for _, want := range []string{
		`(?m)^pawl_items\{namespace="[^"]+",state="queued",type="a"\} 2$`,
		`(?m)^pawl_items\{namespace="[^"]+",state="leased",type="b"\} 1$`,
		`(?m)^pawl_oldest_item_seconds\{namespace="[^"]+",state="queued",type="a"\} [0-9.e-]+$`,
		`(?m)^pawl_http_request_seconds_count\{method="POST",route="/v1/tasks",status="201"\} 3$`,
		`(?m)^pawl_http_request_seconds_count\{method="POST",route="/v1/tasks",status="400"\} 2$`,
		`(?m)^pawl_http_request_seconds_count\{method="",route="",status="40[45]"\} 1$`,
		`(?m)^pawl_events_total\{event="proposed",namespace="default",type="a"\} 2$`,
		`(?m)^pawl_events_total\{event="leased",namespace="default",type="b"\} 1$`,
		`(?m)^pawl_claim_seconds_count\{namespace="default",type="b"\} 1$`,
		`(?m)^pawl_queue_wait_seconds_count\{namespace="default",type="b"\} 1$`,
		`(?m)^pawl_pickup_seconds_count\{namespace="default",type="b"\} 1$`,
		`(?m)^pawl_lease_expirations_total\{namespace="default",type="a"\} 0$`,
		`(?m)^pawl_workers\{namespace="default",type="b"\} 1$`,
		`(?m)^pawl_feed_lag_events 0$`,
		`(?m)^pawl_sweep_(recovered|failed|errors)_total 0$`,
		`(?m)^pawl_sweep_seconds_count 0$`,
		`(?m)^pawl_messages_stalled 0$`,
		`(?m)^pawl_errors_total\{code="invalid"\} 2$`, // nonsense, and what the schema refuses
		`(?m)^pawl_errors_total\{code="method"\} 1$`,
		`(?m)^pawl_errors_total\{code="lease_lost"\} 0$`,
		`(?m)^pawl_group_commit_calls_count\{verb="(write|create)"\} [1-9]`,
		`(?m)^pawl_pool_connections\{pool="(write|hot)",state="in_use"\} \d$`,
		`(?m)^pawl_pool_max_connections\{pool="(write|hot)"\} \d+$`,
		`(?m)^pawl_pool_waits_total\{pool="(write|hot)"\} \d+$`,
		`(?m)^go_goroutines `,
	} {
		if !regexp.MustCompile(want).MatchString(raw) {
			t.Errorf("no line like %s in\n%s", want, raw)
		}
	}
	documented(t, raw)
}

// scraped returns a scrape of a server.
func scraped(t *testing.T, url string) string {
	t.Helper()
	resp, err := http.Get(url + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

// On each database, the metrics have the calls that were committed together, the pools, and the
// streams while they are open.
func TestMetricsOfCommitsPoolsAndStreams(t *testing.T) {
	pawltest.Each(t, func(t *testing.T, p *pawltest.Pawl) {
		srv := serve(t, p.Service, server.Options{})
		const n = 60
		atOnce := func() {
			var calls sync.WaitGroup
			for range n {
				calls.Go(func() {
					if _, err := pawl.Create(t.Context(), p.Service, pawl.NewTask{Type: "a"}); err != nil {
						t.Error(err)
					}
				})
			}
			calls.Wait()
		}
		atOnce()
		got := scraped(t, srv.URL)
		value := func(pattern string) float64 {
			t.Helper()
			found := regexp.MustCompile(pattern).FindStringSubmatch(got)
			if found == nil {
				t.Fatalf("no line like %s in\n%s", pattern, got)
			}
			v, err := strconv.ParseFloat(found[1], 64)
			if err != nil {
				t.Fatal(err)
			}
			return v
		}
		calls := func(of string) float64 {
			return value(`(?m)^pawl_group_commit_calls_` + of + `\{verb="(?:write|create)"\} (\S+)$`)
		}
		waits := func() float64 { return value(`(?m)^pawl_pool_waits_total\{pool="(?:write|all)"\} (\S+)$`) }
		for round := 1; (calls("count") >= calls("sum") || waits() < 1) && round < 50; round++ { // each call may find all free
			atOnce()
			got = scraped(t, srv.URL)
		}
		if calls("sum") < n || calls("count") >= calls("sum") {
			t.Errorf("%v calls of at least %d were in %v groups", calls("sum"), n, calls("count"))
		}
		if most := value(`(?m)^pawl_pool_max_connections\{pool="(?:read|hot)"\} (\S+)$`); most < 1 {
			t.Errorf("a pool has at most %v connections", most)
		}
		if value(`(?m)^pawl_pool_connections\{pool="(?:read|all)",state="in_use"\} (\S+)$`)+
			value(`(?m)^pawl_pool_connections\{pool="(?:read|all)",state="idle"\} (\S+)$`) < 1 {
			t.Error("a pool has no connections after calls")
		}
		if waits() < 1 {
			t.Error("no concurrent call waited")
		}
		stream := openFeed(t, srv, "")
		got = scraped(t, srv.URL)
		if open := value(`(?m)^pawl_streams_open\{route="list_events"\} (\S+)$`); open != 1 {
			t.Errorf("%v streams are open, want 1", open)
		}
		_ = stream.body.Close()
		for began := time.Now(); ; time.Sleep(10 * time.Millisecond) {
			got = scraped(t, srv.URL)
			if value(`(?m)^pawl_streams_open\{route="list_events"\} (\S+)$`) == 0 {
				break
			}
			if time.Since(began) > 60*time.Second {
				t.Fatal("a stream that was closed still counts as open")
			}
		}
	})
}

// documented checks that the documentation has every metric of a scrape and of the alert rules.
func documented(t *testing.T, scrape string) {
	t.Helper()
	docs, err := os.ReadFile("../docs/operations.md")
	if err != nil {
		t.Fatal(err)
	}
	rules, err := os.ReadFile("../deploy/prometheus/rules.yml")
	if err != nil {
		t.Fatal(err)
	}
	names := regexp.MustCompile(`(?m)^# TYPE (pawl_\w+)`).FindAllStringSubmatch(scrape, -1)
	names = append(names, regexp.MustCompile(`\b(pawl_\w+)[{\[ )]`).FindAllStringSubmatch(string(rules), -1)...)
	if len(names) < 20 {
		t.Fatalf("only %d metrics were found", len(names))
	}
	for _, n := range names {
		if !strings.Contains(string(docs), "`"+n[1]+"`") {
			t.Errorf("docs/operations.md does not name the metric %s", n[1])
		}
	}
}

// Of types and namespaces beyond the bounds of labels, the metrics say other.
func TestLabelsAreBounded(t *testing.T) {
	m := metrics.New()
	for i := range metrics.MaxTypes + 50 {
		m.Counted(pawl.CountedEvents{Namespace: fmt.Sprint("n", i), Type: fmt.Sprint("t", i),
			Events: map[string]int64{"leased": 1}, Waits: []float64{1}})
	}
	if m.Type("t0") != "t0" || m.Type("new") != metrics.Other || m.Namespace("new") != metrics.Other {
		t.Error("the labels are not bounded")
	}
	registry := prometheus.NewRegistry()
	registry.MustRegister(m)
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() != "pawl_events_total" {
			continue
		}
		sum := 0.0
		for _, x := range f.GetMetric() {
			sum += x.GetCounter().GetValue()
		}
		if len(f.GetMetric()) != metrics.MaxTypes+1 || sum != metrics.MaxTypes+50 {
			t.Errorf("%d series count %v events", len(f.GetMetric()), sum)
		}
	}
}

// promtool checks the rules and runs their unit tests.
func TestPromtoolAcceptsTheRules(t *testing.T) {
	promtool, err := exec.LookPath("promtool")
	if err != nil {
		t.Skip("promtool is missing: install Debian's package prometheus")
	}
	for _, args := range [][]string{{"check", "rules", "rules.yml"}, {"test", "rules", "rules_test.yml"}} {
		cmd := exec.Command(promtool, args...)
		cmd.Dir = "../deploy/prometheus"
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("promtool %v: %v\n%s", args, err, out)
		}
	}
}
