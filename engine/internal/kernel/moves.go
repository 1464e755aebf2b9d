package kernel

import (
	"context"
	"errors"
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
)

// Moves are the moves of a database, as this process knows them. The zero value knows none.
type Moves struct {
	known  atomic.Pointer[[]relocate.Relocation]
	Exempt atomic.Bool  // the process is the mover
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
func (r *Moves) of(ctx context.Context) *relocate.Relocation {
	list := r.known.Load()
	if list == nil || r.Exempt.Load() {
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

// Refuse returns why a transaction of a caller may not run.
func (r *Moves) Refuse(ctx context.Context) error {
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
func (w *DB) refuse(ctx context.Context) error {
	if x := w.Moves.of(ctx); x != nil && x.Namespace != "" && !x.Left() && once(&w.Moves.looked, fenceLook) {
		if err := w.LookForMoves(ctx); err != nil {
			return err
		}
	}
	return w.Moves.Refuse(ctx)
}

type allKey struct{}

// ForAll marks a call that is about no namespace.
func ForAll(ctx context.Context) context.Context { return context.WithValue(ctx, allKey{}, true) }

// ForOne takes the mark of ForAll away, for what such a call does in a namespace.
func ForOne(ctx context.Context) context.Context { return context.WithValue(ctx, allKey{}, nil) }

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

// LookForMoves reads the moves of the database.
func (w *DB) LookForMoves(ctx context.Context) error {
	var list []relocate.Relocation
	err := w.Dialect().Look(ctx, func(ctx context.Context, tx store.Tx) (err error) {
		list, err = relocate.List(ctx, tx)
		return err
	})
	if err != nil {
		return err
	}
	was := w.Moves.known.Load()
	if len(list) == 0 && was == nil {
		return nil
	}
	w.Moves.learn(list)
	return nil
}

// Known reports whether the process knows of any move.
func (r *Moves) Known() bool {
	list := r.known.Load()
	return list != nil && len(*list) > 0
}

// attempts are those of one transaction that writes. While a move refuses it, it waits, and is tried again.
type attempts struct {
	w      *DB
	err    error // of the last attempt
	tried  bool
	exempt bool
	began  time.Time
	looked bool // after the refusal: what is known may be older
	free   bool // there is no move any more
}

func (w *DB) attempts() attempts {
	return attempts{w: w, exempt: w.Moves.Exempt.Load()}
}

// next says whether the transaction is to be run. If not, err is its answer.
func (a *attempts) next(ctx context.Context) bool {
	if !a.tried {
		a.tried = true
		if a.err = a.w.Excluded(); a.err != nil {
			return false
		}
	} else if store.IsOnce(ctx) || !a.again(ctx) {
		return false
	}
	for !a.exempt {
		if a.err = a.w.refuse(ctx); a.err != nil {
			return false
		}
		if !a.w.Moves.fenced() {
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
	moves := &a.w.Moves
	if again := once(&moves.looked, fenceLook/2); again || !a.looked {
		a.looked = true
		if err := a.w.LookForMoves(ctx); err != nil {
			a.err = errors.Join(a.err, err)
			return false
		}
	}
	if err := moves.Refuse(ctx); err != nil {
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
func (r *Moves) fenced() bool {
	f := r.fence.Load()
	return f != nil && clock.Now().Sub(f.found) < relocate.FenceTime
}

// learn notes the moves of the database.
func (r *Moves) learn(list []relocate.Relocation) {
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
func (r *Moves) moving() bool {
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
