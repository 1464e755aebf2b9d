package main

import (
	"encoding/json"
	"fmt"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/scanner"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// Every patch applies, changes what the program does, compiles, and names a test that exists.
func TestPatches(t *testing.T) {
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	all, err := read("patches")
	if err != nil {
		t.Fatal(err)
	}
	if len(all) < 40 {
		t.Fatalf("%d patches", len(all))
	}
	c := newCompiler(t, root, all)
	for _, m := range all {
		t.Run(m.name, func(t *testing.T) {
			replace, err := m.apply(t.Context(), root, t.TempDir())
			if err != nil {
				t.Fatal(err)
			}
			changes := false
			for from, to := range replace {
				if strings.HasSuffix(from, "_test.go") {
					t.Errorf("%s is a test", from)
				}
				changes = changes || !slices.Equal(words(t, from), words(t, to))
			}
			if !changes {
				t.Error("nothing changes but spaces and comments")
			}
			for from := range replace {
				if strings.HasSuffix(from, ".go") {
					c.check(t, filepath.Dir(from), replace)
				}
			}
			if !hasTest(t, filepath.Join(root, m.pkg), m.run) {
				t.Errorf("%s has no test %s", m.pkg, m.run)
			}
		})
	}
}

// words returns the words of a file without its comments.
func words(t *testing.T, path string) (out []string) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.HasSuffix(path, ".go") {
		return strings.Fields(regexp.MustCompile(`(?m)^--.*`).ReplaceAllString(string(text), ""))
	}
	var s scanner.Scanner
	files := token.NewFileSet()
	s.Init(files.AddFile(path, -1, len(text)), text, nil, 0)
	for {
		_, what, word := s.Scan()
		if what == token.EOF {
			return out
		}
		out = append(out, what.String()+" "+word)
	}
}

// hasTest reports whether a package has each of the tests that a value of -run names.
func hasTest(t *testing.T, dir, run string) bool {
	t.Helper()
	files, _ := filepath.Glob(filepath.Join(dir, "*_test.go")) // the pattern is valid
	var text strings.Builder
	for _, file := range files {
		one, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		text.Write(one)
	}
	for name := range strings.SplitSeq(run, "|") {
		name, _, _ = strings.Cut(name, "/")
		if strings.HasPrefix(name, "Test") && !regexp.MustCompile(`(?m)^func `+name+`\w*\(`).MatchString(text.String()) {
			return false
		}
	}
	return true
}

// compiler checks the types of patched packages. It reads what they import from the files that
// the Go command has for it: to compile each patch would take minutes.
type compiler struct {
	files    *token.FileSet
	parsed   map[string]*ast.File
	packages map[string]listed // by directory
	imports  types.Importer
}

// listed is a package as `go list -json` has it.
type listed struct {
	ImportPath, Dir, Export string
	GoFiles                 []string
}

func newCompiler(t *testing.T, root string, all []*mutant) *compiler {
	t.Helper()
	dirs := map[string]bool{}
	for _, m := range all {
		for _, file := range m.files {
			if strings.HasSuffix(file, ".go") {
				dirs["./"+filepath.Dir(file)] = true
			}
		}
	}
	args := []string{"list", "-export", "-deps", "-json=ImportPath,Dir,Export,GoFiles"}
	for dir := range dirs {
		args = append(args, dir)
	}
	cmd := exec.CommandContext(t.Context(), "go", args...)
	cmd.Dir = root
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	c := &compiler{files: token.NewFileSet(), parsed: map[string]*ast.File{}, packages: map[string]listed{}}
	exports := map[string]string{}
	for list := json.NewDecoder(strings.NewReader(string(out))); ; {
		var p listed
		if err := list.Decode(&p); err == io.EOF {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		c.packages[p.Dir], exports[p.ImportPath] = p, p.Export
	}
	c.imports = importer.ForCompiler(c.files, "gc", func(path string) (io.ReadCloser, error) {
		if exports[path] == "" {
			return nil, fmt.Errorf("no package %s", path)
		}
		return os.Open(exports[path])
	})
	return c
}

// check checks the package of a directory, with some of its files replaced.
func (c *compiler) check(t *testing.T, dir string, replace map[string]string) {
	t.Helper()
	p, known := c.packages[dir]
	if !known {
		t.Fatalf("%s is no package of this system", dir)
	}
	var files []*ast.File
	for _, name := range p.GoFiles {
		path := filepath.Join(dir, name)
		if to := replace[path]; to != "" {
			path = to
		}
		file := c.parsed[path]
		if file == nil {
			var err error
			if file, err = parser.ParseFile(c.files, path, nil, parser.SkipObjectResolution); err != nil {
				t.Fatal(err)
			}
			c.parsed[path] = file
		}
		files = append(files, file)
	}
	config := types.Config{Importer: c.imports, Error: func(err error) { t.Error(err) }}
	_, _ = config.Check(p.ImportPath, c.files, files, nil) // its errors were told
}
