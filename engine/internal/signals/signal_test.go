package signals_test

import (
	"context"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/engine"
	"github.com/pawl-work/pawl/pawltest"
	"github.com/pawl-work/pawl/store"
)

func TestMain(m *testing.M) { pawltest.Main(m) }

func need[T any](t testing.TB) func(v T, err error) T { return pawltest.Must[T](t) }

// leases claims n items.
func leases(t testing.TB, svc pawl.Service, req pawl.ClaimRequest, n int) []pawl.Lease {
	t.Helper()
	return pawltest.NewCalls(t, svc).ClaimN(n, req)
}

// The tests use two engines, so that their suspends do not form one group.
func TestASignalSentWhileItemsAreSuspendedIsNotLost(t *testing.T) {
	pawltest.Each(t, func(t *testing.T, p *pawltest.Pawl) {
		svcs := [3]pawl.Service{p.Engine, p.Another(engine.Options{}), p.Another(engine.Options{})}
		rounds := 40
		if os.Getenv("PAWL_TORTURE") == "1" {
			rounds = 1000
		}
		for n := range rounds {
			typ := fmt.Sprint("wait", n)
			need[pawl.Task](t)(
				pawl.Create(t.Context(), p.Engine, pawl.NewTask{Type: typ, Items: []pawl.NewItem{{Input: []byte(`1`)}, {Input: []byte(`2`)}}}))
			held := leases(t, p.Engine, pawl.ClaimRequest{WorkerID: "w", Types: []string{typ}}, 2)
			var wg sync.WaitGroup
			for i, l := range held {
				wg.Go(func() {
					call := pawl.SuspendCall{Fence: l.Fence(), Signal: "go", Key: typ}
					if _, err := pawltest.First(svcs[i].Suspend(context.Background(), []pawl.SuspendCall{call})); err != nil {
						t.Errorf("suspend %d: %v", i, err)
					}
				})
			}
			wg.Go(func() {
				if _, err := pawl.Signal(context.Background(), svcs[2], "go", typ, nil); err != nil {
					t.Errorf("signal: %v", err)
				}
			})
			wg.Wait()
			leases(t, p.Engine, pawl.ClaimRequest{WorkerID: "w", Types: []string{typ}}, 2) // both were queued
		}
	})
}

func TestARefusedSuspendLeavesNoSignal(t *testing.T) {
	pawltest.Each(t, func(t *testing.T, p *pawltest.Pawl) {
		need[pawl.Task](t)(
			pawl.Create(t.Context(), p.Engine, pawl.NewTask{Type: "a", Items: []pawl.NewItem{{Input: []byte(`1`)}, {Input: []byte(`2`)}}}))
		held := leases(t, p.Engine, pawl.ClaimRequest{WorkerID: "w", Limit: 2}, 2)
		ghost := held[0].Fence()
		ghost.Attempt = 7
		rs := need[[]pawl.Result[pawl.Moved]](t)(
			p.Engine.Suspend(t.Context(), []pawl.SuspendCall{{Fence: ghost, Signal: "refused"}, {Fence: held[1].Fence(), Signal: "held"}}))
		if rs[0].Err == nil || rs[1].Err != nil {
			t.Fatalf("%v, %v", rs[0].Err, rs[1].Err)
		}
		var names []string
		err := p.Engine.DB().View(t.Context(), func(ctx context.Context, tx store.Tx) (err error) {
			names, err = store.Strings(ctx, tx, "SELECT name FROM pawl.signals")
			return err
		})
		if err != nil || len(names) != 1 || names[0] != "held" {
			t.Errorf("signals: %v, %v", names, err)
		}
	})
}

// A signal that is sent again while the old ones are removed stays.
func TestASignalThatIsSentAgainMeanwhileStays(t *testing.T) {
	t.Parallel()
	p := pawltest.Open(t, pawltest.Postgres)
	ctx, again, sent := t.Context(), sync.Once{}, false
	need[pawl.Signalled](t)(pawl.Signal(ctx, p.Engine, "go", "", nil))
	p.Advance(31 * 24 * time.Hour)
	sweeper := p.Another(engine.Options{Statement: func(query string) {
		if strings.Contains(query, "SELECT sent_at") { // the lock of the signal, which was found to be old
			again.Do(func() {
				need[pawl.Signalled](t)(pawl.Signal(ctx, p.Engine, "go", "", nil))
				sent = true
			})
		}
	}})
	need[pawl.SweepStats](t)(sweeper.Sweep(ctx))
	if !sent {
		t.Fatal("it was not sent between the look for old ones and the lock")
	}
	need[pawl.Task](t)(pawl.Create(ctx, p.Engine, pawl.NewTask{Type: "a"}))
	l := leases(t, p.Engine, pawl.ClaimRequest{WorkerID: "w"}, 1)[0]
	m := need[pawl.Moved](t)(pawltest.First(p.Engine.Suspend(ctx, []pawl.SuspendCall{{Fence: l.Fence(), Signal: "go"}})))
	if it := need[pawl.Item](t)(p.Engine.GetItem(ctx, m.ID)); it.State != pawl.ItemQueued {
		t.Errorf("the signal is gone: the item is %s", it.State)
	}
}
