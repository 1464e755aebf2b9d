package relay_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/relay"
)

func singleSink(name string, s relay.Sink) []relay.SinkOptions {
	return []relay.SinkOptions{{Name: name, Kind: "fake", Sink: s}}
}

// Without failures every event arrives once, in feed order, with at most one event of a task in a
// batch. The position is stored and the lease is released.
func TestEverythingArrivesInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src, at, sink := newFakeSource(), newFakeStore(), &fakeSink{}
		for i := range 3000 {
			src.write(fmt.Sprint("tsk_", i%700), "leased")
		}
		stop := start(t, relay.Options{Source: src, States: at, Sinks: singleSink("s", sink)})
		waitUntil(t, "all events arrived", func() bool { return len(sink.ids()) == 3000 })
		src.write("tsk_1", "completed")
		waitUntil(t, "a later event arrived", func() bool { return len(sink.ids()) == 3001 })
		waitUntil(t, "the position is stored while the relay runs", func() bool { return at.of("s").Position == 3001 })
		stop()
		if r := at.of("s"); r.Position != 3001 || r.Sent != 3001 || r.Holder != "" || r.Error != "" {
			t.Errorf("the relay is %+v", r)
		}
		if sink.sameTaskInBatch || sink.largestBatch > 500 || src.reads > 1000 || !sink.closed {
			t.Errorf("two of one task in a batch: %v; a batch of %d; a read of %d; closed: %v",
				sink.sameTaskInBatch, sink.largestBatch, src.reads, sink.closed)
		}
		checkOrder(t, sink)
	})
}

// checkOrder checks that each task's events arrived in feed order, except for repetitions.
func checkOrder(t *testing.T, s *fakeSink) {
	t.Helper()
	last := map[string]int64{}
	seen := map[string]bool{}
	for _, m := range s.accepted {
		if seen[m.Event.ID] {
			continue
		}
		seen[m.Event.ID] = true
		if m.Event.Position < last[m.Event.TaskID] {
			t.Errorf("%s of %s came after position %d", m.Event.ID, m.Event.TaskID, last[m.Event.TaskID])
		}
		last[m.Event.TaskID] = m.Event.Position
	}
}

// No payload, metadata or comment is sent: only the change itself leaves the database.
func TestMessagesHaveNoPayloads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src, at, sink := newFakeSource(), newFakeStore(), &fakeSink{}
		for _, e := range pawl.Events {
			src.write("tsk_1", e.Name)
			last := &src.events[len(src.events)-1]
			last.Message, last.Data, last.Diff = "what a person wrote", json.RawMessage(
				`{"evidence":"s3cret"}`,
			), json.RawMessage(
				`{"metadata":"s3cret"}`,
			)
		}
		start(t, relay.Options{Source: src, States: at, Sinks: singleSink("s", sink)})
		waitUntil(t, "all events arrived", func() bool { return len(sink.ids()) == len(pawl.Events) })
		for i, m := range sink.accepted {
			failure := m.Event.Event == "failed" || m.Event.Event == "lease_expired"
			if body := string(m.Body); strings.Contains(body, "s3cret") || strings.Contains(body, "what a person wrote") != failure ||
				m.Event.Data != nil ||
				m.Event.Diff != nil {
				t.Errorf("%s", body)
			}
			if !failure && m.Event.Message != pawl.Events[i].Means {
				t.Errorf("%s says %q", m.Event.Event, m.Event.Message)
			}
		}
	})
}

// Each message is a CloudEvent of version 1.0.
func TestMessagesAreCloudEvents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src, at, sink := newFakeSource(), newFakeStore(), &fakeSink{}
		src.write("tsk_1", "completed")
		start(t, relay.Options{Source: src, States: at, Sinks: singleSink("s", sink), Origin: "/here"})
		waitUntil(t, "the event arrived", func() bool { return len(sink.ids()) == 1 })
		var got map[string]any
		if err := json.Unmarshal(sink.accepted[0].Body, &got); err != nil {
			t.Fatal(err)
		}
		for name, want := range map[string]string{
			"specversion": "1.0", "id": "evt_1", "source": "/here", "type": "work.pawl.completed", "subject": "tsk_1",
			"time": "1970-01-01T00:00:01Z", "datacontenttype": "application/json", "partitionkey": "tsk_1",
		} {
			if got[name] != want {
				t.Errorf("%s is %v, want %s", name, got[name], want)
			}
		}
		if data, ok := got["data"].(map[string]any); !ok || data["task_type"] != "t" || data["event"] != "completed" {
			t.Errorf("the event is %v", got["data"])
		}
		if m := sink.accepted[0]; m.Unique() != "/here/evt_1" || m.Key() != "default.t.completed" {
			t.Errorf("it is %s, for %s", m.Unique(), m.Key())
		}
	})
}

func TestWordsHoldNothingThatSeparates(t *testing.T) {
	for text, want := range map[string]string{
		"email.send": "email%2Esend", "a*b#c>d": "a%2Ab%23c%3Ed", "50%": "50%25", "a b\n": "a%20b%0A", "größe": "größe", "": "%",
	} {
		if got := relay.Escape(text); got != want {
			t.Errorf("%q is %q, want %q", text, got, want)
		}
	}
}

// While the sink fails no event is lost or buffered, and the lag is visible. Afterwards all events
// arrive, in order.
func TestSinkThatFailsIsTriedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src, at, sink := newFakeSource(), newFakeStore(), &fakeSink{}
		sink.set(func(relay.Message) error { return errors.New("it is down") })
		for i := range 2500 {
			src.write(fmt.Sprint("tsk_", i%50), "leased")
		}
		start(t, relay.Options{Source: src, States: at, Sinks: singleSink("s", sink)})
		waitUntil(t, "the state shows the failure", func() bool { r := at.of("s"); return r.Error == "it is down" && r.FailingAt != nil })
		if r := at.of("s"); r.Position != 0 || r.DisabledAt != nil {
			t.Errorf("the relay is %+v", r)
		}
		sink.set(nil)
		waitUntil(t, "all events arrived", func() bool { return len(sink.ids()) == 2500 })
		waitUntil(t, "the state shows no failure", func() bool {
			r := at.of("s")
			return r.Position == 2500 && r.Error == "" && r.FailingAt == nil
		})
		checkOrder(t, sink)
	})
}

// A failing sink does not delay the others.
func TestSinksAreApart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src, at, good, bad := newFakeSource(), newFakeStore(), &fakeSink{}, &fakeSink{}
		bad.set(func(relay.Message) error { return errors.New("down") })
		for range 10 {
			src.write("tsk_1", "leased")
		}
		start(t, relay.Options{Source: src, States: at, Sinks: append(singleSink("good", good), singleSink("bad", bad)...)})
		waitUntil(t, "the working sink has all events", func() bool { return at.of("good").Position == 10 })
		if p := at.of("bad").Position; p != 0 {
			t.Errorf("the failing sink is at %d", p)
		}
	})
}

// An event that the sink refuses permanently is listed and skipped. The other events are sent,
// those of its own task too.
func TestRefusedEventsAreSkipped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src, at, sink := newFakeSource(), newFakeStore(), &fakeSink{}
		sink.set(func(m relay.Message) error {
			if m.Event.Event == "failed" {
				return pawl.Permanent(errors.New("no room for it"))
			}
			return nil
		})
		for range 15 {
			src.write("tsk_1", "failed")
			src.write("tsk_1", "retried")
		}
		start(t, relay.Options{Source: src, States: at, Sinks: singleSink("s", sink)})
		waitUntil(t, "the position is at the end", func() bool { return at.of("s").Position == 30 })
		r := at.of("s")
		if r.Sent != 15 || r.Refused != 15 || len(r.LastRefused) != 10 || r.LastRefused[9].EventID != "evt_29" ||
			r.LastRefused[9].Reason != "no room for it" {
			t.Errorf("the relay is %+v", r)
		}
	})
}

// An event that fails while others are accepted delays its own task. With MaxTries it is given up.
func TestAnEventThatAlwaysFailsIsGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src, at, sink := newFakeSource(), newFakeStore(), &fakeSink{}
		sink.set(func(m relay.Message) error {
			if m.Event.ID == "evt_1" {
				return errors.New("poison")
			}
			return nil
		})
		src.write("tsk_1", "leased")
		src.write("tsk_1", "completed")
		src.write("tsk_2", "leased")
		start(t, relay.Options{Source: src, States: at, Sinks: []relay.SinkOptions{{Name: "s", Sink: sink, MaxTries: 3}}})
		waitUntil(t, "the event of another task is sent", func() bool { return slices.Equal(sink.ids(), []string{"evt_3"}) })
		for i := range 1000 { // it is given up only while others pass
			src.write(fmt.Sprint("tsk_x", i), "leased")
			if at.of("s").Refused == 1 {
				break
			}
			time.Sleep(20 * time.Millisecond)
		}
		waitUntil(t, "the event is refused and the later ones are sent", func() bool {
			r := at.of("s")
			return r.Refused == 1 && strings.Contains(r.LastRefused[0].Reason, "poison") && slices.Contains(sink.ids(), "evt_2")
		})
	})
}

// A sink that failed for a long time, or answers ErrGone, is disabled: nothing is sent until it is
// resumed.
func TestSinkIsDisabled(t *testing.T) {
	for name, c := range map[string]struct {
		err error
		out relay.SinkOptions
	}{
		"failed for long": {errors.New("down"), relay.SinkOptions{Name: "s", DisableAfter: time.Millisecond}},
		"gone":            {relay.ErrGone, relay.SinkOptions{Name: "s"}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				src, at, sink := newFakeSource(), newFakeStore(), &fakeSink{}
				sink.set(func(relay.Message) error { return c.err })
				src.write("tsk_1", "leased")
				c.out.Sink = sink
				start(t, relay.Options{Source: src, States: at, Sinks: []relay.SinkOptions{c.out}})
				waitUntil(t, "the sink is disabled and the lease released", func() bool {
					r := at.of("s")
					return r.DisabledAt != nil && r.Holder == ""
				})
				sink.set(nil)
				time.Sleep(50 * time.Millisecond)
				if n := len(sink.ids()); n != 0 {
					t.Errorf("%d were sent", n)
				}
				at.change("s", func(r *pawl.Relay) { r.DisabledAt, r.FailingAt = nil, nil })
				waitUntil(t, "it continues", func() bool { return len(sink.ids()) == 1 })
			})
		})
	}
}

// One of two servers relays. When it stops or hangs, the other continues at its position.
func TestAnotherServerTakesOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src, at, sink := newFakeSource(), newFakeStore(), &fakeSink{}
		first := start(t, relay.Options{Source: src, States: at, Sinks: singleSink("s", sink), Holder: "first"})
		waitUntil(t, "the first server has the lease", func() bool { return at.of("s").Holder == "first" })
		start(t, relay.Options{Source: src, States: at, Sinks: singleSink("s", sink), Holder: "second"})
		src.write("tsk_1", "leased")
		waitUntil(t, "the event is sent", func() bool { return at.of("s").Position == 1 })
		if h := at.of("s").Holder; h != "first" {
			t.Errorf("%s relays", h)
		}
		first()
		src.write("tsk_1", "completed")
		waitUntil(t, "the second server sends", func() bool { r := at.of("s"); return r.Holder == "second" && r.Position == 2 })
		if ids := sink.ids(); !slices.Equal(ids, []string{"evt_1", "evt_2"}) {
			t.Errorf("sent: %v", ids)
		}
	})
}

// A relay that lost its lease stops at its next renewal and does not overwrite the state of the
// next holder.
func TestLostLeaseStopsARelay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src, at, sink := newFakeSource(), newFakeStore(), &fakeSink{}
		start(t, relay.Options{Source: src, States: at, Sinks: singleSink("s", sink)})
		src.write("tsk_1", "leased")
		waitUntil(t, "the event is sent", func() bool { return at.of("s").Position == 1 })
		at.change("s", func(r *pawl.Relay) { r.Holder, r.Position = "another", 5; *r.HeldUntil = time.Now().Add(time.Hour) })
		for range 4 {
			src.write("tsk_1", "leased")
		}
		time.Sleep(time.Second)
		sink.mu.Lock()
		batches := sink.batches
		sink.mu.Unlock()
		src.write("tsk_1", "leased")
		time.Sleep(300 * time.Millisecond)
		sink.mu.Lock()
		defer sink.mu.Unlock()
		if r := at.of("s"); r.Position != 5 || r.Holder != "another" || sink.batches != batches {
			t.Errorf("the relay is %+v after %d and %d batches", r, batches, sink.batches)
		}
	})
}

// A crash between the sink's confirmation and the storing of the position repeats events; none is
// skipped.
func TestCrashBeforeThePlaceIsWritten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src, at, sink := newFakeSource(), newFakeStore(), &fakeSink{}
		for range 5 {
			src.write("tsk_1", "leased")
		}
		stop := start(t, relay.Options{Source: src, States: at, Sinks: singleSink("s", sink), Holder: "first"})
		waitUntil(t, "all events are sent", func() bool { return len(sink.ids()) == 5 })
		at.mu.Lock()
		at.relays["s"], at.down = pawl.Relay{Sink: "s", Position: 2}, true // as if nothing more had been written
		at.mu.Unlock()
		stop()
		at.mu.Lock()
		at.down = false
		at.mu.Unlock()
		start(t, relay.Options{Source: src, States: at, Sinks: singleSink("s", sink), Holder: "second"})
		waitUntil(t, "the position is at the end again", func() bool { return at.of("s").Position == 5 })
		if ids := sink.ids(); !slices.Equal(ids, []string{"evt_1", "evt_2", "evt_3", "evt_4", "evt_5", "evt_3", "evt_4", "evt_5"}) {
			t.Errorf("sent: %v", ids)
		}
	})
}

// Only events that match the filters are sent; the position moves past the others.
func TestFilters(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src, at, sink := newFakeSource(), newFakeStore(), &fakeSink{}
		for _, event := range []string{"proposed", "leased", "completed"} {
			src.write("tsk_1", event)
		}
		start(
			t,
			relay.Options{
				Source: src,
				States: at,
				Sinks:  []relay.SinkOptions{{Name: "s", Sink: sink, Events: []string{"leased"}, Types: []string{"t"}, Namespaces: []string{"default"}}},
			},
		)
		waitUntil(t, "the position is at the end", func() bool { return at.of("s").Position == 3 })
		if ids := sink.ids(); !slices.Equal(ids, []string{"evt_2"}) {
			t.Errorf("sent: %v", ids)
		}
	})
}

// An event that does not exist is refused: nothing would be delivered for it.
func TestUnknownEventsAreRefused(t *testing.T) {
	o := relay.Options{Sinks: []relay.SinkOptions{{Name: "s", Sink: &fakeSink{}, Events: []string{"completed", "complete"}}}}
	err := relay.Run(t.Context(), o)
	if pawl.CodeOf(err) != pawl.CodeInvalid || !strings.Contains(err.Error(), `"complete"; did you mean completed`) {
		t.Error(err)
	}
}

func TestNamesAreChecked(t *testing.T) {
	for _, name := range []string{"", "A", "sweep.pass", "a b", strings.Repeat("a", 65)} {
		if err := relay.Run(context.Background(), relay.Options{Sinks: singleSink(name, &fakeSink{})}); !errors.Is(err, pawl.ErrInvalid) {
			t.Errorf("%q: %v", name, err)
		}
	}
	twice := append(singleSink("a", &fakeSink{}), singleSink("a", &fakeSink{})...)
	if err := relay.Run(context.Background(), relay.Options{Sinks: twice}); !errors.Is(
		err,
		pawl.ErrInvalid,
	) {
		t.Errorf("two of one name: %v", err)
	}
}

// What a relay has in memory when the database goes back in time is not sent: neither when there
// is no room to read more, nor when nothing newer has come.
func TestARelaySendsNothingOfALostHistory(t *testing.T) {
	for _, events := range []int{3, 1500} {
		synctest.Test(t, func(t *testing.T) {
			src, at := newFakeSource(), newFakeStore()
			busy := true
			sink := &fakeSink{answer: func(relay.Message) error {
				if busy {
					return errors.New("busy")
				}
				return nil
			}}
			for range events {
				src.write("tsk_1", "leased")
			}
			start(t, relay.Options{Source: src, States: at, Sinks: singleSink("s", sink)})
			waitUntil(t, "the sink was asked", func() bool { return at.of("s").FailingAt != nil })
			src.newEpoch(0)
			src.write("tsk_2", "leased")
			sink.mu.Lock()
			busy = false
			sink.mu.Unlock()
			waitUntil(t, "the lease is released", func() bool { return at.of("s").Holder == "" })
			at.change("s", func(r *pawl.Relay) { r.Epoch, r.Position = 1, 0 })
			waitUntil(t, "the new event is sent", func() bool { return len(sink.ids()) > 0 })
			if got := sink.ids(); !slices.Equal(got, []string{"evt_1"}) || sink.accepted[0].Event.TaskID != "tsk_2" {
				t.Errorf("with %d events in memory: %v", events, got)
			}
		})
	}
}

// When the database went back in time, the relay restarts at the last common position. An event
// that has the number of a lost event has another id.
func TestARelayReadsAgainInANewEpoch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src, at, sink := newFakeSource(), newFakeStore(), &fakeSink{}
		for range 5 {
			src.write("tsk_1", "leased")
		}
		start(t, relay.Options{Source: src, States: at, Sinks: singleSink("s", sink)})
		waitUntil(t, "the position is at the end", func() bool { return at.of("s").Position == 5 })
		src.newEpoch(3)
		for range 2 {
			src.write("tsk_2", "leased")
		}
		waitUntil(t, "the lease is released", func() bool { return at.of("s").Holder == "" })
		at.change("s", func(r *pawl.Relay) { r.Epoch, r.Position = 1, 3 }) // as the engine does when it is taken
		waitUntil(t, "the new events are sent", func() bool {
			return slices.Equal(sink.ids(), []string{"evt_1", "evt_2", "evt_3", "evt_4", "evt_5", "evt_4", "evt_5"})
		})
		sent := sink.accepted[len(sink.accepted)-1]
		if sent.ID() != "1-evt_5" || sent.Unique() != "/pawl/1-evt_5" || !strings.Contains(string(sent.Body), `"id":"1-evt_5"`) ||
			!strings.Contains(string(sent.Body), `"epoch":1`) {
			t.Errorf("%s: %s", sent.Unique(), sent.Body)
		}
	})
}
