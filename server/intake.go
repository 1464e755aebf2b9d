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
// checked in one place.
func (s *server) readBody(w http.ResponseWriter, r *http.Request) error {
	if r.Body == nil || r.Body == http.NoBody {
		return nil
	}
	data, err := s.read(w, r)
	if err == nil && len(data) > 0 {
		err = checkBody(r, data)
	}
	if err != nil {
		return err
	}
	setBody(r, data)
	return nil
}

// matches reports whether a call reads If-Match.
func matches(r *http.Request) bool {
	return slices.ContainsFunc(api.Routes, func(route api.Route) bool {
		before, after, _ := strings.Cut(route.Path, "{id}")
		return route.Has(api.TakesVersion) && r.Method == route.Method && strings.HasPrefix(r.URL.Path, before) &&
			strings.HasSuffix(r.URL.Path, after)
	})
}

func (s *server) read(w http.ResponseWriter, r *http.Request) ([]byte, error) {
	rc := http.NewResponseController(w)
	_ = rc.SetReadDeadline(clock.Now().Add(s.opts.BodyTime)) // not every writer supports deadlines
	if r.ContentLength > pawl.MaxBodyBytes {
		w.Header().Set("Connection", "close") // the rest is not read
		drainBody(r, rc)
		return nil, tooLarge
	}
	var body bytes.Buffer
	body.Grow(int(max(0, r.ContentLength)) + bytes.MinRead)
	_, err := body.ReadFrom(http.MaxBytesReader(w, r.Body, pawl.MaxBodyBytes))
	if err == nil { // else the deadline bounds how long net/http reads on to discard the rest
		_ = rc.SetReadDeadline(time.Time{})
	}
	var over *http.MaxBytesError
	switch {
	case errors.As(err, &over):
		drainBody(r, rc)
		return nil, tooLarge
	case err != nil:
		w.Header().Set("Connection", "close")
		return nil, &pawl.Error{Code: pawl.CodeInvalid, Message: "the body did not arrive whole", Err: err}
	}
	return body.Bytes(), nil
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

func checkBody(r *http.Request, data []byte) error {
	switch r.Method {
	case http.MethodPost, http.MethodPut, http.MethodPatch:
	default:
		return pawl.Invalid("", "%s takes no body", r.Method)
	}
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
	if strings.HasPrefix(r.URL.Path, "/v1/messages") && strings.HasSuffix(r.URL.Path, ":append") {
		return scanHalved(data)
	}
	return scan(data)
}

// checkCoding refuses a body that is compressed.
func checkCoding(r *http.Request) error {
	if coding := r.Header.Get("Content-Encoding"); coding != "" && !strings.EqualFold(coding, "identity") {
		return &pawl.Error{Code: pawl.CodeMediaType, Message: "the body is to be sent as it is, not in " + coding}
	}
	return nil
}
