package server

import (
	"bytes"
	"context"
	"encoding/json"
	"mime"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/access"
	"github.com/pawl-work/pawl/api"
	"github.com/pawl-work/pawl/internal/clock"
)

const eventStream = "text/event-stream"

var (
	// beat is how long a stream is silent at most, and how long it goes on at most
	// after its key has ended.
	beat = 15 * time.Second
	// slowest is how long a reader may take to make room: then it is cut off, and
	// comes back with the last id it has.
	slowest = 10 * time.Second
)

// wantsStream says that of the two kinds of answer a stream is named first.
func wantsStream(accept string) bool {
	for part := range strings.SplitSeq(accept, ",") {
		switch kind, _, _ := mime.ParseMediaType(part); kind {
		case eventStream:
			return true
		case "application/json", "*/*", "application/*":
			return false
		}
	}
	return false
}

// dropping lets an operation answer late, by its call's rest: thousands who wait are
// not to keep the stack of all that led there. What the operation itself returns
// is dropped then.
type dropping struct {
	http.ResponseWriter
	call *call
}

func (d dropping) WriteHeader(status int) {
	if d.call.rest == nil {
		d.ResponseWriter.WriteHeader(status)
	}
}

func (d dropping) Write(b []byte) (int, error) {
	if d.call.rest != nil {
		return len(b), nil
	}
	return d.ResponseWriter.Write(b)
}

// stream is the answer to a reader who asked for server-sent events.
type stream struct {
	http.ResponseWriter
	lapsed func() []byte // the last frame, once the reader's key is good no more
	mu     sync.Mutex
	begun  bool
	ended  bool
	timer  *time.Timer
}

// opened is a stream to whoever sent a request, as long as his key is good.
func (s *server) opened(ctx context.Context, w http.ResponseWriter, r *http.Request, route string) *stream {
	return &stream{ResponseWriter: w, lapsed: func() []byte {
		pass := access.Of(ctx)
		err := s.gate.Still(ctx, pass)
		if err == nil {
			return nil
		}
		s.putDown(r, route, err)
		return named(api.FrameRefused, s.problem(ctx, err))
	}}
}

// begin sends the header. A position that the caller did not name is sent too:
// else whoever is cut off before the first event would not know where to go on.
func (st *stream) begin(position pawl.FeedPosition, named bool, gone func()) error {
	h := st.Header()
	h.Set("Content-Type", eventStream)
	h.Set("Cache-Control", "no-store")
	h.Set("X-Accel-Buffering", "no")
	st.ResponseWriter.WriteHeader(http.StatusOK)
	st.begun = true
	st.mu.Lock()
	st.timer = time.AfterFunc(beat, func() { st.tick(gone) })
	st.mu.Unlock()
	if named {
		return st.send(alive)
	}
	return st.send([]byte("id: " + position.String() + "\n\n"))
}

var alive = []byte(":\n\n")

// tick says that the stream is there, or that it ends here: then, and when
// nobody takes it, it is gone.
func (st *stream) tick(gone func()) {
	st.mu.Lock()
	defer st.mu.Unlock()
	if st.ended {
		return
	}
	frame, last := alive, st.lapsed()
	if last != nil {
		frame = last
	}
	if err := st.write(frame); err != nil || last != nil {
		st.ended = true
		gone()
		return
	}
	st.timer.Reset(beat)
}

// send writes some frames and pushes them out.
func (st *stream) send(frames []byte) error {
	st.mu.Lock()
	defer st.mu.Unlock()
	if st.ended {
		return http.ErrAbortHandler
	}
	return st.write(frames)
}

func (st *stream) write(frames []byte) error {
	out := http.NewResponseController(st.ResponseWriter)
	_ = out.SetWriteDeadline(clock.Now().Add(slowest)) // not every writer has deadlines
	if _, err := st.ResponseWriter.Write(frames); err != nil {
		return err
	}
	return out.Flush()
}

// lapse sends the last frame of a stream whose key has ended.
func (st *stream) lapse(ctx context.Context) {
	st.mu.Lock()
	defer st.mu.Unlock()
	if st.ended || access.Ended(ctx) == nil {
		return
	}
	if last := st.lapsed(); last != nil {
		_ = st.write(last) // the reader may be gone
	}
	st.ended = true
}

// end waits for a beat under way: nothing may be written after the handler.
func (st *stream) end() {
	st.mu.Lock()
	defer st.mu.Unlock()
	if st.timer != nil {
		st.timer.Stop()
	}
	if st.begun && !st.ended { // the last frame's time may be up, and its end is still to be written
		_ = http.NewResponseController(st.ResponseWriter).SetWriteDeadline(clock.Now().Add(slowest))
	}
	st.ended = true
}

// followEvents answers with the feed until the reader goes or the server stops. An
// error is one before the answer has begun.
func (s *server) followEvents(ctx context.Context, st *stream, f pawl.EventFilter) error {
	ctx, gone := context.WithCancel(ctx)
	defer gone()
	defer context.AfterFunc(s.opts.Stopping, gone)()
	defer st.end()
	ctx, over, err := s.gate.Lasting(ctx)
	if err != nil {
		return err
	}
	defer over()
	hidden := access.Of(ctx).Hides(api.RouteOf("list_events"))
	named := f.After == nil || *f.After >= 0
	if s.opts.Stopping.Err() != nil {
		return errStopping
	}
	err = s.svc.FollowEvents(ctx, f, func(through pawl.FeedPosition, events []pawl.Event) error {
		if !st.begun {
			return st.begin(through, named, gone)
		}
		var b bytes.Buffer
		for i := range events {
			if e := events[i]; hidden {
				access.Hide(&e)
				b.Write(frame(through.Epoch, &e))
			} else {
				b.Write(s.frames.of(through.Epoch, &e))
			}
		}
		return st.send(b.Bytes())
	})
	switch {
	case st.begun:
		st.lapse(ctx)
		return nil // whatever ended it: the reader comes back
	case access.Ended(ctx) != nil:
		err = access.Ended(ctx)
	case err == nil:
		err = errStopping
	}
	return err
}

// frames keeps the newest events as they are sent: many readers get the same.
type frames struct {
	mu sync.Mutex
	at map[pawl.FeedPosition][]byte

	bytes int
}

const (
	framesKept = 4096
	frameBytes = 16 << 20
)

func (k *frames) of(epoch int64, e *pawl.Event) []byte {
	k.mu.Lock()
	defer k.mu.Unlock()
	at := pawl.FeedPosition{Epoch: epoch, Position: e.Position}
	if b, known := k.at[at]; known {
		return b
	}
	b := frame(epoch, e)
	if k.at == nil || len(k.at) >= framesKept || k.bytes+len(b) > frameBytes {
		k.at, k.bytes = map[pawl.FeedPosition][]byte{}, 0
	}
	k.at[at] = b
	k.bytes += len(b)
	return b
}

// frame is an event on one line: a payload of several would be several lines of
// data.
func frame(epoch int64, e *pawl.Event) []byte {
	var text bytes.Buffer
	_ = encode(&text, e) // an event always encodes, and a buffer takes all
	line := bytes.TrimSuffix(text.Bytes(), []byte("\n"))
	if bytes.ContainsAny(line, "\r\n") {
		var one bytes.Buffer
		if json.Compact(&one, line) == nil {
			line = one.Bytes()
		}
	}
	return []byte("id: " + pawl.FeedPosition{Epoch: epoch, Position: e.Position}.String() + "\ndata: " + string(line) + "\n\n")
}
