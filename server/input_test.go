package server_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/api"
	"github.com/pawl-work/pawl/internal/clock"
	"github.com/pawl-work/pawl/server"
)

// Bad input is refused before it reaches any service, with the place of the fault.
func TestBadInput(t *testing.T) {
	srv := serve(t, unreachable{}, server.Options{})
	for _, c := range []struct {
		name, method, path, body string
		headers                  []string
		status                   int
		code                     string
		pointers                 []string
	}{
		{"no body", "POST", "/v1/tasks", ``, nil, 400, "invalid", nil},
		{"white space", "POST", "/v1/tasks", "  ", nil, 400, "invalid", []string{""}},
		{"broken JSON", "POST", "/v1/tasks", `{"type":}`, nil, 400, "invalid", []string{"/type"}},
		{"a cut body", "POST", "/v1/tasks", `{"type":"a"`, nil, 400, "invalid", []string{""}},
		{"more than one value", "POST", "/v1/tasks", `{"type":"a"}{}`, nil, 400, "invalid", []string{""}},
		{"not an object", "POST", "/v1/tasks", `["a"]`, nil, 400, "invalid", []string{""}},
		{"null", "POST", "/v1/tasks", `null`, nil, 400, "invalid", []string{""}},
		{"a name twice", "POST", "/v1/tasks", `{"type":"a","type":"b"}`, nil, 400, "invalid", []string{"/type"}},
		{"a name twice, within", "POST", "/v1/tasks", `{"type":"a","items":[{"input":1},{"key":"x","key":"y"}]}`, nil, 400, "invalid",
			[]string{"/items/1/key"}},
		{"an unknown name", "POST", "/v1/tasks", `{"type":"a","a/b~c.d":1}`, nil, 400, "invalid", []string{"/a~1b~0c.d"}},
		{"an unknown name, within", "POST", "/v1/tasks", `{"type":"a","items":[{"input":1},{"input":1,"x":2}]}`, nil, 400, "invalid",
			[]string{"/items/1/x"}},
		{"another case", "POST", "/v1/tasks", `{"type":"a","TITLE":"b"}`, nil, 400, "invalid", []string{"/TITLE"}},
		{"a subject that the path names", "POST", "/v1/tasks/tsk_1:cancel", `{"task_id":""}`, nil, 400, "invalid", []string{"/task_id"}},
		{"what only a batch has", "POST", "/v1/tasks/tsk_1:bury", `{"force":false}`, nil, 400, "invalid", []string{"/force"}},
		{"a version beside If-Match", "PATCH", "/v1/tasks/tsk_1", `{"version":null}`, nil, 400, "invalid", []string{"/version"}},
		{"a patch of nothing", "PATCH", "/v1/tasks/tsk_1", ``, nil, 400, "invalid", nil},
		{"a missing name", "POST", "/v1/items/itm_1:complete", `{"result":1}`, nil, 400, "invalid", []string{"/attempt", "/worker_id"}},
		{"a missing name, within", "POST", "/v1/tasks", `{"type":"a","messages":[{"role":"user","content":"x"},{"content":"x"}]}`, nil, 400,
			"invalid", []string{"/messages/1/role"}},
		{"another kind", "POST", "/v1/tasks", `{"type":1,"items":{}}`, nil, 400, "invalid", []string{"/items", "/type"}},
		{"a fraction", "POST", "/v1/tasks", `{"type":"a","priority":1.5}`, nil, 400, "invalid", []string{"/priority"}},
		{"a fraction that is whole", "POST", "/v1/tasks", `{"type":"a","priority":1.0}`, nil, 400, "invalid", []string{"/priority"}},
		{"a number out of range", "POST", "/v1/tasks", `{"type":"a","priority":99999999999999999999}`, nil, 400, "invalid",
			[]string{"/priority"}},
		{"a time that is none", "POST", "/v1/tasks", `{"type":"a","run_at":"tomorrow"}`, nil, 400, "invalid", []string{"/run_at"}},
		{"an error that is none", "POST", "/v1/items/itm_1:fail", `{"worker_id":"w","attempt":1,"error":{"mesage":"x"}}`, nil, 400,
			"invalid", []string{"/error"}},
		{"bytes that are not UTF-8", "POST", "/v1/tasks", "{\"type\":\"a\",\"payload\":{\"b\":[\"\xff\"]}}", nil, 400, "invalid",
			[]string{"/payload/b/0"}},
		{"NUL", "POST", "/v1/tasks", "{\"type\":\"a\x00\"}", nil, 400, "invalid", []string{"/type"}},
		{"a byte order mark", "POST", "/v1/tasks", "\ufeff{\"type\":\"a\"}", nil, 400, "invalid", []string{""}},
		{"too deep", "POST", "/v1/tasks", `{"type":"a","payload":` + strings.Repeat("[", 100_000) + strings.Repeat("]", 100_000) + `}`,
			nil, 400, "invalid", nil},
		{"too deep, of objects", "POST", "/v1/tasks", strings.Repeat(`{"a":`, 100_000) + "1" + strings.Repeat("}", 100_000), nil, 400,
			"invalid", nil},
		{"too deep, and cut", "POST", "/v1/tasks:batch", strings.Repeat(`{"items":[`, 100_000), nil, 400, "invalid", nil},
		{"ten megabytes", "POST", "/v1/tasks", `{"type":"a","payload":"` + strings.Repeat("a", 10<<20) + `"}`, nil, 413, "too_large", nil},
		{"another media type", "POST", "/v1/tasks", `{"type":"a"}`, []string{"Content-Type", "text/plain"}, 415, "media_type", nil},
		{"a form", "POST", "/v1/tasks", `{"type":"a"}`, []string{"Content-Type", "application/x-www-form-urlencoded"}, 415, "media_type", nil},
		{"another charset", "POST", "/v1/tasks", `{"type":"a"}`, []string{"Content-Type", "application/json; charset=latin1"}, 415,
			"media_type", nil},
		{"a media type that is none", "POST", "/v1/tasks", `{"type":"a"}`, []string{"Content-Type", ";;"}, 415, "media_type", nil},
		{"packed", "POST", "/v1/tasks", `{"type":"a"}`, []string{"Content-Encoding", "gzip"}, 415, "media_type", nil},
		{"too large", "POST", "/v1/tasks", `{"type":"` + strings.Repeat("a", pawl.MaxBodyBytes) + `"}`, nil, 413, "too_large", nil},
		{"a body on GET", "GET", "/v1/tasks", `{}`, nil, 400, "invalid", []string{""}},
		{"a body where none belongs", "POST", "/v1/sweeps", `{"dry":true}`, nil, 400, "invalid", []string{"/dry"}},
		{"a namespace that is not encoded", "GET", "/v1/tasks", ``, []string{"Pawl-Namespace", "%zz"}, 400, "invalid", nil},
		{"a namespace with NUL", "GET", "/v1/tasks", ``, []string{"Pawl-Namespace", "a%00"}, 400, "invalid", nil},
		{"a namespace that is too long", "GET", "/v1/tasks", ``, []string{"Pawl-Namespace", strings.Repeat("n", 256)}, 400, "invalid", nil},
		{"a filter that is none", "GET", "/v1/tasks?colour=red", ``, nil, 400, "invalid", []string{"/colour"}},
		{"a filter of another list", "GET", "/v1/events?state=queued", ``, nil, 400, "invalid", []string{"/state"}},
		{"a state that is none", "GET", "/v1/tasks?state=queued,open", ``, nil, 400, "invalid", []string{"/state/1"}},
		{"a status that is none", "GET", "/v1/items?status=done", ``, nil, 400, "invalid", []string{"/status/0"}},
		{"an order that is none", "GET", "/v1/events?order=up", ``, nil, 400, "invalid", []string{"/order"}},
		{"a limit that is none", "GET", "/v1/tasks?limit=ten", ``, nil, 400, "invalid", []string{"/limit"}},
		{"a limit twice", "GET", "/v1/tasks?limit=1&limit=2", ``, nil, 400, "invalid", []string{"/limit"}},
		{"a time that is none, in the query", "GET", "/v1/tasks?since=now", ``, nil, 400, "invalid", []string{"/since"}},
		{"two tasks", "GET", "/v1/items?task=a&task_id=b", ``, nil, 400, "invalid", []string{"/task_id"}},
		{"NUL in the query", "GET", "/v1/tasks?type=a%00", ``, nil, 400, "invalid", []string{"/type"}},
		{"not UTF-8 in the query", "GET", "/v1/tasks?type=%ff", ``, nil, 400, "invalid", []string{"/type"}},
		{"a query that is none", "GET", "/v1/tasks?type=%zz", ``, nil, 400, "invalid", nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := ask(t, srv, c.method, c.path, c.body, c.headers...)
			if r.StatusCode != c.status || r.str("code") != c.code || r.Header.Get("Content-Type") != api.ProblemType {
				t.Fatalf("%s %s\n%s", r.Status, r.Header.Get("Content-Type"), r.text)
			}
			if path, _, _ := strings.Cut(c.path, "?"); r.str("instance") != path || r.str("type") != "urn:pawl:error:"+c.code ||
				r.json["status"] != float64(c.status) {
				t.Errorf("problem: %s", r.text)
			}
			if r.str("detail") == "" {
				t.Errorf("no detail: %s", r.text)
			}
			if got := r.pointers(); c.pointers != nil && fmt.Sprint(got) != fmt.Sprint(c.pointers) {
				t.Errorf("pointers %q, want %q\n%s", got, c.pointers, r.text)
			}
			if strings.Contains(r.text, `"message":""`) {
				t.Errorf("no message: %s", r.text)
			}
			if c.name == "a filter that is none" && !strings.Contains(r.text, "min_priority") {
				t.Errorf("the filters there are go unnamed: %s", r.text)
			}
		})
	}
}

// Values that belong to the caller are accepted unchanged: any JSON.
func TestPayloadsAreOpaque(t *testing.T) {
	h := open(t)
	for _, payload := range []string{`{"a":1,"a":2}`, `{"type": {"type":1,"type":2}}`, `1e400`, `12345678901234567890`, `"<é😀>"`,
		`"\u003c"`, `[ ]`, `{"a":{"b": [1,  2.50]}}`} {
		r := h.do(201, "POST", "/v1/tasks", `{"type":"a","payload":`+payload+`}`)
		if got := h.do(200, "GET", "/v1/tasks/"+r.str("id"), ""); !strings.Contains(got.text, `"payload":`+payload+`,`) {
			t.Errorf("%s came back in %s", payload, got.text)
		}
	}
}

// Content-Type may be missing, and may name UTF-8.
func TestContentTypesThatAreJSON(t *testing.T) {
	h := open(t)
	for _, ct := range []string{"", "application/json; charset=UTF-8", "Application/JSON"} {
		if r := ask(t, h.srv, "POST", "/v1/tasks", `{"type":"a"}`, "Content-Type", ct); r.StatusCode != 201 {
			t.Errorf("%q: %s %s", ct, r.Status, r.text)
		}
	}
}

// A body that is cut off, or longer than announced, is the caller's fault.
func TestBodiesThatDoNotArrive(t *testing.T) {
	srv := serve(t, unreachable{}, server.Options{})
	for name, text := range map[string]string{
		"a broken chunk": "POST /v1/tasks HTTP/1.1\r\nHost: localhost\r\nContent-Type: " +
			"application/json\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
		"a long length": "POST /v1/tasks HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 99999999\r\n\r\n{",
	} {
		conn, err := net.Dial("tcp", srv.Listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		_, _ = conn.Write([]byte(text))
		_ = conn.SetReadDeadline(clock.Now().Add(time.Minute))
		status, err := bufio.NewReader(conn).ReadString('\n')
		_ = conn.Close()
		if err != nil || !strings.Contains(status, " 400 ") && !strings.Contains(status, " 413 ") {
			t.Errorf("%s: %q, %v", name, status, err)
		}
	}
}

// talk writes text to a server unchanged, and reads the answer until the server closes the
// connection.
func talk(t *testing.T, addr, text string) string {
	t.Helper()
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	_, _ = conn.Write([]byte(text)) // the server may have closed the connection before the end
	_ = conn.SetReadDeadline(clock.Now().Add(time.Minute))
	said, err := io.ReadAll(conn)
	if err != nil && len(said) == 0 && errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("no answer and no end: %v", err)
	}
	return string(said)
}

// A caller that sends slowly, or stops half-way, holds a connection for a limited time; others
// are served meanwhile.
func TestSlowAndHalfOpenConnections(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	log := slog.New(slog.DiscardHandler)
	h := server.New(unreachable{}, server.Options{Log: log, BodyTime: 200 * time.Millisecond})
	ended := make(chan error, 2)
	serve := func(headerTime time.Duration) string {
		at := make(chan net.Addr, 1)
		go func() {
			ended <- server.Serve(ctx, "127.0.0.1:0", h,
				server.ServeOptions{Log: log, HeaderTime: headerTime, Listening: func(a net.Addr) { at <- a }})
		}()
		return (<-at).String()
	}
	hasty, patient := serve(200*time.Millisecond), serve(0) // a busy machine may not read a whole head in 200 ms
	for name, c := range map[string]struct{ text, want string }{
		"nothing at all":      {"", ""},
		"half a request line": {"GET /v1/ta", ""},
		"half a head":         {"GET /v1/tasks HTTP/1.1\r\nHost: localhost\r\nX-", ""},
		"half a body":         {"POST /v1/tasks HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\n{\"type\":", "HTTP/1.1 400 "},
		"half a chunk":        {"POST /v1/tasks HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n40\r\n{", "HTTP/1.1 400 "},
		"no HTTP":             {"\x16\x03\x01\x02\x00\x01\x00", "HTTP/1.1 400 "},
		"no host":             {"GET /v1/tasks HTTP/1.1\r\n\r\n", "HTTP/1.1 400 "},
		"two lengths": {"POST /v1/tasks HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\n{}",
			"HTTP/1.1 400 "},
		"a flood of headers": {"GET /v1/tasks HTTP/1.1\r\nHost: localhost\r\n" +
			strings.Repeat("X-Flood: "+strings.Repeat("x", 1000)+"\r\n", 400) + "\r\n", "HTTP/1.1 431 "},
		"a header without end": {"GET /v1/tasks HTTP/1.1\r\nHost: localhost\r\nX-Flood: " + strings.Repeat("x", 400<<10), "HTTP/1.1 431 "},
		"a path without end":   {"GET /" + strings.Repeat("x", 400<<10), "HTTP/1.1 431 "},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			at := patient
			if c.want == "" {
				at = hasty
			}
			if said := talk(t, at, c.text); !strings.HasPrefix(said, c.want) {
				t.Errorf("said %.200q, want %q", said, c.want)
			}
		})
	}
	t.Run("the others", func(t *testing.T) {
		if status, _ := get(t, "http://"+patient+"/healthz"); status != 200 {
			t.Errorf("healthz: %d", status)
		}
	})
	t.Cleanup(func() {
		cancel()
		if err := errors.Join(<-ended, <-ended); err != nil {
			t.Errorf("the end: %v", err)
		}
	})
}

// Paths with .., an encoded slash or a double slash lead nowhere, and never to a task other
// than the one they name.
func TestPathTricks(t *testing.T) {
	h := open(t)
	made := h.do(201, "POST", "/v1/tasks", `{"type":"a"}`).str("id")
	for _, path := range []string{
		"/v1/../v1/tasks", "/v1/./tasks", "//v1/tasks", "/v1//tasks", "/v1/tasks/" + made + "/../" +
			made, "/v1/tasks/%2e%2e/tasks", "/v1/tasks/" + made + "%2fitems", "/v1/tasks/" + made + "/",
		"/v1/tasks/..%2f..%2fhealthz", "/V1/tasks", "/v1/tasks/" + made + ";v=1", "/v1/tasks/" + made + "%00", "/v1/tasks/" + made +
			"%0d%0aX: y", "/v1/tasks/%5c..%5c", "/tasks/../v1/tasks",
	} {
		conn, err := net.Dial("tcp", h.srv.Listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		_, _ = fmt.Fprintf(conn, "GET %s HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n", path)
		said, _ := io.ReadAll(conn)
		_ = conn.Close()
		if !strings.HasPrefix(string(said), "HTTP/1.1 404 ") && !strings.HasPrefix(string(said), "HTTP/1.1 400 ") {
			t.Errorf("GET %s: %.200q", path, said)
		}
	}
	h.do(200, "GET", "/v1/tasks/"+made, "")
}

// A caller that disconnects in the middle of a call leaves the call done or undone as a whole,
// and the server running.
func TestCallersWhoHangUp(t *testing.T) {
	h := open(t)
	before := runtime.NumGoroutine()
	var wg sync.WaitGroup
	answered := make(chan bool, 200)
	for n := range 200 {
		wg.Go(func() {
			ctx, cancel := context.WithTimeout(t.Context(), time.Duration(n%40)*250*time.Microsecond)
			defer cancel()
			req, _ := http.NewRequestWithContext(ctx, "POST", h.srv.URL+"/v1/tasks",
				strings.NewReader(`{"type":"a","items":[{"input":1},{"input":2},{"input":3}]}`))
			if res, err := http.DefaultClient.Do(req); err == nil {
				_, err = io.ReadAll(res.Body)
				_ = res.Body.Close()
				if err == nil && res.StatusCode == 201 {
					answered <- true
				}
			}
		})
	}
	wg.Wait()
	h.do(201, "POST", "/v1/tasks", `{"type":"last"}`)
	tasks := h.do(200, "GET", "/v1/tasks?type=a&limit=1000", "").items()
	if len(tasks) < len(answered) || len(tasks) > 200 {
		t.Errorf("%d tasks after %d answers to 200 calls", len(tasks), len(answered))
	}
	for _, task := range tasks {
		id := task["id"].(string)
		if n := len(h.do(200, "GET", "/v1/tasks/"+id+"/items", "").items()); n != 3 {
			t.Errorf("%s has %d items", id, n)
		}
	}
	http.DefaultClient.CloseIdleConnections()
	for try := 0; runtime.NumGoroutine() > before+20; try++ {
		if try == 1200 {
			t.Fatalf("%d goroutines, %d before", runtime.NumGoroutine(), before)
		}
		time.Sleep(50 * time.Millisecond)
	}
}

// Many clients write their whole request before they read. They must get the answer, not a
// closed connection.
func TestTooLargeIsAnsweredToWhoWritesFirst(t *testing.T) {
	h := open(t)
	for _, head := range []string{fmt.Sprintf("Content-Length: %d", pawl.MaxBodyBytes+1), "Transfer-Encoding: chunked"} {
		conn, err := net.Dial("tcp", h.srv.Listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		body := strings.Repeat(" ", pawl.MaxBodyBytes+1)
		if strings.HasPrefix(head, "Transfer") {
			body = fmt.Sprintf("%x\r\n%s\r\n0\r\n\r\n", len(body), body)
		}
		if _, err := io.WriteString(conn,
			"POST /v1/tasks HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"+head+"\r\n\r\n"+body); err != nil {
			t.Fatalf("%s: the request was cut off: %v", head, err)
		}
		res, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil || res.StatusCode != http.StatusRequestEntityTooLarge {
			t.Errorf("%s: %v, %v", head, res, err)
		}
	}
}
