package kernel

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/engine/internal/commit"
	"github.com/pawl-work/pawl/store"
)

// Scope is one transaction that several verbs share. As a store.DB it runs each
// transaction of a verb as a part of the shared one. Only one goroutine at a time uses
// it.
type Scope struct {
	store.DB               // the database
	Tx       store.Tx      // nil until it has begun
	Begun    bool          // Begin was called
	refused  error         // why it did not begin
	Lost     error         // the error that ended it, even if a verb ignored that
	parts    []*part       // parts that began before the transaction
	wants    chan struct{} // signals that a verb is about to write
	ready    chan error    // gets nil when the transaction has begun, or why it did not

	// after runs after the commit. A verb cannot return this to its caller, as it does with
	// effects inside the engine: the caller gets the verb's answer while the transaction
	// goes on, and a later rollback of a part or of the whole has to drop it.
	after []func()
	// finally runs when the transaction has ended, whatever its outcome.
	finally []func()

	Key      string                                        // the idempotency key of the call; "" = none
	Free     func(context.Context, store.Tx) (bool, error) // reports whether the call may still begin its key; nil = it has none
	Own      bool                                          // it is the caller's own transaction, of any isolation level
	admits   func(context.Context) error                   // returns why a part may not run in the caller's own; nil = it may
	Single   bool                                          // it has only one part: an error of the part may undo the whole
	alone    bool                                          // nothing runs beside it any more
	Wait     time.Duration                                 // how long a claim in it would have waited
	Waited   bool                                          // a claim in it has waited before
	Claimed  bool                                          // a claim in it took items
	Undone   bool                                          // the call asked for a rollback
	refusals []func(context.Context, *Kernel) error        // what is written again after a rollback
}

// Do implements store.DB. An error undoes this part alone.
func (s *Scope) Do(ctx context.Context, fn func(ctx context.Context, tx store.Tx) error) error {
	if err := s.Begin(ctx); err != nil {
		return err
	}
	return s.Part(ctx, func() error {
		err := fn(ctx, s.Tx)
		if s.Lost == nil && (errors.Is(err, store.ErrRolledBack) || !s.Own && errors.Is(err, store.ErrFenced)) {
			s.Lost = err // the whole call runs again
		}
		return err
	})
}

// Whole implements store.DB, as Do does.
func (s *Scope) Whole(ctx context.Context, fn func(ctx context.Context, tx store.Tx) error) error {
	return s.Do(ctx, fn)
}

// part is a part of a scope that can be rolled back alone.
type part struct {
	savepoint       *store.Savepoint // nil = not set
	after, refusals int              // the lengths of the scope's lists when the part began
}

// Part runs fn as a part of the transaction. An error undoes what fn wrote and drops what
// fn added to the scope's after and refusals. A part may begin before the transaction.
func (s *Scope) Part(ctx context.Context, fn func() error) error {
	p := &part{after: len(s.after), refusals: len(s.refusals)}
	if !s.Begun {
		s.parts = append(s.parts, p)
	} else if err := s.setSavepoint(ctx, p); err != nil {
		return err
	}
	err := fn()
	if err != nil {
		s.after, s.refusals = s.after[:p.after], s.refusals[:p.refusals]
	}
	switch {
	case !s.Begun:
		s.parts = s.parts[:len(s.parts)-1]
		return err
	case s.refused != nil:
		return s.refused
	case p.savepoint == nil: // it could not be set, so the transaction is lost
		return cmp.Or(err, s.Lost)
	case err == nil:
		return s.noteLost(p.savepoint.Release(ctx))
	}
	if gone := s.noteLost(p.savepoint.Rollback(ctx)); gone != nil {
		return gone
	}
	return err
}

func (s *Scope) setSavepoint(ctx context.Context, p *part) (err error) {
	if s.refused != nil {
		return s.refused
	}
	p.savepoint, err = store.SetSavepoint(ctx, s.Tx)
	return s.noteLost(err)
}

// noteLost keeps the first error that ends the whole transaction.
func (s *Scope) noteLost(err error) error {
	if err != nil && s.Lost == nil {
		s.Lost = err
	}
	return err
}

// Auto implements store.DB. An error of a hot verb ends the whole transaction.
func (s *Scope) Auto(ctx context.Context, fn func(ctx context.Context, tx store.Tx) error) error {
	if err := s.Begin(ctx); err != nil {
		return err
	}
	err := fn(ctx, s.Tx)
	if err != nil && s.Lost == nil {
		s.Lost = err
	}
	return err
}

// View implements store.DB. Before the transaction begins, each read runs outside it.
func (s *Scope) View(ctx context.Context, fn func(ctx context.Context, tx store.Tx) error) error {
	if !s.Begun {
		return s.DB.View(ctx, fn)
	}
	if err := s.Begin(ctx); err != nil {
		return err
	}
	return fn(ctx, s.Tx)
}

// Begin begins the transaction before its first write and waits until it has begun. Afterwards it says whether
// another part may run.
func (s *Scope) Begin(ctx context.Context) error {
	switch {
	case s.Begun && s.refused == nil && s.admits != nil:
		return s.admits(ctx)
	case s.Begun:
		return s.refused
	}
	s.Begun = true
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

// After runs fn when what k writes has committed; without a scope, that is now.
func (k *Kernel) After(fn func()) {
	if k.Scope != nil {
		k.Scope.after = append(k.Scope.after, fn)
		return
	}
	fn()
}

// Finally runs fn when the transaction of k has ended, even if that was rolled back; without a scope, that is
// now. fn writes in transactions of its own: one inside the scope's would wait for it on SQLite.
func (k *Kernel) Finally(fn func()) {
	if k.Scope != nil {
		k.Scope.finally = append(k.Scope.finally, fn)
		return
	}
	fn()
}

// Beside runs a transaction of its own before what a transaction of the caller's does, where both can
// write. It reports false if that transaction has to do the same itself: no connection was free. From
// then on it does so always, because others would wait for what it has written.
func (k *Kernel) Beside(ctx context.Context, fn func(ctx context.Context) error) (bool, error) {
	if k.Scope == nil || k.Scope.alone || !k.DB.Dialect().ParallelWrites {
		return false, nil
	}
	if k.Scope.Begun && (!k.Scope.Own || k.DB.Dialect().Lent) { // else the caller's own has none of Pawl's connections
		ctx = store.IfFree(ctx)
	}
	err := fn(ctx)
	k.Scope.alone = errors.Is(err, store.ErrNoneFree)
	if k.Scope.alone {
		err = nil
	}
	return !k.Scope.alone, err
}

// InTx reports whether what k reads may be uncommitted.
func (k *Kernel) InTx() bool { return k.Scope != nil && k.Scope.Begun }

// NotInTx refuses a verb that runs in several transactions if k is inside one.
func (k *Kernel) NotInTx(op string) error {
	if k.Scope != nil {
		return &pawl.Error{Code: pawl.CodeInvalid, Op: op, Message: op + " runs in several transactions and cannot be part of one"}
	}
	return nil
}

var (
	// ErrAnswered ends a scope before it writes, because there is an answer already. The call that gets it was cancelled.
	ErrAnswered = fmt.Errorf("answered already: %w", context.Canceled)
	// errRunAgain makes a call run again, outside any transaction, after its own was lost.
	errRunAgain = errors.New("the call runs again")
	// errLostAgain is the error of a call whose transaction was lost scopeTries times.
	errLostAgain = &pawl.Error{Code: pawl.CodeUnavailable, Message: "the transaction lost to others again and again",
		Err: store.Undone{Err: store.ErrRolledBack}}
	// errGoexit is the error of a call that ends its goroutine.
	errGoexit = &pawl.Error{Code: pawl.CodeInternal, Message: "the call ended its goroutine"}
	// errEnded is the error of a scope that is used after its transaction has ended.
	errEnded = &pawl.Error{Code: pawl.CodeInternal, Message: "the transaction has ended"}
	// ErrNothing rolls back a call without effect.
	ErrNothing = errors.New("nothing to keep")
)

// scopeTries is how often a call runs at most if its transaction is lost.
const scopeTries = 10

// Together runs fn on a Kernel whose verbs share one transaction. If k has a scope, that
// is k itself. Otherwise Together makes a new scope and returns it; the caller passes it
// to Finish. The transaction begins when a verb first writes, so decoding and checks
// before that hold no transaction. It begins with first (nil = nothing). If first returns
// ErrAnswered, fn writes nothing, and what first wrote is committed. While a move refuses what
// the transaction changes, Together waits, and runs fn again.
func (k *Kernel) Together(ctx context.Context, first, fn func(ctx context.Context, k *Kernel) error) (*Scope, error) {
	if k.Scope != nil {
		return nil, fn(ctx, k)
	}
	a := k.Base.attempts()
	for tries := 0; ; {
		s := &Scope{DB: k.DB, Single: true, wants: make(chan struct{}), ready: make(chan error)}
		a.err = s.run(ctx, k.over(s), first, fn)
		switch {
		case errors.Is(a.err, errRunAgain):
			if tries++; tries == scopeTries {
				return s, errLostAgain
			}
		case s.Tx == nil || !a.again(ctx): // what did not begin has waited
			return s, a.err
		}
	}
}

// run runs fn in a separate goroutine, which stops at its first write until the
// transaction has begun. The store runs the transaction as a function, and perhaps more
// than once.
func (s *Scope) run(ctx context.Context, k *Kernel, first, fn func(ctx context.Context, k *Kernel) error) error {
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
		err = commit.Shield(inner, k, fn)
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
		ran, s.Tx = true, tx
		if first != nil {
			if err := first(ctx, k); err != nil {
				cancel()
				s.ready <- err
				<-done
				if errors.Is(err, ErrAnswered) {
					err = nil
				}
				return err
			}
		}
		s.ready <- nil
		if err := <-done; s.Lost == nil {
			return err
		}
		return s.Lost
	})
	if !ran {
		cancel()
		s.ready <- err
		<-done
	}
	s.refused = errEnded
	return err
}

// Finish reports to this process what a scope has committed or rolled back, and returns
// its error. ErrNothing is no error. With a nil scope it only returns err: the shared
// transaction goes on.
func (k *Kernel) Finish(ctx context.Context, s *Scope, err error) error {
	if s == nil {
		return err
	}
	if err == nil {
		s.Committed()
		return nil
	}
	if s.Claimed { // the items that a claim took are queued again
		k.Unclaimed(ctx)
	}
	if p := (commit.Panic{}); errors.As(err, &p) {
		k.LogPanic(ctx, p)
		panic(p.Value)
	}
	if errors.Is(err, ErrNothing) {
		return nil
	}
	return err
}

// IfUndone runs write again if the call of the scope is rolled back: it writes what a refusal leaves. Without a scope
// it does nothing.
func (k *Kernel) IfUndone(write func(ctx context.Context, k *Kernel) error) {
	if k.Scope != nil {
		k.Scope.refusals = append(k.Scope.refusals, write)
	}
}

// WriteRefusalsAgain writes what refusals left in a call that was rolled back. If the
// lease was lost meanwhile, it writes nothing.
func (k *Kernel) WriteRefusalsAgain(ctx context.Context, s *Scope) error {
	if !s.Undone {
		return nil
	}
	for _, write := range s.refusals {
		err := write(ctx, k)
		if code := pawl.CodeOf(err); code == pawl.CodeUnavailable || code == pawl.CodeInternal {
			return err
		}
	}
	return nil
}

// Committed runs what was to be done after the commit.
func (s *Scope) Committed() {
	for _, fn := range s.after {
		fn()
	}
	s.after = nil
}
