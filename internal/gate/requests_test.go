package gate_test

import (
	"context"
	"testing"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/internal/gate"
)

// read is a list of effects that counts how often all of an item are read.
type read struct {
	pawl.EffectReader
	effects []pawl.EffectRecord
	whole   int
}

func (r *read) ListEffects(_ context.Context, f pawl.EffectFilter) (out pawl.List[pawl.EffectRecord], err error) {
	if f.Key == "" {
		r.whole++
		out.Items = r.effects
	}
	return out, nil
}

// An attempt that has a counterpart for all that earlier ones have sent reads their effects once. While one has none, they
// are read each time: a person may have decided about it meanwhile, or its sender may say after all that it happened.
func TestEarlierEffectsAreReadOnce(t *testing.T) {
	ledger := &read{effects: []pawl.EffectRecord{{Key: "a", Name: "pay POST /x", State: pawl.EffectDone, Attempt: 1, Sendings: 1},
		{Key: "other", Name: "mail POST /x", State: pawl.EffectDone, Attempt: 1, Sendings: 1}}}
	sent := gate.NewRequests(false)
	changed := func(want bool, reads int) {
		t.Helper()
		got, err := sent.Changed(t.Context(), ledger, gate.Request{Fence: pawl.Fence{ItemID: "i", Attempt: 2}, Upstream: "pay", Key: "new"})
		if err != nil || got != want || ledger.whole != reads {
			t.Errorf("changed is %v after %d reads, want %v after %d: %v", got, ledger.whole, want, reads, err)
		}
	}
	changed(true, 1)
	ledger.effects[0].State = pawl.EffectFailed
	changed(false, 2)
	ledger.effects[0].State = pawl.EffectDone // as its sender says later
	changed(true, 3)
	sent.Meet("a")
	for range 5 {
		changed(false, 3)
	}
}
