package server_test

import (
	"strings"
	"testing"

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
	conn, err := pgx.Connect(t.Context(), p.URL)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(t.Context())
	// As a promoted standby finds it.
	if _, err := conn.Exec(t.Context(), `UPDATE `+p.Schema+`.relay_cursors
		SET detail = jsonb_set(detail::jsonb, '{server,timeline}', '77')::text WHERE sink = 'feed'`); err != nil {
		t.Fatal(err)
	}
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
	err = c.FollowEvents(t.Context(), pawl.EventFilter{After: &three}, func(pawl.FeedPosition, []pawl.Event) error { return nil })
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
