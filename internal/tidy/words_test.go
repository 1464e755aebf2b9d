package tidy

import (
	"go/ast"
	"go/token"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

var banned = []string{"util", "utils", "common", "base", "helper", "helpers", "manager", "types", "misc", "shared", "lib"}

// A name says what a package or file holds; the banned names do not.
func TestNamesSayWhatIsThere(t *testing.T) {
	each(t, (*file).isGo, func(f *file) {
		name := strings.TrimSuffix(strings.TrimSuffix(path.Base(f.path), ".go"), "_test")
		parts := append(strings.Split(f.dir(), "/"), name, f.ast.Name.Name)
		for _, part := range parts {
			if slices.Contains(banned, part) {
				t.Errorf("%s: no package or file may be named %q", f.path, part)
			}
		}
	})
}

// uses calls fn for every pkg.Name of the file.
func uses(f *file, fn func(pkg, name string, at ast.Node)) {
	ast.Inspect(f.ast, func(n ast.Node) bool {
		if sel, ok := n.(*ast.SelectorExpr); ok {
			if id, ok := sel.X.(*ast.Ident); ok && id.Obj == nil {
				fn(id.Name, sel.Sel.Name, sel)
			}
		}
		return true
	})
}

// Times are due by the database's clock, and a test can move the clock of the process.
func TestClockIsReadInOneFile(t *testing.T) {
	ours := func(f *file) bool {
		return f.isGo() && !f.isTest() && f.path != "internal/clock/clock.go" && !strings.HasPrefix(f.path, "examples/") // users' programs
	}
	each(t, ours, func(f *file) {
		uses(f, func(pkg, name string, at ast.Node) {
			if pkg == "time" && (name == "Now" || name == "Since" || name == "Until") {
				t.Errorf("%s:%d: time.%s; the clock is read in internal/clock", f.path, line(at), name)
			}
		})
	})
}

// sql finds an SQL statement in a string. Its second half finds keywords that are not
// in upper case.
var sql = regexp.MustCompile(
	`\b(SELECT\s|INSERT\s+(OR \w+ )?INTO\s|UPDATE\s+\S+\s+SET\s|DELETE\s+FROM\s|` +
		`CREATE\s+(TABLE|INDEX|VIEW|SCHEMA|DATABASE)\b|DROP\s+(TABLE|INDEX|VIEW|SCHEMA|DATABASE)\b|` +
		`ALTER\s+TABLE\b|PRAGMA\s+\w)|` +
		`(?i:^\s*(select\s[^;]*\sfrom\s|insert\s+into\s|update\s+\S+\s+set\s|delete\s+from\s))`,
)

// sqlRooms are the packages that may hold SQL; internal/testserver queries the servers
// that it starts.
var sqlRooms = []string{"store", "sweep", "engine", "pawltest", "internal/testserver"}

func TestSQLLivesInTheStore(t *testing.T) {
	each(t, func(f *file) bool { return f.isGo() && !f.isTest() && !f.under(sqlRooms...) }, func(f *file) {
		literals(f, func(text string, at ast.Node) {
			if sql.MatchString(text) {
				t.Errorf("%s:%d: SQL outside store/ and the rooms: %.60q", f.path, line(at), text)
			}
		})
	})
}

func literals(f *file, fn func(text string, at ast.Node)) {
	ast.Inspect(f.ast, func(n ast.Node) bool {
		if lit, ok := n.(*ast.BasicLit); ok && lit.Kind == token.STRING {
			if text, err := strconv.Unquote(lit.Value); err == nil {
				fn(text, lit)
			}
		}
		return true
	})
}

// marks is a pattern for lines. Each match contains one of words: most files contain none,
// and the pattern is slow.
type marks struct {
	words   []string
	pattern *regexp.Regexp
}

// in calls fn for every line of the file that matches.
func (m marks) in(f *file, fn func(n int, found string)) {
	if !slices.ContainsFunc(m.words, func(w string) bool { return strings.Contains(f.text, w) }) {
		return
	}
	for i, l := range strings.Split(f.text, "\n") {
		if found := m.pattern.FindString(l); found != "" {
			fn(i+1, strings.TrimSpace(found))
		}
	}
}

var unfinished = marks{
	[]string{"TO" + "DO", "FIX" + "ME", "XX" + "X", "ot implemen" + "ted"},
	regexp.MustCompile(`\b(TO` + `DO|FIX` + `ME|XX` + `X)\b|context\.TO` + `DO\(|(?i:not implemen` + `ted)`),
}

// Unfinished work belongs into an issue, not into a comment.
func TestNothingIsLeftForLater(t *testing.T) {
	each(t, func(f *file) bool { return !f.isTest() && (f.isGo() || strings.HasSuffix(f.path, ".sql")) }, func(f *file) {
		unfinished.in(f, func(n int, found string) { t.Errorf("%s:%d: %s", f.path, n, found) })
	})
}

// somewhere matches paths of one machine, and hosts that belong into the settings of the
// toolchain.
var somewhere = marks{
	[]string{"/wo" + "rk/", "/ro" + "ot/", "/ho" + "me/", "golang.org", "npmjs", "goproxy.", "debian.org", "docker.io", "ghcr.io"},
	regexp.MustCompile(
		`(^|[^\w.])/(wo` + `rk|ro` + `ot|ho` + `me)/|(proxy|sum)\.golang\.org|registry\.npmjs|goproxy\.|deb\.debian\.org|docker\.io|ghcr\.io`,
	),
}

func TestNoMachineIsNamed(t *testing.T) {
	each(t, func(f *file) bool { return f.path != "internal/tidy/words_test.go" }, func(f *file) {
		somewhere.in(f, func(n int, found string) { t.Errorf("%s:%d: names %q", f.path, n, found) })
	})
}

// A skipped test says why.
func TestSkipsSayWhy(t *testing.T) {
	each(t, func(f *file) bool { return f.isGo() && (f.isTest() || f.under("pawltest")) }, func(f *file) {
		ast.Inspect(f.ast, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok {
				return true
			}
			sel, ok := call.Fun.(*ast.SelectorExpr)
			if ok && (sel.Sel.Name == "SkipNow" || (sel.Sel.Name == "Skip" && len(call.Args) == 0)) {
				if id, ok := sel.X.(*ast.Ident); ok && (id.Name == "t" || id.Name == "b" || id.Name == "f") {
					t.Errorf("%s:%d: a skip without a reason", f.path, line(call))
				}
			}
			return true
		})
	})
}

// The root's interfaces stay small: each has several implementations.
func TestInterfacesAreSmall(t *testing.T) {
	each(t, func(f *file) bool { return f.code() && f.dir() == "." }, func(f *file) {
		ast.Inspect(f.ast, func(n ast.Node) bool {
			spec, ok := n.(*ast.TypeSpec)
			if !ok {
				return true
			}
			if it, ok := spec.Type.(*ast.InterfaceType); ok {
				methods := 0
				for _, m := range it.Methods.List {
					methods += len(m.Names)
				}
				if methods > 6 {
					t.Errorf("%s:%d: %s has %d methods, at most 6", f.path, line(spec), spec.Name.Name, methods)
				}
			}
			return true
		})
	})
}

// routeName finds the names in the table of routes that are not also common words.
var routeName = regexp.MustCompile(`\{Name: "([a-z]+_[a-z_]+)", Method:`)

// The special properties of a route are in its row in package api. No other list names routes,
// so a new route needs only its row. Lists of tables in package store are
// exempt: it knows no routes.
func TestNoOtherListOfCalls(t *testing.T) {
	var names []string
	each(t, func(f *file) bool { return f.path == "api/routes.go" }, func(f *file) {
		for _, m := range routeName.FindAllStringSubmatch(f.text, -1) {
			names = append(names, m[1])
		}
	})
	if len(names) < 50 {
		t.Fatalf("the table has %d such names", len(names))
	}
	each(t, func(f *file) bool { return f.isGo() && !f.isTest() && !f.under("api") && !f.under("store") }, func(f *file) {
		ast.Inspect(f.ast, func(n ast.Node) bool {
			list, ok := n.(*ast.CompositeLit)
			if !ok {
				return true
			}
			found := 0
			for _, e := range list.Elts {
				if kv, ok := e.(*ast.KeyValueExpr); ok {
					e = kv.Key
				}
				if lit, ok := e.(*ast.BasicLit); ok && lit.Kind == token.STRING && slices.Contains(names, strings.Trim(lit.Value, "`\"")) {
					found++
				}
			}
			if found > 1 { // one may be another word
				t.Errorf("%s:%d: a list with %d names of calls; say it in their rows in api/routes.go", f.path, line(list), found)
			}
			return true
		})
	})
}
