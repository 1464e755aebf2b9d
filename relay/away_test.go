package relay_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/pawltest"
	"github.com/pawl-work/pawl/relay"
)

// A sink is down for an hour while 20 events per second are written. The relay uses no memory
// beyond its window, makes few attempts and keeps its lease. When the sink is up again it gets
// every event once within the longest back-off, and the events of each task in order.
func TestAwayForAnHour(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src, at, sink := newFakeSource(), newFakeStore(), &fakeSink{}
		start(t, relay.Options{Source: src, States: at, Sinks: singleSink("s", sink), Lease: 15 * time.Second})
		src.write("tsk_0", "leased")
		synctest.Wait()
		sink.set(func(relay.Message) error { return errors.New("it is away") })
		events := 1
		for range time.Hour / time.Second {
			for range 20 {
				src.write(fmt.Sprint("tsk_", events/4), "leased")
				events++
			}
			time.Sleep(time.Second)
			if r := at.of("s"); r.Holder != "here" || !r.HeldUntil.After(time.Now()) {
				t.Fatalf("the lease is lost: %+v", r)
			}
		}
		sink.mu.Lock()
		tries := sink.batches
		sink.mu.Unlock()
		src.mu.Lock()
		reads := src.reads
		src.mu.Unlock()
		if r := at.of("s"); r.Position != 1 || r.Error != "it is away" || time.Since(*r.FailingAt) < 59*time.Minute || r.DisabledAt != nil {
			t.Errorf("after an hour the relay is %+v", r)
		}
		if tries > 250 || reads > 1000 { // half a minute between two, some at the beginning
			t.Errorf("%d tries in an hour; %d events in memory", tries, reads)
		}
		sink.set(nil)
		time.Sleep(40 * time.Second)
		synctest.Wait()
		if r := at.of("s"); r.Position != int64(events) || r.FailingAt != nil || len(sink.accepted) != events {
			t.Errorf("of %d events %d arrived; the relay is %+v", events, len(sink.accepted), r)
		}
		checkOrder(t, sink)
	})
}

// The event that a sink was disabled is delivered by the other sinks.
func TestOthersHearOfADisabledSink(t *testing.T) {
	for _, which := range pawltest.Databases {
		t.Run(string(which), func(t *testing.T) {
			t.Parallel()
			p := pawltest.OpenReal(t, which)
			gone, pager := &fakeSink{}, &fakeSink{}
			gone.set(func(relay.Message) error { return relay.ErrGone })
			start(t, relay.Options{Source: p.Engine.Feed(), States: p.Engine, Sinks: []relay.SinkOptions{
				{Name: "gone", Sink: gone},
				{Name: "pager", Sink: pager, Types: []string{pawl.TypeRelayDisabled}, Events: []string{"failed"}},
			}})
			createEvents(t, p, 1)
			waitUntil(t, "the other sink gets the event", func() bool { return len(pager.ids()) > 0 })
			if m := pager.accepted[0]; len(pager.ids()) != 1 || m.Key() != "default.pawl%2Erelay_disabled.failed" ||
				!strings.HasPrefix(m.Event.Message, "relay gone is disabled: ") {
				t.Errorf("it is told %+v, for %s", m.Event, m.Key())
			}
		})
	}
}
