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

// An address may try wrongBurst wrong keys at once, and then wrongRate a second.
// So many lines of refusals go to the log, likewise.
const (
	wrongRate  = 1
	wrongBurst = 20
	lineRate   = 10
	lineBurst  = 100
)

type remoteKey struct{}

// From is a context of calls that come from an address, host:port or host.
func From(ctx context.Context, remote string) context.Context {
	if host, _, err := net.SplitHostPort(remote); err == nil {
		remote = host
	}
	return context.WithValue(ctx, remoteKey{}, remote)
}

// wrongKeys bounds how many wrong keys an address tries: each costs a look into
// the database.
type wrongKeys struct {
	mu sync.Mutex
	by map[string]*rate.Limiter
}

// check refuses an address that has tried too many.
func (w *wrongKeys) check(ctx context.Context) error {
	now := clock.Now()
	w.mu.Lock()
	defer w.mu.Unlock()
	l := w.by[remoteOf(ctx)]
	if l == nil || l.TokensAt(now) >= 1 {
		return nil
	}
	return &pawl.Error{Code: pawl.CodeLimit, RetryAfter: time.Second / wrongRate,
		Message: fmt.Sprintf("this address has tried more than %d wrong API keys", wrongBurst)}
}

// tried notes a wrong key.
func (w *wrongKeys) tried(ctx context.Context) {
	now := clock.Now()
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.by) >= mostBuckets { // an address that has rested starts anew anyway
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

// lines bounds the lines of refusals in the log.
type lines struct {
	mu   sync.Mutex
	rate *rate.Limiter
	left int64
}

// allow says whether a line may be written, and how many were left out before it.
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
