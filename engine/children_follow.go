package engine

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"maps"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/engine/internal/kernel"
	"github.com/pawl-work/pawl/engine/internal/tasktypes"
	"github.com/pawl-work/pawl/internal/clock"
	"github.com/pawl-work/pawl/store"
)

const (
	// passOnPage is how many parents, and how many waits, are listed at once.
	passOnPage = 50
	// passOnPatience is how many locked children a call leaves out before it leaves all others too.
	passOnPatience = 2
	// childrenPages bounds the pages of awaited children that one call of settleAwaited compares.
	childrenPages = 4
	// childrenPeek is how often Run counts ends of children that were not counted.
	childrenPeek = 2 * time.Second
	// lockedParent is how long the end of a child waits for a parent that another transaction locks,
	// and how long a cancel waits for the first child. Then they are left to the next pass, for
	// lockedMemory also the other ends of this parent's children.
	lockedParent = 500 * time.Millisecond
	lockedMemory = childrenPeek
	// lockedRow is how long work in the background waits for each locked row.
	lockedRow = kernel.LockedRow
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

// childrenEnded counts tasks that may be children, and may have ended, in the waits for them.
// If it fails, settleAwaited counts them.
func (e *Engine) childrenEnded(ctx context.Context, ids []string) {
	if len(ids) == 0 {
		return
	}
	if e.scope != nil {
		e.after(func() { e.root.childrenEnded(ctx, ids) })
		return
	}
	ctx = store.WithLockWait(context.WithoutCancel(ctx), lockedParent)
	for page := range slices.Chunk(ids, childPage) {
		err := e.countEnded(ctx, page)
		if errors.Is(err, store.ErrLocked) {
			err = e.countApart(ctx, page, e.lockedRows.has)
		}
		if err != nil {
			e.logError(ctx, "children that ended are counted by the next pass", err)
			return
		}
	}
}

// countEnded counts children together with those of other calls.
func (e *Engine) countEnded(ctx context.Context, ids []string) error {
	rows := make([]endedChild, len(ids))
	for i, id := range ids {
		rows[i] = endedChild{Ord: i, TaskID: id}
	}
	ended, err := e.committers.children.Do(ctx, e.db, rows)
	if err != nil {
		return err
	}
	for _, c := range ended {
		e.childrenCounted(ctx, c)
	}
	return nil
}

// countApart counts children in the waits for them, so that a locked wait stops no other. Items
// that are left out, and those whose waits are locked, are left to the next pass.
func (e *Engine) countApart(ctx context.Context, ids []string, leftOut func(item string) bool) error {
	var by map[string][]string
	err := e.db.View(ctx, func(ctx context.Context, tx store.Tx) (err error) {
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
		err := e.db.Do(ctx, func(ctx context.Context, tx store.Tx) (err error) {
			ended, err = store.EndTasks(ctx, tx, slices.Compact(ids), func(item string) bool { return !slices.Contains(items, item) })
			return err
		})
		if err == nil {
			e.childrenCounted(ctx, ended)
		}
		return err
	}, func(err error) bool { return kernel.StopsAll(ctx, err) }, func(item string, err error) {
		e.lockedRows.note(item)
		e.leftAside(ctx, "children that ended are counted by the next pass", err, "item_id", item)
	})
}

// leftAside logs that something is left to the next pass. A lock that another transaction holds is no
// error.
func (e *Engine) leftAside(ctx context.Context, what string, err error, args ...any) {
	args = append(args, "error", err)
	if errors.Is(err, store.ErrLocked) || errors.Is(err, tasktypes.ErrNoHook) {
		e.log.DebugContext(ctx, what, args...)
	} else {
		e.log.WarnContext(ctx, what, args...)
	}
}

// childrenCounted goes on with what the ends of children have moved, after the commit.
func (e *Engine) childrenCounted(ctx context.Context, c store.ChildrenEnded) {
	if len(c.Woken) > 0 {
		e.itemsQueued(c.Woken)
	}
	for _, d := range c.Failed {
		e.follow(pawl.As(ctx, pawl.Caller{Namespace: d.Namespace}),
			effects{followUp: true, ended: []string{d.ItemID}, failing: []string{d.TaskID}, children: []string{d.TaskID}})
	}
	if c.Cancels {
		e.passOn(ctx)
	}
}

// settleAwaited counts children that ended when the process that should have counted them died,
// and goes on with cancels that it should have passed on. Waits that are over cost nothing.
func (e *Engine) settleAwaited(ctx context.Context) error {
	ctx = store.WithLockWait(ctx, lockedRow)
	return errors.Join(e.countAwaited(ctx), e.passOnAll(ctx, math.MaxInt, math.MaxInt))
}

func (e *Engine) countAwaited(ctx context.Context) error {
	var after awaited
	if last := e.awaitedAfter.Load(); last != nil {
		after = *last
	}
	for range childrenPages {
		var open []awaited
		err := e.k.Look(ctx, func(ctx context.Context, tx store.Tx) (err error) {
			open, err = openAwaited(ctx, tx, after, childPage)
			return err
		})
		if err == nil && len(open) > 0 {
			ids := make([]string, len(open))
			for i, a := range open {
				ids[i] = a.ChildID
			}
			err = e.countApart(ctx, ids, func(string) bool { return false })
		}
		if err != nil {
			return err
		}
		if after = (awaited{}); len(open) < childPage {
			break
		}
		after = open[len(open)-1]
	}
	e.awaitedAfter.Store(&after)
	return nil
}

// passOn cancels, or deletes, the children of tasks that were cancelled or deleted. What is left
// when it fails is left to the next pass.
func (e *Engine) passOn(ctx context.Context) {
	if e.scope != nil {
		e.after(func() { e.root.passOn(ctx) })
		return
	}
	ctx = store.WithLockWait(context.WithoutCancel(ctx), lockedParent)
	if err := e.passOnAll(ctx, passOnAtOnce, passOnPatience); err != nil {
		e.leftAside(ctx, "children are cancelled by the next pass", err)
	}
}

// passOnAll goes down one generation after the other: a cancelled child notes that its own
// children are to be cancelled. It stops when it has cancelled most children or more. Parents of
// which a row is locked are left to the next call, up to patience of them; each may have patience
// locked children.
func (e *Engine) passOnAll(ctx context.Context, most, patience int) error {
	left := map[string]bool{} // items and parents
	for moved := true; moved; {
		moved = false
		for after := (passOnCursor{}); ; {
			var todo []passedOn
			err := e.k.Look(ctx, func(ctx context.Context, tx store.Tx) (err error) {
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
				if left[id] || patience < math.MaxInt && e.lockedRows.has(id) {
					continue
				}
				n, err := e.passOnTo(pawl.As(ctx, pawl.Caller{Namespace: p.Namespace, ActorType: pawl.ActorSystem}), p, most, patience)
				if most -= n; err != nil && (kernel.StopsAll(ctx, err) || len(left) >= patience) || most <= 0 {
					return err
				}
				moved = moved || err == nil
				if left[id] = err != nil; err != nil {
					e.lockedRows.note(id)
					e.leftAside(ctx, "children are cancelled by the next pass", err, "task_id", p.TaskID)
				}
			}
		}
	}
	return nil
}

// watchChildren counts, until ctx ends, what other processes should have counted.
func (e *Engine) watchChildren(ctx context.Context) {
	tick := time.NewTicker(seldom)
	defer tick.Stop()
	for last := (time.Time{}); ; {
		if clock.Now().Sub(last) >= childrenPeek-peek/2 { // else it is told again
			last = clock.Now()
			if err := e.settleAwaited(ctx); err != nil {
				e.logError(ctx, "counting children that ended failed; retrying", err)
			}
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		case <-e.childrenLeft:
		}
	}
}

// passedOn is a cancel, or a delete, that children still have to get: those of a parent or, of a
// wait, those that an item waited for.
type passedOn struct {
	Namespace, TaskID string
	ItemID            string // of a wait; "" = of a parent
	Deletes           bool
	By                *store.Deletion // of the parent, which is removed after its children; nil = it stays
	listed            []string        // children of a wait that Next has listed
}

// passOnCursor is the last parent and the last wait that toPassOn has listed. The zero value is
// before all others.
type passOnCursor struct{ TaskID, ItemID string }

// toPassOn lists up to limit parents and limit waits after a cursor with children to cancel, and
// moves the cursor on.
func toPassOn(ctx context.Context, tx store.Tx, after *passOnCursor, limit int) ([]passedOn, error) {
	var out []passedOn
	for _, query := range []string{"cancelling waits", "cancelled parents"} {
		from := any(store.FromTask(after.TaskID))
		if query == "cancelling waits" {
			from = store.FromItem(after.ItemID)
		}
		rows, err := tx.Query(ctx, childrenSQL[query], limit, from)
		if err != nil {
			return nil, err
		}
		defer rows.Close()
		for rows.Next() {
			var p passedOn
			var todo int
			var by store.Text
			if err := rows.Scan(&p.Namespace, (*store.TaskID)(&p.TaskID), (*store.ItemID)(&p.ItemID), &todo, &by); err != nil {
				return nil, err
			}
			if by != "" {
				p.By = new(store.Deletion)
				_ = json.Unmarshal([]byte(by), p.By) // written by us
			}
			p.Deletes = todo > 1
			out = append(out, p)
		}
		if err := rows.Err(); err != nil {
			return nil, err
		}
		rows.Close()
	}
	for i := range out {
		if p := &out[i]; p.ItemID != "" {
			after.ItemID = p.ItemID
		} else {
			after.TaskID = p.TaskID
		}
	}
	return out, nil
}

// Next lists the next children after an id that have not ended, out of up to limit. last is the
// last one that was looked at; "" = there are no more. Children that are to be deleted are
// marked, so that a deletion goes on after they were cancelled.
func (p *passedOn) Next(ctx context.Context, tx store.Tx, after string, limit int) (live []string, last string, err error) {
	query, of := "children of parent", any(store.TaskID(p.TaskID))
	if p.ItemID != "" {
		query, of = "children of wait", store.ItemID(p.ItemID)
	}
	ids, err := store.TaskIDs(ctx, tx, childrenSQL[query], of, store.TaskID(cmp.Or(after, store.FirstTask)), limit)
	if err != nil || len(ids) == 0 {
		return nil, "", err
	}
	p.listed = append(p.listed, ids...)
	states, err := store.StatesOfChildren(ctx, tx, ids)
	if err != nil {
		return nil, "", err
	}
	for _, id := range ids {
		if s, there := states[id]; there && !s.State.Ended() {
			live = append(live, id)
		}
	}
	if p.Deletes && len(live) > 0 {
		_, err = tx.Exec(ctx, childrenSQL["doom children"], store.TaskList(live))
	}
	return live, ids[len(ids)-1], err
}

// Doomed lists up to limit children of a parent, after an id, that are to be deleted.
func (p *passedOn) Doomed(ctx context.Context, tx store.Tx, after string, limit int) ([]string, error) {
	return store.TaskIDs(ctx, tx, childrenSQL["doomed children"], store.TaskID(p.TaskID), store.FromTask(after), limit)
}

// Spare notes that a child is not to be deleted any more: it is gone.
func (p *passedOn) Spare(ctx context.Context, tx store.Tx, childID string) error {
	_, err := tx.Exec(ctx, childrenSQL["spare child"], store.TaskID(childID))
	return err
}

// Done notes that nothing is left to pass on: of a wait, to the children that Next has listed.
func (p *passedOn) Done(ctx context.Context, tx store.Tx) (err error) {
	if p.ItemID != "" {
		_, err = tx.Exec(ctx, childrenSQL["rest is cancelled"], store.ItemID(p.ItemID), store.TaskList(p.listed))
	} else {
		_, err = tx.Exec(ctx, childrenSQL["passed on"], store.TaskID(p.TaskID), 1+store.Bit(p.Deletes))
	}
	return err
}
