package store

import "testing"

// What the first sending of an effect has reserved is found by the key of the effect, and by its id, as older programs
// have stored it.
func TestTheFirstSendingIsFoundByBothKeys(t *testing.T) {
	f := EffectRow{ID: "eff_1", Key: "order-7", Budget: "b", Sendings: 3,
		Senders: `[{"item_id":"a","attempt":1},{"item_id":"a","attempt":2},{"item_id":"a","attempt":3}]`}
	for sending, want := range map[int][]string{1: {"effect order-7#1", "eff_1#1"}, 2: {"eff_1#2"}, 3: nil} {
		got := f.SpentEarlier(sending)
		if len(got) != len(want) {
			t.Fatalf("sending %d: %+v", sending, got)
		}
		for i := range got {
			if got[i].Key != want[i] || got[i].ItemID != "a" {
				t.Errorf("sending %d: %+v", sending, got[i])
			}
		}
	}
}
