package server_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/access"
	"github.com/pawl-work/pawl/api"
	"github.com/pawl-work/pawl/engine"
	"github.com/pawl-work/pawl/pawltest"
	"github.com/pawl-work/pawl/server"
)

// eventStream is a stream of events as a browser reads it.
type eventStream struct {
	t    *testing.T
	body io.ReadCloser
	in   *bufio.Reader
	last string // the last id, for the next stream
}

// tune requests the stream of events from a server.
func openFeed(t *testing.T, srv *httptest.Server, query string, headers ...string) *eventStream {
	t.Helper()
	return listen(t, srv, "/v1/events"+query, headers...)
}

// listen requests any stream.
func listen(t *testing.T, srv *httptest.Server, path string, headers ...string) *eventStream {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), "GET", srv.URL+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Accept", "text/event-stream")
	for i := 0; i+1 < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	res, err := srv.Client().Do(req)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { res.Body.Close() })
	if res.StatusCode != 200 || res.Header.Get("Content-Type") != "text/event-stream" {
		data, _ := io.ReadAll(res.Body)
		t.Fatalf("%d %s: %s", res.StatusCode, res.Header.Get("Content-Type"), data)
	}
	return &eventStream{t: t, body: res.Body, in: bufio.NewReader(res.Body)}
}

// next returns the next event; false at the stream's end.
func (p *eventStream) next() (e pawl.Event, ok bool) {
	p.t.Helper()
	for {
		line, err := p.in.ReadString('\n')
		if err != nil {
			return e, false
		}
		line = strings.TrimSuffix(line, "\n")
		if id, found := strings.CutPrefix(line, "id: "); found {
			p.last = id
		}
		if data, found := strings.CutPrefix(line, "data: "); found {
			if err := json.Unmarshal([]byte(data), &e); err != nil {
				p.t.Errorf("%v: %s", err, data)
			}
			if !strings.HasSuffix(p.last, "-"+strconv.FormatInt(e.Position, 10)) {
				p.t.Errorf("id %s of the event at %d", p.last, e.Position)
			}
			return e, true
		}
	}
}

func create(t *testing.T, svc pawl.Submitter, n int) {
	t.Helper()
	rs, err := svc.CreateTasks(t.Context(), slices.Repeat([]pawl.NewTask{{Type: "t"}}, n))
	if err != nil || rs[0].Err != nil {
		t.Fatal(err, rs)
	}
}

func inFeed(t *testing.T, svc pawl.RecordReader) (out []string) {
	t.Helper()
	f := pawl.EventFilter{After: new(int64)}
	for {
		page, err := svc.ListEvents(t.Context(), f)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range page.Items {
			out = append(out, e.ID)
		}
		if f.Cursor = page.Next; f.Cursor == "" {
			return out
		}
	}
}

// A reader that is disconnected again and again, and connects to either server, gets every
// event once and in order.
func TestStreamGoesOnAtAnotherServer(t *testing.T) {
	pawltest.Each(t, func(t *testing.T, p *pawltest.Pawl) {
		other := p.Another(engine.Options{})
		servers := []*httptest.Server{serve(t, p.Service, server.Options{}), serve(t, other, server.Options{})}
		const tasks = 300
		go func() {
			for i := range tasks / 5 {
				create(t, []pawl.Service{p.Service, other}[i%2], 5)
			}
		}()
		var got []string
		last := ""
		for n := 0; len(got) < tasks; n++ {
			var headers []string
			if last != "" {
				headers = []string{"Last-Event-ID", last}
			}
			s := openFeed(t, servers[n%2], "", headers...)
			for range n%17 + 1 {
				if len(got) == tasks {
					break
				}
				e, ok := s.next()
				if !ok {
					t.Fatalf("the stream ended after %d events", len(got))
				}
				got = append(got, e.ID)
			}
			s.body.Close()
			last = s.last
		}
		if want := inFeed(t, p.Service); !slices.Equal(got, want) {
			t.Errorf("streamed %v\nin the feed %v", got, want)
		}
	})
}

func TestStreamFilters(t *testing.T) {
	h := open(t)
	create(t, h.p.Service, 1)
	other := pawl.As(t.Context(), pawl.Caller{Namespace: "other"})
	b, err := pawl.Create(other, h.p.Service, pawl.NewTask{Type: "b"})
	if err != nil {
		t.Fatal(err)
	}
	c, err := pawl.Create(t.Context(), h.p.Service, pawl.NewTask{Type: "c"})
	if err != nil {
		t.Fatal(err)
	}
	for query, want := range map[string]string{"?type=c": c.ID, "?task=" + c.ID: c.ID, "?event=proposed&type=c": c.ID, "?after=2": c.ID} {
		if e, ok := openFeed(t, h.srv, query).next(); !ok || e.TaskID != want {
			t.Errorf("%s: %+v", query, e)
		}
	}
	if e, ok := openFeed(t, h.srv, "", "Pawl-Namespace", "other").next(); !ok || e.TaskID != b.ID {
		t.Errorf("of another namespace: %+v", e)
	}
	// From the end: there are no past events, and the position comes at once.
	end := openFeed(t, h.srv, "?after=-1")
	create(t, h.p.Service, 1)
	if e, ok := end.next(); !ok || e.Position != 4 {
		t.Errorf("from the end: %+v", e)
	}
	quiet := openFeed(t, h.srv, "?after=-1")
	if line, err := quiet.in.ReadString('\n'); err != nil || line != "id: 0-4\n" {
		t.Errorf("a stream from the end begins with %q, %v", line, err)
	}
}

// Errors are answered as a problem before a stream begins.
func TestStreamIsRefused(t *testing.T) {
	h := open(t)
	for query, want := range map[string]int{"?task=tsk_nope": 404, "?after=x": 400, "?after=-2": 400, "?order=desc&after=1": 400,
		"?order=desc": 400, "?limit=5": 400, "?cursor=x": 400, "?what=1": 400} {
		if r := ask(t, h.srv, "GET", "/v1/events"+query, "", "Accept", "text/event-stream"); r.StatusCode != want || r.json["code"] == nil {
			t.Errorf("%s: %d %s", query, r.StatusCode, r.text)
		}
	}
	if r := ask(t, h.srv, "GET", "/v1/events", "", "Accept", "text/event-stream", "Last-Event-ID", "evt_1"); r.StatusCode != 400 {
		t.Errorf("an id that is no position: %d %s", r.StatusCode, r.text)
	}
	if r := ask(t, h.srv, "GET", "/v1/events", "", "Accept", "application/json, text/event-stream"); r.json["items"] == nil {
		t.Errorf("whoever takes a page first gets %s", r.text)
	}
}

func TestStreamEndsWhenTheServerStops(t *testing.T) {
	p := pawltest.Open(t, pawltest.SQLite)
	ctx, stop := context.WithCancel(t.Context())
	srv := serve(t, p.Service, server.Options{Stopping: ctx})
	s := openFeed(t, srv, "")
	create(t, p.Service, 1)
	if _, ok := s.next(); !ok {
		t.Fatal("no event came")
	}
	stop()
	if e, ok := s.next(); ok {
		t.Errorf("after the end: %+v", e)
	}
	r := ask(t, srv, "GET", "/v1/events", "", "Accept", "text/event-stream")
	if r.StatusCode != 503 {
		t.Errorf("a server that stops begins a stream: %d %s", r.StatusCode, r.text)
	}
}

// tight serves a service over connections with small buffers. cut waits until the server has
// closed one.
func tight(t *testing.T, svc pawl.Service) (srv *httptest.Server, cut func(net.Conn)) {
	t.Helper()
	gone := make(chan string, 1000)
	srv = httptest.NewUnstartedServer(held(t, server.New(svc, server.Options{Log: slog.New(slog.DiscardHandler)})))
	srv.Config.ConnContext = func(ctx context.Context, c net.Conn) context.Context {
		_ = c.(*net.TCPConn).SetWriteBuffer(64 << 10) // the system's own would take it all
		return ctx
	}
	srv.Config.ConnState = func(c net.Conn, s http.ConnState) {
		if s == http.StateClosed {
			gone <- c.RemoteAddr().String()
		}
	}
	srv.Start()
	t.Cleanup(srv.Close)
	return srv, func(c net.Conn) {
		t.Helper()
		for late := time.After(time.Minute); ; {
			select {
			case addr := <-gone:
				if addr == c.LocalAddr().String() {
					return
				}
			case <-late:
				t.Fatal("the slow reader is still connected")
			}
		}
	}
}

// A stream that was silent for longer than a reader may take still ends completely.
func TestSilentStreamEndsWhole(t *testing.T) {
	t.Cleanup(server.Impatient(0, 50*time.Millisecond))
	ctx, stop := context.WithCancel(t.Context())
	s := openFeed(t, serve(t, pawltest.Open(t, pawltest.SQLite).Service, server.Options{Stopping: ctx}), "?event=none&after=0")
	time.Sleep(200 * time.Millisecond)
	stop()
	if rest, err := io.ReadAll(s.in); err != nil {
		t.Errorf("%q, %v", rest, err)
	}
}

// A quiet stream sends keep-alive frames. A reader that receives nothing is disconnected, and
// does not delay the others.
func TestStreamBeatsAndCutsTheSlow(t *testing.T) {
	t.Cleanup(server.Impatient(300*time.Millisecond, 300*time.Millisecond)) // last: after the server and its streams have ended
	p := pawltest.Open(t, pawltest.SQLite)
	srv, cut := tight(t, p.Service)
	quiet := openFeed(t, srv, "?event=none")
	for range 3 {
		if line, err := quiet.in.ReadString('\n'); err != nil || line != ":\n" {
			t.Fatalf("%q, %v", line, err)
		}
		if line, err := quiet.in.ReadString('\n'); err != nil || line != "\n" {
			t.Fatalf("%q, %v", line, err)
		}
	}
	quiet.body.Close()
	slow, err := net.Dial("tcp", srv.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer slow.Close()
	_ = slow.(*net.TCPConn).SetReadBuffer(4096)
	fmt.Fprintf(slow, "GET /v1/events HTTP/1.1\r\nHost: %s\r\nAccept: text/event-stream\r\n\r\n", srv.Listener.Addr())
	if _, err := io.ReadFull(slow, make([]byte, 100)); err != nil {
		t.Fatal(err)
	}
	fast := openFeed(t, srv, "")
	const tasks = 10_000
	go func() {
		for range tasks / 1000 {
			create(t, p.Service, 1000)
		}
	}()
	for n, fruitless := 0, 0; n < tasks; {
		if _, ok := fast.next(); ok {
			n, fruitless = n+1, 0
		} else if fruitless++; fruitless > 20 {
			t.Fatalf("the other reader was cut off after %d events", n)
		} else { // a busy machine does this to any reader within 300 ms
			fast = openFeed(t, srv, "", "Last-Event-ID", fast.last)
		}
	}
	cut(slow)
}

// A reader of few events learns with a keep-alive frame how far the feed was read, and goes on there.
func TestAQuietReaderLearnsItsPosition(t *testing.T) {
	t.Cleanup(server.Impatient(20*time.Millisecond, 0))
	p := pawltest.Open(t, pawltest.SQLite)
	srv := serve(t, p.Service, server.Options{})
	quiet := openFeed(t, srv, "?event=cancelled")
	create(t, p.Service, 3)
	want := "id: 0-3\n"
	for range 2 {
		for line := ""; line != want; {
			var err error
			if line, err = quiet.in.ReadString('\n'); err != nil || line != ":\n" && line != "\n" && !strings.HasPrefix(line, "id: 0-") {
				t.Fatalf("%q, %v", line, err)
			}
		}
		want = ":\n" // it is told once
	}
	quiet.body.Close()
}

// A thousand readers at once all get all events.
func TestAThousandStreams(t *testing.T) {
	p := pawltest.Open(t, pawltest.SQLite)
	srv := serve(t, p.Service, server.Options{})
	srv.Client().Transport.(*http.Transport).MaxIdleConnsPerHost = 1
	const readers, tasks = 1000, 50
	var ready, done sync.WaitGroup
	ready.Add(readers)
	var wrong sync.Map
	for n := range readers {
		done.Go(func() {
			s := openFeed(t, srv, "?after=-1")
			ready.Done()
			for range tasks {
				if _, ok := s.next(); !ok {
					wrong.Store(n, true)
					return
				}
			}
			s.body.Close()
		})
	}
	ready.Wait()
	for range tasks {
		create(t, p.Service, 1)
	}
	done.Wait()
	wrong.Range(func(n, _ any) bool { t.Errorf("reader %d was cut off", n); return true })
}

// A stream continues for at most one beat after its key was revoked or has expired. Its last
// frame says so, whether anything else happens meanwhile or not. With another key it can be
// continued.
func TestAStreamEndsWithItsKey(t *testing.T) {
	t.Cleanup(server.Impatient(200*time.Millisecond, 0))
	pawltest.Each(t, func(t *testing.T, p *pawltest.Pawl) {
		h := gated(t, p, access.Options{})
		task, err := pawl.Create(t.Context(), p.Service, pawl.NewTask{Type: "a", Reply: &pawl.Reply{}})
		if err != nil {
			t.Fatal(err)
		}
		ls, err := p.Service.Claim(t.Context(), pawl.ClaimRequest{WorkerID: "w"})
		if err != nil || len(ls) != 1 || ls[0].OpenMessage == nil {
			t.Fatal(ls, err)
		}
		for _, path := range []string{"/v1/events?task=" + task.ID, "/v1/messages/" + ls[0].OpenMessage.ID + "/stream"} {
			for what, end := range map[string]func(pawl.APIKey){
				"revoked": func(k pawl.APIKey) {
					if _, err := p.Engine.RevokeAPIKey(t.Context(), k.ID); err != nil {
						t.Error(err)
					}
				},
				"expired": func(pawl.APIKey) { p.Advance(time.Hour) },
			} {
				key, token := h.key(pawl.NewAPIKey{Roles: []string{"reader"}, Payloads: true, Expires: time.Hour})
				_, other := h.key(pawl.NewAPIKey{Roles: []string{"reader"}, Payloads: true, Expires: 100 * time.Hour})
				s := listen(t, h.srv, path, "Authorization", token)
				goesOn := listen(t, h.srv, path, "Authorization", other)
				for range 3 {
					if text := s.frame(); strings.Contains(text, "refused") {
						t.Fatalf("%s: the key is good, and the stream says %s", path, text)
					}
				}
				end(key)
				text := s.frame()
				for range 100 { // some beats: the gate knows a key for a second
					if text == "" || strings.HasPrefix(text, "event: refused") {
						break
					}
					text = s.frame()
				}
				data, _ := strings.CutPrefix(text, "event: refused\ndata: ")
				var p api.Problem
				if err := json.Unmarshal([]byte(data), &p); err != nil || p.Status != 401 || !strings.Contains(p.Detail, what) {
					t.Errorf("%s, %s: the last frame is %q", path, what, text)
				}
				if text := s.frame(); text != "" {
					t.Errorf("%s, %s: after the last frame comes %q", path, what, text)
				}
				for range 20 {
					if text := goesOn.frame(); text == "" || strings.Contains(text, "refused") {
						t.Fatalf("%s: the stream of another key: %q", path, text)
					}
				}
			}
		}
	})
}

// Over HTTP/2 a deadline of writes ends a stream also while nothing is written: a silence may be longer
// than a reader may take for a frame.
func TestASilentStreamGoesOnOverHTTP2(t *testing.T) {
	t.Cleanup(server.Impatient(900*time.Millisecond, 300*time.Millisecond))
	p := pawltest.Open(t, pawltest.SQLite)
	srv := httptest.NewUnstartedServer(server.New(p.Service, server.Options{Log: slog.New(slog.DiscardHandler)}))
	srv.EnableHTTP2 = true
	srv.StartTLS()
	t.Cleanup(srv.Close)
	s := openFeed(t, srv, "?after=0")
	for i := range 3 {
		if text := s.frame(); text == "" {
			t.Fatalf("the stream ends after %d frames", i)
		}
	}
	p.Create(pawl.NewTask{Type: "a"})
	if e, ok := s.next(); !ok || e.Event != "proposed" {
		t.Errorf("the next event is %+v, %t", e, ok)
	}
}

// frame returns the next frame of any stream; "" at its end.
func (p *eventStream) frame() string {
	var b strings.Builder
	for {
		line, err := p.in.ReadString('\n')
		if err != nil {
			return ""
		}
		if line == "\n" {
			return strings.TrimSuffix(b.String(), "\n")
		}
		b.WriteString(line)
	}
}
