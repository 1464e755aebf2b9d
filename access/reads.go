package access

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/pawl-work/pawl"
)

// readers bounds the reads of one API key that run at once, so that one key's reads do not use
// every connection. Further ones wait.
type readers struct {
	mu sync.Mutex
	by map[string]*reader
}

type reader struct {
	slots chan struct{}
	users int // running or waiting
}

// MostWaiting is how many reads of a key may wait for other reads of the same key.
const MostWaiting = 100

// readWait is how long a read waits for other reads of its key at most, whatever its context: the
// caller of a tool may be gone.
const readWait = 30 * time.Second

// enter waits for one of a key's n slots until ctx ends, and for readWait at most.
func (r *readers) enter(ctx context.Context, key string, n int) (leave func(), err error) {
	r.mu.Lock()
	if r.by == nil {
		r.by = map[string]*reader{}
	}
	k := r.by[key]
	if k == nil {
		k = &reader{slots: make(chan struct{}, n)}
		r.by[key] = k
	}
	full := k.users >= n+MostWaiting
	if !full {
		k.users++
	}
	r.mu.Unlock()
	done := func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		if k.users--; k.users == 0 {
			delete(r.by, key)
		}
	}
	if !full {
		patience := time.NewTimer(readWait)
		defer patience.Stop()
		select {
		case k.slots <- struct{}{}:
			return func() { <-k.slots; done() }, nil
		case <-ctx.Done():
		case <-patience.C:
		}
		done()
	}
	return nil, &pawl.Error{Code: pawl.CodeLimit, RetryAfter: time.Second,
		Message: fmt.Sprintf("this API key has %d reads under way, as many as it may, and others wait", n)}
}

// BoundReads sets how many reads of one key run at once, by whichever door they come; further ones
// wait. Before it is called, they are pawl.DefaultReadsPerKey.
func (g *Gate) BoundReads(n int) { g.readsPerKey.Store(int64(n)) }

// BeginRead waits until a read of the context's key may run. It returns ErrLimit if too many others
// wait, or if the context ends before. Call end when the read is over.
func (g *Gate) BeginRead(ctx context.Context) (end func(), err error) {
	p := Of(ctx)
	if p.Key == nil {
		return func() {}, nil
	}
	n := int(g.readsPerKey.Load())
	if n == 0 {
		n = pawl.DefaultReadsPerKey
	}
	return g.readers.enter(ctx, p.Key.ID, n)
}
