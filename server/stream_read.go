package server

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"math/rand/v2"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/access"
	"github.com/pawl-work/pawl/internal/asked"
	"github.com/pawl-work/pawl/internal/clock"
)

const (
	// streamPageBytes is how much an answer has, about: the rest is read from the next offset.
	streamPageBytes = 1 << 20
	// longPoll is how long a read waits for more, and streamLife how long server-sent events go on.
	longPoll   = 15 * time.Second
	streamLife = 60 * time.Second
)

// errEnough ends the reading of a message.
var errEnough = errors.New("enough was read")

// streamPage is what was read of a message.
type streamPage struct {
	begun    bool // what follows is read
	epoch    int64
	next     int64 // the chunk after the last one that was read
	head     int64 // the chunks that the message had
	ended    bool  // and it gets no more
	chunks   []pawl.Chunk
	frames   []pawl.MessageFrame
	snapshot bool // chunks are missing: frames has the whole message
}

// upToDate reports whether the page has all that the message had.
func (p *streamPage) upToDate() bool { return p.next >= p.head }

// add adds a frame, and reports whether it has more than most bytes by now; most 0 = no bound.
func (p *streamPage) add(f pawl.MessageFrame, size *int, most int) bool {
	if f.Snapshot != nil {
		p.snapshot = true
		p.frames = append(p.frames, f)
		p.chunks = append(p.chunks, partsFrom(f.Snapshot, p.next)...)
		p.next = f.Snapshot.Offset
		return true
	}
	if f.Abandoned != nil {
		p.frames = append(p.frames, f)
		return false
	}
	for i := range f.Chunks {
		*size += len(f.Chunks[i].Data) + len(f.Chunks[i].Text) + len(f.Chunks[i].Input) + len(f.Chunks[i].Output)
		if most > 0 && *size > most {
			f.Chunks = f.Chunks[:i+1]
			break
		}
	}
	p.frames, p.chunks = append(p.frames, f), append(p.chunks, f.Chunks...)
	p.next = f.Offset + int64(len(f.Chunks))
	return most > 0 && *size > most
}

// partsFrom returns the data of a message that has ended, from a chunk on, as the chunks that it was
// written in: each of a client's stream is a part.
func partsFrom(m *pawl.Message, from int64) (out []pawl.Chunk) {
	var parts []pawl.Chunk
	if json.Unmarshal(m.Content, &parts) != nil || from > int64(len(parts)) {
		return nil
	}
	return parts[from:]
}

// streamPage reads a message from a chunk on, up to its end at that time or until it has most bytes.
func (s *server) streamPage(ctx context.Context, id string, from int64, most int) (p streamPage, err error) {
	return s.waitedPage(ctx, id, from, most, false)
}

// waitedPage is streamPage that waits for a chunk, until ctx ends.
func (s *server) waitedPage(ctx context.Context, id string, from int64, most int, wait bool) (p streamPage, err error) {
	size := 0
	p.next = from
	err = s.svc.FollowMessage(ctx, id, from-1, func(f pawl.MessageFrame) error {
		switch {
		case f.Begin != nil:
			p.begun, p.epoch, p.head, p.ended = true, f.Epoch, f.Begin.Offset, f.Begin.Status.Ended()
			if from > 0 && asked.Of[int64](ctx, asked.Epoch) != f.Epoch {
				return gone("the database went back in time since this offset was given: read from the beginning")
			}
			if p.head > from || wait && !p.ended {
				return nil
			}
			return errEnough
		case f.End != nil:
			p.ended = true
			return errEnough
		}
		if p.add(f, &size, most) || p.next >= p.head {
			p.head = max(p.head, p.next)
			return errEnough
		}
		return nil
	})
	switch {
	case errors.Is(err, errEnough):
		err = nil
	case err == nil && !p.begun:
		err = context.Cause(ctx)
	}
	return p, err
}

// pageOf reads a page, and what it adds to the stream. A long poll waits until that is something. It is empty if nothing came
// before it was over, and an error if not even the stream's end was read by then.
func (s *server) pageOf(ctx context.Context, v *streamView, a *streamAsk) (p streamPage, content [][]byte, err error) {
	if a.live == "" {
		if p, err = s.streamPage(ctx, v.message, a.from, streamPageBytes); err == nil {
			content, err = v.content(&p)
		}
		return p, content, err
	}
	ctx, stop := context.WithTimeout(ctx, longPoll)
	defer stop()
	defer context.AfterFunc(s.opts.Stopping, stop)()
	for from := a.from; ; from = p.next {
		next, err := s.waitedPage(ctx, v.message, from, streamPageBytes, true)
		if next.begun {
			p = next
		}
		switch {
		case err == nil:
		case ctx.Err() == nil:
			return p, nil, err
		case s.opts.Stopping.Err() != nil && !p.begun:
			return p, nil, errStopping
		case !p.begun:
			return p, nil, &pawl.Error{Code: pawl.CodeUnavailable, Message: "the stream was not read in time", RetryAfter: time.Second, Err: err}
		}
		if content, err = v.content(&p); err != nil || len(content) > 0 || p.ended || ctx.Err() != nil {
			return p, content, err
		}
	}
}

// streamView is a stream as its readers see it.
type streamView struct {
	message string
	kind    string
	made    *clientStream // nil = a worker's message
}

func (v *streamView) isJSON() bool { return mediaType(v.kind) == "application/json" }

// binary reports whether server-sent events have the stream in base64.
func (v *streamView) binary() bool {
	return !v.isJSON() && !strings.HasPrefix(mediaType(v.kind), "text/")
}

// viewOf finds what a request reads.
func (s *server) viewOf(r *http.Request) (*streamView, error) {
	name, err := streamName(r)
	if err != nil {
		return nil, err
	}
	if isMessage(name) {
		return &streamView{message: name, kind: "application/json"}, nil
	}
	st, err := s.madeStream(r.Context(), r)
	if err != nil {
		return nil, err
	}
	id, err := s.messageOf(r.Context(), st)
	if err == nil && id == "" {
		err = pawl.NotFound("stream", name)
	}
	return &streamView{message: id, kind: st.ContentType, made: st}, err
}

// content returns what frames add to the stream, as values or bytes.
func (v *streamView) content(p *streamPage) (out [][]byte, err error) {
	if v.made != nil {
		for _, c := range p.chunks {
			r, err := record(c.Data)
			if err != nil {
				return nil, err
			}
			if b := r.content(); b != nil {
				out = append(out, b)
			}
		}
		return out, nil
	}
	for _, f := range p.frames {
		switch {
		case f.Snapshot != nil:
			out = append(out, jsonOf(map[string]any{"type": "snapshot", "message": f.Snapshot}))
		case f.Abandoned != nil:
			cut := map[string]any{"type": "abandoned", "from": f.Abandoned.From, "to": f.Abandoned.To, "attempt": f.Abandoned.Attempt}
			out = append(out, jsonOf(cut))
		}
		for i := range f.Chunks {
			out = append(out, jsonOf(&f.Chunks[i]))
		}
	}
	return out, nil
}

// jsonOf encodes a value, on one line.
func jsonOf(v any) []byte {
	return bytes.TrimSuffix(bytes.TrimPrefix(line(v), []byte("data: ")), []byte("\n\n"))
}

// body joins the content in the stream's form.
func (v *streamView) body(content [][]byte) []byte {
	if !v.isJSON() {
		return bytes.Join(content, nil)
	}
	return append(append([]byte{'['}, bytes.Join(content, []byte{','})...), ']')
}

// streamAsk is what a reader asks for.
type streamAsk struct {
	epoch, from int64
	now         bool
	live        string
	cursor      string
}

func askOf(r *http.Request) (a streamAsk, err error) {
	q := r.URL.Query()
	a.live, a.cursor = q.Get("live"), q.Get("cursor")
	switch a.live {
	case "", "sse", "long-poll":
	default:
		return a, pawl.Invalid("/live", "is neither long-poll nor sse")
	}
	switch {
	case !q.Has("offset") && a.live != "":
		return a, pawl.Invalid("/offset", "is required to wait for more")
	case !q.Has("offset"):
	case q.Get("offset") == "now":
		a.now = true
	default:
		a.epoch, a.from, err = parseOffset(q.Get("offset"))
	}
	return a, err
}

// readStream answers a GET or HEAD. It returns an error only if the answer has not begun.
func (s *server) readStream(r *http.Request, st *stream) error {
	a, err := askOf(r)
	if err != nil && r.Method != http.MethodHead {
		return err
	}
	v, err := s.viewOf(r)
	if err != nil {
		return err
	}
	if r.Method == http.MethodHead {
		return s.headStream(r.Context(), st, v)
	}
	s.touch(r.Context(), v.made)
	ctx := pawl.InEpoch(r.Context(), a.epoch)
	if a.now {
		p, err := s.tail(ctx, v)
		if err != nil {
			return err
		}
		a.from, a.epoch = p.head, p.epoch
		ctx = pawl.InEpoch(ctx, a.epoch)
	}
	if a.live == "sse" {
		return s.streamEvents(r.WithContext(ctx), st, v, &a)
	}
	return s.pageStream(r.WithContext(ctx), st, v, &a)
}

// tail reads how long a stream is.
func (s *server) tail(ctx context.Context, v *streamView) (p streamPage, err error) {
	err = s.svc.FollowMessage(ctx, v.message, -1, func(f pawl.MessageFrame) error {
		p.epoch, p.head, p.ended = f.Epoch, f.Begin.Offset, f.Begin.Status.Ended()
		return errEnough
	})
	if errors.Is(err, errEnough) {
		err = nil
	}
	if err == nil && v.made != nil && p.head < v.made.Initial {
		err = pawl.NotFound("stream", v.made.Name)
	}
	return p, err
}

func (s *server) headStream(ctx context.Context, st *stream, v *streamView) error {
	p, err := s.tail(ctx, v)
	if err != nil {
		return err
	}
	h := st.Header()
	streamHead(h, v)
	h.Set("Cache-Control", "no-store")
	h.Set(headerNextOffset, streamOffset(p.epoch, p.head))
	if p.ended {
		h.Set(headerClosed, "true")
	}
	if v.made != nil && v.made.TTLSeconds != nil {
		h.Set(headerTTL, strconv.FormatInt(*v.made.TTLSeconds, 10))
	}
	if v.made != nil && v.made.ExpiresAt != "" {
		h.Set(headerExpiresAt, v.made.ExpiresAt)
	}
	st.WriteHeader(http.StatusOK)
	return nil
}

// streamHead sets what all answers to readers have.
func streamHead(h http.Header, v *streamView) {
	h.Set("Content-Type", v.kind)
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Cache-Control", "private, no-cache")
}

// pageStream answers with what the stream has from an offset on; a long poll waits until it has something.
func (s *server) pageStream(r *http.Request, st *stream, v *streamView, a *streamAsk) error {
	ctx, over, err := s.gate.BeginLongCall(r.Context())
	if err != nil {
		return err
	}
	defer over()
	p, content, err := s.pageOf(ctx, v, a)
	if ended := access.Ended(ctx); ended != nil {
		err = ended
	}
	if err != nil {
		return err
	}
	if v.made != nil && p.head < v.made.Initial {
		return pawl.NotFound("stream", v.made.Name)
	}
	h := st.Header()
	streamHead(h, v)
	h.Set(headerNextOffset, streamOffset(p.epoch, p.next))
	if p.upToDate() {
		h.Set(headerUpToDate, "true")
		if p.ended {
			h.Set(headerClosed, "true")
		}
	}
	if a.live != "" {
		h.Set(headerCursor, streamCursor(a.cursor))
		if len(content) == 0 {
			h.Del("Content-Type")
			st.WriteHeader(http.StatusNoContent)
			return nil
		}
	}
	return sendPage(r, st, v, a, &p, content)
}

// sendPage writes a page, unless the reader has it.
func sendPage(r *http.Request, st *stream, v *streamView, a *streamAsk, p *streamPage, content [][]byte) error {
	h := st.Header()
	if a.now && a.live == "" {
		h.Set("Cache-Control", "no-store")
	} else {
		tag := `"` + v.message + ":" + streamOffset(p.epoch, a.from) + ":" + streamOffset(p.epoch, p.next) + ":" + h.Get(headerClosed) + `"`
		h.Set("ETag", tag)
		if r.Header.Get("If-None-Match") == tag {
			h.Del("Content-Type")
			st.WriteHeader(http.StatusNotModified)
			return nil
		}
	}
	body := v.body(content)
	h.Set("Content-Length", strconv.Itoa(len(body)))
	patience := slowest + time.Duration(len(body))*100*time.Microsecond
	_ = http.NewResponseController(st.ResponseWriter).SetWriteDeadline(clock.Now().Add(patience))
	st.WriteHeader(http.StatusOK)
	_, _ = st.Write(body) // the reader may have gone
	return nil
}

// streamCursor returns the cursor of an answer: the number of an interval of 20 s, and always more
// than the reader has, so that a cache between them does not answer with its own answer.
func streamCursor(given string) string {
	epoch := time.Date(2024, 10, 9, 0, 0, 0, 0, time.UTC)
	now := int64(clock.Now().Sub(epoch) / (20 * time.Second))
	if has, err := strconv.ParseInt(given, 10, 64); err == nil && has >= now && has < 1<<53 {
		return strconv.FormatInt(has+1+rand.Int64N(180), 10)
	}
	return strconv.FormatInt(now, 10)
}

// streamEvents answers with server-sent events: what the stream has from an offset on, and what follows.
func (s *server) streamEvents(r *http.Request, st *stream, v *streamView, a *streamAsk) error {
	h := st.Header()
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Cache-Control", "no-cache, no-store")
	if v.binary() {
		h.Set(headerEncoding, "base64")
	}
	if p, err := s.tail(r.Context(), v); err != nil {
		return err
	} else if a.from > p.head {
		return pawl.Invalid("/offset", "is beyond the end of the stream")
	} else if a.from > 0 && a.epoch != p.epoch {
		return gone("the database went back in time since this offset was given: read from the beginning")
	}
	ctx, stop := context.WithTimeout(r.Context(), streamLife)
	defer stop()
	e := &streamEvents{view: v, ask: a, next: a.from}
	return s.follow(ctx, st, v.message, a.from-1, e.frame)
}

// streamEvents writes the frames of a message as events of the protocol.
type streamEvents struct {
	view *streamView
	ask  *streamAsk
	next int64
	head int64
}

func (e *streamEvents) frame(f pawl.MessageFrame) ([]byte, error) {
	var b bytes.Buffer
	closed := false
	switch {
	case f.Begin != nil:
		if e.head = f.Begin.Offset; e.head > e.next || f.Begin.Status.Ended() {
			return nil, nil
		}
	case f.End != nil:
		closed = true
	default:
		p := streamPage{epoch: f.Epoch, next: e.next}
		size := 0
		p.add(f, &size, 0)
		content, err := e.view.content(&p)
		if err != nil {
			return nil, err
		}
		e.next = p.next
		if len(content) > 0 {
			e.data(&b, content)
		}
	}
	control := map[string]any{"streamNextOffset": streamOffset(f.Epoch, e.next)}
	if closed {
		control["streamClosed"] = true
	} else {
		control["streamCursor"] = streamCursor(e.ask.cursor)
	}
	if closed || e.next >= e.head {
		control["upToDate"] = true
	}
	b.WriteString("event: control\ndata:")
	b.Write(jsonOf(control))
	b.WriteString("\n\n")
	return b.Bytes(), nil
}

// data writes an event with content. An end of a line within it begins another line of data.
func (e *streamEvents) data(b *bytes.Buffer, content [][]byte) {
	text := string(e.view.body(content))
	if e.view.binary() {
		text = base64.StdEncoding.EncodeToString([]byte(text))
	}
	b.WriteString("event: data\n")
	text = strings.NewReplacer("\r\n", "\n", "\r", "\n").Replace(text)
	for part := range strings.SplitSeq(text, "\n") {
		if strings.HasPrefix(part, " ") { // readers drop the first space
			part = " " + part
		}
		b.WriteString("data:" + part + "\n")
	}
	b.WriteString("\n")
}
