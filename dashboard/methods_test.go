package dashboard

import (
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"io/fs"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// A template that calls a method which is not among methods would fail only when its page is shown.
func TestMethodsOfTemplatesAreNamed(t *testing.T) {
	t.Parallel()
	fields, declared := map[string]bool{}, map[string]bool{}
	for _, dir := range []string{".", ".."} {
		names, _ := filepath.Glob(filepath.Join(dir, "*.go"))
		for _, name := range names {
			if strings.HasSuffix(name, "_test.go") {
				continue
			}
			f, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
			if err != nil {
				t.Fatal(err)
			}
			ast.Inspect(f, func(n ast.Node) bool {
				switch n := n.(type) {
				case *ast.StructType:
					for _, field := range n.Fields.List {
						for _, name := range field.Names {
							fields[name.Name] = true
						}
						if name := types.ExprString(field.Type); field.Names == nil { // embedded
							fields[name[strings.LastIndexAny(name, "*.")+1:]] = true
						}
					}
				case *ast.FuncDecl:
					if n.Recv != nil && dir == "." {
						declared[n.Name.Name] = true
					}
				}
				return true
			})
		}
	}
	var missing []string
	for name := range maps.Keys(calledByTemplates(t)) {
		if methods[name] == nil && (declared[name] || !fields[name]) {
			missing = append(missing, name)
		}
	}
	slices.Sort(missing)
	if len(missing) > 0 {
		t.Errorf("templates name %s: methods that are not in methods.go, or nothing that there is", strings.Join(missing, ", "))
	}
}

// calledByTemplates returns the names that templates ask values for: fields and methods.
func calledByTemplates(t *testing.T) map[string]bool {
	t.Helper()
	action, text, name := regexp.MustCompile(`(?s){{.*?}}`), regexp.MustCompile(`"[^"]*"|/\*(?s:.*?)\*/`), regexp.MustCompile(`\.([A-Z]\w*)`)
	out := map[string]bool{}
	list, err := fs.Glob(files, "templates/*.html")
	if err != nil || len(list) < 30 {
		t.Fatalf("%d templates (%v)", len(list), err)
	}
	for _, file := range list {
		body, err := files.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, a := range action.FindAllString(string(body), -1) {
			for _, m := range name.FindAllStringSubmatch(text.ReplaceAllString(a, ""), -1) {
				out[m[1]] = true
			}
		}
	}
	return out
}
