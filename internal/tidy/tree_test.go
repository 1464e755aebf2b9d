package tidy

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
)

const module = "github.com/pawl-work/pawl"

// file is one text file of the tree, Go or not.
type file struct {
	path      string // from the root, with slashes
	text      string
	ast       *ast.File // nil unless Go
	generated bool
}

func (f *file) dir() string  { return path.Dir(f.path) }
func (f *file) isGo() bool   { return f.ast != nil }
func (f *file) isTest() bool { return strings.HasSuffix(f.path, "_test.go") }

// under reports whether the file is in one of the directories or below it.
func (f *file) under(dirs ...string) bool {
	return slices.ContainsFunc(dirs, func(d string) bool { return f.dir() == d || strings.HasPrefix(f.path, d+"/") })
}

// code reports whether it is Go that ships: neither a test nor generated.
func (f *file) code() bool { return f.isGo() && !f.isTest() && !f.generated }

var fset = token.NewFileSet()

const root = "../.."

// ignored are the paths in .gitignore: they are not part of the tree.
var ignored = []string{"dist", ".git", ".work", "pawl", "node_modules"}

func isIgnored(name string) bool {
	ext := filepath.Ext(name)
	return slices.Contains(ignored, name) || slices.Contains([]string{".db", ".db-wal", ".db-shm", ".lock", ".test", ".prof"}, ext)
}

// tree reads every text file of the module, once.
var tree = sync.OnceValues(func() ([]*file, error) {
	var files []*file
	err := filepath.WalkDir(root, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel := filepath.ToSlash(strings.TrimPrefix(p, root+string(filepath.Separator)))
		switch {
		case p == root:
			return nil
		case d.IsDir() && isIgnored(d.Name()) && rel != "cmd/pawl":
			return filepath.SkipDir
		case d.IsDir() || isIgnored(d.Name()):
			return nil
		}
		raw, err := os.ReadFile(p)
		if err != nil || slices.Contains(raw, 0) { // a binary file is not checked
			return err
		}
		f := &file{path: rel, text: string(raw)}
		if strings.HasSuffix(p, ".go") && !strings.Contains("/"+rel, "/testdata/") {
			if f.ast, err = parser.ParseFile(fset, p, raw, parser.ParseComments); err != nil {
				return err
			}
			f.generated = ast.IsGenerated(f.ast)
		}
		files = append(files, f)
		return nil
	})
	return files, err
})

// each runs fn on the files that a rule applies to.
func each(t *testing.T, about func(*file) bool, fn func(*file)) {
	t.Helper()
	files, err := tree()
	if err != nil {
		t.Fatal(err)
	}
	seen := 0
	for _, f := range files {
		if about(f) {
			seen++
			fn(f)
		}
	}
	if seen == 0 {
		t.Error("the rule found nothing to look at")
	}
}

// line returns the line of a node.
func line(n ast.Node) int { return fset.Position(n.Pos()).Line }
