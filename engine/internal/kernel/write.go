package kernel

import (
	"cmp"
	"context"
	"time"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/store"
)

// Write is one call's part of a write transaction. The transaction may be shared with other parts.
type Write struct {
	Tx     store.Tx
	Caller pawl.Caller
	after  []func()
}

// Write runs fn as a part of a write transaction. An error undoes the part. fn may run more than once, each time
// with a new Write, and must have no other effect than by it.
func (k *Kernel) Write(ctx context.Context, fn func(ctx context.Context, w *Write) error) error {
	var w *Write
	err := k.DB.Do(ctx, func(ctx context.Context, tx store.Tx) error {
		w = &Write{Tx: tx, Caller: pawl.CallerOf(ctx)}
		return fn(ctx, w)
	})
	if err != nil {
		return err
	}
	for _, then := range w.after {
		k.After(then)
	}
	return nil
}

// After has fn run when what w writes has committed.
func (w *Write) After(fn func()) { w.after = append(w.after, fn) }

// Now returns the time of the transaction.
func (w *Write) Now(ctx context.Context) (int64, error) { return w.Tx.Now(ctx) }

// NowAgain reads the time again, after a wait for a lock; see store.NowAgain.
func (w *Write) NowAgain(ctx context.Context) (int64, error) { return store.NowAgain(ctx, w.Tx) }

// Actor returns the actor of an event: the one that the caller states, or the verb's default.
func (w *Write) Actor(kind, id string) store.Actor { return Actor(w.Caller, kind, id) }

// Read runs fn on a snapshot of what the caller's namespace has, or in the transaction of a scope.
func Read[T any](ctx context.Context, k *Kernel, fn func(ctx context.Context, tx store.Tx, namespace string) (T, error)) (T, error) {
	var out T
	err := k.DB.View(ctx, func(ctx context.Context, tx store.Tx) (err error) {
		out, err = fn(ctx, tx, pawl.CallerOf(ctx).Namespace)
		return err
	})
	return out, err
}

// Actor returns the actor that a caller states, or a default.
func Actor(c pawl.Caller, kind, id string) store.Actor {
	return store.Actor{Type: cmp.Or(c.ActorType, kind), ID: cmp.Or(c.ActorID, id), Key: c.Key}
}

// Micros returns a time in the microseconds that are stored; nil = none.
func Micros(t *time.Time) *int64 {
	if t == nil {
		return nil
	}
	us := t.UnixMicro()
	return &us
}
