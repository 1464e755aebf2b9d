package server

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/internal/clock"
)

const (
	// smallBody is the size in bytes up to which a body is let in at once: heartbeats and
	// similar calls must not wait for large bodies.
	smallBody = 16 << 10
	// bodyWait is how long a larger body waits until enough bytes are free.
	bodyWait = 2 * time.Second
)

// bodies bounds the total bytes of large request bodies whose calls are not answered yet.
// Waiting calls are let in in the order in which they came.
type bodies struct {
	max int64

	mu    sync.Mutex
	used  int64
	queue []*bodyWaiter
}

type bodyWaiter struct {
	n  int64
	in chan struct{}
}

// room returns how many bytes a request's body counts for while its call is carried out.
func (b *bodies) room(r *http.Request) int64 {
	n := r.ContentLength
	if n < 0 {
		n = pawl.MaxBodyBytes // the length is unknown
	}
	if r.Body == nil || r.Body == http.NoBody || n <= smallBody || n > pawl.MaxBodyBytes { // too large is refused unread
		return 0
	}
	return min(n, b.max)
}

// enter waits until n bytes are free and takes them; leave gives them back.
func (b *bodies) enter(ctx context.Context, n int64) error {
	if n == 0 {
		return nil
	}
	b.mu.Lock()
	if len(b.queue) == 0 && b.used+n <= b.max {
		b.used += n
		b.mu.Unlock()
		return nil
	}
	me := &bodyWaiter{n, make(chan struct{})}
	b.queue = append(b.queue, me)
	b.mu.Unlock()
	patience := time.NewTimer(bodyWait)
	defer patience.Stop()
	select {
	case <-me.in:
		return nil
	case <-patience.C:
	case <-ctx.Done():
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	i := slices.Index(b.queue, me)
	if i < 0 { // it was let in meanwhile
		return nil
	}
	b.queue = slices.Delete(b.queue, i, i+1)
	b.admit()
	return &pawl.Error{Code: pawl.CodeLimit, RetryAfter: time.Second,
		Message: fmt.Sprintf("the bodies of calls under way have %d bytes together, as many as this server takes at once; "+
			"send the call again later", b.max)}
}

func (b *bodies) leave(n int64) {
	if n == 0 {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.used -= n
	b.admit()
}

// admit lets waiting calls in, in order, while there is room.
func (b *bodies) admit() {
	for len(b.queue) > 0 && b.used+b.queue[0].n <= b.max {
		b.used += b.queue[0].n
		close(b.queue[0].in)
		b.queue = b.queue[1:]
	}
}

// refuseBytes answers a call whose body is not read. Many clients read no answer before they
// have written the whole body, so a part of it is read and discarded.
func (s *server) refuseBytes(w http.ResponseWriter, r *http.Request, err error) {
	w.Header().Set("Connection", "close") // the body is not read
	rc := http.NewResponseController(w)
	_ = rc.SetReadDeadline(clock.Now().Add(5 * time.Second))
	drainBody(r, rc)
	s.write(w, r, err)
}
