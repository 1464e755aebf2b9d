package store

import (
	"context"
	"fmt"

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

func (f *EffectRow) spendKey(sending int) string { return fmt.Sprintf("%s#%d", f.ID, sending) }

// SettleSpent settles what the newest sending of an effect has reserved, whatever became of the lease since. If it
// happened and is repeatable, earlier sendings have cost nothing: the outside has recognised the key.
func (f *EffectRow) SettleSpent(ctx context.Context, tx Tx, amount int64) error {
	if err := f.settle(ctx, tx, "reservation by id", f.ItemID, string(f.Reservation), amount); err != nil {
		return err
	}
	first := f.Sendings - len(f.senders()) + 1
	for n := first; f.State == pawl.EffectDone && f.Repeatable == 1 && n < f.Sendings; n++ {
		if err := f.SettleEarlier(ctx, tx, n); err != nil {
			return err
		}
	}
	return nil
}

// SettleEarlier settles with nothing what an earlier sending has reserved.
func (f *EffectRow) SettleEarlier(ctx context.Context, tx Tx, sending int) error {
	list := f.senders()
	i := sending - (f.Sendings - len(list) + 1)
	if i < 0 || i >= len(list)-1 {
		return nil
	}
	return f.settle(ctx, tx, "reservation by key", list[i].ItemID, f.spendKey(sending), 0)
}

// settle settles a reservation. A budget or a reservation that is not there any more needs no settling.
func (f *EffectRow) settle(ctx context.Context, tx Tx, by, itemID, which string, amount int64) error {
	if f.Budget == "" || which == "" {
		return nil
	}
	b, now, err := LockBudget(ctx, tx, f.Namespace, string(f.Budget))
	if err != nil {
		if pawl.CodeOf(err) == pawl.CodeNotFound {
			err = nil
		}
		return err
	}
	var r reservation
	found, err := Row(ctx, tx, r.targets(), budgetSQL[by], b.ID, ItemID(itemID), which)
	if err != nil || !found || r.state == reservationSettled && r.charged == amount {
		return err
	}
	r.move(&b, reservationSettled, amount)
	if err = r.write(ctx, tx, now); err == nil {
		err = b.count(ctx, tx)
	}
	return err
}
