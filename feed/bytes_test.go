package feed_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/pawltest"
)

// A page of the feed ends with the event that brings it to its size limit, and the next page
// continues there, for reads, lists and followers.
func TestPagesOfTheFeedAreBoundedByBytes(t *testing.T) {
	pawltest.Each(t, func(t *testing.T, p *pawltest.Pawl) {
		ctx, task := t.Context(), p.Create(aTask).ID
		const large = 40 // more than are read before their size is known
		for range large {
			end(
				t,
				p.Exec(
					`INSERT INTO pawl.task_events (namespace, task_id, move, actor, data, created_at) VALUES ('default', $1, `+
						`(SELECT code FROM pawl.moves WHERE event = 'stale'), 0, $2, 1769680800000000)`,
					task,
					`"`+strings.Repeat("x", 1<<20)+`"`,
				),
			)
		}
		total, pages, last := 0, 0, int64(0)
		note := func(events []pawl.Event) {
			size := 0
			for _, e := range events {
				size += len(e.Data)
				if e.Position <= last {
					t.Errorf("%d comes after %d", e.Position, last)
				}
				last = e.Position
			}
			if size > pawl.MaxPageBytes+2<<20 {
				t.Errorf("a page of %d events has %d bytes", len(events), size)
			}
			total, pages = total+len(events), pages+1
		}
		done := func(how string) {
			if total != large+1 || pages < 5 {
				t.Errorf("%s: %d events on %d pages", how, total, pages)
			}
			total, pages, last = 0, 0, 0
		}
		for events := read(t, p.Engine.Feed(), 0); len(events) > 0; events = read(t, p.Engine.Feed(), last) {
			note(events)
		}
		done("read")
		var zero int64
		for q := (pawl.EventFilter{After: &zero, Page: pawl.Page{Limit: pawl.MaxPage}}); ; {
			l, err := p.Engine.ListEvents(ctx, q)
			end(t, err)
			note(l.Items)
			if q.Cursor = l.Next; q.Cursor == "" {
				break
			}
		}
		done("listed")
		all := errors.New("all of them")
		err := p.Engine.FollowEvents(ctx, pawl.EventFilter{After: &zero}, func(_ pawl.FeedPosition, events []pawl.Event) error {
			if len(events) > 0 {
				note(events)
			}
			if total > large {
				return all
			}
			return nil
		})
		if !errors.Is(err, all) {
			t.Error(err)
		}
		done("followed")
	})
}
