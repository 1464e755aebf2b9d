package engine

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/internal/clock"
	"github.com/pawl-work/pawl/store"
	"github.com/pawl-work/pawl/store/relocate"
)

const (
	// fenceWait bounds how long a call waits while a move keeps what it changes from changing.
	fenceWait = 15 * time.Second
	// fenceLook is how often such a call tries again.
	fenceLook = 50 * time.Millisecond
	// relocationsEvery is how often a server looks whether its database was moved.
	relocationsEvery = time.Second
)

// relocations are the moves of a database, as this process knows them. The zero value knows none.
type relocations struct {
	known  atomic.Pointer[[]relocate.Relocation]
	exempt atomic.Bool  // the process is the mover
	looked atomic.Int64 // when a call that waits has read them
	fence  atomic.Pointer[fence]
}

// fence is that of a whole database, as this process has found it.
type fence struct {
	until int64 // by the clock of the database
	found time.Time
}

// of finds the move for which a transaction of a caller may not run: what it is about was moved to another database, or
// is not there yet.
func (r *relocations) of(ctx context.Context) *relocate.Relocation {
	list := r.known.Load()
	if list == nil || r.exempt.Load() {
		return nil
	}
	ns := pawl.CallerOf(ctx).Namespace
	for i := range *list {
		x := &(*list)[i]
		about := x.Namespace == "" || x.Namespace == ns && !ofAll(ctx)
		if about && (x.Left() || x.Side == relocate.Target && x.Moving()) {
			return x
		}
	}
	return nil
}

// refuse returns why a transaction of a caller may not run.
func (r *relocations) refuse(ctx context.Context) error {
	switch x := r.of(ctx); {
	case x == nil:
		return nil
	case x.Left():
		return movedTo(x)
	default:
		return &pawl.Error{Code: pawl.CodeUnavailable, Message: "a move from another database fills this one and is not over",
			RetryAfter: time.Second}
	}
}

// refuse is that of the moves. A namespace may be there by now, which a process without a server learns here alone.
func (w *notifyingDB) refuse(ctx context.Context) error {
	if x := w.moves.of(ctx); x != nil && x.Namespace != "" && !x.Left() && once(&w.moves.looked, fenceLook) {
		if err := w.lookForMoves(ctx); err != nil {
			return err
		}
	}
	return w.moves.refuse(ctx)
}

type allKey struct{}

// forAll marks a call that is about no namespace.
func forAll(ctx context.Context) context.Context { return context.WithValue(ctx, allKey{}, true) }

// forOne takes the mark of forAll away, for what such a call does in a namespace.
func forOne(ctx context.Context) context.Context { return context.WithValue(ctx, allKey{}, nil) }

func ofAll(ctx context.Context) bool {
	return store.PurposeOf(ctx) == store.Background || ctx.Value(allKey{}) != nil
}

func movedTo(x *relocate.Relocation) error {
	what := "the database was moved"
	if x.Namespace != "" {
		what = "the namespace " + x.Namespace + " was moved"
	}
	if x.URL != "" {
		what += " to " + x.URL
	} else {
		what += " to another database"
	}
	return &pawl.Error{Code: pawl.CodeMoved, Message: what, URL: x.URL}
}

// lookForMoves reads the moves of the database.
func (w *notifyingDB) lookForMoves(ctx context.Context) error {
	var list []relocate.Relocation
	err := w.DB.View(ctx, func(ctx context.Context, tx store.Tx) (err error) {
		list, err = relocate.List(ctx, tx)
		return err
	})
	if err != nil {
		return err
	}
	was := w.moves.known.Load()
	if len(list) == 0 && was == nil {
		return nil
	}
	w.moves.learn(list)
	return nil
}

// attempts are those of one transaction that writes. While a move refuses it, it waits, and is tried again.
type attempts struct {
	w      *notifyingDB
	err    error // of the last attempt
	tried  bool
	exempt bool
	began  time.Time
	looked bool // after the refusal: what is known may be older
	free   bool // there is no move any more
}

func (w *notifyingDB) attempts() attempts {
	return attempts{w: w, exempt: w.moves.exempt.Load()}
}

// next says whether the transaction is to be run. If not, err is its answer.
func (a *attempts) next(ctx context.Context) bool {
	if !a.tried {
		a.tried = true
		if err := a.w.excluded.Load(); err != nil {
			a.err = *err
			return false
		}
	} else if store.IsOnce(ctx) || !a.again(ctx) {
		return false
	}
	for !a.exempt {
		if a.err = a.w.refuse(ctx); a.err != nil {
			return false
		}
		if !a.w.moves.fenced() {
			break
		}
		if a.err = store.ErrFenced; !a.wait(ctx) {
			return false
		}
	}
	return true
}

// again reports whether what has ended with err is to run again, after a wait.
func (a *attempts) again(ctx context.Context) bool {
	return !a.exempt && errors.Is(a.err, store.ErrFenced) && a.wait(ctx)
}

// wait ends when a refused transaction is to be tried again. It returns false if it is not: err says why.
func (a *attempts) wait(ctx context.Context) bool {
	moves := &a.w.moves
	if again := once(&moves.looked, fenceLook/2); again || !a.looked {
		a.looked = true
		if err := a.w.lookForMoves(ctx); err != nil {
			a.err = errors.Join(a.err, err)
			return false
		}
	}
	if err := moves.refuse(ctx); err != nil {
		a.err = err
		return false
	}
	if ofAll(ctx) && !moves.fenced() { // of one namespace: the work of the others goes on without it
		return false
	}
	if !moves.moving() && !a.free {
		a.free = true // the move was cancelled meanwhile
		return true
	}
	if a.began.IsZero() {
		a.began = clock.Now()
	}
	late := clock.Now().Sub(a.began) > fenceWait
	if late && ofAll(ctx) {
		a.err = errWhole
		return false
	}
	if late || !moves.moving() {
		a.err = waited(a.err)
		return false
	}
	timer := time.NewTimer(fenceLook)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		a.err = waited(a.err)
		return false
	}
}

// errWhole says of work for all namespaces that none of it can be done: it is not store.ErrFenced, after which the rows of
// others are tried.
var errWhole = &pawl.Error{Code: pawl.CodeUnavailable, Message: "the database is being moved to another one", RetryAfter: time.Second}

// waited says why a call that has waited for a move was not done.
func waited(err error) error {
	if pawl.CodeOf(err) != pawl.CodeInternal {
		return err
	}
	return &pawl.Error{Code: pawl.CodeUnavailable, Message: "what the call changes is being moved to another database",
		RetryAfter: time.Second, Err: err}
}

// once reports whether nothing was done for a time, and notes that it is done now.
func once(at *atomic.Int64, pause time.Duration) bool {
	was, now := at.Load(), clock.Now().UnixNano()
	return now-was >= int64(pause) && at.CompareAndSwap(was, now)
}

// fenced reports whether the whole database refuses changes. Calls that tried would draw numbers of events all
// the time, and the log, which looks for these events, would never be ready to move. A mover that is alive
// renews the fence; the time is counted by this process, because clocks differ.
func (r *relocations) fenced() bool {
	f := r.fence.Load()
	return f != nil && clock.Now().Sub(f.found) < relocate.FenceTime
}

// learn notes the moves of the database.
func (r *relocations) learn(list []relocate.Relocation) {
	r.known.Store(&list)
	until := int64(0)
	for _, x := range list {
		if x.Side == relocate.Source && x.Namespace == "" && x.Step == relocate.Fenced {
			until = x.Fence
		}
	}
	switch f := r.fence.Load(); {
	case until == 0:
		r.fence.Store(nil)
	case f == nil || f.until != until:
		r.fence.Store(&fence{until, clock.Now()})
	}
}

// moving reports whether a move is not over.
func (r *relocations) moving() bool {
	list := r.known.Load()
	if list == nil {
		return false
	}
	for _, x := range *list {
		if x.Moving() {
			return true
		}
	}
	return false
}

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
		err = errors.Join(e.notifyingDB.lookForMoves(ctx), to.notifyingDB.lookForMoves(ctx))
	}
	return out, err
}

// moveAs makes the engine the mover, which no move refuses, or ends that. The function it returns does the opposite.
func (e *Engine) moveAs(mover bool) (back func()) {
	e.notifyingDB.moves.exempt.Store(mover)
	return func() { e.notifyingDB.moves.exempt.Store(!mover) }
}

// moveOptions are those of a move, or of its end. to: nil = the target is not there.
func (e *Engine) moveOptions(ctx context.Context, to *Engine, m Move) (o relocate.Options, err error) {
	o = relocate.Options{From: e.notifyingDB.DB, Namespace: m.Namespace, URL: m.URL,
		NewID: func() string { return e.ids.next("mov") }, Log: e.log,
		Settle: e.feed.Log, Archive: e.sweeper.Body, Renumber: e.sweeper.Renumber, Step: m.Step}
	if o.FromNamed, err = e.where(ctx); err != nil || to == nil {
		return o, err
	}
	o.To, o.Check = to.notifyingDB.DB, to.checkMoved
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
	err = errors.Join(err, e.notifyingDB.lookForMoves(ctx))
	if err == nil && to != nil {
		err = to.notifyingDB.lookForMoves(ctx)
	}
	return out, err
}

// where says where the database is, without passwords.
func (e *Engine) where(ctx context.Context) (out string, err error) {
	err = e.notifyingDB.DB.View(ctx, func(ctx context.Context, tx store.Tx) error {
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
	before := e.notifyingDB.moves.refuse(ctx)
	if err := e.notifyingDB.lookForMoves(ctx); err != nil {
		e.logError(ctx, "looking whether the database was moved failed; retrying", err)
		return
	}
	switch after := e.notifyingDB.moves.refuse(ctx); {
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
	err = e.notifyingDB.DB.View(ctx, func(ctx context.Context, tx store.Tx) error {
		w = nil
		now, err := tx.Now(ctx)
		if err != nil {
			return err
		}
		list, err := relocate.List(ctx, tx)
		for _, x := range list {
			if x.Step == relocate.Done || now-x.ChangedAt < unfinishedAfter.Microseconds() {
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
