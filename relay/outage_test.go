package relay_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/engine"
	"github.com/pawl-work/pawl/pawltest"
	"github.com/pawl-work/pawl/relay"
)

// target is a server that events are sent to, which a test can stop and start.
type target struct {
	sink     func() relay.Sink
	down, up func()
	arrived  func(want int) []pawl.Event // in order, repetitions too
	once     bool                        // it drops repetitions itself
}

// No event is lost and the order of each task holds while the target crashes and restarts, and
// while the relaying server dies before it stores its position and another server continues.
func TestNothingIsLost(t *testing.T) {
	tasks, databases := 800, map[string][]pawltest.Database{
		"RabbitMQ": {pawltest.Postgres}, "NATS": {pawltest.SQLite}, "webhook": {pawltest.Postgres},
	}
	if os.Getenv("PAWL_TORTURE") == "1" {
		tasks = 20_000
		for name := range databases {
			databases[name] = pawltest.Databases
		}
	}
	for name, open := range map[string]func(*testing.T) target{"RabbitMQ": rabbitTarget, "NATS": natsTarget, "webhook": webhookTarget} {
		if len(databases[name]) == 0 {
			t.Errorf("%s is tried on no database", name)
		}
		for _, which := range databases[name] {
			t.Run(name+" "+string(which), func(t *testing.T) {
				t.Parallel()
				runOutage(t, pawltest.OpenReal(t, which), open(t), tasks)
			})
		}
	}
}

// failingStore is a store that fails from a given moment on: nothing more is stored, and no lease
// is released.
type failingStore struct {
	relay.StateStore
	dead atomic.Bool
}

func (m *failingStore) KeepRelay(ctx context.Context, r pawl.Relay, ttl time.Duration) (bool, error) {
	if m.dead.Load() {
		return false, errDown
	}
	return m.StateStore.KeepRelay(ctx, r, ttl)
}

func (m *failingStore) TakeRelay(ctx context.Context, sink, kind, holder string, ttl time.Duration) (pawl.Relay, bool, error) {
	if m.dead.Load() {
		return pawl.Relay{}, false, errDown
	}
	return m.StateStore.TakeRelay(ctx, sink, kind, holder, ttl)
}

func runOutage(t *testing.T, p *pawltest.Pawl, v target, tasks int) {
	server := func(name string, e *engine.Engine) (stop func(), store *failingStore) {
		store = &failingStore{StateStore: e}
		return start(t, relay.Options{
			Source: e.Feed(), States: store, Holder: name, Lease: 2 * time.Second,
			Sinks: []relay.SinkOptions{{Name: "out", Kind: "target", Sink: v.sink(), Batch: 200}},
		}), store
	}
	stop, store := server("first", p.Engine)
	waitUntil(t, "the first server relays", func() bool { return relayState(t, p).Holder == "first" })
	server("second", p.Another(engine.Options{}))
	quarter := func() { createEvents(t, p, tasks/4) }
	quarter()
	v.down()
	quarter()
	waitUntil(t, "the state shows the outage", func() bool { r := relayState(t, p); return r.FailingAt != nil && r.Error != "" && r.Lag > 0 })
	v.up()
	quarter()
	waitUntilSending(t, p)
	store.dead.Store(true)
	stop()
	quarter()
	waitUntil(t, "the second server relays", func() bool { return relayState(t, p).Holder == "second" })
	for at, i := int64(-1), 0; relayState(t, p).Lag > 0; i++ {
		if r := relayState(t, p); r.Position == at && i > 1200 {
			t.Fatalf("the relay is %+v", r)
		} else if r.Position != at {
			at, i = r.Position, 0
		}
		time.Sleep(50 * time.Millisecond)
	}
	compare(t, p, v)
}

// waitUntilSending waits until the sink accepts events again. The longest pause, an attempt that
// the starting broker does not answer and the pause after that take a little more than a minute
// and a half together; see docs/relay.md.
func waitUntilSending(t *testing.T, p *pawltest.Pawl) {
	t.Helper()
	for limit := time.Now().Add(4 * time.Minute); ; time.Sleep(50 * time.Millisecond) {
		r := relayState(t, p)
		if r.FailingAt == nil {
			return
		}
		if time.Now().After(limit) {
			t.Fatalf("no event was sent again: %+v", r)
		}
	}
}

// relayState returns the state of the test's only relay.
func relayState(t *testing.T, p *pawltest.Pawl) pawl.Relay {
	t.Helper()
	list, err := p.Engine.ListRelays(t.Context())
	if err != nil || len(list.Items) > 1 {
		t.Fatal(list.Items, err)
	}
	return append(list.Items, pawl.Relay{})[0]
}

// createEvents creates tasks and completes half of them.
func createEvents(t *testing.T, p *pawltest.Pawl, tasks int) {
	t.Helper()
	const batch = 100
	for done := 0; done < tasks; done += batch {
		var make []pawl.NewTask
		for i := range min(batch, tasks-done) {
			make = append(make, pawl.NewTask{Type: fmt.Sprintf("type.%d", i%3)})
		}
		if _, err := p.Engine.CreateTasks(t.Context(), make); err != nil {
			t.Fatal(err)
		}
		ls, err := p.Engine.Claim(t.Context(), pawl.ClaimRequest{WorkerID: "w", Limit: batch / 2})
		if err != nil {
			t.Fatal(err)
		}
		var calls []pawl.CompleteCall
		for _, l := range ls {
			calls = append(calls, pawl.CompleteCall{Fence: l.Fence()})
		}
		if _, err := p.Engine.Complete(t.Context(), calls); err != nil {
			t.Fatal(err)
		}
	}
}

// compare checks the events that arrived against the event log.
func compare(t *testing.T, p *pawltest.Pawl, v target) {
	t.Helper()
	record := map[string]bool{}
	for at := int64(0); ; {
		page, err := p.Engine.Feed().Read(t.Context(), at, 1000)
		if err != nil {
			t.Fatal(err)
		}
		if len(page) == 0 {
			break
		}
		for _, e := range page {
			record[e.ID], at = true, e.Position
		}
	}
	want := len(record)
	seen, last, wrong := map[string]bool{}, map[string]int64{}, 0
	arrived := v.arrived(want)
	for _, e := range arrived {
		if seen[e.ID] {
			continue
		}
		seen[e.ID] = true
		if !record[e.ID] {
			t.Errorf("%s is not on record", e.ID)
		}
		if e.Position < last[e.TaskID] {
			wrong++
		}
		last[e.TaskID] = e.Position
	}
	if len(seen) != want || wrong > 0 {
		t.Errorf("%d of %d events arrived, %d after a later one of their task", len(seen), want, wrong)
	}
	if v.once && len(arrived) != want {
		t.Errorf("%d arrived for %d events", len(arrived), want)
	}
	t.Logf("%d events, %d repeated", want, len(arrived)-len(seen))
}

// event decodes the event of a CloudEvent.
func event(t *testing.T, body []byte) pawl.Event {
	t.Helper()
	var ce struct {
		ID   string     `json:"id"`
		Data pawl.Event `json:"data"`
	}
	if err := json.Unmarshal(body, &ce); err != nil || ce.ID != ce.Data.ID {
		t.Errorf("%v: %s", err, body)
	}
	return ce.Data
}
