package traces

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

const (
	creatorTrace = "4bf92f3577b34da6a3ce929d0e0e4736"
	creatorSpan  = "00f067aa0ba902b7"
	creator      = "00-" + creatorTrace + "-" + creatorSpan + "-01"
)

// programs are the processes of one test, which send their spans to one collector.
type programs struct {
	*collector
	url  string
	hook *receiver
}

// receiver is the target of the relay: it keeps the headers and bodies that it gets.
type receiver struct {
	mu  sync.Mutex
	got []received
}

type received struct {
	header http.Header
	event  struct {
		TraceParent string `json:"traceparent"`
		TraceState  string `json:"tracestate"`
		Data        struct {
			Event    string `json:"event"`
			TaskType string `json:"task_type"`
		} `json:"data"`
	}
}

func (h *receiver) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	one := received{header: r.Header.Clone()}
	if json.Unmarshal(body, &one.event) != nil {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.got = append(h.got, one)
}

// event returns what arrived of an event of a task type.
func (h *receiver) event(typ, event string) (received, bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, r := range h.got {
		if r.event.Data.TaskType == typ && r.event.Data.Event == event {
			return r, true
		}
	}
	return received{}, false
}

var binaryDir string // "" = no program was built here

// pawlBinary builds the program once, if the run of all packages has not.
var pawlBinary = sync.OnceValues(func() (out string, err error) {
	if built := os.Getenv("PAWL_TEST_PROGRAM"); built != "" {
		return built, nil
	}
	if binaryDir, err = os.MkdirTemp("", "pawl-traces-"); err != nil {
		return "", err
	}
	out = filepath.Join(binaryDir, "pawl")
	build := exec.Command("go", "build", "-o", out, "./cmd/pawl")
	build.Dir = "../.."
	if said, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("%w: %s", err, said)
	}
	return out, nil
})

// serve starts a collector and `pawl serve` with a relay to a webhook.
func serve(t *testing.T, env ...string) *programs {
	t.Helper()
	p := &programs{collector: startCollector(t), hook: &receiver{}}
	hook := httptest.NewServer(p.hook)
	t.Cleanup(hook.Close)
	p.start(hook.URL, env...)
	return p
}

func (p *programs) start(hook string, env ...string) {
	p.Helper()
	pawl, err := pawlBinary()
	if err != nil {
		p.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		p.Fatal(err)
	}
	address := l.Addr().String()
	l.Close()
	p.url = "http://" + address
	db := "sqlite:" + filepath.Join(p.TempDir(), "work.db")
	env = append([]string{"PAWL_RELAY_SECRETS=hook=whsec_" + strings.Repeat("QUJD", 8)}, env...)
	p.run(env, pawl, "serve", "--db", db, "--addr", address, "--relay", "hook="+hook+"#allow_private")
	for end := time.Now().Add(30 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		res, err := http.Get(p.url + "/readyz")
		if err == nil {
			res.Body.Close()
			if res.StatusCode == http.StatusOK {
				return
			}
		}
		if time.Now().After(end) {
			p.Fatalf("the server is not ready: %v", err)
		}
	}
}

// run starts a program that sends its spans to the collector, and ends it with the test.
func (p *programs) run(env []string, name string, args ...string) {
	p.Helper()
	cmd := exec.Command(name, args...)
	cmd.Env = append(os.Environ(), "OTEL_EXPORTER_OTLP_ENDPOINT=http://"+p.address, "OTEL_BSP_SCHEDULE_DELAY=100")
	cmd.Env = append(cmd.Env, env...)
	var said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &said, &said
	if err := cmd.Start(); err != nil {
		p.Fatal(err)
	}
	p.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		ended := make(chan error, 1)
		go func() { ended <- cmd.Wait() }()
		select {
		case <-ended:
		case <-time.After(60 * time.Second):
			_ = cmd.Process.Kill()
			<-ended
			p.Errorf("%s did not end", name)
		}
		if p.Failed() {
			p.Logf("%s said:\n%s", name, said.String())
		}
	})
}

// call makes a request with headers and decodes the answer into out.
func (p *programs) call(method, path, body string, header http.Header, out any) {
	p.Helper()
	req, err := http.NewRequest(method, p.url+path, strings.NewReader(body))
	if err != nil {
		p.Fatal(err)
	}
	for name, values := range header {
		req.Header[name] = values
	}
	req.Header.Set("Content-Type", "application/json")
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		p.Fatal(err)
	}
	defer res.Body.Close()
	raw, _ := io.ReadAll(res.Body)
	if res.StatusCode >= 300 {
		p.Fatalf("%s %s: %s: %s", method, path, res.Status, raw)
	}
	if out != nil {
		if err := json.Unmarshal(raw, out); err != nil {
			p.Fatal(err)
		}
	}
}

// goWorker starts the worker in Go as a process of its own.
func (p *programs) goWorker() {
	self, err := os.Executable()
	if err != nil {
		p.Fatal(err)
	}
	p.run([]string{"TRACES_WORKER_OF=" + p.url, "OTEL_SERVICE_NAME=go-worker"}, self)
}

// A task that is created over HTTP, done by a worker in another process and relayed to a webhook
// is one connected trace.
func TestOneTraceFromCreateToRelay(t *testing.T) {
	p := serve(t)
	p.goWorker()
	p.call("PUT", "/v1/budgets/llm", `{"unit":"tokens","limit":100}`, nil, nil)
	p.call("POST", "/v1/tasks", `{"type":"order","payload":{"budget":"llm"}}`,
		http.Header{"Traceparent": {creator}, "Tracestate": {"vendor=one"}}, nil)
	all := p.await(creatorTrace,
		"pawl: POST /v1/tasks",
		"go-worker: process order failed",
		"go-worker: process order completed",
		"go-worker: reserve llm",
		"go-worker: settle llm",
		"go-worker: step spawn",
		"pawl: send hook proposed",
		"pawl: send hook completed")
	connected(t, all)
	create := one(t, all, "pawl: POST /v1/tasks")
	first, second := one(t, all, "go-worker: process order failed"), one(t, all, "go-worker: process order completed")
	for _, s := range []span{first, second} {
		if got := s.links("creator"); s.parent() != create.id() || len(got) != 1 || got[0] != create.id() {
			t.Errorf("the attempt %s is not a child of, and linked to, the creator: %s, %v", s.id(), s.parent(), got)
		}
	}
	if got := second.links("previous_attempt"); len(got) != 1 || got[0] != first.id() {
		t.Errorf("the second attempt is linked to %v, not to the first, %s", got, first.id())
	}
	if s := one(t, all, "go-worker: step spawn"); s.parent() != second.id() {
		t.Errorf("the step belongs to %s", s.parent())
	}
	sent := one(t, all, "pawl: send hook completed")
	got, ok := p.hook.event("order", "completed")
	if want := "00-" + creatorTrace + "-" + sent.id() + "-01"; !ok || got.header.Get("Traceparent") != want ||
		got.header.Get("Tracestate") != "vendor=one" {
		t.Errorf("the webhook got %v, not %s", got.header, want)
	}
	if got.event.TraceParent != "00-"+creatorTrace+"-"+create.id()+"-01" || got.event.TraceState != "vendor=one" {
		t.Errorf("the event says %+v", got.event)
	}
}

// connected fails unless the spans are one tree below the creator's span.
func connected(t *testing.T, all []span) {
	t.Helper()
	known := map[string]bool{creatorSpan: true}
	for _, s := range all {
		known[s.id()] = true
	}
	roots := 0
	for _, s := range all {
		if s.parent() == creatorSpan {
			roots++
		}
		if !known[s.parent()] {
			t.Errorf("%s: %s has the parent %q, which is not in the trace", s.service, s.Name(), s.parent())
		}
	}
	if roots != 1 {
		t.Errorf("%d spans are children of the creator's, not one", roots)
	}
}
