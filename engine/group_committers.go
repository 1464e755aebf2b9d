package engine

import (
	"context"

	"github.com/pawl-work/pawl/engine/internal/commit"
	"github.com/pawl-work/pawl/engine/internal/kernel"
	"github.com/pawl-work/pawl/store"
)

// groupCommitters has one group committer per hot verb. Heartbeats and progress have
// separate ones, so that neither waits for the other's statement.
type groupCommitters struct {
	create     *commit.Committer[draft, created]
	claim      *commit.Committer[claimCall, store.Claimed]
	heartbeat  *commit.Committer[store.Touch, store.Touched]
	progress   *commit.Committer[store.Touch, store.Touched]
	checkpoint *commit.Committer[store.Checkpoint, store.Checkpointed]
	append     *commit.Committer[store.Append, store.Appended]
	complete   *commit.Committer[store.Complete, store.Moved]
	leave      *commit.Committer[store.Leave, store.Moved]
	await      *commit.Committer[store.Leave, store.Moved] // suspends for signals
	read       *commit.Committer[readCall, readAnswer]

	openEffect   *commit.Committer[store.OpenEffect, int]
	reportEffect *commit.Committer[store.ReportEffect, store.ReportEffect]
}

func (e *Engine) openGroupCommitters() {
	hot, stored, l := e.db.Dialect().Hot, e.db.Dialect().GroupCommits, &e.committers
	e.db.Dialect().OnCommit(func(calls int) { e.committed("write", calls) })
	l.create = kernel.GroupCommitter(e.k, "create", commit.Options[draft, created]{
		Verb: e.insertDrafts, Ungrouped: stored, LargeFlushes: 4, Size: func(d *draft) int { return len(d.items) }, Bytes: (*draft).Bytes,
		Ord: func(d *draft) *int { return &d.ord }, RowOf: func(b *created) *int { return &b.ord }})
	l.claim = kernel.GroupCommitter(e.k, "claim", commit.Options[claimCall, store.Claimed]{Execute: e.claimGroup,
		Ungrouped: stored, Fits: sameQueues, Size: func(c *claimCall) int { return c.who.Limit }, Orphaned: e.releaseOrphans,
		Ord: func(c *claimCall) *int { return &c.ord }, RowOf: func(a *store.Claimed) *int { return &a.Claimant }})
	touch := commit.Options[store.Touch, store.Touched]{Verb: hot.Touch,
		Ungrouped: stored, Fits: func(a, b *store.Touch) bool { return a.Return == b.Return },
		Item: func(r *store.Touch) string { return r.ItemID },
		Ord:  func(r *store.Touch) *int { return &r.Ord }, RowOf: func(a *store.Touched) *int { return &a.Ord }}
	l.heartbeat, l.progress = kernel.GroupCommitter(e.k, "heartbeat", touch), kernel.GroupCommitter(e.k, "progress", touch)
	l.checkpoint = kernel.GroupCommitter(e.k, "checkpoint", commit.Options[store.Checkpoint, store.Checkpointed]{Verb: hot.Checkpoint,
		Ungrouped: stored, Item: func(r *store.Checkpoint) string { return r.ItemID },
		Bytes: func(r *store.Checkpoint) int { return len(r.Snapshot) + len(r.Metadata) },
		Ord:   func(r *store.Checkpoint) *int { return &r.Ord }, RowOf: func(a *store.Checkpointed) *int { return &a.Ord }})
	l.append = kernel.GroupCommitter(e.k, "append", commit.Options[store.Append, store.Appended]{Verb: hot.Append,
		Ungrouped: stored, Item: func(r *store.Append) string { return r.ItemID }, Bytes: func(r *store.Append) int { return len(r.Body) },
		Ord: func(r *store.Append) *int { return &r.Ord }, RowOf: func(a *store.Appended) *int { return &a.Ord }})
	l.complete = kernel.GroupCommitter(e.k, "complete", commit.Options[store.Complete, store.Moved]{Verb: hot.Complete,
		Ungrouped: stored, Fits: func(a, b *store.Complete) bool { return a.Return == b.Return },
		Item: func(r *store.Complete) string { return r.ItemID }, Bytes: func(r *store.Complete) int { return len(r.Result) },
		Ord: func(r *store.Complete) *int { return &r.Ord }, RowOf: func(a *store.Moved) *int { return &a.Ord }})
	leave := commit.Options[store.Leave, store.Moved]{Verb: hot.Leave,
		Ungrouped: stored, Fits: func(a, b *store.Leave) bool { return a.Return == b.Return },
		Item: func(r *store.Leave) string { return r.ItemID }, Bytes: func(r *store.Leave) int { return len(r.Error) },
		Ord: func(r *store.Leave) *int { return &r.Ord }, RowOf: func(a *store.Moved) *int { return &a.Ord }}
	l.leave = kernel.GroupCommitter(e.k, "leave", leave)
	leave.Cold, leave.Verb = true, func(ctx context.Context, tx store.Tx, rows []store.Leave) ([]store.Moved, error) {
		return e.k.Signals.Await(ctx, tx, rows, func() ([]store.Moved, error) {
			return e.k.Children.Await(ctx, tx, rows, func() ([]store.Moved, error) { return hot.Leave(ctx, tx, rows) })
		})
	}
	l.await = kernel.GroupCommitter(e.k, "await", leave)
	l.read = kernel.GroupCommitter(e.k, "read", commit.Options[readCall, readAnswer]{Execute: e.readGroup,
		Ord: func(r *readCall) *int { return &r.ord }, RowOf: func(a *readAnswer) *int { return &a.ord }})
	e.openEffectCommitters()
}

// openEffectCommitters opens those of effects. A transaction decides about a call that meets a lock.
func (e *Engine) openEffectCommitters() {
	hot, stored, l := e.db.Dialect().Hot, e.db.Dialect().GroupCommits, &e.committers
	l.openEffect = kernel.GroupCommitter(e.k, "open_effect", commit.Options[store.OpenEffect, int]{Verb: hot.OpenEffect,
		LeavesLocked: true, Ungrouped: stored, Item: func(r *store.OpenEffect) string { return r.ItemID },
		Ord: func(r *store.OpenEffect) *int { return &r.Ord }, RowOf: func(ord *int) *int { return ord }})
	l.reportEffect = kernel.GroupCommitter(e.k, "report_effect", commit.Options[store.ReportEffect, store.ReportEffect]{Verb: hot.ReportEffect,
		LeavesLocked: true, Ungrouped: stored, Item: func(r *store.ReportEffect) string { return r.ItemID },
		Bytes: func(r *store.ReportEffect) int { return len(r.Effect.Answer) + len(r.Effect.Error) },
		Ord:   func(r *store.ReportEffect) *int { return &r.Ord }, RowOf: func(a *store.ReportEffect) *int { return &a.Ord }})
}
