package children

import (
	"context"
	"errors"
	"maps"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/engine/internal/kernel"
	"github.com/pawl-work/pawl/internal/clock"
	"github.com/pawl-work/pawl/store"
)

const (
	// passOnPage is how many parents, and how many waits, are listed at once.
	passOnPage = 50
	// passOnPatience is how many locked children a call leaves out before it leaves all others too.
	passOnPatience = 2
	// pages bounds the pages of awaited children that one call of settle compares.
	pages = 4
	// often is at most how often the loop counts ends of children that were not counted, and seldom how often it does so
	// untold. What tells it may come a little early.
	often, seldom, early = 2 * time.Second, 30 * time.Second, 250 * time.Millisecond
	// lockedMemory is how long the ends of children of a parent that another transaction locks, and the cancels of its
	// children, are left to the next pass.
	lockedMemory = often
)

// lockedRows are items that wait for children, and parents whose children are to be cancelled, of
// which another transaction locked a row a short time ago.
type lockedRows struct {
	mu    sync.Mutex
	until map[string]time.Time
}

func (l *lockedRows) note(id string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := clock.Now()
	maps.DeleteFunc(l.until, func(_ string, t time.Time) bool { return now.After(t) })
	if l.until == nil {
		l.until = map[string]time.Time{}
	}
	l.until[id] = now.Add(lockedMemory)
}

func (l *lockedRows) has(id string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return clock.Now().Before(l.until[id])
}

// Ended implements kernel.Children.
func (a asked) Ended(ctx context.Context, k *kernel.Kernel, of kernel.Origin, ids []string) {
	if len(ids) > 0 {
		(&family{a.state, k, of}).ended(ctx, ids)
	}
}

// ended counts tasks that may be children, and may have ended, in the waits for them. If it fails, settle counts them.
func (f *family) ended(ctx context.Context, ids []string) {
	if f.k.Scope != nil {
		f.k.After(func() { f.atRoot().ended(ctx, ids) })
		return
	}
	ctx = store.WithLockWait(context.WithoutCancel(ctx), kernel.LockedCall)
	for page := range slices.Chunk(ids, childPage) {
		err := f.countEnded(ctx, page)
		if errors.Is(err, store.ErrLocked) {
			err = f.countApart(ctx, page, f.locked.has)
		}
		if err != nil {
			f.k.LogError(ctx, "children that ended are counted by the next pass", err)
			return
		}
	}
}

// countEnded counts children together with those of other calls.
func (f *family) countEnded(ctx context.Context, ids []string) error {
	rows := make([]endedChild, len(ids))
	for i, id := range ids {
		rows[i] = endedChild{Ord: i, TaskID: id}
	}
	ended, err := f.ends.Do(ctx, f.k.DB, rows)
	if err != nil {
		return err
	}
	for _, c := range ended {
		f.counted(ctx, c)
	}
	return nil
}

// countApart counts children in the waits for them, so that a locked wait stops no other. Items
// that are left out, and those whose waits are locked, are left to the next pass.
func (f *family) countApart(ctx context.Context, ids []string, leftOut func(item string) bool) error {
	var by map[string][]string
	err := f.k.DB.View(ctx, func(ctx context.Context, tx store.Tx) (err error) {
		by, err = store.EndedAwaited(ctx, tx, ids)
		return err
	})
	if err != nil {
		return err
	}
	maps.DeleteFunc(by, func(item string, _ []string) bool { return leftOut(item) })
	return store.Apart(ctx, slices.Sorted(maps.Keys(by)), func(ctx context.Context, items []string) error {
		var ids []string
		for _, item := range items {
			ids = append(ids, by[item]...)
		}
		slices.Sort(ids)
		var ended store.ChildrenEnded
		err := f.k.DB.Do(ctx, func(ctx context.Context, tx store.Tx) (err error) {
			ended, err = store.EndTasks(ctx, tx, slices.Compact(ids), func(item string) bool { return !slices.Contains(items, item) })
			return err
		})
		if err == nil {
			f.counted(ctx, ended)
		}
		return err
	}, func(err error) bool { return kernel.StopsAll(ctx, err) }, func(item string, err error) {
		f.locked.note(item)
		f.k.LeftAside(ctx, "children that ended are counted by the next pass", err, "item_id", item)
	})
}

// Counted implements kernel.Children.
func (a asked) Counted(ctx context.Context, c store.ChildrenEnded) { a.atRoot().counted(ctx, c) }

// counted goes on with what the ends of children have moved, after the commit.
func (f *family) counted(ctx context.Context, c store.ChildrenEnded) {
	if len(c.Woken) > 0 {
		f.tasks().Follow(ctx, kernel.After{Queued: c.Woken})
	}
	for i, d := range c.Failed {
		f.tasks().Follow(pawl.As(ctx, pawl.Caller{Namespace: d.Namespace}), kernel.After{Failed: &c.Failed[i]})
	}
	if c.Cancels {
		f.passOn(ctx)
	}
}

// Settle implements kernel.Children.
func (a asked) Settle(ctx context.Context) error { return a.atRoot().settle(ctx) }

func (f *family) settle(ctx context.Context) error {
	ctx = store.WithLockWait(ctx, kernel.LockedRow)
	return errors.Join(f.countAwaited(ctx), f.passOnAll(ctx, math.MaxInt, math.MaxInt))
}

func (f *family) countAwaited(ctx context.Context) error {
	var after awaited
	if last := f.after.Load(); last != nil {
		after = *last
	}
	for range pages {
		var open []awaited
		err := f.k.Look(ctx, func(ctx context.Context, tx store.Tx) (err error) {
			open, err = openAwaited(ctx, tx, after, childPage)
			return err
		})
		if err == nil && len(open) > 0 {
			ids := make([]string, len(open))
			for i, a := range open {
				ids[i] = a.ChildID
			}
			err = f.countApart(ctx, ids, func(string) bool { return false })
		}
		if err != nil {
			return err
		}
		if after = (awaited{}); len(open) < childPage {
			break
		}
		after = open[len(open)-1]
	}
	f.after.Store(&after)
	return nil
}

// watch counts, until ctx ends, what other processes should have counted.
func (f *family) watch(ctx context.Context) {
	ctx = store.WithLimit(ctx, kernel.PassLimit)
	tick := time.NewTicker(seldom)
	defer tick.Stop()
	for last := (time.Time{}); ; {
		if clock.Now().Sub(last) >= often-early { // else it is told again
			last = clock.Now()
			if err := f.settle(ctx); err != nil {
				f.k.LogError(ctx, "counting children that ended failed; retrying", err)
			}
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		case <-f.told:
		}
	}
}
