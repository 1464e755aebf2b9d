package pawl_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"slices"
	"strings"
	"testing"

	"github.com/pawl-work/pawl"
)

func TestLimitsAndDefaultsAreTold(t *testing.T) {
	for title, table := range map[string][]pawl.Limit{"Limits": pawl.Limits, "Defaults": pawl.Defaults} {
		var names []string
		for _, l := range table {
			if l.Name == "" || l.Means == "" || slices.Contains(names, l.Name) {
				t.Errorf("%s: %+v has no name or meaning, or is listed twice", title, l)
			}
			names = append(names, l.Name)
		}
	}
}

// Every bound and default of the code is a row of its table.
func TestBoundsHaveRows(t *testing.T) {
	f, err := parser.ParseFile(token.NewFileSet(), "limits.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	used := map[string]map[string]bool{}
	ast.Inspect(f, func(n ast.Node) bool {
		v, ok := n.(*ast.ValueSpec)
		if !ok || len(v.Values) == 0 {
			return true
		}
		table := v.Names[0].Name
		ast.Inspect(v.Values[0], func(n ast.Node) bool {
			if id, ok := n.(*ast.Ident); ok && (table == "Limits" || table == "Defaults") {
				if used[table] == nil {
					used[table] = map[string]bool{}
				}
				used[table][id.Name] = true
			}
			return true
		})
		return true
	})
	for name := range constants(t, "limits.go")[""] {
		table := "Defaults"
		if strings.HasPrefix(name, "Max") || strings.HasPrefix(name, "Min") {
			table = "Limits"
		}
		if !used[table][name] {
			t.Errorf("%s has no row in %s", name, table)
		}
	}
}

// The numbers that docs/limits.md promises (docs/contract.md §9, §10), copied.
func TestLimitsAreTheContracts(t *testing.T) {
	for _, c := range []struct {
		table []pawl.Limit
		name  string
		want  int64
	}{
		{pawl.Limits, "type", 120}, {pawl.Limits, "part_key", 120}, {pawl.Limits, "scope", 255}, {pawl.Limits, "key", 255},
		{pawl.Limits, "id", 255}, {pawl.Limits, "title", 200}, {pawl.Limits, "payload", 1 << 20}, {pawl.Limits, "metadata", 16 << 10},
		{pawl.Limits, "body", 8 << 20}, {pawl.Limits, "items_per_call", 10_000}, {pawl.Limits, "items_per_task", 100_000},
		{pawl.Limits, "claim", 1000}, {pawl.Limits, "lease_seconds", 86_400}, {pawl.Limits, "wait_seconds", 60}, {pawl.Limits, "rework", 5},
		{pawl.Limits, "priority_min", -32768}, {pawl.Limits, "priority_max", 32767},
		{pawl.Defaults, "max_attempts", 3}, {pawl.Defaults, "lease", 300}, {pawl.Defaults, "heartbeat_misses", 3},
		{pawl.Defaults, "stale_beats", 4},
		{pawl.Defaults, "key_ttl", 24 * 3600}, {pawl.Defaults, "key_lease", 60}, {pawl.Defaults, "sweep_interval", 60},
		{pawl.Defaults, "checkpoints_kept", 100}, {pawl.Defaults, "bury_after", 48 * 3600}, {pawl.Defaults, "stale_after", 24 * 3600},
		{pawl.Defaults, "retain_tasks", 30 * 24 * 3600}, {pawl.Defaults, "retain_keys", 7 * 24 * 3600},
		{pawl.Defaults, "retain_sweeps", 7 * 24 * 3600},
		{pawl.Defaults, "stop_grace", 30}, {pawl.Defaults, "backoff_base", 60}, {pawl.Defaults, "backoff_max", 3600},
		{pawl.Defaults, "backoff_jitter", 20},
	} {
		i := slices.IndexFunc(c.table, func(l pawl.Limit) bool { return l.Name == c.name })
		if i < 0 || c.table[i].Value != c.want {
			t.Errorf("%s is not %d", c.name, c.want)
		}
	}
}
