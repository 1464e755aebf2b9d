package sweep_test

import (
	"context"
	"testing"
	"time"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/pawltest"
	"github.com/pawl-work/pawl/store"
)

// A wait for a signal leaves a row, which goes when the signal was never sent and no item waits for it any more.
func TestUnsentSignalsAreRemoved(t *testing.T) {
	each(t, func(h *fixture) {
		var tasks []string
		for _, key := range []string{"left", "waited for"} {
			tasks = append(tasks, h.solos(1, 1)...)
			leases, err := h.Service.Claim(h.Context(), pawl.ClaimRequest{WorkerID: "w"})
			h.OK(err)
			_, err = pawltest.First(h.Service.Suspend(h.Context(),
				[]pawl.SuspendCall{{Fence: leases[0].Fence(), Signal: "go", Key: key}}))
			h.OK(err)
		}
		_, err := pawl.Cancel(h.Context(), h.Service, tasks[0], "")
		h.OK(err)
		for _, want := range [][]string{{"left", "waited for"}, {"waited for"}} {
			h.pass()
			h.OK(h.DB.View(h.Context(), func(ctx context.Context, tx store.Tx) error {
				keys, err := store.Strings(ctx, tx, "SELECT key FROM pawl.signals ORDER BY key")
				h.same(keys, want, "signals")
				return err
			}))
			h.Advance(pawl.DefaultRetainSignals + time.Second)
		}
	})
}

// The engine sends a signal for each effect that was sent more than once: it is kept for a day, as those of budgets are.
func TestSignalsOfEffectsGoSooner(t *testing.T) {
	each(t, func(h *fixture) {
		for name, left := range map[string]int64{pawl.EffectSignal: 0, "go": 1} {
			h.exec("INSERT INTO pawl.signals (namespace, name, key, payload, sent_at, created_at) VALUES ('default', $1, 'k', 'null', $2, $2)",
				name, h.Now().UnixMicro())
			h.Advance(pawl.RetainBudgetSignals + time.Second)
			preview, err := h.Preview(h.Context())
			h.OK(err)
			h.same(preview.Signals, 1-left, "signals that would go, of "+name)
			h.same(h.pass().SignalsPruned, 1-left, "signals that went, of "+name)
			h.exec("DELETE FROM pawl.signals")
		}
	})
}
