package kernel

import (
	"context"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/engine/internal/rules"
	"github.com/pawl-work/pawl/store"
)

// Held runs fn in a transaction with a leased item locked, or returns why the fence does not hold.
func (k *Kernel) Held(ctx context.Context, f pawl.Fence, op string,
	fn func(ctx context.Context, tx store.Tx, g *store.LockedItem) error) error {
	for range 3 {
		held := false
		err := k.DB.Do(ctx, func(ctx context.Context, tx store.Tx) error {
			c := pawl.CallerOf(ctx)
			g, ok, err := store.LockFenced(ctx, tx, Fence(c, f))
			if held = ok; err != nil || !ok {
				return err
			}
			g.By = Actor(c, g.By.Type, g.By.ID)
			return fn(ctx, tx, &g)
		})
		if err != nil || held {
			return err
		}
		if err := k.CheckFence(ctx, f, op); err != nil {
			return err
		}
	}
	return Busy(op)
}

// CheckFence returns why a fence does not hold; nil = it does now.
func (k *Kernel) CheckFence(ctx context.Context, f pawl.Fence, op string) error {
	it, now, err := k.Item(ctx, f.ItemID)
	if err != nil {
		return err
	}
	return rules.CheckFence(rules.Item(it), f, now, op)
}

// Busy is the error of a call whose fence holds, but whose item others keep changing.
func Busy(op string) error {
	return &pawl.Error{Code: pawl.CodeUnavailable, Op: op, Message: "another call is changing the item; try again"}
}

// Item reads an item as it is now. One outside the caller's namespace is not_found.
func (k *Kernel) Item(ctx context.Context, id string) (it store.ItemRow, now int64, err error) {
	err = k.DB.View(ctx, func(ctx context.Context, tx store.Tx) (err error) {
		if now, err = store.NowAgain(ctx, tx); err != nil {
			return err
		}
		it, err = store.GetItem(ctx, tx, pawl.CallerOf(ctx).Namespace, id, now)
		return err
	})
	return it, now, err
}
