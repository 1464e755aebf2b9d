package hot

import (
	"context"
	_ "embed"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/store"
)

var (
	//go:embed reserve.sql
	reserveSQL string
	//go:embed settle.sql
	settleSQL string
)

// Reserve implements store.Hot.
func (Verbs) Reserve(ctx context.Context, tx store.Tx, f store.Fence, id, budget string, c *pawl.ReserveCall) (out pawl.Reserved, done bool,
	err error) {
	out.Reservation, out.Amount = id, c.Amount
	done, err = store.Row(ctx, tx, []any{&out.Remaining}, reserveSQL, store.ItemID(f.ItemID), f.Namespace, f.WorkerID, f.Attempt, budget, id,
		c.Key, c.Amount, store.Text(c.AgentID), store.Text(c.Model), store.Text(c.Unit))
	return out, done, err
}

// Settle implements store.Hot.
func (Verbs) Settle(ctx context.Context, tx store.Tx, f store.Fence, budget string, c *pawl.SettleCall) (out pawl.Settled, done bool,
	err error) {
	done, err = store.Row(ctx, tx, []any{&out.Remaining, &out.Spent}, settleSQL, store.ItemID(f.ItemID), f.Namespace, f.WorkerID, f.Attempt,
		budget, c.Reservation, c.Amount)
	return out, done, err
}
