package engine

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/engine/internal/archives"
	"github.com/pawl-work/pawl/engine/internal/relays"
	"github.com/pawl-work/pawl/store"
	"github.com/pawl-work/pawl/store/relocate"
)

// relocationsEvery is how often a server looks what becomes of a move of its database.
const relocationsEvery = time.Second

// Move says how Relocate moves.
type Move struct {
	Namespace string // "" = the whole database
	URL       string // what callers of the source are told; "" = nothing
	// Step is told each step that is done, for tests.
	Step func(name string)
}

// Relocate moves everything in the database of e, or one namespace, into that of to, while servers run
// on both. Afterwards all calls to the source are refused with pawl.ErrMoved. A move that was
// interrupted goes on when it is called again. Neither engine may be used for anything else meanwhile.
func (e *Engine) Relocate(ctx context.Context, to *Engine, m Move) (relocate.Result, error) {
	if err := e.acts(ctx, "move"); err != nil {
		return relocate.Result{}, err
	}
	if err := to.acts(ctx, "move"); err != nil {
		return relocate.Result{}, err
	}
	ctx = pawl.As(ctx, pawl.Caller{ActorType: pawl.ActorSystem, Namespace: m.Namespace})
	ctx = store.WithLimit(store.For(ctx, store.Background), passLimit)
	o, err := e.moveOptions(ctx, to, m)
	if err != nil {
		return relocate.Result{}, err
	}
	defer e.moveAs(true)()
	defer to.moveAs(true)()
	out, err := relocate.Move(ctx, o)
	if err == nil {
		err = errors.Join(e.k.Base.LookForMoves(ctx), to.k.Base.LookForMoves(ctx))
	}
	return out, err
}

// moveAs makes the engine the mover, which no move refuses, or ends that. The function it returns does the opposite.
func (e *Engine) moveAs(mover bool) (back func()) {
	e.k.Base.Moves.Exempt.Store(mover)
	return func() { e.k.Base.Moves.Exempt.Store(!mover) }
}

// moveOptions are those of a move, or of its end. to: nil = the target is not there.
func (e *Engine) moveOptions(ctx context.Context, to *Engine, m Move) (o relocate.Options, err error) {
	if m.Namespace == pawl.AnyNamespace {
		return o, pawl.NoNamespace()
	}
	o = relocate.Options{From: e.k.Base.DB, Namespace: m.Namespace, URL: m.URL,
		NewID: func() string { return e.k.IDs.Next("mov") }, Log: e.log,
		Settle: e.feed.Log, Archive: archives.Of(e.archived).Body, Renumber: archives.Of(e.archived).Renumber, Relays: relays.Each, Step: m.Step}
	if o.FromNamed, err = e.where(ctx); err != nil || to == nil {
		return o, err
	}
	o.To, o.Check = to.k.Base.DB, to.checkMoved
	o.ToNamed, err = to.where(ctx)
	return o, err
}

// CancelMove gives a move up that is not over, for example because its target is lost: the database acts as before.
// to: the target, which gets rid of what was copied of a namespace; nil = it is lost, or is thrown away.
func (e *Engine) CancelMove(ctx context.Context, to *Engine, m Move) (out relocate.Cancelled, err error) {
	if err := e.acts(ctx, "move"); err != nil {
		return out, err
	}
	ctx = pawl.As(ctx, pawl.Caller{ActorType: pawl.ActorSystem, Namespace: m.Namespace})
	ctx = store.WithLimit(store.For(ctx, store.Background), passLimit)
	o, err := e.moveOptions(ctx, to, m)
	if err != nil {
		return out, err
	}
	defer e.moveAs(true)()
	if to != nil {
		o.Settle = to.feed.Log
		defer to.moveAs(true)()
	}
	out, err = relocate.Cancel(ctx, o)
	err = errors.Join(err, e.k.Base.LookForMoves(ctx))
	if err == nil && to != nil {
		err = to.k.Base.LookForMoves(ctx)
	}
	return out, err
}

// where says where the database is, without passwords.
func (e *Engine) where(ctx context.Context) (out string, err error) {
	err = e.k.Base.DB.View(ctx, func(ctx context.Context, tx store.Tx) error {
		p, err := e.db.Dialect().Place(ctx, tx, false)
		if out = p.Named; p.Schema != 0 {
			out += fmt.Sprintf(" (schema %d)", p.Schema)
		}
		return err
	})
	return out, err
}

// checkMoved examines a database that a move has filled.
func (e *Engine) checkMoved(ctx context.Context) error {
	breaches, err := e.Check(ctx)
	if err != nil || len(breaches) == 0 {
		return err
	}
	b := breaches[0]
	return &pawl.Error{Code: pawl.CodeConflict, Op: "move", Allowed: []string{},
		Message: fmt.Sprintf("`pawl doctor` finds %d breaches in the target; if the source has them too, repair it first: %s: %s: %s",
			len(breaches), b.Rule, b.Subject, b.Found)}
}

// learnMoves looks whether the database was moved, or was filled by a move, and says so once.
func (e *Engine) learnMoves(ctx context.Context) {
	before := e.k.Base.Moves.Refuse(ctx)
	if err := e.k.Base.LookForMoves(ctx); err != nil {
		e.logError(ctx, "looking whether the database was moved failed; retrying", err)
		return
	}
	switch after := e.k.Base.Moves.Refuse(ctx); {
	case before == nil && after != nil:
		e.log.WarnContext(ctx, "nothing acts here", "why", after)
	case before != nil && after == nil: // a move has filled the database
		e.db.Dialect().Forget()
		if err := e.adopted(ctx); err != nil {
			e.logError(ctx, "reading the database that a move has filled failed", err)
		}
		e.log.InfoContext(ctx, "the move is over: the database acts")
	}
}

// unfinishedAfter is how long a move may take before the doctor speaks of it.
const unfinishedAfter = time.Hour

// unfinishedMove says that a move was begun long ago and is not over; nil = there is none.
func (e *Engine) unfinishedMove(ctx context.Context) (w *Warning, err error) {
	err = e.k.Base.DB.View(ctx, func(ctx context.Context, tx store.Tx) error {
		w = nil
		now, err := tx.Now(ctx)
		if err != nil {
			return err
		}
		list, err := relocate.List(ctx, tx)
		for _, x := range list {
			if x.Over() || now-x.ChangedAt < unfinishedAfter.Microseconds() {
				continue
			}
			way := map[string]string{relocate.Source: "to", relocate.Target: "from"}[x.Side]
			detail := fmt.Sprintf("a move %s %s is not over, and has been in the step %s since %s (docs/moving.md)", way, x.Peer, x.Step,
				store.Stamp(x.ChangedAt).Format(time.RFC3339))
			w = &Warning{Code: "move_unfinished", Detail: detail, Command: "pawl move"}
		}
		return err
	})
	return w, err
}
