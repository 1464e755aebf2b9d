package traces

import (
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// node returns the program of Node, with the packages of the TypeScript SDK in their place.
func node(t *testing.T) string {
	t.Helper()
	if _, err := exec.LookPath("npm"); err != nil && os.Getuid() != 0 {
		t.Skip("Node is missing: install npm, or run as root on Debian")
	}
	install := exec.Command("../../internal/npm", "sdk/typescript")
	install.Stderr = os.Stderr
	out, err := install.Output()
	if err != nil {
		t.Fatalf("internal/npm: %v", err)
	}
	paths := filepath.SplitList(strings.TrimSpace(string(out)))
	packages := filepath.Dir(paths[len(paths)-1])
	link := "../../sdk/typescript/node_modules" // where Node looks for packages
	if at, err := os.Readlink(link); err != nil || at != packages {
		_ = os.Remove(link)
		if err := os.Symlink(packages, link); err != nil {
			t.Fatal(err)
		}
	}
	if len(paths) == 1 { // no Node of internal/node for this machine
		return "node"
	}
	return filepath.Join(paths[0], "node")
}

// python returns the program of Python, with the packages of the SDK and of its tests.
func python(t *testing.T) string {
	t.Helper()
	if _, err := exec.LookPath("python3"); err != nil && os.Getuid() != 0 {
		t.Skip("Python is missing: install Python 3.10 or newer, or run as root on Debian")
	}
	install := exec.Command("../../sdk/python/venv")
	install.Stderr = os.Stderr
	out, err := install.Output()
	if err != nil {
		t.Fatalf("sdk/python/venv: %v", err)
	}
	return filepath.Join(strings.TrimSpace(string(out)), "bin", "python")
}

// A task that is created over HTTP and done in Go, whose child is done in TypeScript and has a child
// that is done in Python, is one connected trace of four processes, to the relay of the last event.
func TestOneTraceInThreeLanguages(t *testing.T) {
	js, py := node(t), python(t)
	p := serve(t)
	p.goWorker()
	p.run([]string{"OTEL_SERVICE_NAME=ts-worker"}, js, "../../sdk/typescript/test/traced-worker.ts", p.url, "ts")
	p.run([]string{"OTEL_SERVICE_NAME=py-worker"}, py, "../../sdk/python/tests/traced_worker.py", p.url, "py")
	p.call("PUT", "/v1/budgets/llm", `{"unit":"tokens","limit":100}`, nil, nil)
	p.call("POST", "/v1/tasks", `{"type":"order","payload":{"budget":"llm","child":"ts","below":"py"}}`,
		http.Header{"Traceparent": {creator}}, nil)
	all := p.await(creatorTrace,
		"pawl: POST /v1/tasks",
		"go-worker: process order failed",
		"go-worker: process order suspended",
		"go-worker: process order completed",
		"go-worker: step spawn",
		"go-worker: create ts",
		"pawl: POST /v1/items:spawn",
		"ts-worker: process ts failed",
		"ts-worker: process ts completed",
		"ts-worker: step think",
		"ts-worker: create py",
		"py-worker: process py failed",
		"py-worker: process py completed",
		"py-worker: step think",
		"pawl: POST /v1/items/{id}:complete",
		"pawl: send hook completed")
	connected(t, all)
	spawn := one(t, all, "pawl: POST /v1/items:spawn")
	if create := one(t, all, "go-worker: create ts"); spawn.parent() != create.id() {
		t.Errorf("the call that spawns belongs to %s, not to %s", spawn.parent(), create.id())
	}
	for _, lang := range []string{"ts", "py"} {
		name := lang + "-worker: process " + lang
		first, second := one(t, all, name+" failed"), one(t, all, name+" completed")
		for _, s := range []span{first, second} {
			if got := s.links("creator"); len(got) != 1 || got[0] != s.parent() || (lang == "ts" && got[0] != spawn.id()) {
				t.Errorf("the attempt %s in %s is not a child of, and linked to, its creator: %s, %v", s.id(), lang, s.parent(), got)
			}
		}
		if got := second.links("previous_attempt"); len(got) != 1 || got[0] != first.id() {
			t.Errorf("the second attempt in %s is linked to %v, not to the first, %s", lang, got, first.id())
		}
	}
	if t.Failed() {
		t.Log(p.drawn(creatorTrace))
	}
}
