package server

import (
	"bytes"
	"errors"
	"io"
	"mime"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/api"
	"github.com/pawl-work/pawl/internal/clock"
	"github.com/pawl-work/pawl/internal/strictjson"
)

// promises are headers that ask for a guarantee: a server that ignored them would break it.
var promises = []string{"If-Match", "If-Unmodified-Since"}

// checkPromises refuses a request with a header that asks for a guarantee which its call does not
// give.
func checkPromises(r *http.Request) error {
	for _, name := range promises {
		if r.Header.Get(name) != "" && !(name == "If-Match" && matches(r)) {
			return &pawl.Error{Code: pawl.CodeInvalid,
				Message: "this call does not support the header " + name + "; send it without the header"}
		}
	}
	return nil
}

// readBody reads the body before anything else does, so that its size, type and syntax are
// checked in one place. A webhook is checked later, once its signature is: see verified.
func (s *server) readBody(w http.ResponseWriter, r *http.Request, in *room) error {
	if !unread(r) {
		return nil
	}
	if err := checkHead(r); err != nil {
		return err
	}
	data, err := s.read(w, r, in)
	if err != nil {
		return err
	}
	setBody(r, data)
	return nil
}

// checkRead checks the syntax of a body that was read.
func checkRead(r *http.Request) error {
	data, err := bodyOf(r)
	if err != nil || len(data) == 0 {
		return err
	}
	return checkBody(r, data)
}

// matches reports whether a call reads If-Match.
func matches(r *http.Request) bool {
	return slices.ContainsFunc(api.Routes, func(route api.Route) bool {
		before, after, _ := strings.Cut(route.Path, "{id}")
		return route.Has(api.TakesVersion) && r.Method == route.Method && strings.HasPrefix(r.URL.Path, before) &&
			strings.HasSuffix(r.URL.Path, after)
	})
}

// read reads a body as it arrives. The memory for it, which is at most twice what has arrived,
// counts in its room.
func (s *server) read(w http.ResponseWriter, r *http.Request, in *room) ([]byte, error) {
	rc := http.NewResponseController(w)
	if r.ContentLength > pawl.MaxBodyBytes {
		return nil, tooLarge
	}
	most := int64(pawl.MaxBodyBytes) + 1
	if r.ContentLength >= 0 {
		most = r.ContentLength + 1
	}
	_ = rc.SetReadDeadline(clock.Now().Add(s.opts.BodyTime)) // not every writer supports deadlines
	data := make([]byte, 0, min(most, smallBody))
	for {
		if len(data) == cap(data) {
			size := min(most, 2*int64(cap(data)))
			if err := in.take(r.Context(), size); err != nil {
				return nil, err
			}
			data = append(make([]byte, 0, size), data...)
		}
		n, err := r.Body.Read(data[len(data):cap(data)])
		data = data[:len(data)+n]
		switch {
		case len(data) > pawl.MaxBodyBytes:
			return nil, tooLarge
		case err == io.EOF:
			_ = rc.SetReadDeadline(time.Time{})
			return data, nil
		case err != nil:
			w.Header().Set("Connection", "close")
			r.Body = http.NoBody
			return nil, &pawl.Error{Code: pawl.CodeInvalid, Message: "the body did not arrive whole", Err: err}
		}
	}
}

// drainBody reads on in a body that is refused, unless it is far too long. Many clients read no
// answer before they have written the whole body, and a connection that is closed before that
// would hide the reason.
func drainBody(r *http.Request, rc *http.ResponseController) {
	if r.Header.Get("Expect") == "" && r.ContentLength <= 3*pawl.MaxBodyBytes {
		_ = rc.SetReadDeadline(clock.Now().Add(5 * time.Second))
		_, _ = io.CopyN(io.Discard, r.Body, 2*pawl.MaxBodyBytes)
	}
}

var tooLarge = &pawl.Error{Code: pawl.CodeTooLarge, Message: "the body is over 8 MiB"}

// checkHead refuses a body, before it is read, that its header says no call takes.
func checkHead(r *http.Request) error {
	if err := checkCoding(r); err != nil {
		return err
	}
	if ct := r.Header.Get("Content-Type"); ct != "" {
		kind, params, err := mime.ParseMediaType(ct)
		charset := params["charset"]
		merge := r.Method == http.MethodPatch && kind == "application/merge-patch+json"
		if err != nil || kind != "application/json" && !merge || charset != "" && !strings.EqualFold(charset, "utf-8") {
			return &pawl.Error{Code: pawl.CodeMediaType, Message: "the body is to be application/json, not " + ct}
		}
	}
	return nil
}

// checkNone refuses the body of a call that takes none. It reads one byte at most.
func (s *server) checkNone(w http.ResponseWriter, r *http.Request) error {
	if !unread(r) {
		return nil
	}
	rc := http.NewResponseController(w)
	_ = rc.SetReadDeadline(clock.Now().Add(s.opts.BodyTime)) // not every writer supports deadlines
	if r.ContentLength < 0 {
		if n, _ := io.ReadFull(r.Body, make([]byte, 1)); n == 0 {
			_ = rc.SetReadDeadline(time.Time{})
			r.Body = http.NoBody
			return nil
		}
	}
	return pawl.Invalid("", "%s takes no body", r.Method)
}

func checkBody(r *http.Request, data []byte) error {
	if strings.HasPrefix(r.URL.Path, "/v1/messages") && strings.HasSuffix(r.URL.Path, ":append") {
		return strictjson.ScanHalved(data)
	}
	err := strictjson.Scan(data)
	if err != nil && !errors.Is(err, strictjson.TooMany) && r.URL.Path == "/mcp" && isBatch(data) { // its messages are checked one by one
		return nil
	}
	return err
}

// isBatch reports whether a body is a list of values whose ends are certain, as a batch of JSON-RPC is.
func isBatch(data []byte) bool {
	values, rest, ok := strictjson.ValuesUpTo(data, pawl.MaxMCPBatch)
	return ok && len(bytes.TrimSpace(rest)) == 0 && len(values) > 0 &&
		!slices.ContainsFunc(values, func(v []byte) bool { return !wellFormed(v) })
}

// checkCoding refuses a body that is compressed.
func checkCoding(r *http.Request) error {
	if coding := r.Header.Get("Content-Encoding"); coding != "" && !strings.EqualFold(coding, "identity") {
		return &pawl.Error{Code: pawl.CodeMediaType, Message: "the body is to be sent as it is, not in " + coding}
	}
	return nil
}
