package relays_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/engine"
	"github.com/pawl-work/pawl/pawltest"
)

func TestMain(m *testing.M) { pawltest.Main(m) }

func need[T any](t testing.TB) func(v T, err error) T { return pawltest.Must[T](t) }

// A sink's lease belongs to one server until it ends by the database's clock or is given
// back. Reports of other holders do not count in that time.
func TestOneServerRelaysToASink(t *testing.T) {
	pawltest.Each(t, func(t *testing.T, p *pawltest.Pawl) {
		take := func(holder string) (pawl.Relay, bool) {
			t.Helper()
			r, ok, err := p.Engine.TakeRelay(t.Context(), "bus", "shelf", holder, 10*time.Second)
			if err != nil {
				t.Fatal(err)
			}
			return r, ok
		}
		keep := func(r pawl.Relay, ttl time.Duration) bool {
			t.Helper()
			return need[bool](t)(p.Engine.KeepRelay(t.Context(), r, ttl))
		}
		a, ok := take("a")
		if !ok || a.Position != 0 || a.Holder != "a" || !a.HeldUntil.Equal(p.Now().Add(10*time.Second)) {
			t.Fatalf("a took %+v, %v", a, ok)
		}
		if r, ok := take("b"); ok || r.Holder != "a" {
			t.Errorf("b took %+v, %v", r, ok)
		}
		a.Position, a.Sent = 7, 7
		p.Advance(9 * time.Second)
		if !keep(a, 10*time.Second) {
			t.Error("a does not hold it")
		}
		p.Advance(9 * time.Second)
		if _, ok := take("b"); ok {
			t.Error("b took what a renewed")
		}
		p.Advance(2 * time.Second)
		b, ok := take("b")
		if !ok || b.Position != 7 || b.Sent != 7 {
			t.Errorf("b took %+v, %v", b, ok)
		}
		a.Position = 99
		if keep(a, 10*time.Second) || keep(a, 0) {
			t.Error("a holds what b took")
		}
		b.Position = 8
		if !keep(b, 0) {
			t.Error("b does not hold it")
		}
		if a, ok = take("a"); !ok || a.Position != 8 {
			t.Errorf("a took %+v, %v", a, ok)
		}
	})
}

// Of many servers that ask at once, one gets the sink.
func TestOneOfManyServersGetsASink(t *testing.T) {
	pawltest.Each(t, func(t *testing.T, p *pawltest.Pawl) {
		others := []*engine.Engine{p.Engine, p.Another(engine.Options{}), p.Another(engine.Options{})}
		var mu sync.Mutex
		var got []string
		var all sync.WaitGroup
		for i := range 12 {
			holder := string(rune('a' + i))
			all.Go(func() {
				_, ok, err := others[i%3].TakeRelay(context.Background(), "bus", "shelf", holder, time.Minute)
				mu.Lock()
				defer mu.Unlock()
				if err != nil {
					t.Error(err)
				} else if ok {
					got = append(got, holder)
				}
			})
		}
		all.Wait()
		if len(got) != 1 {
			t.Errorf("%v hold it", got)
		}
	})
}

// The list says how far each relay is behind, and so do the gauges. The cursors of the
// sweeps and the feed are not relays.
func TestRelaysAreListed(t *testing.T) {
	pawltest.Each(t, func(t *testing.T, p *pawltest.Pawl) {
		need[pawl.SweepStats](t)(p.Engine.Sweep(t.Context()))
		made := p.Now()
		need[pawl.Task](t)(pawl.Create(t.Context(), p.Engine, pawl.NewTask{Type: "a"}))
		for _, sink := range []string{"hook", "bus"} {
			if _, ok, err := p.Engine.TakeRelay(t.Context(), sink, "shelf", "me", time.Minute); !ok || err != nil {
				t.Fatal(ok, err)
			}
		}
		p.Advance(30 * time.Second)
		list := need[pawl.List[pawl.Relay]](t)(p.Engine.ListRelays(t.Context()))
		if len(list.Items) != 2 || list.Items[0].Sink != "bus" || list.Items[1].Sink != "hook" {
			t.Fatalf("listed are %+v", list.Items)
		}
		bus := list.Items[0]
		if bus.Lag != 1 || bus.OldestAt == nil || !bus.OldestAt.Equal(made) {
			t.Errorf("the bus is behind by %d since %v", bus.Lag, bus.OldestAt)
		}
		failing := p.Now()
		bus.Position, bus.Holder, bus.FailingAt, bus.DisabledAt, bus.Error = 1, "me", &failing, &failing, "down"
		bus.Refused, bus.LastRefused = 1, []pawl.RefusedEvent{{EventID: "evt_1", Position: 1, Reason: "no", At: failing}}
		need[bool](t)(p.Engine.KeepRelay(t.Context(), bus, 0))
		list = need[pawl.List[pawl.Relay]](t)(p.Engine.ListRelays(t.Context()))
		if bus = list.Items[0]; bus.Lag != 2 /* the alert that it is disabled */ || bus.Error != "down" || len(bus.LastRefused) != 1 ||
			bus.Holder != "" {
			t.Errorf("the bus stands at %+v", bus)
		}
		var gauges []string
		for _, g := range need[[]pawl.Gauge](t)(p.Engine.Gauges(t.Context())) {
			if strings.HasPrefix(g.Name, "pawl_relay_") && g.Value > 0 {
				gauges = append(gauges, strings.TrimPrefix(g.Name, "pawl_relay_")+" "+g.Labels[1])
			}
		}
		if want := []string{"lag_events bus", "refused bus", "failing bus", "disabled bus", "lag_events hook", "lag_seconds hook"}; !slices.Equal(
			gauges, want) {
			t.Errorf("gauges are %v, want %v", gauges, want)
		}
	})
}

// A disabled relay is reported once each time: by a failed task with the sink's name and
// its error.
func TestADisabledRelayIsOnRecord(t *testing.T) {
	pawltest.Each(t, func(t *testing.T, p *pawltest.Pawl) {
		ctx := t.Context()
		for n := 1; n <= 2; n++ {
			r, ok, err := p.Engine.TakeRelay(ctx, "hook", "webhook", "me", time.Minute)
			if err != nil || !ok {
				t.Fatal(ok, err)
			}
			at := p.Now()
			r.FailingAt, r.DisabledAt, r.Error = &at, &at, "the receiver answered 410"
			for _, ttl := range []time.Duration{time.Minute, 0} {
				need[bool](t)(p.Engine.KeepRelay(ctx, r, ttl))
			}
			list := need[pawl.List[pawl.Task]](t)(p.Engine.ListTasks(ctx, pawl.TaskFilter{Types: []string{pawl.TypeRelayDisabled}}))
			if len(list.Items) != n {
				t.Fatalf("disabled %d times, %d tasks", n, len(list.Items))
			}
			task := list.Items[0]
			if task.State != pawl.TaskFailed || task.Error == nil || task.Error.Message != "relay hook is disabled: the receiver answered 410" ||
				!strings.Contains(string(task.Payload), `"sink":"hook"`) {
				t.Errorf("the task is %+v, its error %+v", task, task.Error)
			}
			events := need[pawl.List[pawl.Event]](t)(p.Engine.ListEvents(ctx, pawl.EventFilter{TaskID: task.ID, Asc: true}))
			if len(events.Items) != 2 || events.Items[1].Event != "failed" || events.Items[1].TaskTo != "failed" ||
				events.Items[1].ActorType != pawl.ActorSystem ||
				events.Items[1].Message != task.Error.Message {
				t.Errorf("on record: %+v", events.Items)
			}
			need[pawl.Relay](t)(p.Engine.ResumeRelay(ctx, "hook", ""))
		}
		need[pawl.SweepStats](t)(p.Engine.Sweep(ctx))
		if ls := need[[]pawl.Lease](t)(p.Engine.Claim(ctx, pawl.ClaimRequest{WorkerID: "w"})); len(ls) != 0 {
			t.Errorf("it is work for somebody: %+v", ls)
		}
	})
}

// No server gets a disabled relay until it is resumed.
func TestDisabledRelayIsResumed(t *testing.T) {
	pawltest.Each(t, func(t *testing.T, p *pawltest.Pawl) {
		take := func() (pawl.Relay, bool) {
			r, ok, err := p.Engine.TakeRelay(t.Context(), "hook", "shelf", "me", time.Minute)
			if err != nil {
				t.Fatal(err)
			}
			return r, ok
		}
		r, _ := take()
		if _, err := p.Engine.ResumeRelay(t.Context(), "hook", pawl.RelayFromStored); !errors.Is(err, pawl.ErrConflict) {
			t.Errorf("resuming what is not disabled: %v", err)
		}
		if err := p.Engine.ForgetRelay(t.Context(), "hook"); !errors.Is(err, pawl.ErrConflict) {
			t.Errorf("forgetting what is run: %v", err)
		}
		at := p.Now()
		r.DisabledAt, r.FailingAt, r.Error, r.Position = &at, &at, "gone", 3
		need[bool](t)(p.Engine.KeepRelay(t.Context(), r, 0))
		if _, ok := take(); ok {
			t.Error("it was taken")
		}
		if r := need[pawl.Relay](t)(p.Engine.ResumeRelay(t.Context(), "hook", "")); r.DisabledAt != nil || r.Error != "" || r.Position != 3 {
			t.Errorf("resumed: %+v", r)
		}
		if r, ok := take(); !ok || r.Position != 3 {
			t.Errorf("taken: %+v, %v", r, ok)
		}
		p.Advance(time.Hour)
		if err := p.Engine.ForgetRelay(t.Context(), "hook"); err != nil {
			t.Error(err)
		}
		if r, ok := take(); !ok || r.Position != 0 {
			t.Errorf("taken anew: %+v, %v", r, ok)
		}
	})
}

// A relay goes on from where a person says: its stored position, now, or another position.
func TestARelayGoesOnFromWhereItIsTold(t *testing.T) {
	pawltest.Each(t, func(t *testing.T, p *pawltest.Pawl) {
		ctx := t.Context()
		for range 3 {
			need[pawl.Task](t)(pawl.Create(ctx, p.Engine, pawl.NewTask{Type: "a"}))
		}
		for _, x := range []struct {
			from string
			want int64 // -1 = invalid
		}{{"stored", 1}, {"now", 4}, {"2", 2}, {"0", 0}, {"", 1}, {"99", -1}, {"-1", -1}, {"then", -1}} {
			r, ok, err := p.Engine.TakeRelay(ctx, "hook", "webhook", "me", time.Minute)
			if err != nil || !ok {
				t.Fatal(ok, err)
			}
			at := p.Now()
			r.Position, r.DisabledAt = 1, &at
			need[bool](t)(p.Engine.KeepRelay(ctx, r, time.Minute))
			head := need[int64](t)(p.Engine.Feed().Head(ctx)) // each time that it is disabled, there are two events more
			resumed, err := p.Engine.ResumeRelay(ctx, "hook", x.from)
			want := x.want
			if x.from == "now" {
				want = head
			}
			if (pawl.CodeOf(err) == pawl.CodeInvalid) != (x.want < 0) || err == nil && (resumed.Position != want || resumed.DisabledAt != nil) {
				t.Errorf("from %q: %+v, %v; want %d", x.from, resumed, err, want)
			}
			if moved := want != 1 && x.want >= 0; moved { // by whom it was disabled
				r.Position = 77
				if need[bool](t)(p.Engine.KeepRelay(ctx, r, 0)) {
					t.Errorf("from %q: the position of before is back", x.from)
				}
			}
			if x.want < 0 {
				need[pawl.Relay](t)(p.Engine.ResumeRelay(ctx, "hook", ""))
			}
		}
	})
}
