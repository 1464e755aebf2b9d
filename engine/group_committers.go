package engine

import (
	"context"

	"github.com/pawl-work/pawl/engine/internal/commit"
	"github.com/pawl-work/pawl/store"
)

// groupCommitters has one group committer per hot verb. Heartbeats and progress have
// separate ones, so that neither waits for the other's statement.
type groupCommitters struct {
	create     *groupCommitter[draft, created]
	claim      *groupCommitter[claimCall, store.Claimed]
	heartbeat  *groupCommitter[store.Touch, store.Touched]
	progress   *groupCommitter[store.Touch, store.Touched]
	checkpoint *groupCommitter[store.Checkpoint, store.Checkpointed]
	append     *groupCommitter[store.Append, store.Appended]
	complete   *groupCommitter[store.Complete, store.Moved]
	leave      *groupCommitter[store.Leave, store.Moved]
	await      *groupCommitter[store.Leave, store.Moved] // suspends for signals
	read       *groupCommitter[readCall, readAnswer]
	all        []interface{ Wait() } // all of the above
}

// groupCommitter is the group committer of one verb.
type groupCommitter[Row, Ans any] struct {
	*commit.Committer[Row, Ans]
	on     groupVerb[Row, Ans]
	direct bool // the store groups its calls
}

// groupVerb returns the function that runs a group of a verb's calls on an Engine.
type groupVerb[Row, Ans any] func(e *Engine) func(ctx context.Context, rows []Row) ([]Ans, error)

// do runs rows in a group, or alone if e is inside a transaction.
func (c *groupCommitter[Row, Ans]) do(ctx context.Context, e *Engine, rows []Row) ([]Ans, error) {
	switch {
	case e.scope != nil:
		return c.Alone(ctx, rows, c.on(e))
	case c.direct:
		return c.Direct(ctx, rows)
	}
	return c.Do(ctx, rows)
}

// newGroupCommitter returns a group committer whose groups run on e. Claims always go
// through Do, which releases the items of a caller that has gone away.
func newGroupCommitter[Row, Ans any](e *Engine, on groupVerb[Row, Ans], o commit.Options[Row, Ans]) *groupCommitter[Row, Ans] {
	o.Execute = on(e)
	o.Panicked = e.logPanic
	c := &groupCommitter[Row, Ans]{commit.New(o), on, o.Ungrouped && o.Orphaned == nil}
	e.committers.all = append(e.committers.all, c)
	return c
}

func (e *Engine) openGroupCommitters() {
	hot, stored, l := e.db.Dialect().Hot, e.db.Dialect().GroupCommits, &e.committers
	l.create = newGroupCommitter(e, auto(func(ctx context.Context, tx store.Tx, rows []draft) ([]created, error) {
		return insertDrafts(ctx, tx, hot, rows)
	}),
		commit.Options[draft, created]{Ungrouped: stored, Size: func(d *draft) int { return len(d.items) }, Bytes: (*draft).bytes,
			Ord: func(d *draft) *int { return &d.ord }, RowOf: func(b *created) *int { return &b.ord }})
	l.claim = newGroupCommitter(e, func(e *Engine) func(context.Context, []claimCall) ([]store.Claimed, error) { return e.claimGroup }, commit.Options[claimCall, store.Claimed]{Ungrouped: stored,
		Fits: sameQueues, Size: func(c *claimCall) int { return c.who.Limit }, Orphaned: e.releaseOrphans,
		Ord: func(c *claimCall) *int { return &c.ord }, RowOf: func(a *store.Claimed) *int { return &a.Claimant }})
	touch := commit.Options[store.Touch, store.Touched]{Ungrouped: stored, Fits: func(a, b *store.Touch) bool { return a.Return == b.Return }, Item: func(r *store.Touch) string { return r.ItemID },
		Ord: func(r *store.Touch) *int { return &r.Ord }, RowOf: func(a *store.Touched) *int { return &a.Ord }}
	l.heartbeat = newGroupCommitter(e, auto(hot.Touch), touch)
	l.progress = newGroupCommitter(e, auto(hot.Touch), touch)
	l.checkpoint = newGroupCommitter(e, auto(hot.Checkpoint), commit.Options[store.Checkpoint, store.Checkpointed]{Ungrouped: stored,
		Item: func(r *store.Checkpoint) string { return r.ItemID }, Bytes: func(r *store.Checkpoint) int { return len(r.Snapshot) + len(r.Metadata) },
		Ord: func(r *store.Checkpoint) *int { return &r.Ord }, RowOf: func(a *store.Checkpointed) *int { return &a.Ord }})
	l.append = newGroupCommitter(e, auto(hot.Append), commit.Options[store.Append, store.Appended]{Ungrouped: stored,
		Item: func(r *store.Append) string { return r.ItemID }, Bytes: func(r *store.Append) int { return len(r.Body) },
		Ord: func(r *store.Append) *int { return &r.Ord }, RowOf: func(a *store.Appended) *int { return &a.Ord }})
	l.complete = newGroupCommitter(e, auto(hot.Complete), commit.Options[store.Complete, store.Moved]{Ungrouped: stored, Fits: func(a, b *store.Complete) bool { return a.Return == b.Return },
		Item: func(r *store.Complete) string { return r.ItemID }, Bytes: func(r *store.Complete) int { return len(r.Result) },
		Ord: func(r *store.Complete) *int { return &r.Ord }, RowOf: func(a *store.Moved) *int { return &a.Ord }})
	leave := commit.Options[store.Leave, store.Moved]{Ungrouped: stored, Fits: func(a, b *store.Leave) bool { return a.Return == b.Return },
		Item: func(r *store.Leave) string { return r.ItemID }, Bytes: func(r *store.Leave) int { return len(r.Error) },
		Ord: func(r *store.Leave) *int { return &r.Ord }, RowOf: func(a *store.Moved) *int { return &a.Ord }}
	l.leave = newGroupCommitter(e, auto(hot.Leave), leave)
	l.await = newGroupCommitter(e, func(e *Engine) func(context.Context, []store.Leave) ([]store.Moved, error) {
		return func(ctx context.Context, rows []store.Leave) (out []store.Moved, err error) {
			err = e.db.Do(ctx, func(ctx context.Context, tx store.Tx) (err error) {
				out, err = store.Await(ctx, tx, hot, rows)
				return err
			})
			return out, err
		}
	}, leave)
	l.read = newGroupCommitter(e, func(e *Engine) func(context.Context, []readCall) ([]readAnswer, error) { return e.readGroup }, commit.Options[readCall, readAnswer]{
		Ord: func(r *readCall) *int { return &r.ord }, RowOf: func(a *readAnswer) *int { return &a.ord }})
}

// auto returns the groupVerb that runs a hot verb in DB.Auto.
func auto[Row, Ans any](verb func(context.Context, store.Tx, []Row) ([]Ans, error)) groupVerb[Row, Ans] {
	return func(e *Engine) func(context.Context, []Row) ([]Ans, error) {
		return func(ctx context.Context, rows []Row) (out []Ans, err error) {
			err = e.db.Auto(ctx, func(ctx context.Context, tx store.Tx) (err error) {
				out, err = verb(ctx, tx, rows)
				return err
			})
			return out, err
		}
	}
}

// wait waits until no flush is running.
func (c *groupCommitters) wait() {
	for _, one := range c.all {
		one.Wait()
	}
}
