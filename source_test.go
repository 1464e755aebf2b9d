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

// constants returns the names of a file's constants by the name of their type ("" = none), and the
// values of strings.
func constants(t *testing.T, file string) map[string]map[string]string {
	t.Helper()
	f, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]map[string]string{}
	for _, d := range f.Decls {
		g, ok := d.(*ast.GenDecl)
		if !ok || g.Tok != token.CONST {
			continue
		}
		for _, spec := range g.Specs {
			v := spec.(*ast.ValueSpec)
			typ := ""
			if id, ok := v.Type.(*ast.Ident); ok {
				typ = id.Name
			}
			if out[typ] == nil {
				out[typ] = map[string]string{}
			}
			for i, name := range v.Names {
				value := ""
				if i < len(v.Values) {
					if lit, ok := v.Values[i].(*ast.BasicLit); ok && lit.Kind == token.STRING {
						value = strings.Trim(lit.Value, `"`)
					}
				}
				out[typ][name.Name] = value
			}
		}
	}
	return out
}

func values(m map[string]string) []string {
	var out []string
	for _, v := range m {
		out = append(out, v)
	}
	slices.Sort(out)
	return out
}

// A constant without a row in its table is a fact that the documentation lacks.
func TestConstantsHaveRows(t *testing.T) {
	names := func(states []pawl.StateInfo) []string {
		var out []string
		for _, s := range states {
			out = append(out, s.Name)
		}
		return out
	}
	var codes []string
	for _, e := range pawl.Errors {
		codes = append(codes, string(e.Code))
	}
	lifecycle, errors := constants(t, "lifecycle.go"), constants(t, "errors.go")
	for _, c := range []struct {
		typ       string
		constants map[string]string
		rows      []string
	}{
		{"ItemState", lifecycle["ItemState"], names(pawl.ItemStates)},
		{"TaskState", lifecycle["TaskState"], names(pawl.TaskStates)},
		{"MessageState", lifecycle["MessageState"], names(pawl.MessageStates)},
		{"Code", errors["Code"], codes},
	} {
		rows := slices.Sorted(slices.Values(c.rows))
		if got := values(c.constants); !slices.Equal(got, rows) {
			t.Errorf("%s: constants %v, rows %v", c.typ, got, rows)
		}
	}
}
