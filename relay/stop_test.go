package relay_test

import (
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/relay"
)

// The position of a relay that stops is before the first event that was not sent.
func TestAStoppedRelayPassesNothingThatWasNotSent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src, at, sink := newFakeSource(), newFakeStore(), &fakeSink{}
		sink.set(func(relay.Message) error { return errors.New("it is down") })
		for range 5 {
			src.write("tsk_1", "leased")
		}
		stop := start(t, relay.Options{Source: src, States: at, Sinks: singleSink("s", sink), Holder: "first"})
		waitUntil(t, "the state shows the failure", func() bool { return at.of("s").FailingAt != nil })
		stop()
		if r := at.of("s"); r.Position != 0 {
			t.Errorf("the relay is %+v", r)
		}
		sink.set(nil)
		start(t, relay.Options{Source: src, States: at, Sinks: singleSink("s", sink), Holder: "second"})
		waitUntil(t, "the position is at the end", func() bool { return at.of("s").Position == 5 })
		if ids := sink.ids(); !slices.Equal(ids, []string{"evt_1", "evt_2", "evt_3", "evt_4", "evt_5"}) {
			t.Errorf("sent: %v", ids)
		}
	})
}

// What a stopped relay does not send any more is no failure of the sink.
func TestAStopIsNoFailureOfTheSink(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src, at, sink := newFakeSource(), newFakeStore(), &fakeSink{}
		sending := make(chan struct{}, 10)
		sink.set(func(relay.Message) error {
			sending <- struct{}{}
			time.Sleep(time.Second) // it is stopped meanwhile
			return errors.New("cut off")
		})
		src.write("tsk_1", "leased")
		stop := start(t, relay.Options{Source: src, States: at, Sinks: singleSink("s", sink)})
		<-sending
		stop()
		if r := at.of("s"); r.Error != "" || r.FailingAt != nil || r.Position != 0 {
			t.Errorf("the relay is %+v", r)
		}
	})
}

// A relay waits as long as its sink asks.
func TestASinkSaysWhenToTryAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src, at, sink := newFakeSource(), newFakeStore(), &fakeSink{}
		began := time.Now()
		var tries []time.Duration
		sink.set(func(relay.Message) error {
			if tries = append(tries, time.Since(began)); len(tries) > 1 {
				return nil
			}
			return pawl.RetryAfter(time.Hour, errors.New("not now"))
		})
		src.write("tsk_1", "leased")
		start(t, relay.Options{Source: src, States: at, Sinks: singleSink("s", sink)})
		time.Sleep(2 * time.Hour)
		sink.mu.Lock()
		defer sink.mu.Unlock()
		if len(tries) != 2 || tries[1] < time.Hour {
			t.Errorf("tried after %v", tries)
		}
	})
}

// A relay counts its lease from the call that renewed it: when the answer comes late, and then none
// comes, it stops before another server may begin.
func TestALeaseOfARelayBeginsWithTheCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src, at, sink := newFakeSource(), newFakeStore(), &fakeSink{}
		start(t, relay.Options{Source: src, States: at, Sinks: singleSink("s", sink), Lease: 30 * time.Second})
		src.write("tsk_1", "leased")
		waitUntil(t, "the event is sent", func() bool { return at.of("s").Position == 1 })
		time.Sleep(5 * time.Second)
		at.set(20*time.Second, false)
		held := *at.of("s").HeldUntil
		waitUntil(t, "the lease is renewed", func() bool { return at.of("s").HeldUntil.After(held) })
		at.set(20*time.Second, true) // the answer of this renewal comes in 20 s, the next ones are errors
		held = *at.of("s").HeldUntil
		time.Sleep(15 * time.Second)
		at.set(0, true)
		time.Sleep(time.Until(held) + 15*time.Second) // the next try falls due, and finds the lease over
		src.write("tsk_1", "leased")
		time.Sleep(time.Second)
		if ids := sink.ids(); len(ids) != 1 {
			t.Errorf("sent without a lease: %v", ids[1:])
		}
	})
}
