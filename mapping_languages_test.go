package pawl_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/pawl-work/pawl/api"
)

// languagesHead is the head of the tables of docs/migrating.md that have names in Go, Python and TypeScript.
const languagesHead = "| | in Go | in Python | in TypeScript |"

// Each section of docs/migrating.md has a table with the names in Go, Python and TypeScript, with a
// snippet in both, and all names are there.
func TestMappingNamesEveryLanguage(t *testing.T) {
	raw, err := os.ReadFile("docs/migrating.md")
	if err != nil {
		t.Fatal(err)
	}
	have := [...]func(string) bool{1: goHas(t), 2: pythonHas(t), 3: typeScriptHas(t)}
	sections := strings.Split(string(raw), "\n## From ")[1:]
	if len(sections) != 8 {
		t.Errorf("%d sections", len(sections))
	}
	for _, section := range sections {
		name, _, _ := strings.Cut(section, "\n")
		_, table, found := strings.Cut(section, languagesHead+"\n")
		if !found || !strings.Contains(section, "\n```python\n") || !strings.Contains(section, "\n```ts\n") {
			t.Errorf("%s: no table of names, or no snippet in Python or TypeScript", name)
		}
		rows := 0
		for line := range strings.SplitSeq(table, "\n") {
			if line == "" {
				break
			}
			cells := strings.Split(strings.Trim(line, "| "), " | ")
			if len(cells) != 4 {
				continue // the line below the head
			}
			rows++
			for n, cell := range cells {
				names := quotedName.FindAllStringSubmatch(cell, -1)
				if n > 0 && len(names) == 0 && !strings.Contains(cell, "∅") {
					t.Errorf("%s: %q has no name", name, line)
				}
				for _, q := range names {
					if n > 0 && !have[n](q[2]) {
						t.Errorf("%s: no %s, in %q", name, q[2], line)
					}
				}
			}
		}
		if rows < 5 {
			t.Errorf("%s: %d names", name, rows)
		}
	}
}

func goHas(t *testing.T) func(string) bool {
	have := map[string]bool{}
	for _, pkg := range []string{"pawl", "engine", "worker", "sweep"} {
		goNames(t, pkg, have)
	}
	return func(name string) bool { return have[name] }
}

// pythonHas knows what the package exports, and the methods of what a program gets from it.
func pythonHas(t *testing.T) func(string) bool {
	const root = "sdk/python/src/pawl/"
	def := regexp.MustCompile(`(?m)^    def ([a-z]\w*)`)
	have := map[string]bool{}
	methods := func(of string, files ...string) {
		for _, name := range files {
			for _, m := range def.FindAllStringSubmatch(sourceText(t, root+name), -1) {
				have[of+"."+m[1]] = true
			}
		}
	}
	methods("client", "_sync/tasks.py", "_sync/items.py", "_sync/messages.py", "_sync/operations.py", "_sync/once.py", "_sync/streams.py")
	methods("ctx", "_sync/context.py")
	methods("message", "_sync/message.py")
	methods("kept", "_sync/keepalive.py")
	methods("worker", "worker.py")
	for _, m := range regexp.MustCompile(`(?m)^    "(\w+)",`).FindAllStringSubmatch(sourceText(t, root+"__init__.py"), -1) {
		have["pawl."+m[1]] = true
	}
	have[`problem["reason"]`] = true // a member of the answer
	return func(name string) bool { return have[name] }
}

// typeScriptHas knows what the package exports, the members of what a program gets from it, and the routes.
func typeScriptHas(t *testing.T) func(string) bool {
	const root = "sdk/typescript/src/"
	have := map[string]bool{"problem.reason": true} // a member of the answer
	for _, r := range api.Routes {
		have[r.Method+" "+r.Path] = true
	}
	for _, entry := range []string{"index.ts", "ai.ts", "ui.ts"} {
		for _, m := range regexp.MustCompile(`export (?:type )?\{([^}]*)\}`).FindAllStringSubmatch(sourceText(t, root+entry), -1) {
			for name := range strings.SplitSeq(m[1], ",") {
				have[strings.TrimPrefix(strings.TrimSpace(name), "type ")] = true
			}
		}
	}
	member := regexp.MustCompile(`(?m)^  (?:readonly )?(\w+)[<(:]`)
	for of, in := range map[string][2]string{"job": {"worker.ts", "Job"}, "message": {"message.ts", "MessageWriter"},
		"kept": {"keepalive.ts", "KeepAlive"}} {
		_, body, found := strings.Cut(sourceText(t, root+in[0]), "export interface "+in[1]+" {\n")
		if !found {
			t.Fatalf("no interface %s in %s", in[1], in[0])
		}
		body, _, _ = strings.Cut(body, "\n}\n")
		for _, m := range member.FindAllStringSubmatch(body, -1) {
			have[of+"."+m[1]] = true
		}
	}
	return func(name string) bool { return have[name] }
}

func sourceText(t *testing.T, name string) string {
	t.Helper()
	raw, err := os.ReadFile(filepath.FromSlash(name))
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}
