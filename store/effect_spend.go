package store

import (
	"fmt"
	"slices"

	"github.com/pawl-work/pawl"
)

// SendingOf returns the number n if that sending is one of a claim, or the number of the claim's newest sending if n is 0.
// 0 = the claim has none, or it is not remembered.
func (f *EffectRow) SendingOf(s EffectSender, n int) int {
	list := f.senders()
	for i := len(list) - 1; i >= 0; i-- {
		if at := f.Sendings - len(list) + 1 + i; list[i] == s && (n == 0 || n == at) {
			return at
		}
	}
	return 0
}

// SpendKey is the key of what the next sending of an effect reserves.
func (f *EffectRow) SpendKey() string { return f.spendKey(f.Sendings + 1) }

// FirstSpendKey begins the keys of what first sendings reserve. A caller has no such key.
const FirstSpendKey = "effect "

// An effect that was refused for its budget has another id when it is opened again, and asks for the same.
func (f *EffectRow) spendKey(sending int) string {
	if sending == 1 {
		return FirstSpendKey + f.Key + "#1"
	}
	return f.spendKeyByID(sending)
}

func (f *EffectRow) spendKeyByID(sending int) string { return fmt.Sprintf("%s#%d", f.ID, sending) }

// Spent is what is to be recorded of a reservation of an effect, which is named by its id or by its key.
type Spent struct {
	Namespace, Budget, ItemID string
	Reservation, Key          string
	Amount                    int64
}

// Spent returns what is to be recorded of what the newest sending of an effect has reserved, whatever became of the lease
// since. If it happened and is repeatable, earlier sendings have cost nothing: the outside has recognised the key.
func (f *EffectRow) Spent(amount int64) (out []Spent) {
	if f.Budget != "" && f.Reservation != "" {
		out = append(out, Spent{Namespace: f.Namespace, Budget: string(f.Budget), ItemID: f.ItemID, Reservation: string(f.Reservation),
			Amount: amount})
	}
	first := f.Sendings - len(f.senders()) + 1
	for n := first; f.State == pawl.EffectDone && f.Repeatable == 1 && n < f.Sendings; n++ {
		out = append(out, f.SpentEarlier(n)...)
	}
	return out
}

// SpentEarlier is Spent of an earlier sending, which has cost nothing.
func (f *EffectRow) SpentEarlier(sending int) []Spent {
	list := f.senders()
	i := sending - (f.Sendings - len(list) + 1)
	if i < 0 || i >= len(list)-1 || f.Budget == "" {
		return nil
	}
	earlier := Spent{Namespace: f.Namespace, Budget: string(f.Budget), ItemID: list[i].ItemID, Key: f.spendKey(sending)}
	byID := earlier // older programs have reserved what the first sending costs by the id
	byID.Key = f.spendKeyByID(sending)
	return slices.Compact([]Spent{earlier, byID})
}
