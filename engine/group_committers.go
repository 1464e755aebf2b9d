package engine

import (
	"context"
	"sync"

	"github.com/pawl-work/pawl/store"
)

// groupCommitters has one group committer per hot verb. Heartbeats and progress have
// separate ones, so that neither waits for the other's statement.
type groupCommitters struct {
	create     groupCommitter[draft, created]
	claim      groupCommitter[claimCall, store.Claimed]
	heartbeat  groupCommitter[store.Touch, store.Touched]
	progress   groupCommitter[store.Touch, store.Touched]
	checkpoint groupCommitter[store.Checkpoint, store.Checkpointed]
	append     groupCommitter[store.Append, store.Appended]
	complete   groupCommitter[store.Complete, store.Moved]
	leave      groupCommitter[store.Leave, store.Moved]
	await      groupCommitter[store.Leave, store.Moved] // suspends for signals
	read       groupCommitter[readCall, readAnswer]
}

func (e *Engine) openGroupCommitters() {
	hot, l := e.db.Dialect().Hot, &e.committers
	l.create = groupCommitter[draft, created]{ord: func(d *draft) *int { return &d.ord }, rowOf: func(b *created) *int { return &b.ord }, size: func(d *draft) int { return len(d.items) }, bytes: (*draft).bytes,
		execute: auto(func(ctx context.Context, tx store.Tx, rows []draft) ([]created, error) {
			return insertDrafts(ctx, tx, hot, rows)
		})}
	l.claim = groupCommitter[claimCall, store.Claimed]{ord: func(c *claimCall) *int { return &c.ord }, rowOf: func(a *store.Claimed) *int { return &a.Claimant },
		fits: sameQueues, size: func(c *claimCall) int { return c.who.Limit }, execute: (*Engine).claimGroup, orphaned: e.releaseOrphans}
	touch := func() groupCommitter[store.Touch, store.Touched] {
		return groupCommitter[store.Touch, store.Touched]{item: func(r *store.Touch) string { return r.ItemID },
			ord: func(r *store.Touch) *int { return &r.Ord }, rowOf: func(a *store.Touched) *int { return &a.Ord }, execute: auto(hot.Touch)}
	}
	l.heartbeat, l.progress = touch(), touch()
	l.checkpoint = groupCommitter[store.Checkpoint, store.Checkpointed]{bytes: func(r *store.Checkpoint) int { return len(r.Snapshot) + len(r.Metadata) }, item: func(r *store.Checkpoint) string { return r.ItemID },
		ord: func(r *store.Checkpoint) *int { return &r.Ord }, rowOf: func(a *store.Checkpointed) *int { return &a.Ord }, execute: auto(hot.Checkpoint)}
	l.append = groupCommitter[store.Append, store.Appended]{item: func(r *store.Append) string { return r.ItemID }, bytes: func(r *store.Append) int { return len(r.Body) },
		ord: func(r *store.Append) *int { return &r.Ord }, rowOf: func(a *store.Appended) *int { return &a.Ord }, execute: auto(hot.Append)}
	l.complete = groupCommitter[store.Complete, store.Moved]{bytes: func(r *store.Complete) int { return len(r.Result) }, item: func(r *store.Complete) string { return r.ItemID },
		ord: func(r *store.Complete) *int { return &r.Ord }, rowOf: func(a *store.Moved) *int { return &a.Ord }, execute: auto(hot.Complete)}
	leaving := func(run func(*Engine, context.Context, []store.Leave) ([]store.Moved, error)) groupCommitter[store.Leave, store.Moved] {
		return groupCommitter[store.Leave, store.Moved]{bytes: func(r *store.Leave) int { return len(r.Error) }, item: func(r *store.Leave) string { return r.ItemID },
			ord: func(r *store.Leave) *int { return &r.Ord }, rowOf: func(a *store.Moved) *int { return &a.Ord }, execute: run}
	}
	l.leave = leaving(auto(hot.Leave))
	l.await = leaving(func(e *Engine, ctx context.Context, rows []store.Leave) (out []store.Moved, err error) {
		err = e.db.Do(ctx, func(ctx context.Context, tx store.Tx) (err error) {
			out, err = store.Await(ctx, tx, hot, rows)
			return err
		})
		return out, err
	})
	l.read = groupCommitter[readCall, readAnswer]{ord: func(r *readCall) *int { return &r.ord }, rowOf: func(a *readAnswer) *int { return &a.ord }, execute: (*Engine).readGroup}
	for _, onPanic := range []*func(context.Context, panicked){&l.create.panicked, &l.claim.panicked, &l.heartbeat.panicked, &l.progress.panicked, &l.checkpoint.panicked,
		&l.append.panicked, &l.complete.panicked, &l.leave.panicked, &l.await.panicked, &l.read.panicked} {
		*onPanic = e.logPanic
	}
	for _, root := range []**Engine{&l.create.root, &l.claim.root, &l.heartbeat.root, &l.progress.root, &l.checkpoint.root, &l.append.root, &l.complete.root, &l.leave.root, &l.await.root, &l.read.root} {
		*root = e
	}
	for _, ungrouped := range []*bool{&l.create.ungrouped, &l.claim.ungrouped, &l.heartbeat.ungrouped, &l.progress.ungrouped, &l.checkpoint.ungrouped, &l.append.ungrouped, &l.complete.ungrouped, &l.leave.ungrouped, &l.await.ungrouped} {
		*ungrouped = e.db.Dialect().Gathers
	}
}

// auto runs a hot verb in DB.Auto.
func auto[Row, Ans any](verb func(context.Context, store.Tx, []Row) ([]Ans, error)) func(*Engine, context.Context, []Row) ([]Ans, error) {
	return func(e *Engine, ctx context.Context, rows []Row) (out []Ans, err error) {
		err = e.db.Auto(ctx, func(ctx context.Context, tx store.Tx) (err error) {
			out, err = verb(ctx, tx, rows)
			return err
		})
		return out, err
	}
}

// wait returns when no flush is running.
func (c *groupCommitters) wait() {
	for _, w := range []*sync.WaitGroup{&c.create.flushes, &c.claim.flushes, &c.heartbeat.flushes, &c.progress.flushes,
		&c.checkpoint.flushes, &c.append.flushes, &c.complete.flushes, &c.leave.flushes, &c.await.flushes, &c.read.flushes} {
		w.Wait()
	}
}
