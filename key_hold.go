package pawl

import (
	"cmp"
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"
)

// KeyRenewer renews the leases of keys; it is part of KeyKeeper.
type KeyRenewer interface {
	RenewKeys(ctx context.Context, calls []KeyRenew) ([]Result[Key], error)
}

const (
	renewals    = 3                     // of a key, in the time of its lease
	settlePause = 50 * time.Millisecond // before the second try to store an outcome; it doubles
	settleTries = 30                    // bounds the tries to store an outcome
)

// KeyHold holds the key of a begun run: it renews the key's lease until Stop.
type KeyHold struct {
	every       time.Duration // between two renewals
	missed      atomic.Int32  // renewals in a row that failed
	refused     chan struct{} // closed when a renewal was refused
	over, ended chan struct{}
	stop        func()
	lasting     bool // a failed call may succeed when it is made again
}

// HoldKey is KeepKey for a caller that stores the outcome itself.
func HoldKey(ctx context.Context, keys KeyRenewer, scope, key string, begun KeyBegun) (held context.Context, stop func()) {
	held, hold := KeepKey(ctx, keys, scope, key, begun)
	return held, hold.Stop
}

// KeepKey renews the lease of a begun run, three times per lease, until Stop is called.
// The returned context ends when a renewal is refused, because another caller has taken
// the key over; the refusal is its cause. A renewal that fails otherwise is tried again.
//
// Inside a transaction nothing is renewed: no other call sees the key before the commit.
func KeepKey(ctx context.Context, keys KeyRenewer, scope, key string, begun KeyBegun) (held context.Context, hold *KeyHold) {
	held, cancel := context.WithCancelCause(ctx)
	lock := cmp.Or(begun.LockSeconds, int(DefaultKeyLease/time.Second))
	h := &KeyHold{
		every:   time.Duration(lock) * time.Second / renewals,
		refused: make(chan struct{}), over: make(chan struct{}), ended: make(chan struct{}),
	}
	h.stop = sync.OnceFunc(func() {
		close(h.over)
		<-h.ended
		cancel(nil)
	})
	if in, ok := keys.(interface{ InTransaction() bool }); ok && in.InTransaction() {
		close(h.ended)
		return held, h
	}
	h.lasting = true
	call := KeyRenew{Scope: scope, Key: key, Token: begun.Token, LockSeconds: lock}
	go func() {
		defer close(h.ended)
		if err := h.renew(context.WithoutCancel(ctx), keys, call); err != nil {
			close(h.refused)
			cancel(err)
		}
	}()
	return held, h
}

// renew renews a key until the hold is over, which is nil, or until a renewal is refused.
func (h *KeyHold) renew(ctx context.Context, keys KeyRenewer, call KeyRenew) error {
	tick := time.NewTicker(h.every)
	defer tick.Stop()
	for {
		select {
		case <-h.over:
			return nil
		case <-tick.C:
		}
		try, done := context.WithTimeout(ctx, h.every)
		_, err := one(keys.RenewKeys(try, []KeyRenew{call}))
		done()
		switch {
		case errors.Is(err, ErrConflict) || errors.Is(err, ErrNotFound):
			return err
		case err != nil:
			h.missed.Add(1)
		default:
			h.missed.Store(0)
		}
	}
}

// Stop ends the renewals and waits for one in flight.
func (h *KeyHold) Stop() { h.stop() }

// Settle stores the outcome of the run with store. It goes on after ctx has ended. If
// store fails for a reason that may pass, it is called again while the key is held: until
// a renewal is refused, or as many of them have failed in a row as the lease has time
// for. So store may be called after it has succeeded; it must know its own outcome again.
func (h *KeyHold) Settle(ctx context.Context, store func(ctx context.Context) error) error {
	ctx = context.WithoutCancel(ctx)
	pause := settlePause
	for n := 1; ; n++ {
		last := !h.lasting || n == settleTries || h.missed.Load() >= renewals || isClosed(h.refused) || isClosed(h.over)
		try, done := context.WithTimeout(ctx, h.every)
		err := store(try)
		done()
		if err == nil || last || !passes(err) {
			return err
		}
		select {
		case <-time.After(pause):
		case <-h.refused: // this run may have stored the outcome itself: the last try tells
		}
		pause = min(2*pause, h.every)
	}
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// passes reports whether a call that failed with err may succeed later.
func passes(err error) bool {
	code := CodeOf(err)
	return code.Info().Retryable || code == CodeInternal
}
