package children

import (
	"cmp"
	"context"
	"errors"
	"math"
	"slices"
	"sync/atomic"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/engine/internal/kernel"
	"github.com/pawl-work/pawl/store"
)

const (
	// childPage bounds the children that one transaction looks at.
	childPage = 500
	// passOnAtOnce is how many children a call cancels before it is answered. The others follow.
	passOnAtOnce = 1000
)

// passOnTo cancels the children of one parent, or those of one wait, until it has cancelled most
// or more. It returns how many it cancelled. Children that other transactions lock are left out,
// up to patience of them; then it ends with the error of a lock, and is to be called again.
func (f *family) passOnTo(ctx context.Context, p *passedOn, most, patience int) (n int, err error) {
	reason := "its parent " + p.TaskID + " was cancelled"
	switch {
	case p.Deletes:
		reason = "its parent " + p.TaskID + " is deleted"
	case p.ItemID != "":
		reason = "another child of its parent " + p.TaskID + " failed"
	}
	held := &heldChildren{patience: patience}
	if p.Deletes {
		var room atomic.Int64
		room.Store(int64(most))
		gone, err := f.deleteChildrenOf(ctx, p, reason, held, &room)
		n = most - int(max(0, room.Load()))
		switch {
		case err == nil && !gone && held.err == nil && room.Load() > 0:
			return n, errMoreChildren
		case err != nil || !gone && held.err == nil:
			return n, err
		}
	}
	for after := ""; !p.Deletes; {
		var live []string
		from := after
		err := f.k.DB.Do(ctx, func(ctx context.Context, tx store.Tx) (err error) {
			live, after, err = p.Next(ctx, tx, from, childPage)
			return err
		})
		if err == nil {
			err = f.cancelChildren(ctx, live, reason, held)
		}
		if n += len(live); err != nil || after != "" && n >= most {
			return n, err
		}
		if after == "" {
			break
		}
	}
	if held.err != nil {
		return n, held.err
	}
	if p.By != nil {
		return n, f.tasks().Remove(ctx, p.Namespace, p.TaskID, *p.By)
	}
	return n, f.k.DB.Do(ctx, func(ctx context.Context, tx store.Tx) error { return p.Done(ctx, tx) })
}

// heldChildren counts children that other transactions lock.
type heldChildren struct {
	patience int   // how many may be left out
	err      error // of the last one
}

// leaves reports whether a child is left out because of an error. The next ones wait less for locks.
func (h *heldChildren) leaves(err error) bool {
	if !errors.Is(err, store.ErrLocked) || h.patience == 0 {
		return false
	}
	h.patience--
	h.err = err
	return true
}

func (h *heldChildren) wait(ctx context.Context) context.Context {
	if h.err == nil {
		return ctx
	}
	return store.WithLockWait(ctx, kernel.LockedRow)
}

// cancelChildren cancels tasks; one that has ended meanwhile stays as it is.
func (f *family) cancelChildren(ctx context.Context, ids []string, reason string, held *heldChildren) error {
	var rest []string
	for some := range slices.Chunk(ids, childrenTogether) {
		some, err := f.cancelTogether(ctx, some, reason)
		if err != nil {
			return err
		}
		rest = append(rest, some...)
	}
	for _, id := range rest {
		ctx := held.wait(ctx)
		err := f.tasks().CancelAlone(ctx, &pawl.TaskCall{TaskID: id, Reason: reason})
		code := pawl.CodeOf(err)
		if err != nil && code != pawl.CodeConflict && code != pawl.CodeNotFound && !held.leaves(err) {
			return err
		}
	}
	if len(ids) > 0 {
		f.ended(ctx, ids)
	}
	return nil
}

// PassOn implements kernel.Children.
func (a asked) PassOn(ctx context.Context, k *kernel.Kernel, of kernel.Origin) {
	(&family{a.state, k, of}).passOn(ctx)
}

func (f *family) passOn(ctx context.Context) {
	if f.k.Scope != nil {
		f.k.After(func() { f.atRoot().passOn(ctx) })
		return
	}
	ctx = store.WithLockWait(context.WithoutCancel(ctx), kernel.LockedCall)
	if err := f.passOnAll(ctx, passOnAtOnce, passOnPatience); err != nil {
		f.k.LeftAside(ctx, "children are cancelled by the next pass", err)
	}
}

// passOnAll goes down one generation after the other: a cancelled child notes that its own
// children are to be cancelled. It stops when it has cancelled most children or more. Parents of
// which a row is locked are left to the next call, up to patience of them; each may have patience
// locked children.
func (f *family) passOnAll(ctx context.Context, most, patience int) error {
	left := map[string]bool{} // items and parents
	for moved := true; moved; {
		moved = false
		for after := (passOnCursor{}); ; {
			var todo []passedOn
			err := f.k.Look(ctx, func(ctx context.Context, tx store.Tx) (err error) {
				todo, err = toPassOn(ctx, tx, &after, passOnPage)
				return err
			})
			if err != nil {
				return err
			}
			if len(todo) == 0 {
				break
			}
			for i := range todo {
				p := &todo[i]
				id := cmp.Or(p.ItemID, p.TaskID)
				if left[id] || patience < math.MaxInt && f.locked.has(id) {
					continue
				}
				n, err := f.passOnTo(pawl.As(ctx, pawl.Caller{Namespace: p.Namespace, ActorType: pawl.ActorSystem}), p, most, patience)
				if most -= n; err != nil && (kernel.StopsAll(ctx, err) || len(left) >= patience) || most <= 0 {
					return err
				}
				moved = moved || err == nil
				if left[id] = err != nil; err != nil {
					f.locked.note(id)
					f.k.LeftAside(ctx, "children are cancelled by the next pass", err, "task_id", p.TaskID)
				}
			}
		}
	}
	return nil
}

// cancelTogether cancels those of some children that are tasks of one item with nothing beside it,
// in one transaction, and returns the others. It waits for no lock for long: if another transaction
// has one, all are cancelled one by one.
func (f *family) cancelTogether(ctx context.Context, ids []string, reason string) (rest []string, err error) {
	var done store.PlainApplied
	brief := store.WithLockWait(ctx, kernel.LockedRow)
	err = f.k.Write(brief, func(ctx context.Context, w *kernel.Write) error {
		done = store.PlainApplied{}
		held, err := store.LockTasks(ctx, w.Tx, w.Caller.Namespace, ids)
		if err != nil || len(held) == 0 {
			return err
		}
		now, err := w.NowAgain(ctx)
		if err == nil {
			done, err = store.ApplyToPlain(ctx, w.Tx, now, store.Change{Namespace: w.Caller.Namespace, Verb: "cancel",
				Actor: w.Actor(pawl.ActorUser, ""), Reason: store.Text(reason), Data: f.of.Data()}, held)
		}
		return err
	})
	if err != nil {
		if kernel.StopsAll(ctx, err) {
			return nil, err
		}
		return ids, nil
	}
	f.tasks().Follow(brief, kernel.After{Queued: done.Released, Children: done.Children})
	return slices.DeleteFunc(slices.Clone(ids), func(id string) bool { _, plain := done.Tasks[id]; return plain }), nil
}

// errMoreChildren is that of a parent of which a child is still being deleted: the next pass goes on.
var errMoreChildren = errors.New("a child is still being deleted")
