package server

import (
	"context"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humachi"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/api"
)

// Durable Streams is a protocol of HTTP for streams that are appended to and read from any
// offset. A stream that a client makes is a task of the type stream, with one message that the
// task has itself: each append is one append to that message. A message that a worker writes can
// be read as a stream by its id.

const streamsPath = "/v1/streams/"

// These are the headers of the protocol.
const (
	headerNextOffset  = "Stream-Next-Offset"
	headerUpToDate    = "Stream-Up-To-Date"
	headerClosed      = "Stream-Closed"
	headerCursor      = "Stream-Cursor"
	headerTTL         = "Stream-TTL"
	headerExpiresAt   = "Stream-Expires-At"
	headerSeq         = "Stream-Seq"
	headerEncoding    = "Stream-SSE-Data-Encoding"
	headerForkedFrom  = "Stream-Forked-From"
	headerForkOffset  = "Stream-Fork-Offset"
	headerForkSub     = "Stream-Fork-Sub-Offset"
	headerProducer    = "Producer-Id"
	headerEpoch       = "Producer-Epoch"
	headerProducerSeq = "Producer-Seq"
	headerExpectedSeq = "Producer-Expected-Seq"
	headerReceivedSeq = "Producer-Received-Seq"
)

const (
	// maxStreamBody bounds one append: as chunks it may be larger by a half.
	maxStreamBody = 2 << 20
	// maxStreamName bounds the name of a stream.
	maxStreamName = 1024
)

// streamRefusal is a refusal with headers of the protocol, and a status of its own if it has one.
type streamRefusal struct {
	why     *pawl.Error
	status  int
	headers map[string]string
}

func (e *streamRefusal) Error() string { return e.why.Error() }
func (e *streamRefusal) Unwrap() error { return e.why }

func gone(message string) error {
	return &streamRefusal{why: &pawl.Error{Code: pawl.CodeNotFound, Message: message}, status: http.StatusGone}
}

func streamConflict(message string, headers map[string]string) error {
	return &streamRefusal{why: &pawl.Error{Code: pawl.CodeConflict, Message: message}, headers: headers}
}

// streams registers the calls of the Durable Streams protocol.
func (s *server) streams() {
	type named struct {
		Name string `path:"id" doc:"The stream's name, which may have slashes; or a message's id."`
	}
	answer := func(fn func(w http.ResponseWriter, r *http.Request) error) func(context.Context, *named) (*huma.StreamResponse, error) {
		return func(context.Context, *named) (*huma.StreamResponse, error) {
			return &huma.StreamResponse{Body: func(c huma.Context) {
				r, w := humachi.Unwrap(c)
				extendDeadline(w)
				if err := fn(w, r); err != nil {
					s.refuseStream(w, r, err)
				}
			}}, nil
		}
	}
	add(s, "create_stream", answer(s.createStream))
	add(s, "append_stream", answer(s.appendStream))
	add(s, "delete_stream", answer(s.deleteStream))
	add(s, "read_stream", func(_ context.Context, in *struct {
		Name string `path:"id" doc:"The stream's name, which may have slashes; or a message's id."`
		named
		Offset string `query:"offset" doc:"Where to begin: -1, now, or what Stream-Next-Offset said."`
		Live   string `query:"live" doc:"long-poll or sse: wait for more."`
		Cursor string `query:"cursor" doc:"What Stream-Cursor said."`
	}) (*huma.StreamResponse, error) {
		return s.streaming("read_stream", func(r *http.Request, st *stream) error {
			if err := s.readStream(r, st); err != nil {
				s.refuseStream(st, r, err)
			}
			return nil
		}), nil
	})
	s.amend(func(o *huma.OpenAPI) { describeStreams(o.Paths[streamsPath+"{id}"]) })
}

// describeStreams describes what huma does not know of the calls: bodies of any type, and statuses of the protocol.
func describeStreams(path *huma.PathItem) {
	bytes := map[string]*huma.MediaType{"*/*": {Schema: &huma.Schema{Type: huma.TypeString, Format: "binary"}}}
	path.Put.RequestBody = &huma.RequestBody{Description: "What the stream begins with, in the stream's content type.", Content: bytes}
	path.Post.RequestBody = &huma.RequestBody{Description: "What is appended, in the stream's content type.", Content: bytes}
	says := func(op *huma.Operation, status, description string, content map[string]*huma.MediaType) {
		if op.Responses == nil {
			op.Responses = map[string]*huma.Response{}
		}
		op.Responses[status] = &huma.Response{Description: description, Content: content}
	}
	problem := map[string]*huma.MediaType{api.ProblemType: {Schema: &huma.Schema{Ref: "#/components/schemas/Problem"}}}
	for _, op := range []*huma.Operation{path.Get, path.Post, path.Delete} {
		says(op, "410", "The stream was deleted and has forks, or the offset is of before the database went back in time.", problem)
	}
	says(path.Put, "201", "The stream was made.", bytes)
	says(path.Post, "200", "What a producer sent was appended.", nil)
	says(path.Post, "204", "It was appended; or it had been, or the stream was closed.", nil)
	says(path.Get, "204", "Nothing came while a long poll waited.", nil)
	says(path.Get, "304", "If-None-Match names what the stream has there.", nil)
	path.Get.Responses["200"].Content["*/*"] = bytes["*/*"]
}

// refuseStream answers with a problem and the headers of the protocol.
func (s *server) refuseStream(w http.ResponseWriter, r *http.Request, err error) {
	h := w.Header()
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Cache-Control", "no-store")
	refusal, ok := err.(*streamRefusal)
	if !ok {
		s.write(w, r, err)
		return
	}
	for name, value := range refusal.headers {
		h.Set(name, value)
	}
	if refusal.status == 0 {
		s.write(w, r, refusal.why)
		return
	}
	p := s.problem(r.Context(), refusal.why)
	p.Status = refusal.status
	h.Set("Content-Type", api.ProblemType)
	w.WriteHeader(p.Status)
	if r.Method != http.MethodHead {
		_ = encode(w, p) // the caller may have gone
	}
}

// streamName returns the name in a request's path.
func streamName(r *http.Request) (string, error) {
	name := strings.TrimPrefix(r.URL.Path, streamsPath)
	if name == "" || len(name) > maxStreamName {
		return "", &pawl.Error{Code: pawl.CodeInvalid, Message: "the name of a stream has 1 to 1024 bytes"}
	}
	return name, nil
}

// oneSegment writes the name of a stream as one segment of the path, whatever it contains.
func oneSegment(u *url.URL) {
	if name, found := strings.CutPrefix(u.EscapedPath(), streamsPath); found && name != "" {
		u.RawPath = streamsPath + strings.NewReplacer("/", "%2F", ":", "%3A").Replace(name)
	}
}

// preflight answers a browser's question before a request to a stream of another origin. It
// names no origin that may ask, so browsers go on refusing: a server of the page's own origin forwards.
func preflight(w http.ResponseWriter, r *http.Request) bool {
	if r.Method != http.MethodOptions || !strings.HasPrefix(r.URL.Path, streamsPath) {
		return false
	}
	w.Header().Set("Allow", "GET, HEAD, PUT, POST, DELETE, OPTIONS")
	w.Header().Set("Access-Control-Allow-Methods", "GET, HEAD, PUT, POST, DELETE")
	headers := []string{"Authorization", "Content-Type", "If-None-Match", headerSeq, headerTTL, headerExpiresAt, headerClosed,
		headerProducer, headerEpoch, headerProducerSeq, headerForkedFrom, headerForkOffset, headerForkSub}
	w.Header().Set("Access-Control-Allow-Headers", strings.Join(headers, ", "))
	w.WriteHeader(http.StatusNoContent)
	return true
}

// streamBody reads the body of a call.
func streamBody(r *http.Request) ([]byte, error) {
	body := callOf(r.Context()).upload
	if body == nil {
		return nil, nil
	}
	data, err := io.ReadAll(io.LimitReader(body, maxStreamBody+1))
	if err != nil {
		return nil, &pawl.Error{Code: pawl.CodeInvalid, Message: "the body did not arrive whole", Err: err}
	}
	if len(data) > maxStreamBody {
		return nil, &pawl.Error{Code: pawl.CodeTooLarge, Message: "an append has at most 2 MiB"}
	}
	return data, nil
}

func (s *server) appendStream(w http.ResponseWriter, r *http.Request) error {
	data, err := streamBody(r)
	if err != nil {
		return err
	}
	st, err := s.madeStream(r.Context(), r)
	if err != nil {
		return err
	}
	a, err := appendOf(r.Header, data, st)
	if err != nil {
		return err
	}
	done, err := s.appendTo(r.Context(), st, a)
	if err != nil {
		return err
	}
	s.touch(r.Context(), st)
	h := w.Header()
	h.Set(headerNextOffset, done.next)
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	if done.closed {
		h.Set(headerClosed, "true")
	}
	status := http.StatusNoContent
	if a.producer != "" {
		h.Set(headerEpoch, strconv.FormatInt(a.epoch, 10))
		h.Set(headerProducerSeq, strconv.FormatInt(done.seq, 10))
		if !done.repeated && !a.closeOnly() {
			status = http.StatusOK
		}
	}
	w.WriteHeader(status)
	return nil
}

func (s *server) deleteStream(w http.ResponseWriter, r *http.Request) error {
	st, err := s.madeStream(r.Context(), r)
	if err != nil {
		return err
	}
	// An older stream of the name, which was restored beside it, goes too. A newer one is another client's.
	for last := st.task; st != nil && !st.deleted && st.task <= last; {
		if _, err = s.removeStream(r.Context(), st, nil); err == nil {
			st, err = s.findStream(r.Context(), st.Name)
		}
		if err != nil {
			return err
		}
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}

// madeStream finds the stream that a request names, which a client has made.
func (s *server) madeStream(ctx context.Context, r *http.Request) (*clientStream, error) {
	name, err := streamName(r)
	if err != nil {
		return nil, err
	}
	if isMessage(name) {
		return nil, &streamRefusal{why: &pawl.Error{Code: pawl.CodeMethod, Message: "the worker that holds its item writes this message"},
			headers: map[string]string{"Allow": "GET, HEAD"}}
	}
	st, err := s.findStream(ctx, name)
	switch {
	case err != nil:
		return nil, err
	case st == nil:
		return nil, pawl.NotFound("stream", name)
	case st.deleted:
		return nil, gone("the stream was deleted; forks of it are left")
	}
	return st, nil
}

// isMessage reports whether a name is the id of a message.
func isMessage(name string) bool { return strings.HasPrefix(name, "msg_") }

// mediaType returns a content type without parameters, in lower case.
func mediaType(contentType string) string {
	kind, _, _ := strings.Cut(contentType, ";")
	return strings.ToLower(strings.TrimSpace(kind))
}

// streamTime reads an expiry.
func streamTime(text string) (time.Time, error) {
	at, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return at, &pawl.Error{Code: pawl.CodeInvalid, Message: headerExpiresAt + " is not a time of RFC 3339"}
	}
	return at, nil
}
