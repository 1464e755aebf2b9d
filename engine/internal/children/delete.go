package children

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"golang.org/x/sync/errgroup"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/engine/internal/kernel"
	"github.com/pawl-work/pawl/store"
)

// childrenTogether is how many children are cancelled, or removed, in one transaction.
const childrenTogether = 100

// Delete implements kernel.Children.
func (a asked) Delete(ctx context.Context, k *kernel.Kernel, of kernel.Origin, call pawl.TaskCall, by store.Deletion,
	most *atomic.Int64) (gone bool, err error) {
	f := &family{a.state, k, of}
	if most == nil {
		most = new(atomic.Int64)
		most.Store(passOnAtOnce)
	}
	p := passedOn{Namespace: pawl.CallerOf(ctx).Namespace, TaskID: call.TaskID, Deletes: true}
	if !call.Force {
		live, err := f.liveChild(ctx, &p)
		if err == nil && live != "" {
			err = &pawl.Error{Code: pawl.CodeConflict, Op: "delete", Allowed: []string{},
				Message: "its child " + live + " has not ended; cancel its children first, or delete with force"}
		}
		return err == nil, err
	}
	begin := func(by store.Text) error { // who deletes the task after its children; "" = not noted yet
		return f.k.DB.Do(ctx, func(ctx context.Context, tx store.Tx) error {
			_, err := tx.Exec(ctx, texts["delete children"], store.TaskID(call.TaskID), by)
			return err
		})
	}
	if err := begin(""); err != nil {
		return false, err
	}
	gone, err = f.deleteChildrenOf(ctx, &p, "its parent "+call.TaskID+" is deleted", &heldChildren{}, most)
	if err != nil || gone {
		return gone, err
	}
	text, err := json.Marshal(by)
	if err == nil {
		err = begin(store.Text(text))
	}
	return false, err
}

// liveChild returns a child that has not ended; "" = none.
func (f *family) liveChild(ctx context.Context, p *passedOn) (id string, err error) {
	p = &passedOn{Namespace: p.Namespace, TaskID: p.TaskID} // nothing is marked
	for after := ""; ; {
		var live []string
		err := f.k.DB.View(ctx, func(ctx context.Context, tx store.Tx) (err error) {
			live, after, err = p.Next(ctx, tx, after, childPage)
			return err
		})
		if err != nil || len(live) > 0 || after == "" {
			return strings.Join(live[:min(1, len(live))], ""), err
		}
	}
}

// deleteChildrenOf marks the children of a parent that have not ended, and deletes them, and the
// children of these, at most as many as most says. gone says that none is left.
func (f *family) deleteChildrenOf(ctx context.Context, p *passedOn, reason string, held *heldChildren,
	most *atomic.Int64) (gone bool, err error) {
	for after := ""; ; {
		from := after
		err := f.k.DB.Do(ctx, func(ctx context.Context, tx store.Tx) (err error) {
			_, after, err = p.Next(ctx, tx, from, childPage)
			return err
		})
		if err != nil {
			return false, err
		}
		if after == "" {
			break
		}
	}
	doomed := func(after string, limit int) ([]string, error) {
		return kernel.Read(ctx, f.k, func(ctx context.Context, tx store.Tx, _ string) ([]string, error) {
			return p.Doomed(ctx, tx, after, limit)
		})
	}
	for after := ""; most.Load() > 0; {
		page, err := doomed(after, childPage)
		if err == nil && len(page) > 0 {
			after = page[len(page)-1]
			err = f.deleteSome(ctx, p, page, reason, held, most)
		}
		if err != nil {
			return false, err
		}
		if len(page) == 0 {
			break
		}
	}
	left, err := doomed("", 1)
	return len(left) == 0, err
}

// deletesAtOnce is how many children of one parent are deleted at the same time, where transactions
// write beside each other.
const deletesAtOnce = 8

// deleteSome deletes children of a parent that is deleted, and the children of these. Those that have no
// children are cancelled together, and then removed together.
func (f *family) deleteSome(ctx context.Context, p *passedOn, ids []string, reason string, held *heldChildren,
	most *atomic.Int64) error {
	c, tasks := pawl.CallerOf(ctx), f.tasks()
	by := store.Deletion{Key: c.Key, Reason: reason, Bulk: f.of.Bulk, Actor: kernel.Actor(c, pawl.ActorUser, "")}
	for some := range slices.Chunk(ids, childrenTogether) {
		if room := most.Add(-int64(len(some))) + int64(len(some)); room < int64(len(some)) {
			some = some[:max(0, room)]
		}
		if len(some) == 0 {
			return nil
		}
		live, err := f.cancelTogether(ctx, some, reason)
		if err != nil {
			return err
		}
		err = f.eachChild(ctx, live, held, func(ctx context.Context, call pawl.TaskCall) error {
			err := tasks.CancelAlone(ctx, &pawl.TaskCall{TaskID: call.TaskID, Reason: reason})
			if code := pawl.CodeOf(err); code == pawl.CodeConflict || code == pawl.CodeNotFound {
				err = nil
			}
			return err
		}, reason)
		if err != nil {
			return err
		}
		gone, err := tasks.DeleteEnded(ctx, p.Namespace, some, by)
		if err != nil && !errors.Is(err, store.ErrLocked) {
			return err
		}
		rest := slices.DeleteFunc(slices.Clone(some), func(id string) bool { return slices.Contains(gone, id) })
		err = f.eachChild(ctx, rest, held, func(ctx context.Context, call pawl.TaskCall) error {
			err := tasks.Delete(ctx, call, most)
			if pawl.CodeOf(err) == pawl.CodeNotFound {
				err = f.k.DB.Do(ctx, func(ctx context.Context, tx store.Tx) error { return p.Spare(ctx, tx, call.TaskID) })
			}
			return err
		}, reason)
		if err != nil {
			return err
		}
	}
	return nil
}

// eachChild runs one for each child. Some run at the same time where transactions write beside each
// other. Children that other transactions lock are left out, if held has patience.
func (f *family) eachChild(ctx context.Context, ids []string, held *heldChildren,
	one func(ctx context.Context, call pawl.TaskCall) error, reason string) error {
	var g errgroup.Group
	if g.SetLimit(1); f.k.DB.Dialect().ParallelWrites {
		g.SetLimit(deletesAtOnce)
	}
	var locked sync.Mutex
	for _, id := range ids {
		g.Go(func() error {
			locked.Lock()
			ctx := held.wait(ctx)
			locked.Unlock()
			err := one(ctx, pawl.TaskCall{TaskID: id, Force: true, Reason: reason})
			locked.Lock()
			defer locked.Unlock()
			if err != nil && held.leaves(err) {
				return nil
			}
			return err
		})
	}
	return g.Wait()
}
