package suite

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pawl-work/pawl"
)

func (w *fixture) begin(k pawl.KeyBegin) pawl.KeyBegun {
	w.Helper()
	b, err := first(w.svc.BeginKeys(w.ctx, []pawl.KeyBegin{k}))
	w.ok(err, "begin key")
	return b
}

// beginRun begins a key and checks that the caller is to run.
func (w *fixture) beginRun(k pawl.KeyBegin) pawl.KeyBegun {
	w.Helper()
	b := w.begin(k)
	if !b.Run || b.Token == "" {
		w.Fatalf("begin of %s is not to run: %+v", k.Key, b)
	}
	return b
}

func (w *fixture) tryBegin(k pawl.KeyBegin) error {
	_, err := first(w.svc.BeginKeys(w.ctx, []pawl.KeyBegin{k}))
	return err
}

func (w *fixture) finishKey(d pawl.KeyDone) pawl.Key {
	w.Helper()
	k, err := first(w.svc.CompleteKeys(w.ctx, []pawl.KeyDone{d}))
	w.ok(err, "complete key")
	return k
}

func (w *fixture) key(scope, name string) (pawl.Key, error) {
	return first(w.svc.GetKeys(w.ctx, []pawl.KeyName{{Scope: scope, Key: name}}))
}

// fastRenewer renews keys every third of a second of the machine's clock, each time for the full
// 60 s of the service's clock.
type fastRenewer struct {
	pawl.KeyKeeper
	renewed chan error // receives the outcome of each renewal
	over    atomic.Bool
}

func (q *fastRenewer) BeginKeys(ctx context.Context, calls []pawl.KeyBegin) ([]pawl.Result[pawl.KeyBegun], error) {
	rs, err := q.KeyKeeper.BeginKeys(ctx, calls)
	for i := range rs {
		rs[i].Value.LockSeconds = 1
	}
	return rs, err
}

func (q *fastRenewer) RenewKeys(ctx context.Context, calls []pawl.KeyRenew) ([]pawl.Result[pawl.Key], error) {
	for i := range calls {
		calls[i].LockSeconds = 60
	}
	rs, err := q.KeyKeeper.RenewKeys(context.WithoutCancel(ctx), calls)
	if !q.over.Load() {
		_, failed := first(rs, err)
		select {
		case q.renewed <- failed:
		case <-ctx.Done():
		}
	}
	return rs, err
}

// brokenKeeper loses the first ends of runs: the first two calls are not carried out, of
// the third the answer is lost.
type brokenKeeper struct {
	pawl.KeyKeeper
	calls int
}

type endOfRuns func(context.Context, []pawl.KeyDone) ([]pawl.Result[pawl.Key], error)

func (q *brokenKeeper) end(ctx context.Context, calls []pawl.KeyDone, end endOfRuns) ([]pawl.Result[pawl.Key], error) {
	q.calls++
	if q.calls <= 2 {
		return nil, &pawl.Error{Code: pawl.CodeUnavailable, Message: "broken before the call"}
	}
	rs, err := end(ctx, calls)
	if q.calls == 3 {
		return nil, errors.Join(err, &pawl.Error{Code: pawl.CodeUnavailable, Message: "broken after the call"})
	}
	return rs, err
}

func (q *brokenKeeper) CompleteKeys(ctx context.Context, calls []pawl.KeyDone) ([]pawl.Result[pawl.Key], error) {
	return q.end(ctx, calls, q.KeyKeeper.CompleteKeys)
}

func (q *brokenKeeper) FailKeys(ctx context.Context, calls []pawl.KeyDone) ([]pawl.Result[pawl.Key], error) {
	return q.end(ctx, calls, q.KeyKeeper.FailKeys)
}

var keys = noun{"idempotency keys", []promise{
	{"the first call runs, the next gets its answer byte for byte", func(w *fixture) {
		ask := pawl.KeyBegin{Scope: "tools", Key: "tool-pdf_parser-document.pdf", RequestHash: "sha256:abc"}
		b := w.beginRun(ask)
		w.same([]any{b.Key.Status, b.Key.Scope, b.Key.RequestHash}, []any{pawl.KeyPending, "tools", "sha256:abc"}, "the key")
		w.advance(time.Second)
		done := w.finishKey(pawl.KeyDone{Scope: "tools", Key: ask.Key, Token: b.Token, Response: raw(`{"pages": 42,  "n":12345678901234567890}`)})
		w.same(done.Status, pawl.KeyCompleted, "status")
		w.timeIs(done.CompletedAt, w.now(), "completed_at")
		for range 2 {
			again := w.begin(ask)
			w.same(
				[]any{again.Run, again.Key.Status, string(again.Key.Response)},
				[]any{false, pawl.KeyCompleted, `{"pages": 42,  "n":12345678901234567890}`},
				"the answer",
			)
		}
		got, err := w.key("tools", ask.Key)
		w.ok(err, "get key")
		w.same([]any{got.Status, string(got.Response)}, []any{pawl.KeyCompleted, `{"pages": 42,  "n":12345678901234567890}`}, "the key")
	}},
	{"another request under the same key is refused, in flight or done", func(w *fixture) {
		b := w.beginRun(pawl.KeyBegin{Key: "k", RequestHash: "one"})
		w.refused(w.tryBegin(pawl.KeyBegin{Key: "k", RequestHash: "two"}), pawl.CodeKeyReused)
		w.finishKey(pawl.KeyDone{Key: "k", Token: b.Token, Response: raw(`1`)})
		err := w.tryBegin(pawl.KeyBegin{Key: "k", RequestHash: "two"})
		w.refused(err, pawl.CodeKeyReused)
		if !errors.Is(err, pawl.ErrKeyReused) {
			w.Errorf("%v does not match ErrKeyReused", err)
		}
	}},
	{"while the first runs the next is told when to retry", func(w *fixture) {
		w.beginRun(pawl.KeyBegin{Key: "k", RequestHash: "h"})
		w.advance(20 * time.Second)
		e := w.refused(w.tryBegin(pawl.KeyBegin{Key: "k", RequestHash: "h"}), pawl.CodeKeyInFlight)
		if e.RetryAfter <= 0 || e.RetryAfter > 40*time.Second {
			w.Errorf("retry after %v", e.RetryAfter)
		}
	}},
	{"after a minute it is taken over, and the old holder's answer refused", func(w *fixture) {
		old := w.beginRun(pawl.KeyBegin{Key: "k", RequestHash: "h"})
		w.advance(60*time.Second - time.Microsecond)
		w.refused(w.tryBegin(pawl.KeyBegin{Key: "k", RequestHash: "h"}), pawl.CodeKeyInFlight)
		w.advance(time.Microsecond)
		b := w.beginRun(pawl.KeyBegin{Key: "k", RequestHash: "h"})
		if b.Token == old.Token {
			w.Error("both have the same token")
		}
		_, err := first(w.svc.CompleteKeys(w.ctx, []pawl.KeyDone{{Key: "k", Token: old.Token, Response: raw(`"old"`)}}))
		if err == nil {
			w.Fatal("the old holder's answer was taken")
		}
		w.finishKey(pawl.KeyDone{Key: "k", Token: b.Token, Response: raw(`"new"`)})
		_, err = first(w.svc.FailKeys(w.ctx, []pawl.KeyDone{{Key: "k", Token: old.Token, Response: raw(`"old"`)}}))
		if err == nil {
			w.Fatal("the old holder's failure was taken")
		}
		w.same(string(w.begin(pawl.KeyBegin{Key: "k", RequestHash: "h"}).Key.Response), `"new"`, "the answer")
	}},
	{"its lease may be longer", func(w *fixture) {
		w.beginRun(pawl.KeyBegin{Key: "k", RequestHash: "h", LockSeconds: 600})
		w.advance(599 * time.Second)
		w.refused(w.tryBegin(pawl.KeyBegin{Key: "k", RequestHash: "h"}), pawl.CodeKeyInFlight)
		w.advance(time.Second)
		w.beginRun(pawl.KeyBegin{Key: "k", RequestHash: "h"})
	}},
	{"a failed one keeps its error to be read, and the next begin runs again", func(w *fixture) {
		b := w.beginRun(pawl.KeyBegin{Key: "k", RequestHash: "h"})
		k, err := first(w.svc.FailKeys(w.ctx, []pawl.KeyDone{{Key: "k", Token: b.Token, Response: raw(`{"message":"boom"}`)}}))
		w.ok(err, "fail key")
		w.same(k.Status, pawl.KeyFailed, "status")
		got, err := w.key("", "k")
		w.ok(err, "get key")
		w.same([]any{got.Status, string(got.Response)}, []any{pawl.KeyFailed, `{"message":"boom"}`}, "the key")
		w.refused(w.tryBegin(pawl.KeyBegin{Key: "k", RequestHash: "other"}), pawl.CodeKeyReused)
		b = w.beginRun(pawl.KeyBegin{Key: "k", RequestHash: "h"})
		w.refused(w.tryBegin(pawl.KeyBegin{Key: "k", RequestHash: "h"}), pawl.CodeKeyInFlight)
		w.finishKey(pawl.KeyDone{Key: "k", Token: b.Token, Response: raw(`1`)})
		w.same(w.begin(pawl.KeyBegin{Key: "k", RequestHash: "h"}).Run, false, "run")
	}},
	{"the answer is given once", func(w *fixture) {
		b := w.beginRun(pawl.KeyBegin{Key: "k", RequestHash: "h"})
		w.finishKey(pawl.KeyDone{Key: "k", Token: b.Token, Response: raw(`1`)})
		_, _ = first(w.svc.CompleteKeys(w.ctx, []pawl.KeyDone{{Key: "k", Token: b.Token, Response: raw(`2`)}}))
		_, _ = first(w.svc.FailKeys(w.ctx, []pawl.KeyDone{{Key: "k", Token: b.Token, Response: raw(`3`)}}))
		got := w.begin(pawl.KeyBegin{Key: "k", RequestHash: "h"})
		w.same([]any{got.Run, string(got.Key.Response)}, []any{false, `1`}, "the answer")
	}},
	{"equal keys of different scopes are independent", func(w *fixture) {
		a := w.beginRun(pawl.KeyBegin{Scope: "a", Key: "k", RequestHash: "h"})
		w.beginRun(pawl.KeyBegin{Scope: "b", Key: "k", RequestHash: "other"})
		w.finishKey(pawl.KeyDone{Scope: "a", Key: "k", Token: a.Token, Response: raw(`1`)})
		got, err := w.key("b", "k")
		w.ok(err, "get key")
		w.same(got.Status, pawl.KeyPending, "status in b")
	}},
	{"an unknown key is not found", func(w *fixture) {
		_, err := w.key("", "nope")
		w.refused(err, pawl.CodeNotFound)
		_, err = first(w.svc.CompleteKeys(w.ctx, []pawl.KeyDone{{Key: "nope", Token: "x", Response: raw(`1`)}}))
		if err == nil {
			w.Error("a key that nobody began was completed")
		}
	}},
	{"of concurrent begins one runs", func(w *fixture) {
		var runs, flights atomic.Int64
		var wg sync.WaitGroup
		for range 16 {
			wg.Go(func() {
				b, err := first(w.svc.BeginKeys(w.ctx, []pawl.KeyBegin{{Key: "k", RequestHash: "h"}}))
				switch {
				case err == nil && b.Run:
					runs.Add(1)
				case errors.Is(err, pawl.ErrKeyInFlight):
					flights.Add(1)
				default:
					w.Errorf("begin: %+v, %v", b, err)
				}
			})
		}
		wg.Wait()
		w.same([]int64{runs.Load(), flights.Load()}, []int64{1, 15}, "runs, in flight")
	}},
	{"each call of a batch has its own result", func(w *fixture) {
		rs, err := w.svc.BeginKeys(
			w.ctx,
			[]pawl.KeyBegin{{Key: "a", RequestHash: "h"}, {Key: "", RequestHash: "h"}, {Key: "b", RequestHash: "h"}, {Key: "a", RequestHash: "h"}},
		)
		w.ok(err, "begin keys")
		w.same([]any{rs[0].Err, rs[0].Value.Run, rs[2].Err, rs[2].Value.Run}, []any{nil, true, nil, true}, "the good ones")
		w.invalid(rs[1].Err, "/key")
		w.refused(rs[3].Err, pawl.CodeKeyInFlight)
	}},
	{"an effect runs once for its key and request", func(w *fixture) {
		runs := 0
		effect := func(context.Context) (map[string]int, error) {
			runs++
			return map[string]int{"pages": runs}, nil
		}
		for range 3 {
			got, err := pawl.Once(w.ctx, w.svc, "parse", map[string]string{"file": "x"}, effect)
			w.ok(err, "once")
			w.same(got, map[string]int{"pages": 1}, "the result")
		}
		_, err := pawl.Once(w.ctx, w.svc, "parse", map[string]string{"file": "y"}, effect)
		w.refused(err, pawl.CodeKeyReused)
		w.same(runs, 1, "runs")
	}},
	{"a run keeps its key by renewing it, also after the key's expiry", func(w *fixture) {
		ask := pawl.KeyBegin{Key: "k", RequestHash: "h", TTLSeconds: 90}
		b := w.beginRun(ask)
		w.same(b.LockSeconds, 60, "lock_seconds")
		renew := func(token string, lock int) (pawl.Key, error) {
			return first(w.svc.RenewKeys(w.ctx, []pawl.KeyRenew{{Key: "k", Token: token, LockSeconds: lock}}))
		}
		for range 4 {
			w.advance(50 * time.Second)
			k, err := renew(b.Token, 0)
			w.ok(err, "renew")
			w.timeIs(k.LockedUntil, w.now().Add(60*time.Second), "locked_until")
			w.refused(w.tryBegin(ask), pawl.CodeKeyInFlight)
			w.sweep()
		}
		_, err := renew("run_of_another", 0)
		w.same(w.refused(err, pawl.CodeConflict).State, pawl.KeyPending, "state")
		_, err = first(w.svc.RenewKeys(w.ctx, []pawl.KeyRenew{{Key: "nope", Token: b.Token}}))
		w.refused(err, pawl.CodeNotFound)
		_, err = renew(b.Token, -1)
		w.invalid(err, "/lock_seconds")
		w.advance(2 * time.Hour) // its lease has expired and was not taken over: it may continue
		_, err = renew(b.Token, 3600)
		w.ok(err, "renew late")
		w.advance(59 * time.Minute)
		w.refused(w.tryBegin(ask), pawl.CodeKeyInFlight)
		w.advance(time.Minute)
		next := w.beginRun(ask)
		_, err = renew(b.Token, 0)
		w.refused(err, pawl.CodeConflict)
		w.finishKey(pawl.KeyDone{Key: "k", Token: next.Token, Response: raw(`1`)})
		_, err = renew(next.Token, 0)
		w.same(w.refused(err, pawl.CodeConflict).State, pawl.KeyCompleted, "state")
	}},
	{"an expired key is not begun again for an item that is gone", func(w *fixture) {
		t := w.oneItem()
		k := pawl.KeyBegin{Key: "k", RequestHash: "h", ItemID: w.onlyItem(t.ID).ID, TTLSeconds: 60}
		b := w.beginRun(k)
		w.finishKey(pawl.KeyDone{Key: "k", Token: b.Token, Response: raw(`1`)})
		w.remove(t.ID, true)
		w.same(w.begin(k).Key.Response, raw(`1`), "the answer of the key that is still valid")
		w.advance(2 * time.Minute)
		w.refused(w.tryBegin(k), pawl.CodeNotFound)
	}},
	{"a key does not expire before the lease of its run ends", func(w *fixture) {
		ask := pawl.KeyBegin{Key: "k", RequestHash: "h", TTLSeconds: 10, LockSeconds: 10}
		b := w.beginRun(ask)
		renewed, err := first(w.svc.RenewKeys(w.ctx, []pawl.KeyRenew{{Key: "k", Token: b.Token, LockSeconds: 60}}))
		w.ok(err, "renew")
		w.same(renewed.ExpiresAt.Sub(b.Key.CreatedAt) >= time.Minute, true, "the renewed key lasts as long as its lease")
		w.advance(30 * time.Second)
		w.sweep()
		w.refused(w.tryBegin(ask), pawl.CodeKeyInFlight)
	}},
	{"a key lasts as long as its caller says, or is refused", func(w *fixture) {
		for _, k := range []pawl.KeyBegin{{TTLSeconds: 59}, {TTLSeconds: 1}, {TTLSeconds: 99, LockSeconds: 100}, {TTLSeconds: -2}} {
			k.Key, k.RequestHash = "short", "h"
			w.invalid(w.tryBegin(k), "/ttl_seconds")
		}
		for _, k := range []pawl.KeyBegin{{TTLSeconds: 60}, {TTLSeconds: 5, LockSeconds: 5}, {TTLSeconds: 7, LockSeconds: 2}} {
			k.Key, k.RequestHash = fmt.Sprint("k", k.TTLSeconds), "h"
			b := w.beginRun(k)
			w.same(b.Key.ExpiresAt.Sub(b.Key.CreatedAt), time.Duration(k.TTLSeconds)*time.Second, "the time that it is kept")
			w.finishKey(pawl.KeyDone{Key: k.Key, Token: b.Token, Response: raw(`1`)})
			w.advance(time.Duration(k.TTLSeconds) * time.Second)
			w.same(w.begin(k).Run, true, "it is absent from then on")
		}
	}},
	{"an effect that lasts longer than the lease of its key runs once", func(w *fixture) {
		runs := 0
		var effect func(context.Context) (int, error)
		keys := &fastRenewer{KeyKeeper: w.svc, renewed: make(chan error)}
		effect = func(context.Context) (int, error) {
			if runs++; runs > 1 {
				return 0, errors.New("it runs twice")
			}
			for range 5 {
				if err := <-keys.renewed; err != nil {
					return 0, err
				}
				w.advance(20 * time.Second)
				_, err := pawl.Once(w.ctx, w.svc, "slow", 1, effect)
				w.refused(err, pawl.CodeKeyInFlight)
			}
			keys.over.Store(true)
			return 42, nil
		}
		for range 2 {
			got, err := pawl.Once(w.ctx, keys, "slow", 1, effect)
			w.ok(err, "once")
			w.same(got, 42, "the result")
		}
	}},
	{"an effect whose key was taken over gets an error", func(w *fixture) {
		keys := &fastRenewer{KeyKeeper: w.svc, renewed: make(chan error)}
		_, err := pawl.Once(w.ctx, keys, "k", 1, func(ctx context.Context) (int, error) {
			w.advance(2 * time.Minute) // as if nothing could have been renewed
			_, err := pawl.Once(w.ctx, w.svc, "k", 1, func(context.Context) (int, error) { return 2, nil })
			w.ok(err, "the other's")
			for ctx.Err() == nil { // a renewal in flight when the other run began may have succeeded
				select {
				case <-keys.renewed:
				case <-ctx.Done():
				}
			}
			w.refused(context.Cause(ctx), pawl.CodeConflict)
			return 1, nil
		})
		w.refused(err, pawl.CodeConflict)
		got, err := pawl.Once(w.ctx, w.svc, "k", 1, func(context.Context) (int, error) { return 3, nil })
		w.ok(err, "once")
		w.same(got, 2, "the result")
	}},
	{"an effect that failed runs again", func(w *fixture) {
		runs := 0
		effect := func(context.Context) (int, error) {
			if runs++; runs == 1 {
				return 0, errors.New("boom")
			}
			return runs, nil
		}
		_, err := pawl.Once(w.ctx, w.svc, "k", 1, effect)
		if err == nil || !strings.Contains(err.Error(), "boom") {
			w.Fatalf("error is %v", err)
		}
		k, err := w.key("once", "k")
		w.ok(err, "get key")
		w.same([]any{k.Status, strings.Contains(string(k.Response), "boom")}, []any{pawl.KeyFailed, true}, "the key")
		for range 2 {
			got, err := pawl.Once(w.ctx, w.svc, "k", 1, effect)
			w.ok(err, "once")
			w.same(got, 2, "the result")
		}
	}},
	{"the end of a run is accepted again, and no other one", func(w *fixture) {
		for _, end := range []struct {
			key, status string
			call, other endOfRuns
		}{
			{"a", pawl.KeyCompleted, w.svc.CompleteKeys, w.svc.FailKeys},
			{"b", pawl.KeyFailed, w.svc.FailKeys, w.svc.CompleteKeys},
		} {
			b := w.beginRun(pawl.KeyBegin{Key: end.key, RequestHash: "h"})
			done := pawl.KeyDone{Key: end.key, Token: b.Token, Response: raw(`{"n": 1}`)}
			ended, err := first(end.call(w.ctx, []pawl.KeyDone{done}))
			w.ok(err, "the first time")
			w.advance(time.Second)
			again, err := first(end.call(w.ctx, []pawl.KeyDone{done}))
			w.ok(err, "again")
			w.same(again, ended, "the key")
			w.same(again.Status, end.status, "status")
			_, err = first(end.other(w.ctx, []pawl.KeyDone{done}))
			w.refused(err, pawl.CodeConflict)
			done.Response = raw(`{"n": 2}`)
			_, err = first(end.call(w.ctx, []pawl.KeyDone{done}))
			w.refused(err, pawl.CodeConflict)
		}
	}},
	{"an effect runs once also if connections break when its result is stored", func(w *fixture) {
		runs := 0
		for n, keys := range []*brokenKeeper{{KeyKeeper: w.svc}, {KeyKeeper: w.svc, calls: 3}} {
			got, err := pawl.Once(w.ctx, keys, "k", 1, func(context.Context) (int, error) { runs++; return 10 * runs, nil })
			w.ok(err, "once")
			w.same([]int{got, runs, keys.calls}, [][]int{{10, 1, 4}, {10, 1, 3}}[n], "result, runs, calls")
		}
		keys := &brokenKeeper{KeyKeeper: w.svc}
		boom := errors.New("boom")
		_, err := pawl.Once(w.ctx, keys, "f", 1, func(context.Context) (int, error) { return 0, boom })
		if !errors.Is(err, boom) || errors.Is(err, pawl.ErrUnavailable) {
			w.Errorf("the error is %v", err)
		}
		k, err := w.key("once", "f")
		w.ok(err, "get key")
		w.same(k.Status, pawl.KeyFailed, "the status of what failed")
	}},
}}
