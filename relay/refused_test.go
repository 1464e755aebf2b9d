package relay_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/relay"
)

// An event that a sink always refuses does not stop the others, however many come after it, of its own task or of others.
func TestAnEventThatAlwaysFailsStopsNoOther(t *testing.T) {
	t.Parallel()
	for name, task := range map[string]string{"of other tasks": "tsk_x", "of its task": "tsk_1"} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				src, at, sink := newFakeSource(), newFakeStore(), &fakeSink{}
				sink.set(func(m relay.Message) error {
					if m.Event.ID == "evt_1" {
						return errors.New("poison")
					}
					return nil
				})
				src.write("tsk_1", "leased")
				for i := range 1500 {
					src.write(task, "leased")
					src.write(fmt.Sprint("tsk_y", i), "leased")
				}
				for i := range 30_000 {
					src.write(fmt.Sprint("tsk_z", i), "leased")
				}
				begun := time.Now()
				start(t, relay.Options{Source: src, States: at, Sinks: []relay.SinkOptions{{Name: "s", Sink: sink, MaxTries: 20}}})
				for ; at.of("s").Refused == 0 && time.Since(begun) < 10*time.Minute; time.Sleep(time.Second) {
					src.write("tsk_w", "leased") // it is given up only while others are accepted
				}
				if took := time.Since(begun); took < 4*time.Minute || took > 9*time.Minute {
					t.Errorf("it took %s", took)
				}
				last := int64(len(src.events))
				waitUntil(t, "all others are sent", func() bool { return at.of("s").Position == last })
				if r := at.of("s"); r.Refused != 1 || r.LastRefused[0].EventID != "evt_1" || r.Sent != last-1 {
					t.Errorf("the relay is %+v", r)
				}
				checkOrder(t, sink)
			})
		})
	}
}

// Events that a sink always refuses do not keep others from it, however many they are: they are given up when it has
// accepted others often enough.
func TestManyRefusedEventsStopNoOther(t *testing.T) {
	t.Parallel()
	for _, bad := range []int64{4, 100} {
		synctest.Test(t, func(t *testing.T) {
			src, at, sink := newFakeSource(), newFakeStore(), &fakeSink{}
			sink.set(func(m relay.Message) error {
				if strings.HasPrefix(m.Event.TaskID, "bad") {
					return errors.New("500")
				}
				return nil
			})
			start(t, relay.Options{Source: src, States: at, Sinks: []relay.SinkOptions{{Name: "s", Sink: sink, MaxTries: 5, Batch: 64,
				DisableAfter: 7 * time.Hour}}})
			for i := range bad {
				src.write(fmt.Sprint("bad", i), "failed")
			}
			for hour := range 10 {
				time.Sleep(time.Hour)
				src.write(fmt.Sprint("good", hour), "completed")
			}
			waitUntil(t, "all is sent", func() bool { return at.of("s").Sent == 10 })
			if r := at.of("s"); r.Refused != bad || r.DisabledAt != nil {
				t.Errorf("%d bad events: the relay is %+v", bad, r)
			}
		})
	}
}

// While a sink is down, nothing is given up that failed when others were accepted.
func TestAnOutageGivesUpNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src, at, sink := newFakeSource(), newFakeStore(), &fakeSink{}
		sink.set(func(m relay.Message) error {
			if m.Event.ID == "evt_2" {
				return nil
			}
			return errors.New("down")
		})
		for i := range 5000 {
			src.write(fmt.Sprint("tsk_", i), "leased")
		}
		start(t, relay.Options{Source: src, States: at, Sinks: []relay.SinkOptions{{Name: "s", Sink: sink, MaxTries: 3}}})
		time.Sleep(time.Hour)
		sink.set(nil)
		waitUntil(t, "all is sent", func() bool { return at.of("s").Position == 5000 })
		if r := at.of("s"); r.Refused != 0 || r.Sent != 5000 {
			t.Errorf("the relay is %+v", r)
		}
	})
}

// A try for which the sink named a time is not counted as a failure, and the event waits for that time, also while other
// events are accepted.
func TestAnEventWaitsForTheTimeThatTheSinkNames(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src, at, sink := newFakeSource(), newFakeStore(), &fakeSink{}
		var tries []time.Time
		sink.set(func(m relay.Message) error {
			if m.Event.ID != "evt_1" {
				return nil
			}
			if tries = append(tries, time.Now()); len(tries) <= 5 {
				return pawl.RetryAfter(40*time.Second, errors.New("too many"))
			}
			return nil
		})
		src.write("tsk_1", "leased")
		start(t, relay.Options{Source: src, States: at, Sinks: []relay.SinkOptions{{Name: "s", Sink: sink, MaxTries: 3}}})
		for i := range 250 {
			src.write(fmt.Sprint("tsk_x", i), "leased")
			time.Sleep(time.Second)
		}
		waitUntil(t, "all is sent", func() bool { return at.of("s").Position == 251 })
		if r := at.of("s"); r.Refused != 0 || r.Sent != 251 || len(tries) != 6 {
			t.Errorf("after %d tries the relay is %+v", len(tries), r)
		}
		for i, now := range tries[1:] {
			if pause := now.Sub(tries[i]); pause < 40*time.Second || pause > 42*time.Second {
				t.Errorf("try %d came after %s", i+2, pause)
			}
		}
	})
}
