package tidy

import (
	"go/ast"
	"strings"
	"testing"
)

// Every exported name of a package that others import has a comment that says what it
// promises.
func TestExportedNamesArePromises(t *testing.T) {
	each(t, func(f *file) bool { return f.code() && f.ast.Name.Name != "main" }, func(f *file) {
		for _, d := range f.ast.Decls {
			switch d := d.(type) {
			case *ast.FuncDecl:
				if d.Name.IsExported() && d.Doc == nil && exportedReceiver(d) {
					t.Errorf("%s:%d: %s has no doc comment", f.path, line(d), nameOf(d))
				}
			case *ast.GenDecl:
				for _, spec := range d.Specs {
					if name, doc := exportedSpec(spec); name != "" && doc == nil && d.Doc == nil {
						t.Errorf("%s:%d: %s has no doc comment", f.path, line(spec), name)
					}
				}
			}
		}
	})
}

func exportedReceiver(fn *ast.FuncDecl) bool {
	typ, _, method := strings.Cut(nameOf(fn), ".")
	return !method || ast.IsExported(typ)
}

// exportedSpec returns the first exported name of a declaration, and its comment.
func exportedSpec(spec ast.Spec) (string, *ast.CommentGroup) {
	switch s := spec.(type) {
	case *ast.TypeSpec:
		if s.Name.IsExported() {
			return s.Name.Name, s.Doc
		}
	case *ast.ValueSpec:
		for _, name := range s.Names {
			if name.IsExported() {
				doc := s.Doc
				if doc == nil {
					doc = s.Comment
				}
				return name.Name, doc
			}
		}
	}
	return "", nil
}

// Every package has a comment that says what it holds.
func TestPackagesAreIntroduced(t *testing.T) {
	introduced := map[string]bool{}
	each(t, (*file).code, func(f *file) {
		introduced[f.dir()] = introduced[f.dir()] || f.ast.Doc != nil
	})
	for dir, ok := range introduced {
		if !ok {
			t.Errorf("%s: no package comment", dir)
		}
	}
}
