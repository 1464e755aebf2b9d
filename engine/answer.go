package engine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/store"
)

// whole is a call that is carried out as a whole: every verb that is given its
// context runs in one transaction, which ends with the call's answer.
type whole struct {
	on    store.DB
	tx    store.Tx
	after []func()      // what this process learns once it has committed
	wait  time.Duration // as long as a claim would have
	took  bool          // a claim took something
	key   string        // the idempotency key it is carried out under; "" = none
	sole  bool          // it has one part, so that what undoes that may undo it all
	lost  error         // what ended the transaction, whatever the call made of it

	undone bool                          // the call wanted it so
	kept   []func(context.Context) error // and what of its refusals stays

	begun  bool
	queued []string      // statements to run when it begins
	wants  chan struct{} // the call is about to write
	ready  chan error    // its transaction has begun, or never will
	ended  error         // why it never will
}

type wholeKey struct{}

func wholeOf(ctx context.Context) *whole {
	w, _ := ctx.Value(wholeKey{}).(*whole)
	return w
}

// joining is a database whose calls join the transaction of their context.
type joining struct{ store.DB }

func (j joining) of(ctx context.Context) *whole {
	if w := wholeOf(ctx); w != nil && w.on == j.DB {
		return w
	}
	return nil
}

// Do implements store.DB. An error undoes this part alone.
func (j joining) Do(ctx context.Context, fn func(ctx context.Context, tx store.Tx) error) error {
	w := j.of(ctx)
	if w == nil {
		return j.DB.Do(ctx, fn)
	}
	if err := w.begin(ctx); err != nil {
		return err
	}
	if err := w.exec(ctx, "SAVEPOINT part"); err != nil {
		return err
	}
	if err := fn(ctx, w.tx); err != nil {
		var pg *pgconn.PgError
		if w.lost == nil && errors.As(err, &pg) && strings.HasPrefix(pg.Code, "40") {
			w.lost = err // a lost deadlock: the whole call runs again
		}
		if gone := w.exec(ctx, "ROLLBACK TO SAVEPOINT part"); gone != nil {
			return gone
		}
		return err
	}
	return w.exec(ctx, "RELEASE SAVEPOINT part")
}

// Auto implements store.DB. An error of a hot verb is one of the whole call.
func (j joining) Auto(ctx context.Context, fn func(ctx context.Context, tx store.Tx) error) error {
	w := j.of(ctx)
	if w == nil {
		return j.DB.Auto(ctx, fn)
	}
	if err := w.begin(ctx); err != nil {
		return err
	}
	err := fn(ctx, w.tx)
	if err != nil && w.lost == nil {
		w.lost = err
	}
	return err
}

// View implements store.DB. What a call reads before it writes it reads by itself,
// so that no transaction is open while it is decoded and checked.
func (j joining) View(ctx context.Context, fn func(ctx context.Context, tx store.Tx) error) error {
	w := j.of(ctx)
	switch {
	case w == nil || !w.begun:
		return j.DB.View(ctx, fn)
	case w.ended != nil:
		return w.ended
	}
	return fn(ctx, w.tx)
}

func (w *whole) exec(ctx context.Context, query string) error {
	if !w.begun {
		w.queued = append(w.queued, query)
		return nil
	}
	if w.ended != nil {
		return w.ended
	}
	_, err := w.tx.Exec(ctx, query)
	if err != nil && w.lost == nil {
		w.lost = err
	}
	return err
}

// after runs fn when what ctx is part of has committed.
func (e *Engine) after(ctx context.Context, fn func()) {
	if w := e.db.of(ctx); w != nil {
		w.after = append(w.after, fn)
		return
	}
	fn()
}

// severally refuses what runs in several transactions inside one.
func (e *Engine) severally(ctx context.Context, op string) error {
	if e.db.of(ctx) != nil {
		return &pawl.Error{Code: pawl.CodeInvalid, Op: op, Message: op + " runs in several transactions and cannot be part of one"}
	}
	return nil
}

// errNothing undoes a call that has nothing to be kept.
var errNothing = errors.New("nothing to keep")

// AnswerOnce carries a call out once for its key: who comes later with the same
// request gets the first answer, replayed. run makes the call by the verbs of
// this engine, with the context that it is given and in one goroutine; what they
// do and the answer commit together or not at all, so that a process that dies
// between the effect and its answer has done nothing, or the answer is there.
// The transaction begins when a verb first writes: what run does before, such as
// decoding, and what verbs check of their calls, holds none.
// run may run more than once before that, and must have no other effect.
//
// An error of run is answered as it is, undoes what was done and leaves the key
// unused; so does a nil answer, for a call that came to nothing. What the verbs
// keep of a refusal, an item's complaint or a rejected part, is kept all the same.
// A claim that waits waits outside the transaction. Another request's key is
// ErrKeyReused; one under way, here or elsewhere, ErrKeyInFlight.
func (e *Engine) AnswerOnce(ctx context.Context, k pawl.KeyBegin, run func(ctx context.Context) (*pawl.Answer, error)) (answer pawl.Answer, replayed bool, err error) {
	ns, leave, err := e.enterKey(ctx, &k)
	if err != nil {
		return answer, false, err
	}
	defer leave()
	var w *whole
	try := func(<-chan struct{}) (bool, error) {
		var refused error
		var row store.KeyRow
		w, err = e.within(ctx, func(ctx context.Context, w *whole) (err error) {
			var begun pawl.KeyBegun
			begun, row, refused, err = e.beginKey(ctx, w.tx, ns, &k, new(int))
			if replayed = err == nil && refused == nil && !begun.Run; replayed {
				answer = answerOf(row)
			}
			if replayed || refused != nil {
				return errAnswered // what the refusal counted stays
			}
			return err
		}, func(ctx context.Context, w *whole) error {
			w.key, w.sole = k.Key, false
			made, err := run(ctx)
			if gone := w.begin(ctx); gone != nil { // the key is asked for, whatever came of the call
				return gone
			}
			switch {
			case w.lost != nil:
				return w.lost
			case err == nil && made == nil:
				err = errNothing
			}
			if w.undone = err != nil; w.undone {
				return err
			}
			answer = *made
			return e.keepAnswer(ctx, w.tx, ns, row, answer)
		})
		if err == nil {
			err = refused
		}
		return err == nil || !errors.Is(err, errNothing), err
	}
	done, err := try(nil)
	if !done && w.wait > 0 {
		err = e.await(ctx, ns, strings.Join([]string{ns, k.Scope, k.Key}, "\x00"), w.wait, try)
	}
	nothing := errors.Is(err, errNothing)
	if err = e.ended(ctx, w, err); err != nil || nothing {
		return pawl.Answer{}, false, cmp.Or(keepAgain(ctx, w), err)
	}
	return answer, replayed, nil
}

// kept is gripped for what is kept of a refusal: it stays when the call that is
// refused is undone.
func (e *Engine) kept(ctx context.Context, f pawl.Fence, op string, fn func(ctx context.Context, tx store.Tx, g *store.Grip) error) error {
	keep := func(ctx context.Context) error { return e.gripped(ctx, f, op, fn) }
	err := keep(ctx)
	if w := e.db.of(ctx); w != nil && err == nil {
		w.kept = append(w.kept, keep)
	}
	return err
}

// keepAgain writes what is kept of a call that was undone. Whoever lost his lease
// meanwhile has nothing to keep it for.
func keepAgain(ctx context.Context, w *whole) error {
	if !w.undone {
		return nil
	}
	for _, keep := range w.kept {
		err := keep(ctx)
		if code := pawl.CodeOf(err); code == pawl.CodeUnavailable || code == pawl.CodeInternal {
			return err
		}
	}
	return nil
}

// ended tells this process what a whole has done, or that it has not, and answers
// with its error; that there was nothing to keep is none.
func (e *Engine) ended(ctx context.Context, w *whole, err error) error {
	if w == nil { // it goes on
		return err
	}
	if err == nil {
		for _, fn := range w.after {
			fn()
		}
		return nil
	}
	if w.took { // and it is back
		e.groups.forget()
		e.wake.all(pawl.CallerOf(ctx).Namespace)
	}
	if p := (panicked{}); errors.As(err, &p) {
		e.logPanic(ctx, p)
		panic(p.value)
	}
	if errors.Is(err, errNothing) {
		return nil
	}
	return err
}

// AnswerLong is AnswerOnce for a call that runs in several transactions: its key
// is begun before and its answer kept after them; its lease is renewed in between.
// When the process dies, or the answer cannot be kept, the key stays in flight
// until its lease of 60 s ends, and the next call with it runs again.
func (e *Engine) AnswerLong(ctx context.Context, k pawl.KeyBegin, run func(ctx context.Context) (*pawl.Answer, error)) (answer pawl.Answer, replayed bool, err error) {
	ns, leave, err := e.enterKey(ctx, &k)
	if err != nil {
		return answer, false, err
	}
	defer leave()
	var begun pawl.KeyBegun
	var row store.KeyRow
	var refused error
	err = e.db.Do(ctx, func(ctx context.Context, tx store.Tx) (err error) {
		begun, row, refused, err = e.beginKey(ctx, tx, ns, &k, new(int))
		return err
	})
	switch {
	case err != nil:
		return answer, false, err
	case refused != nil:
		return answer, false, refused
	case !begun.Run:
		return answerOf(row), true, nil
	}
	held, stop := pawl.HoldKey(ctx, e, k.Scope, k.Key, begun)
	defer stop()
	made, err := run(held)
	stop()
	ctx = context.WithoutCancel(ctx)
	if err != nil || made == nil {
		dropped := e.db.Do(ctx, func(ctx context.Context, tx store.Tx) error {
			return store.DropKey(ctx, tx, ns, row.Scope, row.Hash, row.Token)
		})
		if dropped != nil {
			e.mishap(ctx, "giving an idempotency key back", dropped)
		}
		return answer, false, err
	}
	return *made, false, e.db.Do(ctx, func(ctx context.Context, tx store.Tx) error {
		return e.keepAnswer(ctx, tx, ns, row, *made)
	})
}

// enterKey checks a call's key and holds it for this process, until leave.
func (e *Engine) enterKey(ctx context.Context, k *pawl.KeyBegin) (ns string, leave func(), err error) {
	ns = pawl.CallerOf(ctx).Namespace
	if err := checkKey(k); err != nil {
		return ns, nil, err
	}
	if err := e.severally(ctx, "answer"); err != nil {
		return ns, nil, err
	}
	name := [3]string{ns, k.Scope, k.Key}
	if _, held := e.answering.LoadOrStore(name, true); held {
		return ns, nil, inFlight(time.Second)
	}
	return ns, func() { e.answering.Delete(name) }, nil
}

func inFlight(after time.Duration) error {
	return &pawl.Error{Code: pawl.CodeKeyInFlight, Op: "begin", RetryAfter: after}
}

func (e *Engine) keepAnswer(ctx context.Context, tx store.Tx, ns string, row store.KeyRow, a pawl.Answer) error {
	now, err := tx.Now(ctx)
	if err != nil {
		return err
	}
	kept, err := store.SettleAnswer(ctx, tx, ns, row.Scope, row.Hash, row.Token, a, now)
	if err == nil && !kept {
		err = inFlight(time.Second) // its lease ran out, and another has taken it over
	}
	return err
}

func answerOf(row store.KeyRow) pawl.Answer {
	a := pawl.Answer{Type: row.Type, Location: row.Location}
	if row.Code != nil {
		a.Code = *row.Code
	}
	if row.Type != "" {
		a.Body = row.Response
	}
	return a
}

// panicked carries a panic out of a transaction that another goroutine may run.
type panicked struct {
	value any
	stack []byte
}

func (p panicked) Error() string { return fmt.Sprint("panic: ", p.value) }

func (e *Engine) logPanic(ctx context.Context, p panicked) {
	e.log.ErrorContext(ctx, "a call panicked in its transaction", "panic", p.value, "stack", string(p.stack))
}

func shielded(ctx context.Context, run func(ctx context.Context) error) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = panicked{v, debug.Stack()}
		}
	}()
	return run(ctx)
}
