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

// A task that is created over HTTP, done in Go, whose child is done in TypeScript, is one connected
// trace of three processes, to the relay of the last event.
func TestOneTraceInTwoLanguages(t *testing.T) {
	program := node(t)
	p := serve(t)
	p.goWorker()
	p.run([]string{"OTEL_SERVICE_NAME=ts-worker"}, program, "../../sdk/typescript/test/traced-worker.ts", p.url, "ts")
	p.call("PUT", "/v1/budgets/llm", `{"unit":"tokens","limit":100}`, nil, nil)
	p.call("POST", "/v1/tasks", `{"type":"order","payload":{"budget":"llm","child":"ts"}}`, http.Header{"Traceparent": {creator}}, nil)
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
		"pawl: POST /v1/items/{id}:complete",
		"pawl: send hook completed")
	connected(t, all)
	spawn := one(t, all, "pawl: POST /v1/items:spawn")
	if create := one(t, all, "go-worker: create ts"); spawn.parent() != create.id() {
		t.Errorf("the call that spawns belongs to %s, not to %s", spawn.parent(), create.id())
	}
	first, second := one(t, all, "ts-worker: process ts failed"), one(t, all, "ts-worker: process ts completed")
	for _, s := range []span{first, second} {
		if got := s.links("creator"); s.parent() != spawn.id() || len(got) != 1 || got[0] != spawn.id() {
			t.Errorf("the child's attempt %s is not a child of, and linked to, its creator: %s, %v", s.id(), s.parent(), got)
		}
	}
	if got := second.links("previous_attempt"); len(got) != 1 || got[0] != first.id() {
		t.Errorf("the child's second attempt is linked to %v, not to the first, %s", got, first.id())
	}
	if t.Failed() {
		t.Log(p.drawn(creatorTrace))
	}
}
