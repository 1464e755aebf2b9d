package client_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/api"
	"github.com/pawl-work/pawl/internal/jsonscan"
	"github.com/pawl-work/pawl/server"
)

// prismProgram names the program of Prism, the validating proxy. With it, every request and
// answer of the behaviour suite on SQLite goes through the proxy, which compares them with the API's
// description; `make test` sets it, where there is Node, and so does `make api-proxy`. The proxy gets the calls in which
// there is something new besides ids and times, with PAWL_TORTURE=1 all.
const prismProgram = "PAWL_TEST_PRISM"

// exempt are the calls that the proxy does not see, by the names of their routes:
// streams, which have no answer as a whole, and claims that wait; besides, paths
// that are no text, which end it, and bodies nested so deep that its own recursion
// fails.
func exempt(req *http.Request, body []byte, answer http.Header) bool {
	var claim struct {
		Wait int `json:"wait_seconds"`
	}
	switch {
	case !utf8.ValidString(req.URL.Path), jsonscan.Depth(body) > 2*pawl.MaxDepth:
		return true
	case of("list_events", req), of("follow_message", req):
		return answer.Get("Content-Type") == "text/event-stream"
	case of("claim", req):
		return json.Unmarshal(body, &claim) == nil && claim.Wait > 0
	}
	return false
}

// of reports whether a request is one of a route.
func of(route string, req *http.Request) bool {
	r := api.RouteOf(route)
	ok, err := path.Match(strings.Replace(r.Path, "{id}", "*", 1), req.URL.EscapedPath())
	return ok && err == nil && req.Method == r.Method
}

// judged returns the HTTP client of a test; without Prism nil, which means the client's own.
func judged(t *testing.T) *http.Client {
	t.Helper()
	if os.Getenv(prismProgram) == "" {
		return nil
	}
	p, err := proxy()
	if err != nil {
		t.Fatal(err)
	}
	return &http.Client{Transport: &witness{t, p}}
}

// prism is the proxy. Behind it stands no server but a record: it is asked after
// the server was, and hears the server's own answer, because what it passes on
// it writes anew and payloads are to arrive byte for byte.
type prism struct {
	url   string
	seen  sync.Map // number of a request → *recorded
	facts sync.Map // of the calls so far
	last  atomic.Int64
	sent  atomic.Int64
	all   atomic.Int64
}

// isNew reports whether the proxy has to judge a call with these facts.
func (p *prism) isNew(facts []string) bool {
	p.all.Add(1)
	isNew := os.Getenv("PAWL_TORTURE") == "1"
	for _, fact := range facts {
		_, known := p.facts.LoadOrStore(fact, true)
		isNew = isNew || !known
	}
	return isNew
}

type recorded struct {
	status int
	header http.Header
	body   []byte
}

const recordedHeader = "Pawl-Recorded"

// witness sends a request, and shows the request and its answer to the proxy.
type witness struct {
	t     *testing.T
	prism *prism
}

func (w *witness) RoundTrip(req *http.Request) (*http.Response, error) {
	var body []byte
	if req.Body != nil {
		var err error
		if body, err = io.ReadAll(req.Body); err != nil {
			return nil, err
		}
		_ = req.Body.Close()
		req.Body = io.NopCloser(bytes.NewReader(body))
	}
	res, err := http.DefaultTransport.RoundTrip(req)
	if err != nil || exempt(req, body, res.Header) {
		return res, err
	}
	answer, err := io.ReadAll(res.Body)
	_ = res.Body.Close()
	res.Body = io.NopCloser(bytes.NewReader(answer))
	seen := &recorded{res.StatusCode, res.Header, answer}
	if err == nil && w.prism.isNew(factsOf(req, body, seen)) {
		w.show(req, body, seen)
	}
	return res, err
}

func (w *witness) show(req *http.Request, body []byte, r *recorded) {
	id := strconv.FormatInt(w.prism.last.Add(1), 10)
	w.prism.seen.Store(id, r)
	defer w.prism.seen.Delete(id)
	shown, err := http.NewRequestWithContext(context.WithoutCancel(req.Context()), req.Method, w.prism.url+req.URL.RequestURI(),
		bytes.NewReader(body))
	if err != nil {
		w.t.Errorf("prism: %v", err)
		return
	}
	shown.Header = req.Header.Clone()
	shown.Header.Set(recordedHeader, id)
	res, err := http.DefaultClient.Do(shown)
	if err != nil {
		w.t.Errorf("prism: %s %s: %v", req.Method, req.URL.Path, err)
		return
	}
	defer res.Body.Close()
	said, _ := io.ReadAll(res.Body)
	w.prism.sent.Add(1)
	var found []struct {
		Location []any  `json:"location"`
		Message  string `json:"message"`
	}
	_ = json.Unmarshal([]byte(res.Header.Get("Sl-Violations")), &found)
	for _, v := range found {
		if len(v.Location) > 0 && v.Location[0] == "response" {
			w.t.Errorf("prism: %s %s answered %d, %v %s\n%s", req.Method, req.URL.Path, r.status, v.Location, v.Message, clip(r.body))
		}
	}
	if res.StatusCode != r.status {
		w.t.Errorf("prism: %s %s answered %d, the proxy says %d: %s", req.Method, req.URL.Path, r.status, res.StatusCode, clip(said))
	}
}

func clip(b []byte) []byte { return b[:min(len(b), 500)] }

// proxy is started once; stopProxy ends it.
var proxy = sync.OnceValues(func() (*prism, error) {
	p := &prism{}
	record := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		v, ok := p.seen.Load(r.Header.Get(recordedHeader))
		if !ok {
			http.Error(w, "not recorded", http.StatusTeapot)
			return
		}
		a := v.(*recorded)
		for name, values := range a.header {
			w.Header()[name] = values
		}
		w.WriteHeader(a.status)
		_, _ = w.Write(a.body)
	}))
	dir, err := os.MkdirTemp("", "prism")
	if err != nil {
		return nil, err
	}
	spec := filepath.Join(dir, "openapi.json")
	rec := httptest.NewRecorder()
	h := server.New(struct{ pawl.Service }{}, server.Options{Log: slog.New(slog.DiscardHandler)})
	h.ServeHTTP(rec, httptest.NewRequest("GET", "http://localhost/openapi.json", nil))
	if err := os.WriteFile(spec, rec.Body.Bytes(), 0o600); err != nil {
		return nil, err
	}
	port, err := freePort()
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(os.Getenv(prismProgram), "proxy", spec, record.URL, "--host", "127.0.0.1", "--port", port, "--verboseLevel", "fatal")
	cmd.Env = append(os.Environ(), "NODE_OPTIONS=--max-http-header-size=262144") // as much as Pawl's limit
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	stopProxy = func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		record.Close()
		_ = os.RemoveAll(dir)
		fmt.Printf("prism saw %d of %d requests and their answers\n", p.sent.Load(), p.all.Load())
	}
	p.url = "http://127.0.0.1:" + port
	for range 1200 {
		if conn, err := net.Dial("tcp", "127.0.0.1:"+port); err == nil {
			_ = conn.Close()
			return p, nil
		}
		time.Sleep(100 * time.Millisecond)
	}
	stopProxy()
	return nil, fmt.Errorf("prism does not listen on port %s", port)
})

var stopProxy = func() {}

func freePort() (string, error) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	defer ln.Close()
	_, port, err := net.SplitHostPort(ln.Addr().String())
	return port, err
}
