package server

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/access"
	"github.com/pawl-work/pawl/api"
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

// mostWaiting is how many reads of a key may wait for other reads of the same key.
const mostWaiting = 100

// enter waits for one of a key's n slots until ctx ends.
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
	full := k.users >= n+mostWaiting
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
		select {
		case k.slots <- struct{}{}:
			return func() { <-k.slots; done() }, nil
		case <-ctx.Done():
			done()
		}
	}
	return nil, &pawl.Error{Code: pawl.CodeLimit, RetryAfter: time.Second,
		Message: fmt.Sprintf("this API key has %d reads under way, as many as it may, and others wait", n)}
}

// isStream reports whether a route streams: such an answer lasts as long as its reader wants.
func isStream(r api.Route, c *call) bool {
	return c.streams || r.Has(api.Streams) || r.Has(api.SendsBytes)
}

// bounded limits how long a read may take, and how many reads of its key run at once; end
// frees them.
func (s *server) bounded(r *http.Request, route api.Route) (_ *http.Request, end func(), err error) {
	if isStream(route, &call{streams: wantsStream(r.Header.Get("Accept"))}) {
		return r, func() {}, nil
	}
	ctx, cancel := context.WithTimeout(r.Context(), s.opts.ReadTime)
	key := access.Of(ctx).Key
	if key == nil {
		return r.WithContext(ctx), cancel, nil
	}
	leave, err := s.readers.enter(ctx, key.ID, s.opts.ReadsPerKey)
	if err != nil {
		cancel()
		return nil, nil, err
	}
	return r.WithContext(ctx), func() { leave(); cancel() }, nil
}

// isRead reports whether a call only reads, and reads from the database.
func isRead(r api.Route) bool { return r.Method == http.MethodGet && r.Role != api.Anyone }
