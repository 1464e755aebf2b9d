package engine

import (
	"context"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/engine/internal/kernel"
	"github.com/pawl-work/pawl/store"
)

// over returns e with its verbs on another Kernel: the database, or a transaction that they share.
func (e *Engine) over(k *kernel.Kernel) *Engine {
	of := *e
	of.k, of.db, of.scope, of.rooms = k, k.DB, k.Scope, e.rooms.over(k)
	return &of
}

// on returns a function of an Engine as one of its Kernel.
func (e *Engine) on(fn func(ctx context.Context, e *Engine) error) func(context.Context, *kernel.Kernel) error {
	return func(ctx context.Context, k *kernel.Kernel) error { return fn(ctx, e.over(k)) }
}

// after runs fn when what e writes has committed; without a scope, that is now.
func (e *Engine) after(fn func()) { e.k.After(fn) }

// InTransaction reports whether the verbs of e share one transaction.
func (e *Engine) InTransaction() bool { return e.scope != nil }

// notInTx refuses a verb that runs in several transactions if e is inside one.
func (e *Engine) notInTx(op string) error { return e.k.NotInTx(op) }

// acts refuses a call that acts, while the database is quarantined. Every verb that acts begins
// with it.
func (e *Engine) acts(ctx context.Context, op string) error { return e.k.Acts(ctx, op) }

func (e *Engine) logError(ctx context.Context, what string, err error) { e.k.LogError(ctx, what, err) }

func forAll(ctx context.Context) context.Context { return kernel.ForAll(ctx) }

// ifUndone runs write again if the call of the scope is rolled back: it writes what a refusal leaves.
func (e *Engine) ifUndone(write func(ctx context.Context, e *Engine) error) {
	e.k.IfUndone(e.on(write))
}

// writeRefusal is kernel.Held for what a refusal leaves. If the refused call is rolled
// back, it is written again.
func (e *Engine) writeRefusal(
	ctx context.Context,
	f pawl.Fence,
	op string,
	fn func(ctx context.Context, tx store.Tx, g *store.LockedItem) error,
) error {
	write := func(ctx context.Context, e *Engine) error { return e.k.Held(ctx, f, op, fn) }
	err := write(ctx, e)
	if err == nil {
		e.ifUndone(write)
	}
	return err
}
