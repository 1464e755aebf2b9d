package server_test

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/access"
	"github.com/pawl-work/pawl/engine"
	"github.com/pawl-work/pawl/pawltest"
	"github.com/pawl-work/pawl/server"
)

// The suite of the protocol itself runs in sdk/streams. These tests are of what is Pawl's.

func plainText(headers ...string) []string {
	return append([]string{"Content-Type", "text/plain"}, headers...)
}

func producer(epoch, seq int) []string {
	return plainText("Producer-Id", "p", "Producer-Epoch", fmt.Sprint(epoch), "Producer-Seq", fmt.Sprint(seq))
}

func (r reply) next() string { return r.Header.Get("Stream-Next-Offset") }

// Two servers write one stream: each knows what the other accepted.
func TestServersWriteOneStream(t *testing.T) {
	eachBlobServer(t, func(t *testing.T, h *testServer) {
		other := &testServer{t, h.p, serve(t, h.p.Service, server.Options{})}
		h.do(201, "PUT", "/v1/streams/a/b", "", plainText()...)
		h.do(200, "POST", "/v1/streams/a/b", "1", producer(0, 0)...)
		other.do(200, "POST", "/v1/streams/a/b", "2", producer(0, 1)...)
		h.do(204, "POST", "/v1/streams/a/b", "2", producer(0, 1)...) // it was accepted by the other
		h.do(200, "POST", "/v1/streams/a/b", "3", producer(0, 2)...)
		other.do(200, "POST", "/v1/streams/a/b", "4", producer(0, 3)...) // a gap by what it knew itself
		other.do(409, "POST", "/v1/streams/a/b", "6", producer(0, 5)...)
		other.do(200, "POST", "/v1/streams/a/b", "5", producer(1, 0)...)
		h.do(403, "POST", "/v1/streams/a/b", "x", producer(0, 4)...)
		h.do(204, "POST", "/v1/streams/a/b", "6", plainText("Stream-Closed", "true")...)
		if r := other.do(200, "GET", "/v1/streams/a/b", ""); r.text != "123456" || r.Header.Get("Stream-Closed") != "true" {
			t.Errorf("read %q, closed %q", r.text, r.Header.Get("Stream-Closed"))
		}
		other.do(409, "POST", "/v1/streams/a/b", "7", plainText()...)
	})
}

// Equal appends are appends: none is taken for the repetition of another.
func TestEqualAppendsAreAllStored(t *testing.T) {
	eachBlobServer(t, func(t *testing.T, h *testServer) {
		other := &testServer{t, h.p, serve(t, h.p.Service, server.Options{})}
		h.do(201, "PUT", "/v1/streams/same", "", plainText()...)
		var all sync.WaitGroup
		for i := range 20 {
			all.Go(func() { []*testServer{h, other}[i%2].do(204, "POST", "/v1/streams/same", "x", plainText()...) })
		}
		all.Wait()
		if r := h.do(200, "GET", "/v1/streams/same", ""); r.text != strings.Repeat("x", 20) {
			t.Errorf("of 20 appends %d are there", len(r.text))
		}
	})
}

// A closed stream keeps its content and its offsets when the chunks of its message are removed.
func TestAClosedStreamOutlivesItsChunks(t *testing.T) {
	eachBlobServer(t, func(t *testing.T, h *testServer) {
		h.do(201, "PUT", "/v1/streams/j", `[1,{"a":2}]`)
		next := h.do(204, "POST", "/v1/streams/j", `[3]`)
		h.do(204, "POST", "/v1/streams/j", `{"last":true}`, "Stream-Closed", "true")
		h.p.Advance(pawl.DefaultRetainChunks + time.Hour)
		h.do(200, "POST", "/v1/sweeps", "")
		if r := h.do(200, "GET", "/v1/streams/j", ""); r.text != `[1,{"a":2},3,{"last":true}]` || r.Header.Get("Stream-Closed") != "true" {
			t.Errorf("read %s", r.text)
		}
		if r := h.do(200, "GET", "/v1/streams/j?offset="+next.next(), ""); r.text != `[{"last":true}]` {
			t.Errorf("from an offset %s", r.text)
		}
	})
}

// A stream has no worker: it is not stalled, however long nothing is appended.
func TestAnIdleStreamIsNotStalled(t *testing.T) {
	eachBlobServer(t, func(t *testing.T, h *testServer) {
		h.do(201, "PUT", "/v1/streams/idle", "said", plainText()...)
		h.p.Advance(2 * time.Minute)
		if got := h.do(200, "GET", "/v1/messages?stalled=true", "").items(); len(got) != 0 {
			t.Errorf("stalled: %v", got)
		}
		if s, err := h.p.Service.Stats(t.Context()); err != nil || s.Streaming != 1 || s.Stalled != 0 {
			t.Errorf("%d streaming, %d stalled, %v", s.Streaming, s.Stalled, err)
		}
	})
}

// retired shows a message whose chunks are removed after a reader has got the first one.
type retired struct{ pawl.Service }

func (s retired) FollowMessage(ctx context.Context, id string, after int64, fn func(pawl.MessageFrame) error) error {
	return s.Service.FollowMessage(ctx, id, after, func(f pawl.MessageFrame) error {
		if len(f.Chunks) < 2 {
			return fn(f)
		}
		m, err := s.GetMessage(ctx, id)
		if err == nil {
			f.Chunks = f.Chunks[:1]
			err = fn(f)
		}
		if err == nil {
			err = fn(pawl.MessageFrame{Epoch: f.Epoch, Offset: m.Offset, Snapshot: &m})
		}
		return err
	})
}

// Content is read once, also if the chunks are removed during the read.
func TestAStreamIsReadOnceWhileItsChunksAreRemoved(t *testing.T) {
	eachBlobServer(t, func(t *testing.T, h *testServer) {
		h.do(201, "PUT", "/v1/streams/j", `[1,2,3]`, "Stream-Closed", "true")
		other := &testServer{t, h.p, serve(t, retired{h.p.Service}, server.Options{})}
		if r := other.do(200, "GET", "/v1/streams/j", ""); r.text != "[1,2,3]" {
			t.Errorf("read %s", r.text)
		}
		r := other.do(200, "GET", "/v1/streams/j?offset=-1&live=sse", "")
		if strings.Count(r.text, "event: data") != 2 || !strings.Contains(r.text, "[2,3]") {
			t.Errorf("as events %s", r.text)
		}
	})
}

// A deleted stream is gone with its task. One with forks keeps its name until the last of them goes.
func TestADeletedStreamGoesWithItsForks(t *testing.T) {
	eachBlobServer(t, func(t *testing.T, h *testServer) {
		h.do(201, "PUT", "/v1/streams/source", "abc", plainText()...)
		h.do(201, "PUT", "/v1/streams/fork", "", plainText("Stream-Forked-From", "/v1/streams/source")...)
		h.do(204, "DELETE", "/v1/streams/source", "")
		h.do(410, "GET", "/v1/streams/source", "")
		h.do(409, "PUT", "/v1/streams/source", "", plainText()...)
		if r := h.do(200, "GET", "/v1/streams/fork", ""); r.text != "abc" {
			t.Errorf("the fork has %q", r.text)
		}
		h.do(204, "DELETE", "/v1/streams/fork", "")
		h.do(404, "GET", "/v1/streams/source", "")
		if left := h.do(200, "GET", "/v1/tasks?type=stream", "").items(); len(left) != 0 {
			t.Errorf("%d tasks are left", len(left))
		}
	})
}

// A deleted source goes too if its last fork goes in another way, as its task.
func TestADeletedStreamGoesWithTheTasksOfItsForks(t *testing.T) {
	eachBlobServer(t, func(t *testing.T, h *testServer) {
		h.do(201, "PUT", "/v1/streams/source", "abc", plainText()...)
		h.do(201, "PUT", "/v1/streams/fork", "", plainText("Stream-Forked-From", "/v1/streams/source")...)
		h.do(204, "DELETE", "/v1/streams/source", "")
		for _, task := range h.do(200, "GET", "/v1/tasks?type=stream", "").items() {
			if task["title"] == "fork" {
				h.do(204, "DELETE", "/v1/tasks/"+task["id"].(string)+"?force=true", "")
			}
		}
		h.do(404, "GET", "/v1/streams/source", "")
		h.do(201, "PUT", "/v1/streams/source", "new", plainText()...)
	})
}

// A server whose clock is wrong keeps streams for their time by the database's clock.
func TestTheTimeOfStreamsIsTheDatabases(t *testing.T) {
	eachBlobServer(t, func(t *testing.T, h *testServer) {
		h.do(201, "PUT", "/v1/streams/s", "a", plainText("Stream-TTL", "600")...)
		h.do(201, "PUT", "/v1/streams/idle", "a", plainText("Stream-TTL", "600")...)
		for range 3 { // each access is noted, so that its time begins anew
			h.p.Advance(5 * time.Minute)
			fresh := &testServer{t, h.p, serve(t, h.p.Service, server.Options{})} // it has not read the clock yet
			if r := fresh.do(200, "GET", "/v1/streams/s", ""); r.text != "a" {
				t.Errorf("read %q", r.text)
			}
		}
		fresh := &testServer{t, h.p, serve(t, h.p.Service, server.Options{})}
		fresh.do(404, "GET", "/v1/streams/idle", "")
	})
}

// neverRead reads no message until it is told to stop.
type neverRead struct {
	pawl.Service
	begun chan struct{}
}

func (s neverRead) FollowMessage(ctx context.Context, _ string, _ int64, _ func(pawl.MessageFrame) error) error {
	s.begun <- struct{}{}
	<-ctx.Done()
	return ctx.Err()
}

// A server that stops reads streams as before while it takes calls, and says of waits that it stops.
func TestStreamsAreThereWhileTheServerStops(t *testing.T) {
	eachBlobServer(t, func(t *testing.T, h *testServer) {
		stopping, stop := context.WithCancel(t.Context())
		late := &testServer{t, h.p, serve(t, h.p.Service, server.Options{Stopping: stopping})}
		slow := neverRead{h.p.Service, make(chan struct{}, 1)}
		silent := &testServer{t, h.p, serve(t, slow, server.Options{Stopping: stopping})}
		h.do(201, "PUT", "/v1/streams/s", "said", plainText()...)
		var waits sync.WaitGroup
		waits.Go(func() { silent.do(503, "GET", "/v1/streams/s?offset=-1&live=long-poll", "") })
		<-slow.begun
		stop()
		waits.Wait()
		for range 40 {
			if r := late.do(200, "GET", "/v1/streams/s", ""); r.text != "said" {
				t.Errorf("read %q up to %s", r.text, r.next())
			}
		}
		end := h.do(200, "HEAD", "/v1/streams/s", "").next()
		for _, offset := range []string{"-1", "now"} {
			r := late.ask("", "GET", "/v1/streams/s?live=long-poll&offset="+offset, "")
			read := r.StatusCode == 204 && (r.next() == end || r.Header.Get("Stream-Up-To-Date") == "") // begun, and ended by the stop
			if !read && r.StatusCode != 503 && (r.text != "said" || r.next() != end) {
				t.Errorf("a wait from %s: %d up to %s", offset, r.StatusCode, r.next())
			}
		}
	})
}

// heldAppends holds the first append until it is told to go on.
type heldAppends struct {
	pawl.Service
	held, release chan struct{}
	once          sync.Once
}

func (s *heldAppends) Append(ctx context.Context, calls []pawl.AppendCall) ([]pawl.Result[pawl.Appended], error) {
	s.once.Do(func() { close(s.held); <-s.release })
	return s.Service.Append(ctx, calls)
}

// What a stream is made with is written as its maker sent it: no other client comes in between.
func TestAStreamBeginsWithWhatItWasMadeWith(t *testing.T) {
	eachBlobServer(t, func(t *testing.T, h *testServer) {
		svc := &heldAppends{Service: h.p.Service, held: make(chan struct{}), release: make(chan struct{})}
		maker := &testServer{t, h.p, serve(t, svc, server.Options{})}
		release := sync.OnceFunc(func() { close(svc.release) })
		t.Cleanup(release) // before the server waits for its calls
		made := make(chan struct{})
		go func() {
			defer close(made)
			maker.do(201, "PUT", "/v1/streams/s", "first", plainText()...)
		}()
		<-svc.held
		for _, content := range []string{"", "other"} {
			h.do(503, "PUT", "/v1/streams/s", content, plainText()...)
		}
		h.do(404, "POST", "/v1/streams/s", "second", plainText()...)
		release()
		<-made
		h.do(200, "PUT", "/v1/streams/s", "", plainText()...)
		h.do(204, "POST", "/v1/streams/s", ", second", plainText()...)
		if r := h.do(200, "GET", "/v1/streams/s", ""); r.text != "first, second" {
			t.Errorf("read %q", r.text)
		}
	})
}

// noAppend is a client that dies before what it makes a stream with is stored.
type noAppend struct{ pawl.Service }

func (noAppend) Append(context.Context, []pawl.AppendCall) ([]pawl.Result[pawl.Appended], error) {
	return nil, &pawl.Error{Code: pawl.CodeUnavailable}
}

// A stream that is being made stays its maker's, however long that takes, until DELETE.
func TestAStreamThatIsNotMade(t *testing.T) {
	eachBlobServer(t, func(t *testing.T, h *testServer) {
		maker := &testServer{t, h.p, serve(t, noAppend{h.p.Service}, server.Options{})}
		maker.do(503, "PUT", "/v1/streams/s", "first", plainText()...)
		h.do(503, "PUT", "/v1/streams/s", "other", plainText()...)
		h.do(409, "PUT", "/v1/streams/s", "other", plainText("Stream-TTL", "600")...)
		h.p.Advance(2 * pawl.MessageStalls)
		h.do(503, "PUT", "/v1/streams/s", "other", plainText()...)
		h.do(409, "PUT", "/v1/streams/s", "other", plainText("Stream-TTL", "600")...)
		h.do(200, "PUT", "/v1/streams/s", "first", plainText()...)
		if r := h.do(200, "GET", "/v1/streams/s", ""); r.text != "first" {
			t.Errorf("read %q", r.text)
		}
		maker.do(503, "PUT", "/v1/streams/t", "first", plainText()...)
		h.do(204, "DELETE", "/v1/streams/t", "")
		h.do(201, "PUT", "/v1/streams/t", "other", plainText()...)
	})
}

// A stream that was restored beside a newer one of its name goes with it.
func TestADeletedStreamBringsNoOlderOneBack(t *testing.T) {
	eachBlobServer(t, func(t *testing.T, h *testServer) {
		h.do(201, "PUT", "/v1/streams/s", "older", plainText()...)
		if err := h.p.Exec("UPDATE pawl.tasks SET input_hash = 'x' || input_hash, dedupes = 0"); err != nil { // as if it were archived
			t.Fatal(err)
		}
		h.do(201, "PUT", "/v1/streams/s", "newer", plainText()...)
		if err := h.p.Exec("UPDATE pawl.tasks SET input_hash = substr(input_hash, 2) WHERE dedupes = 0"); err != nil {
			t.Fatal(err)
		}
		h.do(204, "DELETE", "/v1/streams/s", "")
		h.do(404, "GET", "/v1/streams/s", "")
	})
}

// A stream is a task: who cancels the task closes the stream.
func TestACancelledStreamIsClosed(t *testing.T) {
	eachBlobServer(t, func(t *testing.T, h *testServer) {
		h.do(201, "PUT", "/v1/streams/c", "said", plainText()...)
		task := h.do(200, "GET", "/v1/tasks?type=stream", "").items()[0]["id"].(string)
		if got := h.do(200, "POST", "/v1/claims", `{"worker_id":"w"}`).items(); len(got) != 0 {
			t.Errorf("a worker gets the item of a stream: %v", got)
		}
		h.do(200, "POST", "/v1/tasks/"+task+":cancel", "")
		h.p.Advance(10*time.Minute + time.Second)
		h.do(200, "POST", "/v1/sweeps", "")
		if r := h.do(200, "GET", "/v1/streams/c", ""); r.text != "said" || r.Header.Get("Stream-Closed") != "true" {
			t.Errorf("read %q, closed %q", r.text, r.Header.Get("Stream-Closed"))
		}
		h.do(409, "POST", "/v1/streams/c", "more", plainText()...)
		h.do(200, "PUT", "/v1/streams/c", "anew", plainText()...) // the name is taken until the stream is deleted
		h.do(204, "DELETE", "/v1/streams/c", "")
		h.do(201, "PUT", "/v1/streams/c", "anew", plainText()...)
		if r := h.do(200, "GET", "/v1/streams/c", ""); r.text != "anew" {
			t.Errorf("read %q", r.text)
		}
	})
}

// A stream whose task was cancelled expires and is deleted as others are, also one with forks.
func TestACancelledStreamIsRemoved(t *testing.T) {
	eachBlobServer(t, func(t *testing.T, h *testServer) {
		for _, name := range []string{"read", "made", "appended", "deleted"} {
			h.do(201, "PUT", "/v1/streams/"+name, "a", plainText("Stream-TTL", "600")...)
		}
		h.do(201, "PUT", "/v1/streams/source", "abc", plainText()...)
		h.do(201, "PUT", "/v1/streams/fork", "", plainText("Stream-Forked-From", "/v1/streams/source")...)
		for _, task := range h.do(200, "GET", "/v1/tasks?type=stream", "").items() {
			if task["title"] != "fork" {
				h.do(200, "POST", "/v1/tasks/"+task["id"].(string)+":cancel", "")
			}
		}
		h.p.Advance(5 * time.Minute)
		h.do(200, "GET", "/v1/streams/read", "")
		h.do(204, "POST", "/v1/streams/appended", "b", plainText()...) // the grace of its message is not over
		h.p.Advance(15 * time.Minute)
		h = &testServer{t, h.p, serve(t, h.p.Service, server.Options{})} // it has not read the clock yet
		h.do(404, "GET", "/v1/streams/read", "")
		h.do(201, "PUT", "/v1/streams/made", "anew", plainText()...)
		h.do(404, "POST", "/v1/streams/appended", "b", plainText()...)
		h.do(404, "DELETE", "/v1/streams/deleted", "")
		h.do(204, "DELETE", "/v1/streams/source", "")
		h.do(404, "GET", "/v1/streams/source", "")
		h.do(201, "PUT", "/v1/streams/source", "anew", plainText()...)
		if r := h.do(200, "GET", "/v1/streams/fork", ""); r.text != "abc" {
			t.Errorf("the fork has %q", r.text)
		}
		h.do(204, "DELETE", "/v1/streams/fork", "")
		h.do(200, "GET", "/v1/streams/source", "")
	})
}

// A message that a worker writes is read as a stream: what was abandoned is said in its place.
func TestAWorkersMessageIsAStream(t *testing.T) {
	eachBlobServer(t, func(t *testing.T, h *testServer) {
		h.do(201, "POST", "/v1/tasks", `{"type":"chat","reply":{}}`)
		claim := func(worker string) map[string]any {
			return h.do(200, "POST", "/v1/claims", `{"worker_id":"`+worker+`"}`).items()[0]
		}
		item := claim("w")
		id := item["open_message"].(map[string]any)["id"].(string)
		h.do(200, "POST", "/v1/messages/"+id+":append", `{"worker_id":"w","attempt":1,"offset":0,"chunks":[{"type":"text","text":"a"}]}`)
		half := h.do(200, "GET", "/v1/streams/"+id, "")
		h.do(200, "POST", "/v1/items/"+item["id"].(string)+":release", `{"worker_id":"w","attempt":1}`)
		claim("v")
		h.do(200, "POST", "/v1/messages/"+id+":append", `{"worker_id":"v","attempt":2,"offset":1,"chunks":[{"type":"text","text":"b"}]}`)
		want := `[{"attempt":1,"from":0,"to":1,"type":"abandoned"},{"type":"text","text":"b"}]`
		if r := h.do(200, "GET", "/v1/streams/"+id+"?offset="+half.next(), ""); r.text != want {
			t.Errorf("read %s", r.text)
		}
		h.do(405, "POST", "/v1/streams/"+id, "[1]")
		h.do(405, "DELETE", "/v1/streams/"+id, "")
		h.do(404, "GET", "/v1/streams/msg_none", "")
	})
}

// Streams need the roles that messages need, and stay in their namespace.
func TestStreamsNeedTheirRoles(t *testing.T) {
	h := gated(t, pawltest.Open(t, pawltest.SQLite), access.Options{})
	_, maker := h.key(pawl.NewAPIKey{Roles: []string{"submitter"}})
	_, writer := h.key(pawl.NewAPIKey{Roles: []string{"claimer"}})
	_, reader := h.key(pawl.NewAPIKey{Roles: []string{"reader"}, Payloads: true})
	_, other := h.key(pawl.NewAPIKey{Roles: pawl.KeyRoles, Namespace: "elsewhere"})
	for _, c := range []struct {
		key, method, body string
		status            int
	}{
		{writer, "PUT", "", 403}, {maker, "PUT", "", 201},
		{maker, "POST", "x", 403}, {reader, "POST", "x", 403}, {writer, "POST", "x", 204},
		{writer, "GET", "", 403}, {reader, "GET", "", 200},
		{other, "GET", "", 404}, {other, "POST", "x", 404}, {other, "DELETE", "", 404},
		{maker, "DELETE", "", 403}, {writer, "DELETE", "", 403},
		{other, "PUT", "", 201}, {other, "DELETE", "", 204}, {reader, "GET", "", 200},
	} {
		if r := h.ask(c.key, c.method, "/v1/streams/mine", c.body, "Content-Type", "text/plain"); r.StatusCode != c.status {
			t.Errorf("%s: %s, want %d: %s", c.method, r.Status, c.status, r.text)
		}
	}
}

// In a copy of a database streams are read, and not written.
func TestStreamsOfACopyKeepStill(t *testing.T) {
	log := slog.New(slog.NewTextHandler(io.Discard, nil))
	path := filepath.Join(t.TempDir(), "one.db")
	open := func(path string) (*engine.Engine, *testServer) {
		e, err := engine.OpenWith(t.Context(), "sqlite:"+path, engine.Options{Identity: "check", Log: log})
		if err != nil {
			t.Fatal(err)
		}
		srv := httptest.NewServer(server.New(e, server.Options{Log: log}))
		t.Cleanup(srv.Close)
		return e, &testServer{T: t, srv: srv}
	}
	e, h := open(path)
	h.do(201, "PUT", "/v1/streams/s", "before", plainText("Stream-TTL", "1")...)
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
	file, err := os.ReadFile(path)
	if err == nil {
		err = os.WriteFile(path+".copy", file, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	e, h = open(path + ".copy")
	defer e.Close()
	if r := h.do(http.StatusOK, "GET", "/v1/streams/s", ""); r.text != "before" {
		t.Errorf("read %q", r.text)
	}
	if r := h.do(503, "POST", "/v1/streams/s", "x", plainText()...); r.str("code") != "quarantined" {
		t.Errorf("an append: %s", r.text)
	}
}

// streamsAnswer makes, appends to, reads and deletes a stream.
func (h *testServer) streamsAnswer(call caller) {
	h.Helper()
	call("create_stream", "s", `[1]`)
	call("append_stream", "s", `2`)
	if r := call("read_stream", "s", ""); r.text != "[1,2]" {
		h.Errorf("read_stream: %s", r.text)
	}
	call("delete_stream", "s", "")
}
