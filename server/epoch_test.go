package server_test

import (
	"bufio"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/client"
	"github.com/pawl-work/pawl/pawltest"
	"github.com/pawl-work/pawl/server"
)

// A cursor of an older epoch is refused by every interface of the feed, with the position to
// restart from.
func TestACursorOfAnOlderEpochIsRefused(t *testing.T) {
	p := pawltest.Open(t, pawltest.Postgres)
	srv := serve(t, p.Service, server.Options{})
	create(t, p.Service, 5)
	if got := inFeed(t, p.Service); len(got) != 5 {
		t.Fatal(got)
	}
	newEpoch(t, p, 5) // another process has begun it
	const want = `"reason":"epoch","position":"1-3"`
	for _, last := range []string{"3", "0-3"} {
		for _, r := range []reply{
			ask(t, srv, "GET", "/v1/events?after="+last, ""),
			ask(t, srv, "GET", "/v1/events", "", "Accept", "text/event-stream", "Last-Event-ID", last),
			ask(t, srv, "GET", "/v1/events?after="+last, "", "Accept", "text/event-stream"),
		} {
			if r.StatusCode != 409 || !strings.Contains(r.text, want) {
				t.Errorf("%s: %d %s", last, r.StatusCode, r.text)
			}
		}
	}
	c := client.New(srv.URL, "")
	three := int64(3)
	err := c.FollowEvents(t.Context(), pawl.EventFilter{After: &three}, func(pawl.FeedPosition, []pawl.Event) error { return nil })
	if at, ok := pawl.RestartOf(err); !ok || at.String() != "1-3" {
		t.Errorf("the client says %v", err)
	}
	eventStream := openFeed(t, srv, "", "Last-Event-ID", "1-4")
	if _, err := eventStream.in.ReadString('\n'); err != nil {
		t.Error(err)
	}
	create(t, p.Service, 1)
	for range 2 {
		if e, ok := eventStream.next(); !ok || e.Position < 5 {
			t.Errorf("%+v", e)
		}
	}
	if eventStream.last != "1-6" {
		t.Errorf("the newest id is %s", eventStream.last)
	}
	if r := ask(t, srv, "GET", "/v1/events?after=1-4", ""); r.StatusCode != 200 || strings.Count(r.text, `"id":"evt_`) != 2 {
		t.Errorf("%d %s", r.StatusCode, r.text)
	}
	if r := ask(t, srv, "GET", "/v1/events?after=0", ""); r.StatusCode != 200 || strings.Count(r.text, `"id":"evt_`) != 6 {
		t.Errorf("%d %s", r.StatusCode, r.text)
	}
	if r := ask(t, srv, "GET", "/v1/events?after=-1", ""); r.StatusCode != 200 {
		t.Errorf("%d %s", r.StatusCode, r.text)
	}
}

// newEpoch has the database say that an epoch began after a position.
func newEpoch(t *testing.T, p *pawltest.Pawl, position int64, statements ...string) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), p.URL)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(t.Context())
	for _, q := range append(statements, fmt.Sprintf(`UPDATE @relay_cursors
		SET detail = (detail::jsonb || '{"epoch":1,"epochs":[{"epoch":1,"position":%d}]}')::text WHERE sink = 'feed'`, position)) {
		if _, err := conn.Exec(t.Context(), strings.ReplaceAll(q, "@", p.Schema+".")); err != nil {
			t.Fatal(q, err)
		}
	}
}

// Chunks that a reader has got may be lost when the database goes back in time, and others may have
// their numbers. A reader gets the whole message then, and its ids carry the epoch.
func TestAReaderOfLostChunks(t *testing.T) {
	p := pawltest.Open(t, pawltest.Postgres)
	s := speak(t, p)
	for n, word := range []string{"a", "b", "c", "d"} {
		if r := s.post("append", text(int64(n), word)); r.StatusCode != 200 {
			t.Fatal(r.text)
		}
	}
	inFeed(t, p.Service)
	frames, ended := make(chan pawl.MessageFrame, 100), make(chan error, 2)
	follow := func(svc pawl.Service, after, epoch int64) {
		ended <- svc.FollowMessage(pawl.InEpoch(t.Context(), epoch), s.message, after, func(f pawl.MessageFrame) error {
			frames <- f
			return nil
		})
	}
	shown := func(f pawl.MessageFrame) string {
		out := fmt.Sprintf("%d-%d", f.Epoch, f.Offset)
		for _, c := range f.Chunks {
			out += " " + string(c.Text)
		}
		if f.Snapshot != nil {
			out += " snapshot " + f.Snapshot.Text()
		}
		if f.End != nil {
			out += " end"
		}
		return out
	}
	next := func(want string) {
		t.Helper()
		for {
			select {
			case f := <-frames:
				if got := shown(f); got == want {
					return
				} else if !strings.HasPrefix(got, "0-") { // those of the lost history may come in one or several
					t.Fatalf("%s, want %s", got, want)
				}
			case <-time.After(30 * time.Second):
				t.Fatalf("no frame %s", want)
			}
		}
	}
	c := client.New(s.srv.URL, "")
	go follow(c, -1, 0)
	next("0-3 d")
	newEpoch(t, p, 1, `DELETE FROM @message_chunks WHERE seq >= 2`, `UPDATE @messages SET chunks = 2`)
	next("1-2 snapshot ab")
	if r := s.post("append", text(2, "x", "y")); r.StatusCode != 200 {
		t.Fatal(r.text)
	}
	next("1-2 x y")
	go follow(p.Service, 3, 0) // it has read as many of the lost ones
	next("1-4")
	next("1-4 snapshot abxy")
	for cursor, want := range map[string]string{
		"3":    "id: 1-3\nevent: snapshot",
		"0-3":  "id: 1-3\nevent: snapshot",
		"0-99": "id: 1-3\nevent: snapshot",
		"1-1":  "id: 1-3\ndata: {\"offset\":2,",
	} {
		r := openStream(t, s.srv, "/v1/messages/"+s.message+"/stream", cursor)
		if !strings.HasPrefix(r, want) {
			t.Errorf("after %s: %q", cursor, r)
		}
	}
	if r := ask(t, s.srv, "GET", "/v1/messages/"+s.message+"/stream?after=9&epoch=1", ""); r.StatusCode != 400 {
		t.Errorf("a number that was never given: %d %s", r.StatusCode, r.text)
	}
	if r := ask(t, s.srv, "GET", "/v1/messages/"+s.message, ""); !strings.Contains(r.text, `"epoch":1`) {
		t.Error(r.text)
	}
	if r := ask(t, s.srv, "GET", "/v1/messages", ""); len(r.items()) != 1 || r.items()[0]["epoch"] != 1.0 {
		t.Errorf("in a list: %s", r.text)
	}
	s.post("finish", "")
	next("1-4 end")
	next("1-4 end")
	for range 2 {
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
}

// openStream returns the beginning of a stream of server-sent events after its first frame.
func openStream(t *testing.T, srv *httptest.Server, path, last string) string {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, srv.URL+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Last-Event-ID", last)
	res, err := srv.Client().Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	in, text := bufio.NewReader(res.Body), ""
	for lines := 0; lines < 2; {
		line, err := in.ReadString('\n')
		if err != nil {
			t.Fatalf("%d %q: %v", res.StatusCode, text, err)
		}
		if line != "\n" && line[0] != ':' && !strings.HasPrefix(line, "retry:") {
			text += line
			lines++
		}
	}
	return text
}
