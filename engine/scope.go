package engine

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/engine/internal/commit"
	"github.com/pawl-work/pawl/internal/watch"
	"github.com/pawl-work/pawl/store"
)

// scope is one transaction that several verbs share. As a store.DB it runs each
// transaction of a verb as a part of the shared one. Only one goroutine at a time uses
// it.
type scope struct {
	store.DB               // the database
	tx       store.Tx      // nil until it has begun
	begun    bool          // begin was called
	refused  error         // why it did not begin
	lost     error         // the error that ended it, even if a verb ignored that
	parts    []*part       // parts that began before the transaction
	wants    chan struct{} // signals that a verb is about to write
	ready    chan error    // gets nil when the transaction has begun, or why it did not

	// after runs after the commit. A verb cannot return this to its caller, as it does with
	// effects inside the engine: the caller gets the verb's answer while the transaction
	// goes on, and a later rollback of a part or of the whole has to drop it.
	after []func()
	// finally runs when the transaction has ended, whatever its outcome.
	finally []func()

	key      string                                        // the idempotency key of the call; "" = none
	free     func(context.Context, store.Tx) (bool, error) // reports whether the call may still begin its key; nil = it has none
	own      bool                                          // it is the caller's own transaction, of any isolation level
	admits   func(context.Context) error                   // returns why a part may not run in the caller's own; nil = it may
	single   bool                                          // it has only one part: an error of the part may undo the whole
	alone    bool                                          // nothing runs beside it any more
	wait     time.Duration                                 // how long a claim in it would have waited
	waited   bool                                          // a claim in it has waited before
	claimed  bool                                          // a claim in it took items
	undone   bool                                          // the call asked for a rollback
	refusals []func(context.Context, *Engine) error        // what is written again after a rollback
}

// Do implements store.DB. An error undoes this part alone.
func (s *scope) Do(ctx context.Context, fn func(ctx context.Context, tx store.Tx) error) error {
	if err := s.begin(ctx); err != nil {
		return err
	}
	return s.part(ctx, func() error {
		err := fn(ctx, s.tx)
		if s.lost == nil && (errors.Is(err, store.ErrRolledBack) || !s.own && errors.Is(err, store.ErrFenced)) {
			s.lost = err // the whole call runs again
		}
		return err
	})
}

// Whole implements store.DB, as Do does.
func (s *scope) Whole(ctx context.Context, fn func(ctx context.Context, tx store.Tx) error) error {
	return s.Do(ctx, fn)
}

// part is a part of a scope that can be rolled back alone.
type part struct {
	savepoint       *store.Savepoint // nil = not set
	after, refusals int              // the lengths of the scope's lists when the part began
}

// part runs fn as a part of the transaction. An error undoes what fn wrote and drops what
// fn added to the scope's after and refusals. A part may begin before the transaction.
func (s *scope) part(ctx context.Context, fn func() error) error {
	p := &part{after: len(s.after), refusals: len(s.refusals)}
	if !s.begun {
		s.parts = append(s.parts, p)
	} else if err := s.setSavepoint(ctx, p); err != nil {
		return err
	}
	err := fn()
	if err != nil {
		s.after, s.refusals = s.after[:p.after], s.refusals[:p.refusals]
	}
	switch {
	case !s.begun:
		s.parts = s.parts[:len(s.parts)-1]
		return err
	case s.refused != nil:
		return s.refused
	case p.savepoint == nil: // it could not be set, so the transaction is lost
		return cmp.Or(err, s.lost)
	case err == nil:
		return s.noteLost(p.savepoint.Release(ctx))
	}
	if gone := s.noteLost(p.savepoint.Rollback(ctx)); gone != nil {
		return gone
	}
	return err
}

func (s *scope) setSavepoint(ctx context.Context, p *part) (err error) {
	if s.refused != nil {
		return s.refused
	}
	p.savepoint, err = store.SetSavepoint(ctx, s.tx)
	return s.noteLost(err)
}

// noteLost keeps the first error that ends the whole transaction.
func (s *scope) noteLost(err error) error {
	if err != nil && s.lost == nil {
		s.lost = err
	}
	return err
}

// Auto implements store.DB. An error of a hot verb ends the whole transaction.
func (s *scope) Auto(ctx context.Context, fn func(ctx context.Context, tx store.Tx) error) error {
	if err := s.begin(ctx); err != nil {
		return err
	}
	err := fn(ctx, s.tx)
	if err != nil && s.lost == nil {
		s.lost = err
	}
	return err
}

// View implements store.DB. Before the transaction begins, each read runs outside it.
func (s *scope) View(ctx context.Context, fn func(ctx context.Context, tx store.Tx) error) error {
	if !s.begun {
		return s.DB.View(ctx, fn)
	}
	if err := s.begin(ctx); err != nil {
		return err
	}
	return fn(ctx, s.tx)
}

// begin begins the transaction before its first write and waits until it has begun. Afterwards it says whether
// another part may run.
func (s *scope) begin(ctx context.Context) error {
	switch {
	case s.begun && s.refused == nil && s.admits != nil:
		return s.admits(ctx)
	case s.begun:
		return s.refused
	}
	s.begun = true
	s.wants <- struct{}{}
	if s.refused = <-s.ready; s.refused != nil {
		return s.refused
	}
	for _, p := range s.parts {
		if err := s.setSavepoint(ctx, p); err != nil {
			return err
		}
	}
	return nil
}

// after runs fn when what e writes has committed; without a scope, that is now.
func (e *Engine) after(fn func()) {
	if e.scope != nil {
		e.scope.after = append(e.scope.after, fn)
		return
	}
	fn()
}

// finally runs fn when the transaction of e has ended, even if that was rolled back; without a scope, that is
// now. fn writes in transactions of its own: one inside the scope's would wait for it on SQLite.
func (e *Engine) finally(fn func()) {
	if e.scope != nil {
		e.scope.finally = append(e.scope.finally, fn)
		return
	}
	fn()
}

// beside runs a transaction of its own before what a transaction of the caller's does, where both can
// write. It reports false if that transaction has to do the same itself: no connection was free. From
// then on it does so always, because others would wait for what it has written.
func (e *Engine) beside(ctx context.Context, fn func(ctx context.Context) error) (bool, error) {
	if e.scope == nil || e.scope.alone || !e.db.Dialect().ParallelWrites {
		return false, nil
	}
	if e.scope.begun && !e.scope.own { // the caller's own has none of Pawl's connections
		ctx = store.IfFree(ctx)
	}
	err := fn(ctx)
	e.scope.alone = errors.Is(err, store.ErrNoneFree)
	if e.scope.alone {
		err = nil
	}
	return !e.scope.alone, err
}

// InTransaction reports whether the verbs of e share one transaction.
func (e *Engine) InTransaction() bool { return e.scope != nil }

// inTx reports whether what e reads may be uncommitted.
func (e *Engine) inTx() bool { return e.scope != nil && e.scope.begun }

// notInTx refuses a verb that runs in several transactions if e is inside one.
func (e *Engine) notInTx(op string) error {
	if e.scope != nil {
		return &pawl.Error{Code: pawl.CodeInvalid, Op: op, Message: op + " runs in several transactions and cannot be part of one"}
	}
	return nil
}

var (
	// errAnswered ends a scope before it writes, because there is an answer already.
	errAnswered = errors.New("answered already")
	// errRunAgain makes a call run again, outside any transaction, after its own was lost.
	errRunAgain = errors.New("the call runs again")
	// errLostAgain is the error of a call whose transaction was lost scopeTries times.
	errLostAgain = &pawl.Error{Code: pawl.CodeUnavailable, Message: "the transaction lost to others again and again",
		Err: store.Undone{Err: store.ErrRolledBack}}
	// errGoexit is the error of a call that ends its goroutine.
	errGoexit = &pawl.Error{Code: pawl.CodeInternal, Message: "the call ended its goroutine"}
	// errEnded is the error of a scope that is used after its transaction has ended.
	errEnded = &pawl.Error{Code: pawl.CodeInternal, Message: "the transaction has ended"}
	// errNothing rolls back a call without effect.
	errNothing = errors.New("nothing to keep")
)

// scopeTries is how often a call runs at most if its transaction is lost.
const scopeTries = 10

// together runs fn on an Engine whose verbs share one transaction. If e has a scope, that
// is e itself. Otherwise together makes a new scope and returns it; the caller passes it
// to finish. The transaction begins when a verb first writes, so decoding and checks
// before that hold no transaction. It begins with first (nil = nothing). If first returns
// errAnswered, fn writes nothing, and what first wrote is committed. While a move refuses what
// the transaction changes, together waits, and runs fn again.
func (e *Engine) together(ctx context.Context, first, fn func(ctx context.Context, e *Engine) error) (*scope, error) {
	if e.scope != nil {
		return nil, fn(ctx, e)
	}
	a := e.notifyingDB.attempts()
	for tries := 0; ; {
		s := &scope{DB: e.db, single: true, wants: make(chan struct{}), ready: make(chan error)}
		a.err = s.run(ctx, &Engine{core: e.core, db: s, scope: s, origin: e.origin, bulk: e.bulk}, first, fn)
		switch {
		case errors.Is(a.err, errRunAgain):
			if tries++; tries == scopeTries {
				return s, errLostAgain
			}
		case s.tx == nil || !a.again(ctx): // what did not begin has waited
			return s, a.err
		}
	}
}

// run runs fn in a separate goroutine, which stops at its first write until the
// transaction has begun. The store runs the transaction as a function, and perhaps more
// than once.
func (s *scope) run(ctx context.Context, e *Engine, first, fn func(ctx context.Context, e *Engine) error) error {
	inner, cancel := context.WithCancel(ctx)
	defer cancel()
	defer func() {
		for _, fn := range s.finally {
			fn()
		}
	}()
	done := make(chan error, 1)
	go func() {
		err := error(errGoexit)
		defer func() { done <- err }()
		err = commit.Shield(inner, func(ctx context.Context) error { return fn(ctx, e) })
	}()
	select {
	case err := <-done: // it wrote nothing
		return err
	case <-s.wants:
	}
	ran := false
	err := s.DB.Whole(store.Once(ctx), func(ctx context.Context, tx store.Tx) error {
		if ran {
			return errRunAgain
		}
		ran, s.tx = true, tx
		if first != nil {
			if err := first(ctx, e); err != nil {
				cancel()
				s.ready <- err
				<-done
				if errors.Is(err, errAnswered) {
					err = nil
				}
				return err
			}
		}
		s.ready <- nil
		if err := <-done; s.lost == nil {
			return err
		}
		return s.lost
	})
	if !ran {
		cancel()
		s.ready <- err
		<-done
	}
	s.refused = errEnded
	return err
}

// finish reports to this process what a scope has committed or rolled back, and returns
// its error. errNothing is no error. With a nil scope it only returns err: the shared
// transaction goes on.
func (e *Engine) finish(ctx context.Context, s *scope, err error) error {
	if s == nil {
		return err
	}
	if err == nil {
		for _, fn := range s.after {
			fn()
		}
		return nil
	}
	if s.claimed { // the items that a claim took are queued again
		e.queues.Forget()
		e.hub.Wake(watch.Work(pawl.CallerOf(ctx).Namespace))
	}
	if p := (commit.Panic{}); errors.As(err, &p) {
		e.logPanic(ctx, p)
		panic(p.Value)
	}
	if errors.Is(err, errNothing) {
		return nil
	}
	return err
}

// writeRefusal is withLockedItem for what a refusal leaves. If the refused call is rolled
// back, it is written again.
func (e *Engine) writeRefusal(
	ctx context.Context,
	f pawl.Fence,
	op string,
	fn func(ctx context.Context, tx store.Tx, g *store.LockedItem) error,
) error {
	write := func(ctx context.Context, e *Engine) error { return e.withLockedItem(ctx, f, op, fn) }
	err := write(ctx, e)
	if e.scope != nil && err == nil {
		e.scope.refusals = append(e.scope.refusals, write)
	}
	return err
}

// writeRefusalsAgain writes what refusals left in a call that was rolled back. If the
// lease was lost meanwhile, it writes nothing.
func (e *Engine) writeRefusalsAgain(ctx context.Context, s *scope) error {
	if !s.undone {
		return nil
	}
	for _, write := range s.refusals {
		err := write(ctx, e)
		if code := pawl.CodeOf(err); code == pawl.CodeUnavailable || code == pawl.CodeInternal {
			return err
		}
	}
	return nil
}

func (e *Engine) logPanic(ctx context.Context, p commit.Panic) {
	e.log.ErrorContext(ctx, "a call panicked in its transaction", "panic", p.Value, "stack", string(p.Stack))
}
