package engine_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"github.com/pawl-work/pawl/engine"
)

// Users cannot read the documentation of a room's type. The comment of its public name tells its members.
func TestPublicNamesOfRoomsTellTheirMembers(t *testing.T) {
	types := map[string]reflect.Type{}
	for _, typ := range []reflect.Type{reflect.TypeFor[engine.ArchiveVerification](), reflect.TypeFor[engine.LogFork](),
		reflect.TypeFor[engine.LogVerification](), reflect.TypeFor[engine.TaskVerification](), reflect.TypeFor[engine.SinceVerification](),
		reflect.TypeFor[engine.SomeEvents]()} {
		types[typ.String()] = typ
	}
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range files {
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		rooms := map[string]bool{}
		for _, i := range file.Imports {
			path := strings.Trim(i.Path.Value, `"`)
			rooms[path[strings.LastIndex(path, "/")+1:]] = strings.Contains(path, "/engine/internal/")
		}
		ast.Inspect(file, func(n ast.Node) bool {
			decl, ok := n.(*ast.GenDecl)
			if !ok {
				return true
			}
			for _, spec := range decl.Specs {
				alias, ok := spec.(*ast.TypeSpec)
				if !ok || !alias.Assign.IsValid() || !alias.Name.IsExported() {
					continue
				}
				of, ok := alias.Type.(*ast.SelectorExpr)
				if !ok || !rooms[of.X.(*ast.Ident).Name] {
					continue
				}
				comment := decl.Doc.Text() + alias.Doc.Text()
				typ := types[of.X.(*ast.Ident).Name+"."+of.Sel.Name]
				if typ == nil {
					t.Errorf("%s: the list of this test lacks %s", name, alias.Name.Name)
					continue
				}
				for i := range typ.NumField() {
					if f := typ.Field(i); f.IsExported() && !regexp.MustCompile(`\b`+f.Name+`\b`).MatchString(comment) {
						t.Errorf("the comment of %s does not tell of %s", alias.Name.Name, f.Name)
					}
				}
			}
			return true
		})
	}
}
