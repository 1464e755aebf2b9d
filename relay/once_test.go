package relay_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/relay"
)

// Once sends what there is and returns. It gives up its leases, says when to try again what failed, closes no sink, and
// leaves a sink that another holds until its lease ends.
func TestOnceSendsWhatThereIs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src, at, good, bad, held := newFakeSource(), newFakeStore(), &fakeSink{}, &fakeSink{}, &fakeSink{}
		bad.set(func(relay.Message) error { return errors.New("down") })
		for i := range 1500 {
			src.write(fmt.Sprint("tsk_", i%7), "leased")
		}
		if _, ok, err := at.TakeRelay(t.Context(), "held", "", "another", time.Hour); !ok || err != nil {
			t.Fatal(ok, err)
		}
		sinks := append(append(singleSink("good", good), singleSink("bad", bad)...), singleSink("held", held)...)
		o := relay.Options{Source: src, States: at, Holder: "h", Sinks: sinks}
		sent, next, err := relay.Once(t.Context(), o)
		if err != nil || sent != 1500 || len(good.ids()) != 1500 || len(held.ids()) != 0 || good.closed {
			t.Errorf("sent %d, %d arrived, %d at the one that is held, closed %t, %v", sent, len(good.ids()), len(held.ids()), good.closed, err)
		}
		if !next.After(time.Now()) || next.After(time.Now().Add(time.Second)) {
			t.Errorf("to be tried again at %v, and it is %v", next, time.Now())
		}
		if g, b := at.of("good"), at.of("bad"); g.Position != 1500 || g.Holder != "" || b.Position != 0 || b.Holder != "" || b.Error != "down" {
			t.Errorf("%+v, %+v", g, b)
		}
		bad.set(nil)
		src.write("tsk_1", "completed")
		if sent, next, err = relay.Once(t.Context(), o); err != nil || sent != 1502 || !next.Equal(*at.of("held").HeldUntil) {
			t.Errorf("sent %d, again at %v, %v", sent, next, err)
		}
		at.change("held", func(r *pawl.Relay) { r.Position = 1501 })
		if sent, next, err = relay.Once(t.Context(), o); err != nil || sent != 0 || !next.IsZero() {
			t.Errorf("nothing is left: sent %d, again at %v, %v", sent, next, err)
		}
		checkOrder(t, bad)
		if _, _, err := relay.Once(t.Context(), relay.Options{Source: src, States: at, Sinks: singleSink("a b", good)}); err == nil {
			t.Error("an invalid name was taken")
		}
	})
}

// When its time is over, Once has left events and asks to be called again at once; it does not for a sink that is disabled.
func TestOnceLeavesEvents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src, at, sink := newFakeSource(), newFakeStore(), &fakeSink{}
		for i := range 100 {
			src.write(fmt.Sprint("tsk_", i), "leased")
		}
		sink.set(func(relay.Message) error { time.Sleep(time.Second); return nil })
		o := relay.Options{Source: src, States: at, Holder: "h", Sinks: singleSink("slow", sink)}
		o.Sinks[0].Batch = 10
		ctx, cancel := context.WithTimeout(t.Context(), 15*time.Second)
		defer cancel()
		sent, next, err := relay.Once(ctx, o)
		if err != nil || sent == 0 || sent == 100 || next.IsZero() || next.After(time.Now()) {
			t.Errorf("sent %d, again at %v, %v", sent, next, err)
		}
		sink.set(func(relay.Message) error { return relay.ErrGone })
		if sent, next, err := relay.Once(t.Context(), o); err != nil || sent != 0 || !next.IsZero() || at.of("slow").DisabledAt == nil {
			t.Errorf("of a sink that is disabled now: sent %d, again at %v, %v", sent, next, err)
		}
	})
}
