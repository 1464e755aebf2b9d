package server

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/access"
)

const (
	// smallBody is the size in bytes up to which a body is read at once: heartbeats and
	// similar calls must not wait for large bodies.
	smallBody = 16 << 10
	// bodyWait is how long a larger body waits until enough bytes are free.
	bodyWait = 2 * time.Second
	// namelessPart is the part of the bytes for callers that a server with keys does not know:
	// the senders of webhooks.
	namelessPart = 8
)

// bodies bounds the total bytes of large request bodies whose calls are not answered yet. Bytes
// count when they arrive, not when they are announced. Each sharer (a key, or the address of a
// caller without one) may have as much as is left free for all others; its only body may have
// all that is free. So no sharer stops the others.
type bodies struct {
	max int64

	mu      sync.Mutex
	used    int64
	came    uint64
	shares  map[string]int64 // what each sharer uses
	waiting []*room          // in the order in which the calls came
}

// room is what the body of one call counts.
type room struct {
	of    *bodies
	share string // "" = the only user: it has no bound but that of all
	came  uint64
	has   int64
	want  int64
	late  bool      // it has waited for bodyWait
	said  chan bool // whether it gets what it waits for
}

// open returns the room of a call, which has no bytes yet. close gives its bytes back.
func (b *bodies) open(share string) *room {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.came++
	return &room{of: b, share: share, came: b.came, said: make(chan bool, 1)}
}

// take makes the room total bytes large. It waits for up to bodyWait; then the youngest of the
// calls that wait is refused, until the older ones have what they need. So of many bodies that
// came in part, as many as possible come whole.
func (r *room) take(ctx context.Context, total int64) error {
	b := r.of
	b.mu.Lock()
	r.want = min(total, b.max)
	if r.want <= r.has {
		b.mu.Unlock()
		return nil
	}
	at, _ := slices.BinarySearchFunc(b.waiting, r, func(a, b *room) int { return cmp.Compare(a.came, b.came) })
	b.waiting = slices.Insert(b.waiting, at, r)
	b.admit()
	b.mu.Unlock()
	patience := time.NewTimer(bodyWait)
	defer patience.Stop()
	select {
	case ok := <-r.said:
		return r.answer(ok)
	case <-patience.C:
	case <-ctx.Done():
	}
	b.mu.Lock()
	if len(r.said) == 0 && ctx.Err() != nil {
		b.say(slices.Index(b.waiting, r), false)
	}
	r.late = true
	b.admit()
	b.mu.Unlock()
	return r.answer(<-r.said)
}

func (r *room) answer(ok bool) error {
	if ok {
		return nil
	}
	return &pawl.Error{Code: pawl.CodeLimit, RetryAfter: time.Second,
		Message: fmt.Sprintf("the bodies of calls under way have as many bytes as this caller may send at once, of %d of all callers; "+
			"send the call again later", r.of.max)}
}

func (r *room) close() {
	b := r.of
	b.mu.Lock()
	defer b.mu.Unlock()
	b.change(r, 0)
	b.admit()
}

// admit lets calls that wait go on, the oldest first, and refuses the youngest ones if an older
// one has waited for too long.
func (b *bodies) admit() {
	for {
		late := b.grant()
		if late == nil {
			return
		}
		i := len(b.waiting) - 1
		if b.free() >= late.want-late.has { // its own sharer has too much
			for b.waiting[i].share != late.share {
				i--
			}
		}
		b.say(i, false)
	}
}

// grant lets calls go on while there are bytes for them. It returns a call that has waited for
// too long and waits on, or nil.
func (b *bodies) grant() (late *room) {
	for i := 0; i < len(b.waiting); {
		r := b.waiting[i]
		more := r.want - r.has
		if used := b.shares[r.share]; more <= b.free() && (r.share == "" || used == r.has || used+more <= b.free()) {
			b.say(i, true)
			continue
		}
		if r.late && late == nil {
			late = r
		}
		i++
	}
	return late
}

func (b *bodies) free() int64 { return b.max - b.used }

// say answers a call that waits. A refused one gives up its bytes.
func (b *bodies) say(i int, ok bool) {
	r := b.waiting[i]
	b.waiting = slices.Delete(b.waiting, i, i+1)
	if ok {
		b.change(r, r.want)
	} else {
		b.change(r, 0)
	}
	r.late = false
	r.said <- ok
}

// change sets how many bytes a room has.
func (b *bodies) change(r *room, n int64) {
	if b.shares == nil {
		b.shares = map[string]int64{}
	}
	b.used += n - r.has
	b.shares[r.share] += n - r.has
	if r.has = n; b.shares[r.share] == 0 {
		delete(b.shares, r.share)
	}
}

// room returns the room for the body of a request. A server without keys has one sharer, all
// its callers; callers that a server with keys does not know share a small part.
func (s *server) room(all, nameless *bodies, r *http.Request) *room {
	switch pass := access.Of(r.Context()); {
	case pass.Key != nil:
		return all.open("key " + pass.Key.ID)
	case s.gate.Required():
		host, _, err := net.SplitHostPort(r.RemoteAddr)
		if err != nil {
			host = r.RemoteAddr
		}
		return nameless.open("address " + host)
	}
	return all.open("")
}

// refuseUnread answers a call whose body is not read, at once. Many clients read no answer before
// they have written the whole body, and a connection that is closed before that would hide the
// answer, so a part of the body is discarded afterwards.
func (s *server) refuseUnread(w http.ResponseWriter, r *http.Request, err error) {
	if !unread(r) {
		s.write(w, r, err)
		return
	}
	w.Header().Set("Connection", "close") // else net/http reads on before it sends the answer
	s.write(w, r, err)
	rc := http.NewResponseController(w)
	_ = rc.Flush() // not every writer can
	drainBody(r, rc)
}

// unread reports whether a request may have a body that was not read.
func unread(r *http.Request) bool {
	if r.Body == nil || r.Body == http.NoBody || r.ContentLength == 0 {
		return false
	}
	_, whole := r.Body.(*wholeBody)
	return !whole
}
