package server_test

import (
	"encoding/json"
	"maps"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/access"
	"github.com/pawl-work/pawl/pawltest"
)

var (
	exportedType   = regexp.MustCompile(`(?m)^# TYPE (pawl_\w+) (\w+)$`)
	exportedSeries = regexp.MustCompile(`(?m)^(pawl_\w+)\{([^}]*)\}`)
	usedMetric     = regexp.MustCompile(`\b(pawl_\w+)(?:\{([^}]*)\})?`)
	labelName      = regexp.MustCompile(`(\w+)(?:=~|!~|!=|=)"`)
	groupedBy      = regexp.MustCompile(`by \(([^)]*)\)`)
	usedInGraph    = regexp.MustCompile(`\{\{(\w+)\}\}`)
)

// exported returns the labels of each metric of a scrape, by the names that a query uses: of a
// histogram those of its _bucket, _sum and _count.
func exported(scrape string) map[string]map[string]bool {
	out := map[string]map[string]bool{}
	for _, m := range exportedType.FindAllStringSubmatch(scrape, -1) {
		if m[2] == "histogram" {
			for _, suffix := range []string{"_bucket", "_sum", "_count"} {
				out[m[1]+suffix] = map[string]bool{}
			}
		} else {
			out[m[1]] = map[string]bool{}
		}
	}
	for _, m := range exportedSeries.FindAllStringSubmatch(scrape, -1) {
		for _, l := range labelName.FindAllStringSubmatch(m[2], -1) {
			if labels := out[m[1]]; labels != nil {
				labels[l[1]] = true
			}
		}
	}
	return out
}

// queriesOf returns the PromQL of the Grafana dashboard and of the alert rules.
func queriesOf(t *testing.T) (queries []string) {
	t.Helper()
	raw, err := os.ReadFile("../deploy/grafana/pawl.json")
	if err != nil {
		t.Fatal(err)
	}
	var board struct {
		Panels []struct {
			Type    string
			Title   string
			Targets []struct{ Expr, LegendFormat string }
		}
		Templating struct {
			List []struct {
				Name  string
				Query any
			}
		}
	}
	if err := json.Unmarshal(raw, &board); err != nil {
		t.Fatal(err)
	}
	var rows []string
	for _, p := range board.Panels {
		if p.Type == "row" {
			rows = append(rows, p.Title)
		} else if len(p.Targets) == 0 {
			t.Errorf("the panel %q asks nothing", p.Title)
		}
		for _, q := range p.Targets {
			queries = append(queries, q.Expr)
			for _, l := range usedInGraph.FindAllStringSubmatch(q.LegendFormat, -1) {
				if !regexp.MustCompile(`by \([^)]*\b` + l[1] + `\b[^)]*\)`).MatchString(q.Expr) {
					t.Errorf("%q: the legend names %s, which %s does not return", p.Title, l[1], q.Expr)
				}
			}
		}
	}
	if want := []string{"Overview", "Leases", "Database", "Relays and streams", "Budgets"}; !slices.Equal(rows, want) {
		t.Errorf("rows: %q, want %q", rows, want)
	}
	var variables []string
	for _, v := range board.Templating.List {
		variables = append(variables, v.Name)
		if q, ok := v.Query.(map[string]any); ok {
			queries = append(queries, q["query"].(string))
		}
	}
	if want := []string{"datasource", "namespace", "type"}; !slices.Equal(variables, want) {
		t.Errorf("variables: %q, want %q", variables, want)
	}
	rules, err := os.ReadFile("../deploy/prometheus/rules.yml")
	if err != nil {
		t.Fatal(err)
	}
	// The expressions of the rules: from expr to the next member of the rule.
	for _, m := range regexp.MustCompile(`(?s)\n +expr: (.*?)\n +(?:for|labels|annotations):`).FindAllStringSubmatch(string(rules), -1) {
		queries = append(queries, m[1])
	}
	return queries
}

// Every metric that the Grafana dashboard and the alert rules ask for, and each label by which they
// select, is in a scrape of a server that has done some work.
func TestDashboardAndRulesAskForWhatIsExported(t *testing.T) {
	have := exported(scrapeOfWork(t))
	used := map[string]bool{}
	for _, query := range queriesOf(t) {
		var grouped []string
		for _, m := range groupedBy.FindAllStringSubmatch(query, -1) {
			grouped = append(grouped, strings.Split(m[1], ", ")...)
		}
		all := map[string]bool{"instance": true} // a label that Prometheus adds
		for _, m := range usedMetric.FindAllStringSubmatch(query, -1) {
			used[m[1]] = true
			labels, ok := have[m[1]]
			if !ok {
				t.Errorf("no server exports %s, which is asked for by %s", m[1], query)
			}
			for _, l := range labelName.FindAllStringSubmatch(m[2], -1) {
				if !labels[l[1]] {
					t.Errorf("%s has no label %s: %s", m[1], l[1], query)
				}
			}
			maps.Copy(all, labels)
		}
		for _, l := range grouped {
			if !all[l] {
				t.Errorf("no metric has the label %s: %s", l, query)
			}
		}
	}
	if len(used) < 30 {
		t.Errorf("only %d metrics were found", len(used))
	}
	// The other way round: nothing is exported that neither shows.
	for name := range have {
		if family := regexp.MustCompile(`_(bucket|sum|count)$`).ReplaceAllString(name, ""); !used[name] &&
			!used[family+"_bucket"] && !used[family+"_sum"] && !used[family+"_count"] {
			t.Errorf("%s is exported; neither the dashboard nor a rule asks for it", family)
		}
	}
}

// scrapeOfWork returns a scrape of a server that has had tasks, a lease that ended, a worker, a
// budget, a relay, an open stream, an error and a refused call.
func scrapeOfWork(t *testing.T) string {
	t.Helper()
	p := pawltest.Open(t, pawltest.SQLite)
	h := gated(t, p, access.Options{})
	ctx, svc := t.Context(), p.Service
	check := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	for range 2 {
		_, err := pawl.Create(ctx, svc, pawl.NewTask{Type: "a"})
		check(err)
	}
	_, err := pawl.Create(ctx, svc, pawl.NewTask{Type: "queued"})
	check(err)
	check(svc.RegisterWorker(ctx, pawl.WorkerInfo{WorkerID: "w", Types: []string{"a"}}))
	leases, err := svc.Claim(ctx, pawl.ClaimRequest{WorkerID: "w", Types: []string{"a"}})
	check(err)
	fence := pawl.Fence{ItemID: leases[0].ID, WorkerID: "w", Attempt: leases[0].Attempt}
	_, err = svc.Heartbeat(ctx, []pawl.HeartbeatCall{{Fence: fence}})
	check(err)
	_, err = pawl.Complete(ctx, svc, fence, nil)
	check(err)
	leases, err = svc.Claim(ctx, pawl.ClaimRequest{WorkerID: "w", Types: []string{"a"}})
	check(err)
	_, err = svc.OpenEffect(ctx, pawl.OpenEffectCall{ItemID: leases[0].ID, WorkerID: "w", Attempt: 1, Name: "pay", RequestHash: "h"})
	check(err)
	_, err = svc.PutBudget(ctx, "month", pawl.NewBudget{Unit: "cents", Limit: 100})
	check(err)
	_, _, err = p.Engine.TakeRelay(ctx, "hook", "webhook", "here", time.Minute)
	check(err)
	_, token := h.key(pawl.NewAPIKey{Roles: pawl.KeyRoles, Namespace: pawl.AnyNamespace})
	openFeed(t, h.srv, "", "Authorization", token)
	if r := h.ask(token, "GET", "/v1/tasks/tsk_none", ""); r.StatusCode < 400 {
		t.Errorf("a task that does not exist: %s", r.Status)
	}
	if r := h.ask("Bearer x", "GET", "/v1/stats", ""); r.StatusCode != http.StatusUnauthorized {
		t.Errorf("a wrong key: %s", r.Status)
	}
	r := h.ask(token, "GET", "/metrics", "")
	if r.StatusCode != http.StatusOK {
		t.Fatalf("%s %s", r.Status, r.text)
	}
	return r.text
}
