package engine

import (
	"context"
	"sync"

	"github.com/pawl-work/pawl/store"
)

// lanes are the engine's: one for each hot verb, heartbeats apart from progress,
// so that neither waits for the other's statement.
type lanes struct {
	create     lane[draft, born]
	claim      lane[claiming, store.Claimed]
	heartbeat  lane[store.Touch, store.Touched]
	progress   lane[store.Touch, store.Touched]
	checkpoint lane[store.Checkpoint, store.Checkpointed]
	append     lane[store.Append, store.Appended]
	complete   lane[store.Complete, store.Moved]
	leave      lane[store.Leave, store.Moved]
	await      lane[store.Leave, store.Moved] // suspends for signals
	read       lane[reading, read]
}

func (e *Engine) openLanes() {
	hot, l := e.db.Dialect().Hot, &e.lanes
	l.create = lane[draft, born]{ord: func(d *draft) *int { return &d.ord }, of: func(b *born) *int { return &b.ord }, size: func(d *draft) int { return len(d.items) }, heft: (*draft).bytes,
		run: auto(func(ctx context.Context, tx store.Tx, rows []draft) ([]born, error) {
			return insertDrafts(ctx, tx, hot, rows)
		})}
	l.claim = lane[claiming, store.Claimed]{ord: func(c *claiming) *int { return &c.ord }, of: func(a *store.Claimed) *int { return &a.Claimant },
		fits: sameStretch, size: func(c *claiming) int { return c.who.Limit }, run: (*Engine).claimGroup, orphan: e.disclaim}
	touch := func() lane[store.Touch, store.Touched] {
		return lane[store.Touch, store.Touched]{item: func(r *store.Touch) string { return r.ItemID },
			ord: func(r *store.Touch) *int { return &r.Ord }, of: func(a *store.Touched) *int { return &a.Ord }, run: auto(hot.Touch)}
	}
	l.heartbeat, l.progress = touch(), touch()
	l.checkpoint = lane[store.Checkpoint, store.Checkpointed]{heft: func(r *store.Checkpoint) int { return len(r.Snapshot) + len(r.Metadata) }, item: func(r *store.Checkpoint) string { return r.ItemID },
		ord: func(r *store.Checkpoint) *int { return &r.Ord }, of: func(a *store.Checkpointed) *int { return &a.Ord }, run: auto(hot.Checkpoint)}
	l.append = lane[store.Append, store.Appended]{item: func(r *store.Append) string { return r.ItemID }, heft: func(r *store.Append) int { return len(r.Body) },
		ord: func(r *store.Append) *int { return &r.Ord }, of: func(a *store.Appended) *int { return &a.Ord }, run: auto(hot.Append)}
	l.complete = lane[store.Complete, store.Moved]{heft: func(r *store.Complete) int { return len(r.Result) }, item: func(r *store.Complete) string { return r.ItemID },
		ord: func(r *store.Complete) *int { return &r.Ord }, of: func(a *store.Moved) *int { return &a.Ord }, run: auto(hot.Complete)}
	leaving := func(run func(*Engine, context.Context, []store.Leave) ([]store.Moved, error)) lane[store.Leave, store.Moved] {
		return lane[store.Leave, store.Moved]{heft: func(r *store.Leave) int { return len(r.Error) }, item: func(r *store.Leave) string { return r.ItemID },
			ord: func(r *store.Leave) *int { return &r.Ord }, of: func(a *store.Moved) *int { return &a.Ord }, run: run}
	}
	l.leave = leaving(auto(hot.Leave))
	l.await = leaving(func(e *Engine, ctx context.Context, rows []store.Leave) (out []store.Moved, err error) {
		err = e.db.Do(ctx, func(ctx context.Context, tx store.Tx) (err error) {
			out, err = store.Await(ctx, tx, hot, rows)
			return err
		})
		return out, err
	})
	l.read = lane[reading, read]{ord: func(r *reading) *int { return &r.ord }, of: func(a *read) *int { return &a.ord }, run: (*Engine).readGroup}
	for _, told := range []*func(context.Context, panicked){&l.create.panicked, &l.claim.panicked, &l.heartbeat.panicked, &l.progress.panicked, &l.checkpoint.panicked,
		&l.append.panicked, &l.complete.panicked, &l.leave.panicked, &l.await.panicked, &l.read.panicked} {
		*told = e.logPanic
	}
	for _, root := range []**Engine{&l.create.root, &l.claim.root, &l.heartbeat.root, &l.progress.root, &l.checkpoint.root, &l.append.root, &l.complete.root, &l.leave.root, &l.await.root, &l.read.root} {
		*root = e
	}
	for _, wide := range []*bool{&l.create.wide, &l.claim.wide, &l.heartbeat.wide, &l.progress.wide, &l.checkpoint.wide, &l.append.wide, &l.complete.wide, &l.leave.wide, &l.await.wide} {
		*wide = e.db.Dialect().Gathers
	}
}

// auto runs a hot verb by itself.
func auto[Row, Ans any](verb func(context.Context, store.Tx, []Row) ([]Ans, error)) func(*Engine, context.Context, []Row) ([]Ans, error) {
	return func(e *Engine, ctx context.Context, rows []Row) (out []Ans, err error) {
		err = e.db.Auto(ctx, func(ctx context.Context, tx store.Tx) (err error) {
			out, err = verb(ctx, tx, rows)
			return err
		})
		return out, err
	}
}

// wait is for the flushes under way.
func (l *lanes) wait() {
	for _, w := range []*sync.WaitGroup{&l.create.flights, &l.claim.flights, &l.heartbeat.flights, &l.progress.flights,
		&l.checkpoint.flights, &l.append.flights, &l.complete.flights, &l.leave.flights, &l.await.flights, &l.read.flights} {
		w.Wait()
	}
}
