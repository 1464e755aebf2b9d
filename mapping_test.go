package pawl_test

import (
	"context"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/pawl-work/pawl/api"
	"github.com/pawl-work/pawl/pawltest"
	"github.com/pawl-work/pawl/store"
)

// mapping holds the names in docs/migrating.md: of database objects, Go names and routes in the
// second columns, and of tests in the last columns.
type mapping struct {
	there, tests []named
}

type named struct {
	line int
	kind string // table, view, index, trigger, check, or "" for what its form tells
	name string
}

var (
	quotedName = regexp.MustCompile("(?:(table|view|index|trigger|check) )?`([^`]+)`")
	columnName = regexp.MustCompile(`^[a-z][a-z_]*\.[a-z][a-z_0-9]*$`)
	goName     = regexp.MustCompile(`^(pawl|engine|worker|sweep)\.[A-Z][\w.]*$`)
	routeName  = regexp.MustCompile(`^(GET|POST|PUT|PATCH|DELETE) (/\S*)$`)
)

func readMapping(t *testing.T) mapping {
	t.Helper()
	raw, err := os.ReadFile("docs/migrating.md")
	if err != nil {
		t.Fatal(err)
	}
	var m mapping
	languages := false // a table of names in several languages: see TestMappingNamesEveryLanguage
	for i, line := range strings.Split(string(raw), "\n") {
		cells := strings.Split(line, " | ")
		if line == languagesHead {
			languages = true
		}
		languages = languages && line != ""
		if !strings.HasPrefix(line, "| ") || len(cells) < 2 || languages {
			continue
		}
		if strings.TrimSpace(strings.Trim(cells[len(cells)-1], "|")) == "" {
			t.Errorf("line %d: no test", i+1)
		}
		for n, cell := range cells {
			for _, q := range quotedName.FindAllStringSubmatch(cell, -1) {
				name := named{i + 1, q[1], q[2]}
				if last := len(cells) - 1; last >= 2 && n == last {
					if strings.HasPrefix(name.name, "TestMapping") {
						t.Errorf("line %d: %s only looks for the name", i+1, name.name)
					}
					m.tests = append(m.tests, name)
				} else if len(cells) == 2 || n == 1 {
					m.there = append(m.there, name)
				}
			}
		}
	}
	if len(m.there) < 200 || len(m.tests) < 150 {
		t.Errorf("the mapping names %d things and %d tests: where is the rest?", len(m.there), len(m.tests))
	}
	return m
}

// Every table, column, view, index, trigger and check that the mapping names is
// in both databases.
func TestMappingNamesWhatTheDatabasesHave(t *testing.T) {
	m := readMapping(t)
	pawltest.Each(t, func(t *testing.T, p *pawltest.Pawl) {
		have := catalogue(t, p)
		for _, n := range m.there {
			switch {
			case n.kind != "" && !have[n.kind+" "+n.name]:
				t.Errorf("line %d: no %s %s", n.line, n.kind, n.name)
			case n.kind == "" && columnName.MatchString(n.name) && !have["column "+n.name]:
				t.Errorf("line %d: no column %s", n.line, n.name)
			}
		}
		for _, what := range []string{"table ", "view "} {
			for name := range have {
				rest, is := strings.CutPrefix(name, what)
				if is && !namesIt(m, rest) {
					t.Errorf("the mapping says nothing of %s", name)
				}
			}
		}
	})
}

// private are views that only our own statements read.
var private = map[string]bool{"item_rows": true, "task_rows": true, "item_ranks": true, "all_items": true}

func namesIt(m mapping, table string) bool {
	if private[table] || strings.HasPrefix(table, "sqlite_") || table == "test_clock" {
		return true
	}
	for _, n := range m.there {
		if n.name == table || strings.HasPrefix(n.name, table+".") {
			return true
		}
	}
	return false
}

// catalogue returns the objects of a database, as "table x", "column x.y", "check x".
func catalogue(t *testing.T, p *pawltest.Pawl) map[string]bool {
	t.Helper()
	queries := map[pawltest.Database][]string{
		pawltest.SQLite: {
			"SELECT type || ' ' || name FROM sqlite_master",
			"SELECT 'column ' || m.name || '.' || c.name FROM sqlite_master m JOIN pragma_table_info(m.name) c WHERE m.type IN ('table', 'view')",
		},
		pawltest.Postgres: {
			"SELECT CASE table_type WHEN 'VIEW' THEN 'view ' ELSE 'table ' END || table_name FROM information_schema.tables WHERE table_schema = " +
				"'" + p.Schema + "'",
			"SELECT 'column ' || table_name || '.' || column_name FROM information_schema.columns WHERE table_schema = '" + p.Schema + "'",
			"SELECT 'index ' || indexname FROM pg_indexes WHERE schemaname = '" + p.Schema + "'",
			"SELECT 'trigger ' || trigger_name FROM information_schema.triggers WHERE trigger_schema = '" + p.Schema + "'",
			"SELECT 'check ' || conname FROM pg_constraint WHERE contype = 'c' AND connamespace = '" + p.Schema + "'::regnamespace",
		},
	}
	have := map[string]bool{}
	err := p.Engine.DB().View(t.Context(), func(ctx context.Context, tx store.Tx) error {
		for _, q := range queries[p.Database] {
			names, err := store.Strings(ctx, tx, q)
			if err != nil {
				return err
			}
			for _, n := range names {
				have[n] = true
			}
		}
		if p.Database == pawltest.SQLite {
			texts, err := store.Strings(ctx, tx, "SELECT sql FROM sqlite_master WHERE type = 'table' AND sql IS NOT NULL")
			for _, m := range regexp.MustCompile(`CONSTRAINT (\w+) CHECK`).FindAllStringSubmatch(strings.Join(texts, "\n"), -1) {
				have["check "+m[1]] = true
			}
			return err
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return have
}

// Every Go name and every route that the mapping names is there.
func TestMappingNamesWhatTheProgramHas(t *testing.T) {
	have := map[string]bool{}
	for _, pkg := range []string{"pawl", "engine", "worker", "sweep"} {
		goNames(t, pkg, have)
	}
	for _, r := range api.Routes {
		have[r.Method+" "+r.Path] = true
	}
	for _, n := range readMapping(t).there {
		if (goName.MatchString(n.name) || routeName.MatchString(n.name)) && !have[n.name] {
			t.Errorf("line %d: no %s", n.line, n.name)
		}
	}
}

// goNames collects what a package exports: its names, and of its types the
// methods and fields.
func goNames(t *testing.T, pkg string, have map[string]bool) {
	t.Helper()
	dir := pkg
	if pkg == "pawl" {
		dir = "."
	}
	files, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(file, func(n ast.Node) bool {
			switch d := n.(type) {
			case *ast.FuncDecl:
				name := pkg + "."
				if d.Recv != nil {
					of := d.Recv.List[0].Type
					if star, ok := of.(*ast.StarExpr); ok {
						of = star.X
					}
					if id, ok := of.(*ast.Ident); ok {
						name += id.Name + "."
					}
				}
				have[name+d.Name.Name] = true
				return false
			case *ast.ValueSpec:
				for _, id := range d.Names {
					have[pkg+"."+id.Name] = true
				}
			case *ast.TypeSpec:
				have[pkg+"."+d.Name.Name] = true
				for _, f := range members(d.Type) {
					have[pkg+"."+d.Name.Name+"."+f] = true
				}
			}
			return true
		})
	}
}

func members(of ast.Expr) (names []string) {
	var list *ast.FieldList
	switch x := of.(type) {
	case *ast.StructType:
		list = x.Fields
	case *ast.InterfaceType:
		list = x.Methods
	default:
		return nil
	}
	for _, f := range list.List {
		for _, id := range f.Names {
			names = append(names, id.Name)
		}
	}
	return names
}

// Every test that the mapping names is in the tree.
func TestMappingNamesTestsThatAreThere(t *testing.T) {
	have := map[string]bool{}
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() && strings.HasSuffix(path, "_test.go") {
			var raw []byte
			raw, err = os.ReadFile(path)
			for _, m := range regexp.MustCompile(`(?m)^func (Test\w+)\(`).FindAllStringSubmatch(string(raw), -1) {
				have[m[1]] = true
			}
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	promises(t, have)
	scripts, err := filepath.Glob("pawltest/scenario/testdata/*.txt")
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range scripts {
		have[filepath.Base(s)] = true
	}
	for _, n := range readMapping(t).tests {
		if !have[n.name] {
			t.Errorf("line %d: no test %s", n.line, n.name)
		}
	}
}

// promises collects "noun/promise" from the behaviour suite.
func promises(t *testing.T, have map[string]bool) {
	t.Helper()
	files, err := filepath.Glob("pawltest/suite/*.go")
	if err != nil || len(files) == 0 {
		t.Fatalf("no suite: %v", err)
	}
	row := regexp.MustCompile(`(?m)= noun\{("(?:[^"\\]|\\.)+")|^\t\{("(?:[^"\\]|\\.)+"), func\(w \*fixture\)`)
	for _, name := range files {
		raw, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		noun := ""
		for _, m := range row.FindAllStringSubmatch(string(raw), -1) {
			said, err := strconv.Unquote(m[1] + m[2])
			if err != nil {
				t.Fatal(err)
			}
			if m[1] != "" {
				noun = said
			} else {
				have[noun+"/"+said] = true
			}
		}
	}
}
