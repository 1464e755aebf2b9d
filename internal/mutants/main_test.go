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
	"runtime/debug"
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
	defer debug.SetGCPercent(debug.SetGCPercent(400))
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
					for _, err := range c.check(t, filepath.Dir(from), replace) {
						t.Error(err)
					}
				}
			}
			if !c.hasTest(t, filepath.Join(root, m.pkg), m.run) {
				t.Errorf("%s has no test %s", m.pkg, m.run)
			}
		})
	}
}

// What does not compile is found: in a function, and where another file uses what is gone.
func TestWhatDoesNotCompileIsFound(t *testing.T) {
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(root, "internal", "mutants")
	from := filepath.Join(dir, "try.go")
	c := newCompiler(t, root, []*mutant{{files: []string{"internal/mutants/try.go"}}})
	text, err := os.ReadFile(from)
	if err != nil {
		t.Fatal(err)
	}
	for old, wrong := range map[string]string{
		"":                                "",
		"\treturn failed, err\n":          "\treturn failed, missing\n",
		"func (l *laboratory) tryAll(ctx": "func (l *laboratory) tryEach(ctx",
	} {
		to := filepath.Join(t.TempDir(), "try.go")
		if err := os.WriteFile(to, []byte(strings.Replace(string(text), old, wrong, 1)), 0o600); err != nil {
			t.Fatal(err)
		}
		if faults := c.check(t, dir, map[string]string{from: to}); (len(faults) == 1) != (old != "") {
			t.Errorf("%q instead of %q: %v", wrong, old, faults)
		}
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
func (c *compiler) hasTest(t *testing.T, dir, run string) bool {
	t.Helper()
	if c.tests[dir] == "" {
		files, _ := filepath.Glob(filepath.Join(dir, "*_test.go")) // the pattern is valid
		for _, file := range files {
			one, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			c.tests[dir] += string(one)
		}
	}
	for name := range strings.SplitSeq(run, "|") {
		name, _, _ = strings.Cut(name, "/")
		if strings.HasPrefix(name, "Test") && !strings.Contains(c.tests[dir], "\nfunc "+name) {
			return false
		}
	}
	return true
}

// compiler checks the types of patched packages. It reads what they import from the files that
// the Go command has for it: to compile each patch would take minutes.
type compiler struct {
	files    *token.FileSet
	parsed   map[string]*source
	packages map[string]listed // by directory
	imports  types.Importer
	tests    map[string]string // their text, by directory
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
	c := &compiler{files: token.NewFileSet(), parsed: map[string]*source{}, packages: map[string]listed{}, tests: map[string]string{}}
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

// check checks the package of a directory, with some of its files replaced. If only what is inside of functions is replaced,
// nothing inside of the other files' functions can have become wrong, and it is not checked.
func (c *compiler) check(t *testing.T, dir string, replace map[string]string) (faults []error) {
	t.Helper()
	p, known := c.packages[dir]
	if !known {
		t.Fatalf("%s is no package of this system", dir)
	}
	inside := true
	var files []*ast.File
	for _, name := range p.GoFiles {
		path := filepath.Join(dir, name)
		file := c.parse(t, path)
		if to := replace[path]; to != "" {
			replaced := c.parse(t, to)
			inside = inside && outside(file) == outside(replaced)
			file = replaced
		}
		files = append(files, file.File)
	}
	bare := map[string]bool{}
	for i, name := range p.GoFiles {
		if path := filepath.Join(dir, name); inside && replace[path] == "" {
			files[i], bare[path] = withoutBodies(files[i]), true
		}
	}
	config := types.Config{Importer: c.imports, Error: func(err error) {
		if e, is := err.(types.Error); !is || !bare[e.Fset.Position(e.Pos).Filename] { // such as an import that only bodies use
			faults = append(faults, err)
		}
	}}
	_, _ = config.Check(p.ImportPath, c.files, files, nil) // its errors were told
	return faults
}

// source is a file and its text.
type source struct {
	*ast.File
	text string
}

func (c *compiler) parse(t *testing.T, path string) *source {
	t.Helper()
	if c.parsed[path] == nil {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		file, err := parser.ParseFile(c.files, path, text, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		c.parsed[path] = &source{file, string(text)}
	}
	return c.parsed[path]
}

// outside is the text of a file without the bodies of its functions.
func outside(s *source) string {
	var out strings.Builder
	from := s.FileStart
	for _, d := range s.Decls {
		if f, is := d.(*ast.FuncDecl); is && f.Body != nil {
			out.WriteString(s.text[from-s.FileStart : f.Body.Pos()-s.FileStart])
			from = f.Body.End()
		}
	}
	return out.String() + s.text[from-s.FileStart:]
}

func withoutBodies(file *ast.File) *ast.File {
	bare := *file
	bare.Decls = slices.Clone(file.Decls)
	for i, d := range bare.Decls {
		if f, is := d.(*ast.FuncDecl); is {
			one := *f
			one.Body, bare.Decls[i] = nil, &one
		}
	}
	return &bare
}
