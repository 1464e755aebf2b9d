package dashboard

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/access"
	"github.com/pawl-work/pawl/internal/clock"
)

const (
	lookEvery = 500 * time.Millisecond
	hintEvery = time.Second      // at most this often
	hintCost  = 40               // between hints there is this many times the time that pages took since the last one
	beatEvery = 15 * time.Second // a sign of life, and a look at the caller's key
	maxLive   = 1000             // open streams; pages beyond them are read every few seconds
	maxLiveOf = 50               // of one key or user
)

// hints tells open pages that something has changed. One query looks for changes for all of
// them, in all namespaces, while there are any; it reads no event. It is made by the handler
// of one of the streams.
type hints struct {
	events pawl.RecordReader

	mu      sync.Mutex
	open    int // streams
	of      map[string]int
	changed chan struct{} // closed at the next hint
	hinted  time.Time     // the last hint
	spent   time.Duration // on pages since then
	looking bool
	looked  time.Time
	at      pawl.FeedPosition
	due     bool // at has changed since the last hint
}

func newHints(events pawl.RecordReader) *hints {
	return &hints{events: events, changed: make(chan struct{})}
}

// serveHints streams the hints to a page.
func (d *server) serveHints(w http.ResponseWriter, r *http.Request) {
	r, err := d.authorize(r, "reader")
	switch {
	case err != nil:
		w.WriteHeader(http.StatusNoContent) // the browser does not connect again
		return
	case !d.hints.enter(liveName(r)):
		http.Error(w, "too many pages are open", http.StatusServiceUnavailable)
		return
	}
	defer d.hints.leave(liveName(r))
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("X-Accel-Buffering", "no")
	look, beat := time.NewTicker(lookEvery), time.NewTicker(beatEvery)
	defer look.Stop()
	defer beat.Stop()
	next := d.hints.next()
	for frame := "retry: 2000\n\n"; ; {
		if !sendFrame(w, frame) {
			return
		}
		frame = ""
		select {
		case <-next:
			next, frame = d.hints.next(), "event: changed\ndata:\n\n"
		case <-look.C:
			d.hints.look(r.Context())
		case <-beat.C:
			if d.opts.Gate.CheckAgain(r.Context(), access.Of(r.Context())) != nil {
				return
			}
			frame = ":\n\n"
		case <-d.opts.Stopping.Done():
			return
		case <-r.Context().Done():
			return
		}
	}
}

// sendFrame writes a frame of a stream, if there is one, and reports whether it was received.
func sendFrame(w http.ResponseWriter, frame string) bool {
	if frame == "" {
		return true
	}
	out := http.NewResponseController(w)
	_ = out.SetWriteDeadline(clock.Now().Add(pageTimeout)) // not every ResponseWriter has deadlines
	if _, err := fmt.Fprint(w, frame); err != nil || out.Flush() != nil {
		return false
	}
	_ = out.SetWriteDeadline(time.Time{}) // over HTTP/2 it would end the stream while there is nothing to send
	return true
}

// liveName is what identifies the caller of a stream; "" = the server takes calls without a key.
func liveName(r *http.Request) string {
	if key := access.Of(r.Context()).Key; key != nil {
		return key.ID
	}
	return ""
}

// enter counts a stream of a caller, unless there are too many: then the page is read every few seconds.
func (h *hints) enter(who string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.open >= maxLive || who != "" && h.of[who] >= maxLiveOf {
		return false
	}
	if h.of == nil {
		h.of = map[string]int{}
	}
	h.open++
	h.of[who]++
	return true
}

func (h *hints) leave(who string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.open--
	if h.of[who]--; h.of[who] == 0 {
		delete(h.of, who)
	}
}

// next returns a channel that is closed at the next hint.
func (h *hints) next() <-chan struct{} {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.changed
}

// spend adds the time that a page took.
func (h *hints) spend(d time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.spent += d
}

// last returns the time of the last hint.
func (h *hints) last() time.Time {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.hinted
}

// look looks for changes, unless another caller does or has just done so, and hints if there
// were any.
func (h *hints) look(ctx context.Context) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.looking || clock.Now().Sub(h.looked) < lookEvery/2 {
		return
	}
	h.looking = true
	h.mu.Unlock()
	at, err := feedEnd(ctx, h.events)
	h.mu.Lock()
	now := clock.Now()
	h.looking, h.looked = false, now
	if err == nil && at != h.at { // after an error, the next look may do better
		h.at, h.due = at, true
	}
	if h.due && now.Sub(h.hinted) >= max(hintEvery, hintCost*h.spent) {
		h.due, h.spent, h.hinted = false, 0, now
		close(h.changed)
		h.changed = make(chan struct{})
	}
}

var errLooked = errors.New("the position is known")

// feedEnd returns the newest position of the feed, of all namespaces.
func feedEnd(ctx context.Context, events pawl.RecordReader) (at pawl.FeedPosition, err error) {
	end := pawl.FeedEnd
	err = events.FollowEvents(ctx, pawl.EventFilter{After: &end}, func(through pawl.FeedPosition, _ []pawl.Event) error {
		at = through
		return errLooked
	})
	if errors.Is(err, errLooked) {
		err = nil
	}
	return at, err
}
