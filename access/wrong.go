package access

import (
	"context"
	"fmt"
	"net"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/internal/clock"
)

// An address may try wrongBurst wrong keys at once, and then wrongRate per second. The
// log lines of refusals are limited in the same way.
const (
	wrongRate  = 1
	wrongBurst = 20
	lineRate   = 10
	lineBurst  = 100
)

type remoteKey struct{}

// From returns a context of calls from an address, host:port or host.
func From(ctx context.Context, remote string) context.Context {
	if host, _, err := net.SplitHostPort(remote); err == nil {
		remote = host
	}
	return context.WithValue(ctx, remoteKey{}, remote)
}

// wrongKeys limits the wrong keys that an address may try: each costs a query.
type wrongKeys struct {
	mu sync.Mutex
	by map[string]*rate.Limiter
}

// WrongSignature counts a webhook with a wrong signature. It returns ErrLimit if its address (see
// From) has sent too many. Right signatures are never refused for it, because many senders may
// share an address.
func (g *Gate) WrongSignature(ctx context.Context) error {
	if err := g.hooks.check(ctx, "webhooks with wrong signatures"); err != nil {
		return err
	}
	g.hooks.tried(ctx)
	return nil
}

// check refuses an address that has tried too many wrong keys.
func (w *wrongKeys) check(ctx context.Context, what string) error {
	now := clock.Now()
	w.mu.Lock()
	defer w.mu.Unlock()
	l := w.by[remoteOf(ctx)]
	if l == nil || l.TokensAt(now) >= 1 {
		return nil
	}
	return &pawl.Error{Code: pawl.CodeLimit, RetryAfter: time.Second / wrongRate,
		Message: fmt.Sprintf("this address has tried more than %d %s", wrongBurst, what)}
}

// tried counts a wrong key.
func (w *wrongKeys) tried(ctx context.Context) {
	now := clock.Now()
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.by) >= mostBuckets { // an address with a full bucket can be forgotten
		for remote, l := range w.by {
			if l.TokensAt(now) >= wrongBurst {
				delete(w.by, remote)
			}
		}
		if len(w.by) >= mostBuckets {
			clear(w.by)
		}
	}
	remote := remoteOf(ctx)
	l := w.by[remote]
	if l == nil {
		if w.by == nil {
			w.by = map[string]*rate.Limiter{}
		}
		l = rate.NewLimiter(wrongRate, wrongBurst)
		w.by[remote] = l
	}
	l.AllowN(now, 1)
}

func remoteOf(ctx context.Context) string {
	remote, _ := ctx.Value(remoteKey{}).(string)
	return remote
}

// lines limits the log lines of refusals.
type lines struct {
	mu   sync.Mutex
	rate *rate.Limiter
	left int64
}

// allow reports whether a line may be written, and how many were suppressed before it.
func (l *lines) allow() (left int64, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.rate == nil {
		l.rate = rate.NewLimiter(lineRate, lineBurst)
	}
	if !l.rate.AllowN(clock.Now(), 1) {
		l.left++
		return 0, false
	}
	left, l.left = l.left, 0
	return left, true
}
