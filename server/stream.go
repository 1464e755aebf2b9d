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
	// beat is how long a stream is silent at most, and how long it continues at most after its
	// key has ended.
	beat = 15 * time.Second
	// slowest is how long a reader may take to receive a frame. Then it is disconnected, and
	// it can connect again with the last id it has.
	slowest = 10 * time.Second
)

// wantsStream reports whether Accept names a stream before the other kind of answer.
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

// dropping lets an operation answer later, by its call's rest, so that thousands of waiting
// calls do not keep the stack that led to the operation. It drops what the operation itself
// returns.
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
	lapsed func() []byte // returns the last frame once the reader's key has ended, else nil
	mu     sync.Mutex
	begun  bool
	ended  bool
	timer  *time.Timer
	at     pawl.FeedPosition // of the feed: all events up to here were read
	told   pawl.FeedPosition // the reader knows it
}

// opened returns a stream to the caller of a request. It lasts as long as the caller's key.
func (s *server) opened(ctx context.Context, w http.ResponseWriter, r *http.Request, route string) *stream {
	return &stream{ResponseWriter: w, lapsed: func() []byte {
		pass := access.Of(ctx)
		err := s.gate.CheckAgain(ctx, pass)
		if err == nil {
			return nil
		}
		s.logDenied(r, route, err)
		return named(api.FrameRefused, s.problem(ctx, err))
	}}
}

// begin sends the header, and the position if the caller did not name one: else a reader that
// is disconnected before the first frame with content would not know where to continue. "" =
// the caller named it.
func (st *stream) begin(position string, gone func()) error {
	h := st.Header()
	h.Set("Content-Type", eventStream)
	if h.Get("Cache-Control") == "" {
		h.Set("Cache-Control", "no-store")
	}
	h.Set("X-Accel-Buffering", "no")
	st.ResponseWriter.WriteHeader(http.StatusOK)
	st.begun = true
	st.mu.Lock()
	st.timer = time.AfterFunc(beat, func() { st.tick(gone) })
	st.mu.Unlock()
	if position == "" {
		return st.send(alive)
	}
	return st.send(positionFrame(position))
}

func positionFrame(position string) []byte { return []byte("id: " + position + "\n\n") }

var alive = []byte(":\n\n")

// tick sends a keep-alive frame, or the last frame if the key has ended. After the last frame,
// or if the reader does not receive the frame, it ends the stream.
func (st *stream) tick(gone func()) {
	st.mu.Lock()
	defer st.mu.Unlock()
	if st.ended {
		return
	}
	frame, last := alive, st.lapsed()
	if st.at != st.told { // a reader of few events goes on here, and does not read all others again
		frame, st.told = positionFrame(st.at.String()), st.at
	}
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

// send writes frames and flushes them.
func (st *stream) send(frames []byte) error {
	st.mu.Lock()
	defer st.mu.Unlock()
	if st.ended {
		return http.ErrAbortHandler
	}
	return st.write(frames)
}

// passed sends the frames of events that were read. A position without events is sent with the next keep-alive frame.
func (st *stream) passed(through pawl.FeedPosition, events []pawl.Event, frames []byte) error {
	st.mu.Lock()
	defer st.mu.Unlock()
	st.at = through
	if len(events) == 0 {
		return nil
	}
	st.told = pawl.FeedPosition{Epoch: through.Epoch, Position: events[len(events)-1].Position}
	if st.ended {
		return http.ErrAbortHandler
	}
	return st.write(frames)
}

func (st *stream) write(frames []byte) error {
	out := http.NewResponseController(st.ResponseWriter)
	_ = out.SetWriteDeadline(clock.Now().Add(slowest)) // not every writer supports deadlines
	if _, err := st.ResponseWriter.Write(frames); err != nil {
		return err
	}
	if err := out.Flush(); err != nil {
		return err
	}
	_ = out.SetWriteDeadline(time.Time{}) // over HTTP/2 it would end the stream while there is nothing to send
	return nil
}

// lapse sends the last frame of a stream whose key has ended.
func (st *stream) lapse(ctx context.Context) {
	st.mu.Lock()
	defer st.mu.Unlock()
	if st.ended || access.Ended(ctx) == nil {
		return
	}
	if last := st.lapsed(); last != nil {
		_ = st.write(last) // the reader may have gone
	}
	st.ended = true
}

// end waits for a tick that is running: nothing may be written after the handler has returned.
func (st *stream) end() {
	st.mu.Lock()
	defer st.mu.Unlock()
	if st.timer != nil {
		st.timer.Stop()
	}
	if st.begun && !st.ended { // the end of the answer is still to be written
		_ = http.NewResponseController(st.ResponseWriter).SetWriteDeadline(clock.Now().Add(slowest))
	}
	st.ended = true
}

// followEvents answers with the feed until the reader goes or the server stops. It returns an
// error only if the answer has not begun.
func (s *server) followEvents(ctx context.Context, st *stream, f *pawl.EventFilter) error {
	ctx, gone := context.WithCancel(ctx)
	defer gone()
	defer context.AfterFunc(s.opts.Stopping, gone)()
	defer st.end()
	ctx, over, err := s.gate.BeginLongCall(ctx)
	if err != nil {
		return err
	}
	defer over()
	hidden := hidesEvents(ctx)
	named := f.After == nil || *f.After >= 0
	if s.opts.Stopping.Err() != nil {
		return errStopping
	}
	err = s.svc.FollowEvents(ctx, *f, func(through pawl.FeedPosition, events []pawl.Event) error {
		if !st.begun {
			at := ""
			if !named {
				at = through.String()
			}
			st.at, st.told = through, through
			return st.begin(at, gone)
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
		return st.passed(through, events, b.Bytes())
	})
	switch {
	case st.begun:
		st.lapse(ctx)
		return nil // whatever ended it, the reader connects again
	case access.Ended(ctx) != nil:
		err = access.Ended(ctx)
	case err == nil:
		err = errStopping
	}
	return err
}

// hidesEvents reports whether the caller may not see all of an event. The description of a
// route is large: inlined, it would be on the stack of every reader as long as it waits.
//
//go:noinline
func hidesEvents(ctx context.Context) bool { return access.Of(ctx).Hides(api.RouteOf("list_events")) }

// frames caches the newest events as they are sent: many readers get the same bytes.
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

// frame returns an event as a frame whose data is one line: a payload of several lines would
// become several lines of data.
func frame(epoch int64, e *pawl.Event) []byte {
	var text bytes.Buffer
	_ = encode(&text, e) // an event always encodes, and a buffer accepts all writes
	line := bytes.TrimSuffix(text.Bytes(), []byte("\n"))
	if bytes.ContainsAny(line, "\r\n") {
		var one bytes.Buffer
		if json.Compact(&one, line) == nil {
			line = one.Bytes()
		}
	}
	return []byte("id: " + pawl.FeedPosition{Epoch: epoch, Position: e.Position}.String() + "\ndata: " + string(line) + "\n\n")
}
