package keys

import (
	"cmp"
	"context"
	"errors"
	"strings"
	"time"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/engine/internal/kernel"
	"github.com/pawl-work/pawl/engine/internal/rules"
	"github.com/pawl-work/pawl/internal/idform"
	"github.com/pawl-work/pawl/store"
)

// Idempotent carries out a call once for its key. A later call with the same key and
// request gets the first answer, replayed. run makes the call with the verbs of svc, in
// one goroutine. What the verbs write and the answer commit together or not at all, also
// if the process dies in between. The transaction begins when a verb first writes; what
// run does before that, and the checks of the verbs, hold no transaction. run may run
// more than once before the commit and must have no other effect.
//
// An error of run is returned as it is, undoes what was done and leaves the key unused. A
// nil answer does the same, for a call without effect. What a refusal leaves, such as the
// error of an item or a rejected part, is stored nevertheless.
//
// A waiting claim waits outside the transaction. In that time it is tried again if its
// connection is lost. A cancel of a large task cancels most of its items in batches
// before the transaction, while the key is free. They stay cancelled if the call then
// fails or its process dies; the next call with the same key cancels the rest.
//
// A key that was used for another request is ErrKeyReused. A key that is in flight, in
// this process or another, is ErrKeyInFlight.
func (ks *Keys) Idempotent(ctx context.Context, k pawl.KeyBegin,
	run func(ctx context.Context, svc pawl.Service) (*pawl.Answer, error)) (answer pawl.Answer, replayed bool, err error) {
	k = idform.Call(k)
	ns, leave, err := ks.enter(ctx, &k)
	if err != nil {
		return answer, false, err
	}
	defer leave()
	var s *kernel.Scope
	var wait time.Duration // how long a claim in the call waits
	var lost bool          // the last try lost its connection; the database may hold its key a moment longer
	try := func(woken <-chan struct{}) (bool, error) {
		var refused error
		var row stored
		s, err = ks.k.Together(ctx, func(ctx context.Context, in *kernel.Kernel) (err error) {
			var begun pawl.KeyBegun
			begun, row, refused, err = ks.begin(ctx, in.Scope.Tx, ns, &k, new(int))
			if replayed = err == nil && refused == nil && !begun.Run; replayed {
				answer = answerOf(row)
			}
			if replayed || refused != nil {
				return kernel.ErrAnswered // keeps what the refusal counted
			}
			return err
		}, func(ctx context.Context, in *kernel.Kernel) error {
			s := in.Scope
			s.Key, s.Single, s.Waited, s.Free = k.Key, false, woken != nil, free(ns, &k)
			made, err := run(ctx, in.Verbs(in))
			if gone := s.Begin(ctx); gone != nil { // checks the key, whatever the outcome of the call
				return gone
			}
			switch {
			case s.Lost != nil:
				return s.Lost
			case err == nil && made == nil:
				err = kernel.ErrNothing
			}
			if s.Undone = err != nil; s.Undone {
				return err
			}
			answer = *made
			return ks.keepAnswer(ctx, s.Tx, ns, row, answer)
		})
		err = cmp.Or(err, refused)
		wait = max(wait, s.Wait)
		if lost = wait > 0 && (kernel.Transient(err) || lost && errors.Is(err, pawl.ErrKeyInFlight)); lost {
			_ = ks.k.Finish(ctx, s, err) // reports the items that the lost try claimed as free
		}
		return !lost && !errors.Is(err, kernel.ErrNothing), err
	}
	done, err := try(nil)
	if !done && wait > 0 {
		err = ks.k.Wait(ctx, ns, strings.Join([]string{ns, k.Scope, k.Key}, "\x00"), wait, try)
	}
	nothing := errors.Is(err, kernel.ErrNothing)
	if err = ks.k.Finish(ctx, s, err); err != nil || nothing {
		return pawl.Answer{}, false, cmp.Or(ks.k.WriteRefusalsAgain(ctx, s), err)
	}
	return answer, replayed, nil
}

// free returns a function that reports whether a call may begin its key. It does not lock the key.
func free(ns string, k *pawl.KeyBegin) func(context.Context, store.Tx) (bool, error) {
	return func(ctx context.Context, tx store.Tx) (bool, error) {
		if err := store.Known(ctx, tx, ns, k.TaskID, k.ItemID); err != nil {
			return false, err
		}
		now, err := tx.Now(ctx)
		if err != nil {
			return false, err
		}
		old, found, err := read(ctx, tx, ns, k.Scope, rules.KeyHash(k.Key), false)
		free := !found || old.Code == nil || old.Expires != 0 && old.Expires <= now ||
			(old.RequestHash == "" || old.RequestHash == k.RequestHash) && old.Status != pawl.KeyCompleted &&
				!(old.Status == pawl.KeyPending && old.Locked > now)
		return free, err
	}
}

// Answered reports whether the answer to a call with a key is stored. It does not begin the key: a call
// that is in flight has no answer yet.
func (ks *Keys) Answered(ctx context.Context, k pawl.KeyName) (bool, error) {
	return kernel.Read(ctx, ks.k, func(ctx context.Context, tx store.Tx, ns string) (bool, error) {
		now, err := tx.Now(ctx)
		if err != nil {
			return false, err
		}
		row, found, err := read(ctx, tx, ns, k.Scope, rules.KeyHash(k.Key), false)
		return found && row.Code != nil && row.Status == pawl.KeyCompleted && (row.Expires == 0 || row.Expires > now), err
	})
}

// IdempotentSteps is Idempotent for a call that runs in several transactions. Its key is
// begun before them and its answer is stored after them. In between, the key's lease is
// renewed, and the answer is stored again if that fails. If the process dies, or cannot
// reach the database for 60 s, the key stays in flight until its lease ends. The next
// call with the key then runs again.
func (ks *Keys) IdempotentSteps(ctx context.Context, k pawl.KeyBegin,
	run func(ctx context.Context, svc pawl.Service) (*pawl.Answer, error)) (answer pawl.Answer, replayed bool, err error) {
	k = idform.Call(k)
	ns, leave, err := ks.enter(ctx, &k)
	if err != nil {
		return answer, false, err
	}
	defer leave()
	var begun pawl.KeyBegun
	var row stored
	var refused error
	err = ks.k.DB.Do(ctx, func(ctx context.Context, tx store.Tx) (err error) {
		begun, row, refused, err = ks.begin(ctx, tx, ns, &k, new(int))
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
	held, hold := pawl.KeepKey(ctx, callKeys{ks}, k.Scope, k.Key, begun)
	defer hold.Stop()
	made, err := run(held, ks.k.Verbs(ks.k))
	if err != nil || made == nil {
		hold.Stop()
		ctx = context.WithoutCancel(ctx)
		dropped := ks.k.DB.Do(ctx, func(ctx context.Context, tx store.Tx) error {
			_, err := change(ctx, tx, "drop", ns, row.Scope, row.Hash, row.Token)
			return err
		})
		if dropped != nil {
			ks.k.LogError(ctx, "an idempotency key could not be released; its lease will expire", dropped)
		}
		return answer, false, err
	}
	return *made, false, hold.Settle(ctx, func(ctx context.Context) error {
		return ks.k.DB.Do(ctx, func(ctx context.Context, tx store.Tx) error {
			return ks.keepAnswer(ctx, tx, ns, row, *made)
		})
	})
}

// enter checks a call's key and marks it as in flight in this process, until leave is
// called.
func (ks *Keys) enter(ctx context.Context, k *pawl.KeyBegin) (ns string, leave func(), err error) {
	ns = pawl.CallerOf(ctx).Namespace
	if err := checkBegin(k); err != nil {
		return ns, nil, err
	}
	if err := ks.k.NotInTx("answer"); err != nil {
		return ns, nil, err
	}
	name := [3]string{ns, k.Scope, k.Key}
	if _, held := ks.answering.LoadOrStore(name, true); held {
		return ns, nil, inFlight(time.Second)
	}
	return ns, func() { ks.answering.Delete(name) }, nil
}

func inFlight(after time.Duration) error {
	return &pawl.Error{Code: pawl.CodeKeyInFlight, Op: "begin", RetryAfter: after}
}

func (ks *Keys) keepAnswer(ctx context.Context, tx store.Tx, ns string, row stored, a pawl.Answer) error {
	now, err := tx.Now(ctx)
	if err != nil {
		return err
	}
	if err := ks.refer(ctx, tx, "answer", string(a.Body)); err != nil {
		return err
	}
	kept, err := change(ctx, tx, "answer", ns, row.Scope, row.Hash, row.Token, string(a.Body), a.Code, store.Text(a.Type),
		store.Text(a.Location), now)
	if err != nil || kept {
		return err
	}
	is, found, err := read(ctx, tx, ns, row.Scope, row.Hash, false)
	if err == nil && !(found && is.Token == row.Token && is.Status == pawl.KeyCompleted) { // not stored by an earlier try
		err = inFlight(time.Second) // its lease ran out and another call has taken the key over
	}
	return err
}

func answerOf(row stored) pawl.Answer {
	a := pawl.Answer{Type: row.Type, Location: row.Location}
	if row.Code != nil {
		a.Code = *row.Code
	}
	if row.Type != "" {
		a.Body = row.Response
	}
	return a
}
