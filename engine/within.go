package engine

import (
	"context"
	"errors"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/store"
)

var (
	// errAnswered ends a whole call before it writes: there is an answer already.
	errAnswered = errors.New("answered already")
	// errRunAgain has a call whose transaction was lost begin anew, outside of one.
	errRunAgain = errors.New("the call runs again")
	// errGoexit is what becomes of a call that ends its goroutine.
	errGoexit = &pawl.Error{Code: pawl.CodeInternal, Message: "the call ended its goroutine"}
)

// wholeTries bounds how often a whole call runs again whose transaction was lost.
const wholeTries = 10

// within runs fn as a part of the whole call that ctx is part of; without one, as
// a whole of its own, which ended is to be told the end of. Its transaction begins
// with first, when fn first writes; nil = with nothing. With errAnswered from first
// fn writes nothing, and what first did is committed.
func (e *Engine) within(ctx context.Context, first, fn func(ctx context.Context, w *whole) error) (*whole, error) {
	if w := e.db.of(ctx); w != nil {
		return nil, fn(ctx, w)
	}
	for try := 1; ; try++ {
		w := &whole{on: e.db.DB, sole: true, wants: make(chan struct{}), ready: make(chan error)}
		err := e.runWhole(ctx, w, first, fn)
		if !errors.Is(err, errRunAgain) || try == wholeTries {
			return w, err
		}
	}
}

// runWhole runs fn in a goroutine of its own, which stops where its transaction is
// to begin, until it has.
func (e *Engine) runWhole(ctx context.Context, w *whole, first, fn func(ctx context.Context, w *whole) error) error {
	inner, cancel := context.WithCancel(context.WithValue(ctx, wholeKey{}, w))
	defer cancel()
	done := make(chan error, 1)
	go func() {
		err := error(errGoexit)
		defer func() { done <- err }()
		err = shielded(inner, func(ctx context.Context) error { return fn(ctx, w) })
	}()
	select {
	case err := <-done: // it wrote nothing
		return err
	case <-w.wants:
	}
	ran := false
	err := e.db.Whole(ctx, func(ctx context.Context, tx store.Tx) error {
		if ran {
			return errRunAgain
		}
		ran, w.tx = true, tx
		if first != nil {
			if err := first(ctx, w); err != nil {
				cancel()
				w.ready <- err
				<-done
				if errors.Is(err, errAnswered) {
					err = nil
				}
				return err
			}
		}
		w.ready <- nil
		if err := <-done; w.lost == nil {
			return err
		}
		return w.lost
	})
	if !ran {
		cancel()
		w.ready <- err
		<-done
	}
	return err
}

// begin waits until the transaction of a whole call has begun, for its first write.
func (w *whole) begin(ctx context.Context) error {
	if w.begun {
		return w.ended
	}
	w.begun = true
	w.wants <- struct{}{}
	if w.ended = <-w.ready; w.ended != nil {
		return w.ended
	}
	for _, query := range w.queued {
		if err := w.exec(ctx, query); err != nil {
			return err
		}
	}
	return nil
}
