package tidy

import (
	"go/ast"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// maxForOne is how many names are exported for one other package at most. It may only go down: such a name belongs to the
// package that uses it, or the two are one.
const maxForOne = 321

// wired are the names by which the engine knows each room.
var wired = []string{"New", "Over", "Declared"}

// A name that is exported for one other package makes two packages of what is one. Counted are the store, the sweep, the
// feed and the packages of the engine, without methods and without the names that wire a room. -v lists the names.
func TestNamesForOnePackage(t *testing.T) {
	users := map[string]map[string]bool{} // of each name, "package.Name", the other packages that use it
	each(t, (*file).code, func(f *file) {
		if f.under("store", "sweep", "feed", "engine/internal") {
			for _, name := range exports(f.ast) {
				if !slices.Contains(rooms, f.dir()) || !slices.Contains(wired, name) {
					users[f.dir()+"."+name] = map[string]bool{}
				}
			}
		}
	})
	each(t, (*file).isGo, func(f *file) {
		imported := importsOf(f.ast)
		ast.Inspect(f.ast, func(n ast.Node) bool {
			if s, ok := n.(*ast.SelectorExpr); ok {
				if x, ok := s.X.(*ast.Ident); ok {
					if of := users[imported[x.Name]+"."+s.Sel.Name]; of != nil && imported[x.Name] != f.dir() {
						of[f.dir()] = true
					}
				}
			}
			return true
		})
	})
	n := 0
	for _, name := range slices.Sorted(maps.Keys(users)) {
		if len(users[name]) == 1 {
			n++
			t.Log(name, slices.Collect(maps.Keys(users[name]))[0])
		}
	}
	if n != maxForOne {
		t.Errorf("%d names are exported for one other package; the bound says %d", n, maxForOne)
	}
}

// importsOf returns the packages of this module that a file imports, by the names that it gives them.
func importsOf(f *ast.File) map[string]string {
	out := map[string]string{}
	for _, spec := range f.Imports {
		p, _ := strconv.Unquote(spec.Path.Value)
		if dir, ours := strings.CutPrefix(p, module+"/"); ours && spec.Name != nil {
			out[spec.Name.Name] = dir
		} else if ours {
			out[path.Base(dir)] = dir
		}
	}
	return out
}

// exports returns the exported names of a file, without methods.
func exports(f *ast.File) (out []string) {
	add := func(names ...*ast.Ident) {
		for _, name := range names {
			if name.IsExported() {
				out = append(out, name.Name)
			}
		}
	}
	for _, d := range f.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			if d.Recv == nil {
				add(d.Name)
			}
		case *ast.GenDecl:
			for _, spec := range d.Specs {
				switch spec := spec.(type) {
				case *ast.TypeSpec:
					add(spec.Name)
				case *ast.ValueSpec:
					add(spec.Names...)
				}
			}
		}
	}
	return out
}
