package pawl_test

import (
	"bytes"
	"encoding/json"
	"errors"
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

func TestGoInDocsCompiles(t *testing.T) {
	for _, b := range blocks(t) {
		if b.lang != "go" {
			continue
		}
		t.Run(b.String(), func(t *testing.T) {
			t.Parallel()
			program := strings.HasPrefix(b.text, "package main")
			text := b.text
			if !program {
				text = fragment(b.text)
			}
			bin := build(t, text)
			if !program {
				return
			}
			cmd := exec.Command(bin)
			cmd.Dir = t.TempDir()
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Errorf("%v\n%s", err, out)
			}
		})
	}
}

// known are the packages a fragment may use without saying so.
var known = map[string]string{
	"context": "context", "errors": "errors", "fmt": "fmt", "json": "encoding/json", "slog": "log/slog", "sql": "database/sql",
	"io": "io", "os": "os", "pgx": "github.com/jackc/pgx/v5", "time": "time", "testing": "testing",
	"pawl": "github.com/pawl-work/pawl", "engine": "github.com/pawl-work/pawl/engine", "worker": "github.com/pawl-work/pawl/worker",
	"agent": "github.com/pawl-work/pawl/agent", "pawltest": "github.com/pawl-work/pawl/pawltest", "relay": "github.com/pawl-work/pawl/relay",
	"rabbitmq": "github.com/pawl-work/pawl/relay/rabbitmq",
}

// fragment wraps statements into a program.
func fragment(text string) string {
	var imports strings.Builder
	for name, path := range known {
		if regexp.MustCompile(`\b` + name + `\.[A-Z]`).MatchString(text) {
			fmt.Fprintf(&imports, "import %q\n", path)
		}
	}
	if strings.HasPrefix(text, "func ") {
		return "package main\n" + imports.String() + text + "func main() {}\n"
	}
	return "package main\n" + imports.String() + "func main() {\n" + text + "}\n"
}

// build compiles a program as a part of the module, without adding a file to it.
func build(t *testing.T, text string) string {
	t.Helper()
	dir := t.TempDir()
	here, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	source, overlay, bin := filepath.Join(dir, "main.go"), filepath.Join(dir, "overlay.json"), filepath.Join(dir, "program")
	replace, err := json.Marshal(map[string]any{"Replace": map[string]string{filepath.Join(here, "internal", "snippet", "main.go"): source}})
	if err == nil {
		err = errors.Join(os.WriteFile(source, []byte(text), 0o644), os.WriteFile(overlay, replace, 0o644))
	}
	if err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("go", "build", "-overlay", overlay, "-o", bin, "./internal/snippet").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return bin
}

func TestCommandsInDocsRun(t *testing.T) {
	dir := t.TempDir()
	program := filepath.Join(dir, "pawl")
	if out, err := exec.Command("go", "build", "-o", program, "./cmd/pawl").CombinedOutput(); err != nil {
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
