package tidy

import (
	"go/ast"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

const (
	maxFile     = 500
	maxTestFile = 800
	maxFunction = 60
	maxEntries  = 41
	maxBytes    = 1 << 20
)

// ratchet lists what is over its limit, with its current size. A number may only go down. An
// entry that is back within its limit must be removed.
var ratchet = map[string]int{}

func TestFilesAreShort(t *testing.T) {
	each(t, func(f *file) bool { return f.isGo() && !f.generated }, func(f *file) {
		limit := maxFile
		if f.isTest() {
			limit = maxTestFile
		}
		weigh(t, f.path, strings.Count(f.text, "\n"), limit)
	})
}

// A program that was built into the tree would stay in its history for ever.
func TestNoFileIsLarge(t *testing.T) {
	list := exec.Command("git", "ls-files", "-z")
	list.Dir = root
	names, err := list.Output()
	if err != nil {
		t.Skip("the tree is not a clone: ", err)
	}
	for _, name := range strings.FieldsFunc(string(names), func(r rune) bool { return r == 0 }) {
		if info, err := os.Lstat(filepath.Join(root, name)); err == nil && info.Size() > maxBytes {
			t.Errorf("%s has %d bytes, at most %d: is it something that was built?", name, info.Size(), maxBytes)
		}
	}
}

func TestFunctionsAreShort(t *testing.T) {
	each(t, (*file).code, func(f *file) {
		for _, d := range f.ast.Decls {
			if fn, ok := d.(*ast.FuncDecl); ok && fn.Body != nil {
				weigh(t, f.path+":"+nameOf(fn), fset.Position(fn.End()).Line-line(fn)+1, maxFunction)
			}
		}
	})
}

func weigh(t *testing.T, what string, size, limit int) {
	t.Helper()
	was, listed := ratchet[what]
	switch {
	case listed && size <= limit:
		t.Errorf("%s is %d lines and fits: take it off the ratchet", what, size)
	case listed && size < was:
		t.Errorf("%s shrank from %d to %d lines: say so on the ratchet", what, was, size)
	case listed && size > was:
		t.Errorf("%s grew from %d to %d lines; it may only shrink", what, was, size)
	case !listed && size > limit:
		t.Errorf("%s is %d lines, at most %d", what, size, limit)
	}
}

// nameOf returns Type.Method or Func.
func nameOf(fn *ast.FuncDecl) string {
	if fn.Recv == nil {
		return fn.Name.Name
	}
	typ := fn.Recv.List[0].Type
	if star, ok := typ.(*ast.StarExpr); ok {
		typ = star.X
	}
	if generic, ok := typ.(*ast.IndexExpr); ok {
		typ = generic.X
	}
	if id, ok := typ.(*ast.Ident); ok {
		return id.Name + "." + fn.Name.Name
	}
	return fn.Name.Name
}

// The entries of ratchet exist.
func TestRatchetIsTrue(t *testing.T) {
	for what := range ratchet {
		name, _, _ := strings.Cut(what, ":")
		if _, err := os.Stat(filepath.Join(root, filepath.FromSlash(name))); err != nil {
			t.Errorf("ratchet: %v", err)
		}
	}
}

func TestRootIsOnePage(t *testing.T) {
	entries, err := os.ReadDir(root)
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, e := range entries {
		if !isIgnored(e.Name()) && filepath.Ext(e.Name()) != ".go" {
			n++
		}
	}
	if n > maxEntries {
		t.Errorf("the root has %d entries besides .go files, at most %d", n, maxEntries)
	}
}
