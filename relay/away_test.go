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

// A sink that is away for an hour of steady work, 20 events a second, costs no
// memory beyond the window and few tries; the lease is kept meanwhile. When it is
// back it has everything within the longest pause, each task in its order, once.
func TestAwayForAnHour(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src, at, sink := newFakeSource(), newFakeBook(), &fakeSink{}
		start(t, relay.Options{Source: src, States: at, Sinks: one("s", sink), Lease: 15 * time.Second})
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
		tries := sink.waves
		sink.mu.Unlock()
		if r := at.of("s"); r.Position != 1 || r.Error != "it is away" || time.Since(*r.FailingAt) < 59*time.Minute || r.DisabledAt != nil {
			t.Errorf("after an hour it stands at %+v", r)
		}
		if tries > 250 || src.reads > 1000 { // half a minute between two, some at the beginning
			t.Errorf("%d tries in an hour; %d events in memory", tries, src.reads)
		}
		sink.set(nil)
		time.Sleep(40 * time.Second)
		synctest.Wait()
		if r := at.of("s"); r.Position != int64(events) || r.FailingAt != nil || len(sink.taken) != events {
			t.Errorf("of %d events %d arrived; it stands at %+v", events, len(sink.taken), r)
		}
		ordered(t, sink)
	})
}

// That a sink is disabled is an event like any other: the others carry it.
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
			work(t, p, 1)
			until(t, "the pager is called", func() bool { return len(pager.ids()) > 0 })
			if m := pager.taken[0]; len(pager.ids()) != 1 || m.Key() != "default.pawl%2Erelay_disabled.failed" ||
				!strings.HasPrefix(m.Event.Message, "relay gone is disabled: ") {
				t.Errorf("it is told %+v, for %s", m.Event, m.Key())
			}
		})
	}
}
