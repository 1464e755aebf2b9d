package signals_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/pawltest"
	"github.com/pawl-work/pawl/store"
)

// A wait for a signal leaves a row, which goes when the signal was never sent and no item waits for it any more.
func TestUnsentSignalsAreRemoved(t *testing.T) {
	pawltest.Each(t, func(t *testing.T, p *pawltest.Pawl) {
		ctx := t.Context()
		var tasks []string
		for _, key := range []string{"left", "waited for"} {
			tasks = append(tasks, p.Create(pawl.NewTask{Type: "a"}).ID)
			l := leases(t, p.Engine, pawl.ClaimRequest{WorkerID: "w"}, 1)[0]
			need[pawl.Moved](t)(pawltest.First(p.Engine.Suspend(ctx, []pawl.SuspendCall{{Fence: l.Fence(), Signal: "go", Key: key}})))
		}
		need[pawl.Task](t)(pawl.Cancel(ctx, p.Engine, tasks[0], ""))
		for _, want := range [][]string{{"left", "waited for"}, {"waited for"}} {
			need[pawl.SweepStats](t)(p.Engine.Sweep(ctx))
			p.OK(p.Engine.DB().View(ctx, func(ctx context.Context, tx store.Tx) error {
				keys, err := store.Strings(ctx, tx, "SELECT key FROM pawl.signals ORDER BY key")
				if !slices.Equal(keys, want) {
					t.Errorf("signals: %v, want %v", keys, want)
				}
				return err
			}))
			p.Advance(pawl.DefaultRetainSignals + time.Second)
		}
	})
}

// The engine sends a signal for each effect that was sent more than once: it is kept for a day, as those of budgets are.
func TestSignalsOfEffectsGoSooner(t *testing.T) {
	pawltest.Each(t, func(t *testing.T, p *pawltest.Pawl) {
		ctx := t.Context()
		for name, left := range map[string]int64{pawl.EffectSignal: 0, "go": 1} {
			need[pawl.Signalled](t)(pawl.Signal(ctx, p.Engine, name, "k", nil))
			p.Advance(pawl.RetainBudgetSignals + time.Second)
			if old := need[pawl.Prunable](t)(p.Engine.Prunable(ctx)); old.Signals != 1-left {
				t.Errorf("%d signals of %s would go, want %d", old.Signals, name, 1-left)
			}
			if s := need[pawl.SweepStats](t)(p.Engine.Sweep(ctx)); s.SignalsPruned != 1-left {
				t.Errorf("%d signals of %s went, want %d", s.SignalsPruned, name, 1-left)
			}
			p.Advance(pawl.DefaultRetainSignals)
			need[pawl.SweepStats](t)(p.Engine.Sweep(ctx))
		}
	})
}
