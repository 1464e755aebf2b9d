package suite

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/pawl-work/pawl"
)

// feed reads every page of the feed.
func (w *fixture) feed(f pawl.EventFilter) []pawl.Event {
	w.Helper()
	if f.After == nil {
		f.After = ptr(int64(0))
	}
	var out []pawl.Event
	for {
		page, err := w.svc.ListEvents(w.ctx, f)
		w.ok(err, "list events in feed order")
		out = append(out, page.Items...)
		if page.Next == "" {
			return out
		}
		f.Cursor = page.Next
	}
}

// auditFeed compares the feed of the default namespace with its events: both have the same
// events, and the feed has the events of each item or task in the order of their numbers.
func (w *fixture) auditFeed() {
	w.Helper()
	missing := map[string]bool{}
	for _, e := range w.allEvents(pawl.EventFilter{}) {
		missing[e.ID] = true
	}
	newest := map[string]int{}
	for _, e := range w.feed(pawl.EventFilter{Page: pawl.Page{Limit: pawl.MaxPage}}) {
		number, err := strconv.Atoi(strings.TrimPrefix(e.ID, "evt_"))
		if err != nil || !missing[e.ID] {
			w.Errorf("audit: %s is in the feed and not in the record, or twice", e.ID)
		}
		delete(missing, e.ID)
		if of := e.TaskID + e.ItemID; number < newest[of] {
			w.Errorf("audit: %s comes after evt_%d in the feed", e.ID, newest[of])
		} else {
			newest[of] = number
		}
	}
	for id := range missing {
		w.Errorf("audit: %s is not in the feed", id)
	}
}

// eventNames returns the events' names, in order.
func eventNames(events []pawl.Event) string {
	var out []string
	for _, e := range events {
		out = append(out, e.Event)
	}
	return strings.Join(out, " ")
}

var feeds = noun{"feed", []promise{
	{"holds each event once, with rising positions, in pages", func(w *fixture) {
		w.manyItems(40)
		for _, l := range w.claims(pawl.ClaimRequest{WorkerID: "w1", Limit: 40}) {
			w.complete(l, `1`)
		}
		all := w.feed(pawl.EventFilter{Page: pawl.Page{Limit: 7}})
		w.same(len(all), 122, "events")
		seen, last := map[string]bool{}, int64(0)
		for _, e := range all {
			if seen[e.ID] || e.Position <= last || e.TaskType != "a" {
				w.Fatalf("%s at %d after %d, of type %q", e.ID, e.Position, last, e.TaskType)
			}
			seen[e.ID], last = true, e.Position
		}
		w.same(w.feed(pawl.EventFilter{}), all, "in bigger pages")
		w.same(w.feed(pawl.EventFilter{After: ptr(all[99].Position)}), all[100:], "after one of them")
		page, err := w.svc.ListEvents(w.ctx, pawl.EventFilter{After: ptr(pawl.FeedEnd)})
		w.ok(err, "list events")
		w.same(page.Next, "", "next at the end")
		w.same(len(page.Items), 0, "events after the end")
	}},
	{"continues at a position", func(w *fixture) {
		after := int64(0)
		for range 20 {
			t := w.oneItem()
			w.claim("w1")
			got := w.feed(pawl.EventFilter{After: &after})
			w.same(eventNames(got), "proposed leased", "what is new")
			w.same(got[0].TaskID, t.ID, "task")
			after = got[1].Position
		}
	}},
	{"by task, item, type, name and time", func(w *fixture) {
		t := w.manyItems(2)
		w.create(pawl.NewTask{Type: "b"})
		begin := w.now()
		w.advance(time.Minute)
		ls := w.claims(pawl.ClaimRequest{WorkerID: "w1", TaskID: t.ID, Limit: 2})
		w.advance(time.Minute)
		w.complete(ls[1], `1`)
		for want, f := range map[string]pawl.EventFilter{
			"proposed planned planned leased leased completed": {TaskID: t.ID},
			"planned leased completed":                         {ItemID: ls[1].ID},
			"proposed":                                         {Types: []string{"b", "c"}},
			"leased leased":                                    {Event: "leased"},
			"leased leased completed":                          {Since: begin.Add(time.Second)},
			"completed":                                        {Since: begin.Add(90 * time.Second), Types: []string{"a"}},
			"proposed planned planned proposed":                {Until: begin.Add(time.Second)},
			"":                                                 {Types: []string{"none"}},
		} {
			w.same(eventNames(w.feed(f)), want, "the feed by a filter")
		}
		got := w.allEvents(pawl.EventFilter{Types: []string{"b"}})
		w.same(eventNames(got), "proposed", "the record by type")
		_, err := w.svc.ListEvents(w.ctx, pawl.EventFilter{After: ptr(int64(0)), TaskID: "tsk_nope"})
		w.refused(err, pawl.CodeNotFound)
	}},
	{"a malformed position or cursor is invalid", func(w *fixture) {
		_, err := w.svc.ListEvents(w.ctx, pawl.EventFilter{After: ptr(int64(-2))})
		w.invalid(err, "/after")
		for _, cursor := range []string{"x", "pos_", "pos_-1", "pos_x", "pos_0-", "pos_-0-1", "pos_99999999999999999999"} {
			_, err := w.svc.ListEvents(w.ctx, pawl.EventFilter{After: ptr(int64(0)), Page: pawl.Page{Cursor: cursor}})
			w.invalid(err, "/cursor")
		}
	}},
	{"another namespace's events are not in it", func(w *fixture) {
		t := w.oneItem()
		other := w.in("other")
		o := other.oneItem()
		w.same(w.feed(pawl.EventFilter{})[0].TaskID, t.ID, "ours")
		w.same(len(w.feed(pawl.EventFilter{})), 1, "events")
		w.same(other.feed(pawl.EventFilter{})[0].TaskID, o.ID, "theirs")
		_, err := other.svc.ListEvents(other.ctx, pawl.EventFilter{After: ptr(int64(0)), TaskID: t.ID})
		w.refused(err, pawl.CodeNotFound)
	}},
	{"a deleted task leaves one event, and others keep their positions", func(w *fixture) {
		a, b := w.oneItem(), w.oneItem()
		before := w.feed(pawl.EventFilter{TaskID: b.ID})
		_, err := w.svc.DeleteTasks(w.ctx, []pawl.TaskCall{{TaskID: a.ID, Force: true}})
		w.ok(err, "delete")
		after := w.feed(pawl.EventFilter{})
		w.same(len(after), 2, "events in the feed")
		w.same(after[:1], before, "the event of the other task")
		w.same([]string{after[1].Event, after[1].TaskID}, []string{"deleted", a.ID}, "the event of the deleted task")
		w.same(w.feed(pawl.EventFilter{TaskID: a.ID}), after[1:], "the feed of the deleted task")
		c := w.oneItem()
		w.same(w.feed(pawl.EventFilter{After: &after[1].Position})[0].TaskID, c.ID, "what comes next")
	}},
	{"a follower gets the existing events and then the new ones", func(w *fixture) {
		w.oneItem()
		w.oneItem()
		var mu sync.Mutex
		var got []pawl.Event
		calls := 0
		begun, enough := make(chan struct{}), make(chan struct{})
		ctx, stop := context.WithTimeout(w.ctx, time.Minute)
		defer stop()
		ended := make(chan error, 1)
		go func() {
			ended <- w.svc.FollowEvents(ctx, pawl.EventFilter{}, func(through pawl.FeedPosition, events []pawl.Event) error {
				mu.Lock()
				defer mu.Unlock()
				if calls++; calls == 1 {
					if through != (pawl.FeedPosition{}) || len(events) != 0 {
						w.Errorf("it begins at %s with %d events", through, len(events))
					}
					close(begun)
				} else if len(events) == 0 || events[len(events)-1].Position > through.Position {
					w.Errorf("%d events through %s", len(events), through)
				}
				if got = append(got, events...); len(got) >= 42 {
					close(enough)
				}
				return nil
			})
		}()
		<-begun
		for range 20 {
			w.oneItem()
			w.claim("w1")
		}
		select {
		case <-enough:
		case <-ctx.Done():
			w.Errorf("only %d events came", len(got))
		}
		stop()
		w.ok(<-ended, "follow")
		mu.Lock()
		defer mu.Unlock()
		w.same(got, w.feed(pawl.EventFilter{}), "what was followed")
	}},
	{"followed from its end, by a filter, until there is enough", func(w *fixture) {
		w.oneItem()
		enough := errors.New("enough")
		var got []pawl.Event
		ctx, stop := context.WithTimeout(w.ctx, time.Minute)
		defer stop()
		begun := false
		err := w.svc.FollowEvents(
			ctx,
			pawl.EventFilter{After: ptr(pawl.FeedEnd), Event: "leased"},
			func(_ pawl.FeedPosition, events []pawl.Event) error {
				if !begun {
					begun = true
					w.oneItem()
					w.claim("w1")
					w.claim("w1")
				}
				if got = append(got, events...); len(got) >= 2 {
					return enough
				}
				return nil
			},
		)
		if !errors.Is(err, enough) {
			w.Errorf("it ended with %v", err)
		}
		w.same(eventNames(got), "leased leased", "what was followed")
	}},
	{"the feed of an unknown task cannot be followed", func(w *fixture) {
		err := w.svc.FollowEvents(w.ctx, pawl.EventFilter{TaskID: "tsk_nope"}, func(pawl.FeedPosition, []pawl.Event) error { return nil })
		w.refused(err, pawl.CodeNotFound)
	}},
}}
