package tidy

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const ledger = "docs/decisions/000-dependencies.md"

// dependency is one row of the list: a module, and the folders that may import it ("tests"
// stands for the tests of any folder).
type dependency struct{ rooms []string }

var ledgerRow = regexp.MustCompile("(?m)^\\| `([^`]+)` \\| [^|]+ \\| ([^|]+) \\|")

func readLedger(t *testing.T) map[string]dependency {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join(root, ledger))
	if err != nil {
		t.Fatal(err)
	}
	rows := map[string]dependency{}
	for _, m := range ledgerRow.FindAllStringSubmatch(string(raw), -1) {
		var d dependency
		for _, room := range strings.Split(m[2], ",") {
			d.rooms = append(d.rooms, strings.Trim(room, " `"))
		}
		rows[m[1]] = d
	}
	return rows
}

// required returns the modules that go.mod names: those that it marks as direct, and all.
func required(t *testing.T) (direct, all []string) {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join(root, "go.mod"))
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range requirement.FindAllStringSubmatch(string(raw), -1) {
		all = append(all, m[1])
		if m[2] == "" {
			direct = append(direct, m[1])
		}
	}
	return direct, all
}

var requirement = regexp.MustCompile(`(?m)^(?:require |\t)(\S+\.\S+/?\S*) v\S+( // indirect)?$`)

// Every dependency that go.mod marks as direct, or that is imported, has a row that says what
// it is for. It is imported only where the row says.
func TestDependenciesAreDecided(t *testing.T) {
	rows := readLedger(t)
	direct, modules := required(t)
	if len(direct) == 0 || len(direct) == len(modules) {
		t.Fatalf("read go.mod wrongly: %d of %d are direct", len(direct), len(modules))
	}
	for _, m := range direct {
		if _, ok := rows[m]; !ok {
			t.Errorf("%s has no line in %s", m, ledger)
		}
	}
	used := map[string]bool{} // module and folder
	each(t, (*file).isGo, func(f *file) {
		room := f.dir()
		switch {
		case f.isTest():
			room = "tests"
		case f.under("cmd/pawl"): // one row for the program and its commands
			room = "cmd/pawl"
		}
		for _, spec := range f.ast.Imports {
			name, err := strconv.Unquote(spec.Path.Value)
			if err != nil {
				t.Fatal(err)
			}
			m := moduleOf(name, modules)
			if m == "" {
				continue
			}
			used[m+" "+room] = true
			d, ok := rows[m]
			if !ok {
				t.Errorf("%s:%d: %s is imported and has no line in %s", f.path, line(spec), m, ledger)
			} else if room != "tests" && !slices.Contains(d.rooms, room) {
				t.Errorf("%s:%d: %s imports %s; the line in %s says %v", f.path, line(spec), room, m, ledger, d.rooms)
			}
		}
	})
	for m, d := range rows {
		for _, room := range d.rooms {
			if !used[m+" "+room] {
				t.Errorf("%s: %s does not import it, says %s", m, room, ledger)
			}
		}
	}
}

// moduleOf returns the required module that an import path belongs to.
func moduleOf(path string, modules []string) string {
	best := ""
	for _, m := range modules {
		if (path == m || strings.HasPrefix(path, m+"/")) && len(m) > len(best) {
			best = m
		}
	}
	return best
}
