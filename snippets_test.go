package pawl_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// The examples in the documents work: every `go` block is compiled, and run if it is a program.
// Every `sh` block is run with pawl on PATH, the blocks of one document one after the other in one
// directory. Every command in other blocks exists.

// elsewhere are documents whose blocks have tests of their own.
var elsewhere = []string{"docs/http.md", "docs/sql.md"}

type block struct {
	doc, lang, text string
	line            int
}

func (b block) String() string { return fmt.Sprintf("%s:%d", b.doc, b.line) }

var fence = regexp.MustCompile("(?ms)^```(\\w*)\n(.*?)^```$")

// blocks are the fenced blocks of README.md, CONTRIBUTING.md and docs.
func blocks(t *testing.T) []block {
	t.Helper()
	docs := []string{"README.md", "CONTRIBUTING.md"}
	for _, pattern := range []string{"docs/*.md", "docs/*/*.md"} {
		found, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		docs = append(docs, found...)
	}
	var out []block
	for _, doc := range docs {
		if slices.Contains(elsewhere, doc) {
			continue
		}
		raw, err := os.ReadFile(doc)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range fence.FindAllSubmatchIndex(raw, -1) {
			out = append(out, block{doc, string(raw[m[2]:m[3]]), string(raw[m[4]:m[5]]), bytes.Count(raw[:m[4]], []byte("\n")) + 1})
		}
	}
	return out
}

// All snippets are compiled in one build: each is a package of its own, and one program runs those that are programs.
// So only one program is linked.
func TestGoInDocsCompiles(t *testing.T) {
	var snippets []snippet
	for _, b := range blocks(t) {
		if b.lang == "go" {
			snippets = append(snippets, snippetOf(b, fmt.Sprintf("s%d", len(snippets))))
		}
	}
	runner := build(t, snippets)
	for _, s := range snippets {
		if !s.program {
			continue
		}
		t.Run(s.String(), func(t *testing.T) {
			t.Parallel()
			cmd := exec.Command(runner, s.name)
			cmd.Dir = t.TempDir()
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Errorf("%v\n%s", err, out)
			}
		})
	}
}

// snippet is a block of Go, rewritten as a package that a program can import.
type snippet struct {
	block
	name, source string
	program      bool
}

var (
	mainPackage  = regexp.MustCompile(`(?m)^package main$`)
	mainFunction = regexp.MustCompile(`(?m)^func main\(\)`)
)

func snippetOf(b block, name string) snippet {
	s := snippet{block: b, name: name, program: strings.HasPrefix(b.text, "package main")}
	here := fmt.Sprintf("//line %s:%d\n", b.doc, b.line)
	if s.program {
		s.source = here + mainFunction.ReplaceAllString(mainPackage.ReplaceAllString(b.text, "package "+name), "func Main()")
		return s
	}
	text := here + b.text
	if !strings.HasPrefix(b.text, "func ") {
		text = "func _() {\n" + text + "}\n"
	}
	s.source = "package " + name + "\n" + imports(b.text) + text
	return s
}

// known are the packages a fragment may use without saying so.
var known = map[string]string{
	"context": "context", "errors": "errors", "fmt": "fmt", "json": "encoding/json", "slog": "log/slog", "sql": "database/sql",
	"io": "io", "os": "os", "pgx": "github.com/jackc/pgx/v5", "time": "time", "testing": "testing",
	"pawl": "github.com/pawl-work/pawl", "engine": "github.com/pawl-work/pawl/engine", "worker": "github.com/pawl-work/pawl/worker",
	"agent": "github.com/pawl-work/pawl/agent", "pawltest": "github.com/pawl-work/pawl/pawltest", "relay": "github.com/pawl-work/pawl/relay",
	"rabbitmq": "github.com/pawl-work/pawl/relay/rabbitmq",
}

func imports(text string) string {
	var out strings.Builder
	for name, path := range known {
		if regexp.MustCompile(`\b` + name + `\.[A-Z]`).MatchString(text) {
			fmt.Fprintf(&out, "import %q\n", path)
		}
	}
	return out.String()
}

// build compiles all snippets as packages of the module, without adding a file to it, and the program that runs
// those that are programs: its argument is the name of one. The compiler names errors by the line of the document.
func build(t *testing.T, snippets []snippet) (runner string) {
	t.Helper()
	dir := t.TempDir()
	here, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	replace := map[string]string{}
	add := func(name, source string) {
		path := filepath.Join(dir, name+".go")
		if err := os.WriteFile(path, []byte(source), 0o644); err != nil {
			t.Fatal(err)
		}
		replace[filepath.Join(here, "internal", "snippet", name, "snippet.go")] = path
	}
	run, calls := "package main\nimport \"os\"\n", ""
	for _, s := range snippets {
		add(s.name, s.source)
		as := "_" // it is compiled, although nothing of it is called
		if s.program {
			as = s.name
			calls += fmt.Sprintf("case %q:\n%s.Main()\n", s.name, s.name)
		}
		run += fmt.Sprintf("import %s \"github.com/pawl-work/pawl/internal/snippet/%s\"\n", as, s.name)
	}
	add("run", run+"func main() {\nswitch os.Args[1] {\n"+calls+"}\n}\n")
	overlay := filepath.Join(dir, "overlay.json")
	raw, err := json.Marshal(map[string]any{"Replace": replace})
	if err == nil {
		err = os.WriteFile(overlay, raw, 0o644)
	}
	if err != nil {
		t.Fatal(err)
	}
	runner = filepath.Join(dir, "run")
	build := exec.Command("go", "build", "-ldflags=-s -w", "-overlay", overlay, "-o", runner, "./internal/snippet/run")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return runner
}

func TestCommandsInDocsRun(t *testing.T) {
	dir := t.TempDir()
	program := filepath.Join(dir, "pawl")
	if built := os.Getenv("PAWL_TEST_PROGRAM"); built != "" {
		if err := os.Symlink(built, program); err != nil {
			t.Fatal(err)
		}
	} else if out, err := exec.Command("go", "build", "-o", program, "./cmd/pawl").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	env := slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, "PAWL_") || strings.HasPrefix(v, "DB_") })
	env = append(env, "PATH="+dir+string(filepath.ListSeparator)+os.Getenv("PATH"))
	shell := map[string]string{}
	for _, b := range blocks(t) {
		switch b.lang {
		case "sh":
			shell[b.doc] += b.text
		case "":
			t.Run(b.String(), func(t *testing.T) { namesCommands(t, program, b.text) })
		}
	}
	for doc, script := range shell {
		t.Run(doc, func(t *testing.T) {
			t.Parallel()
			cmd := exec.Command("sh", "-eux", "-c", script)
			cmd.Dir, cmd.Env = t.TempDir(), env
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Errorf("%v\n%s", err, out)
			}
		})
	}
}

var (
	pawlLine = regexp.MustCompile(`(?m)^(?:go run \./cmd/pawl|pawl)((?: [a-z][a-z-]*)*)`)
	makeLine = regexp.MustCompile(`(?m)^make ([a-z]+)`)
)

// namesCommands checks commands that are not run here: that the program has
// them, or the Makefile.
func namesCommands(t *testing.T, program, text string) {
	for _, m := range pawlLine.FindAllStringSubmatch(text, -1) {
		words := strings.Fields(m[1])
		out, err := exec.Command(program, append(words, "--help")...).CombinedOutput()
		if usage := "pawl " + strings.Join(words, " "); err != nil || !strings.Contains(string(out), usage) {
			t.Errorf("there is no command %q: %v\n%s", usage, err, out)
		}
	}
	makefile, err := os.ReadFile("Makefile")
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range makeLine.FindAllStringSubmatch(text, -1) {
		if !strings.Contains(string(makefile), "\n"+m[1]+":") {
			t.Errorf("the Makefile has no %s", m[1])
		}
	}
}
