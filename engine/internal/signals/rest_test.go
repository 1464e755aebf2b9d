package signals_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/engine"
	"github.com/pawl-work/pawl/engine/internal/kernel"
	"github.com/pawl-work/pawl/engine/internal/signals"
	"github.com/pawl-work/pawl/pawltest"
	"github.com/pawl-work/pawl/store"
)

// die sends a signal by a process that dies after the commit, and returns how many items it has queued.
func die(t *testing.T, p *pawltest.Pawl, name, key string) (queued int) {
	t.Helper()
	k := kernel.New(&kernel.DB{DB: p.Engine.DB()}, nil)
	signals.New(k)
	p.OK(p.Engine.DB().Do(t.Context(), func(ctx context.Context, tx store.Tx) error {
		woken, err := k.Signals.Tell(ctx, tx, pawl.DefaultNamespace, name, key, store.Actor{Type: pawl.ActorUser, ID: "ana"})
		queued = len(woken)
		return err
	}))
	return queued
}

// A signal queues the items that wait for it in bounded transactions. What a process that dies after the first one leaves
// is done by a sweep, and is no breach until then. A task gets one event of it.
func TestASignalWakesInBoundedTransactions(t *testing.T) {
	pawltest.Each(t, func(t *testing.T, p *pawltest.Pawl) {
		const batch, all = 1000, 1300
		ctx := t.Context()
		var tasks []pawl.Task
		for range 2 {
			tasks = append(tasks, p.Create(pawl.NewTask{Type: "waits", Items: make([]pawl.NewItem, all/2)}))
		}
		suspend := func(n int) {
			t.Helper()
			for got := range slices.Chunk(p.ClaimN(n, pawl.ClaimRequest{WorkerID: "w", Types: []string{"waits"}}), 500) {
				var waits []pawl.SuspendCall
				for _, l := range got {
					waits = append(waits, pawl.SuspendCall{Fence: l.Fence(), Signal: "go", Key: "k"})
				}
				for _, r := range need[[]pawl.Result[pawl.Moved]](t)(p.Engine.Suspend(ctx, waits)) {
					p.OK(r.Err)
				}
			}
		}
		waiting := func(want int) {
			t.Helper()
			n := 0
			p.OK(p.Engine.DB().View(ctx, func(ctx context.Context, tx store.Tx) error {
				_, err := store.Row(ctx, tx, []any{&n}, "SELECT COUNT(*) FROM pawl.waiting")
				return err
			}))
			if n != want {
				t.Errorf("%d items wait, want %d", n, want)
			}
		}
		suspend(all)
		if queued := die(t, p, "go", "k"); queued != batch {
			t.Errorf("%d items are queued", queued)
		}
		waiting(all - batch)
		if breaches := need[[]engine.Breach](t)(p.Engine.Check(ctx)); len(breaches) > 0 {
			t.Errorf("breaches: %v", breaches)
		}
		p.Advance(time.Second)
		suspend(1) // it waits for the next one
		need[pawl.SweepStats](t)(p.Engine.Sweep(ctx))
		waiting(1)
		for _, task := range tasks {
			events := need[pawl.List[pawl.Event]](t)(
				p.Engine.ListEvents(ctx, pawl.EventFilter{TaskID: task.ID, Event: "signalled"}))
			if len(events.Items) != 1 || events.Items[0].ActorID != "ana" {
				t.Errorf("events signalled: %v", events.Items)
			}
		}

		suspend(all - 1)
		sent := need[pawl.Signalled](t)(pawltest.First(p.Engine.SendSignals(ctx, []pawl.SignalCall{{Name: "go", Key: "k"}})))
		if sent.Woken != all {
			t.Errorf("%d items woken, want %d", sent.Woken, all)
		}
		waiting(0)
	})
}

// An item that a signal has counted as woken does not time out before it is queued.
func TestAWokenItemDoesNotTimeOut(t *testing.T) {
	pawltest.Each(t, func(t *testing.T, p *pawltest.Pawl) {
		const all = 1010
		ctx := t.Context()
		p.Create(pawl.NewTask{Type: "waits", Items: make([]pawl.NewItem, all)})
		until := p.Now().Add(time.Minute)
		for got := range slices.Chunk(p.ClaimN(all, pawl.ClaimRequest{WorkerID: "w", Types: []string{"waits"}}), 500) {
			var waits []pawl.SuspendCall
			for _, l := range got {
				waits = append(waits, pawl.SuspendCall{Fence: l.Fence(), Signal: "go", Until: &until})
			}
			for _, r := range need[[]pawl.Result[pawl.Moved]](t)(p.Engine.Suspend(ctx, waits)) {
				p.OK(r.Err)
			}
		}
		die(t, p, "go", "")
		p.Advance(time.Hour)
		need[pawl.SweepStats](t)(p.Engine.Sweep(ctx))
		n := 0
		p.OK(p.Engine.DB().View(ctx, func(ctx context.Context, tx store.Tx) error {
			_, err := store.Row(ctx, tx, []any{&n}, "SELECT COUNT(*) FROM pawl.task_events e JOIN pawl.moves m ON m.code = e.move "+
				"WHERE m.event = 'ready' AND m.from_state = 'waiting' AND e.data IS NOT NULL")
			return err
		}))
		if n != all {
			t.Errorf("%d items were woken by the signal, want %d", n, all)
		}
	})
}
