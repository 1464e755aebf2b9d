package server

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/validation"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/api"
	"github.com/pawl-work/pawl/internal/nearest"
)

// problem is an api.Problem as an error of huma.
type problem struct {
	api.Problem
	headers http.Header
}

func (p *problem) Error() string               { return p.Title }
func (p *problem) GetStatus() int              { return p.Status }
func (p *problem) GetHeaders() http.Header     { return p.headers }
func (p *problem) ContentType(string) string   { return api.ProblemType }
func (p problem) MarshalJSON() ([]byte, error) { return json.Marshal(p.Problem) }

// problem converts an error to a problem. It logs what is not sent: the detail of internal
// errors and of unavailable. A cancelled call is not answered, so it counts for nothing.
func (s *server) problem(ctx context.Context, err error) api.Problem {
	call := callOf(ctx)
	p := api.ProblemOf(err, call.path)
	if errors.Is(err, context.Canceled) && ctx.Err() != nil {
		return p
	}
	s.metrics.errors.WithLabelValues(string(p.Code)).Inc()
	switch {
	case p.Code == pawl.CodeInternal:
		s.opts.Log.ErrorContext(ctx, "internal error", slog.String("request_id", call.id), slog.String("path", call.path),
			slog.Any("error", err))
	case p.Code == pawl.CodeUnavailable && ctx.Err() == nil:
		s.opts.Log.WarnContext(ctx, "unavailable", slog.String("request_id", call.id), slog.String("path", call.path),
			slog.Any("error", err))
	}
	return p
}

// refuse is problem as the error of an operation, with Retry-After if it is known.
func (s *server) refuse(ctx context.Context, err error) error {
	p := &problem{Problem: s.problem(ctx, err)}
	if after := retryAfter(err); after > 0 {
		p.headers = http.Header{"Retry-After": {inSeconds(after)}}
	}
	return p
}

// write answers a request that does not reach an operation, or whose answer has not begun.
func (s *server) write(w http.ResponseWriter, r *http.Request, err error) {
	p := s.problem(r.Context(), err)
	if after := retryAfter(err); after > 0 {
		w.Header().Set("Retry-After", inSeconds(after))
	}
	if p.Code == pawl.CodeUnauthenticated {
		w.Header().Set("WWW-Authenticate", `Bearer realm="pawl"`)
	}
	w.Header().Set("Content-Type", api.ProblemType)
	text, _ := json.Marshal(p) // texts and numbers always marshal
	text = append(text, '\n')
	w.Header().Set("Content-Length", strconv.Itoa(len(text))) // the answer is whole even if the connection is kept to discard a body
	w.WriteHeader(p.Status)
	_, _ = w.Write(text) // the caller may have gone
}

func inSeconds(d time.Duration) string {
	return strconv.FormatInt(int64((d+time.Second-1)/time.Second), 10)
}

func retryAfter(err error) time.Duration {
	var e *pawl.Error
	if errors.As(err, &e) {
		return e.RetryAfter
	}
	return 0
}

// refusal converts huma's own errors, from its validation, to problems. ctx is nil when huma
// only wants an example.
func refusal(ctx huma.Context, status int, msg string, errs ...error) huma.StatusError {
	e := &pawl.Error{Code: pawl.CodeInternal, Message: msg}
	if status >= 400 && status < 500 {
		e = invalidFields(ctx, errs)
		if len(errs) == 0 {
			e.Message = msg
		}
	}
	path := ""
	if ctx != nil {
		call := callOf(ctx.Context())
		path, call.refused = call.path, e.Code
	}
	return &problem{Problem: api.ProblemOf(e, path)}
}

// invalidFields converts huma's errors. It sorts them: huma walks maps in random order.
func invalidFields(ctx huma.Context, errs []error) *pawl.Error {
	e := &pawl.Error{Code: pawl.CodeInvalid}
	for _, err := range errs {
		e.Fields = append(e.Fields, field(ctx, err))
	}
	slices.SortFunc(e.Fields, func(a, b pawl.Field) int { return cmp.Compare(a.Pointer, b.Pointer) })
	return e
}

// required marks huma's error for a missing member. That error names the object in which the
// member is missing; the problem names the member.
const required = "required:"

// field names by JSON Pointer what huma refused: a member of the body, or a parameter of the
// query or path, as if the parameters were one object.
func field(ctx huma.Context, err error) pawl.Field {
	d, ok := err.(*huma.ErrorDetail)
	if !ok {
		return pawl.Field{Message: err.Error()}
	}
	in, path, _ := strings.Cut(d.Location, ".")
	switch {
	case in == "query" && ctx != nil:
		return queryField(ctx.Operation(), path, d.Message)
	case d.Location == "body":
		if f, ok := decodeFault(d.Message); ok {
			return f
		}
	}
	if name, missing := strings.CutPrefix(d.Message, required); missing {
		return pawl.Field{Pointer: pointers(path) + pointer(name), Message: "is required"}
	}
	if d.Message == validation.MsgExpectedMatchExactlyOneSchema {
		return pawl.Field{Pointer: pointers(path), Message: formOf(path)}
	}
	return pawl.Field{Pointer: pointers(path), Message: d.Message}
}

// formOf says which forms the member at a path may have. They are those of describe.go that have
// several: huma says only that none of them fits.
func formOf(path string) string {
	names := strings.Split(path, ".")
	switch name := names[len(names)-1]; {
	case name == "error":
		return "must be a text, or an object with a message and perhaps a code and a detail"
	case name == "dedupe":
		return "must be true, false or a list of JSON Pointers"
	case name == "need":
		return `must be "all", "any" or a number of children, from 1`
	case len(names) > 1 && names[len(names)-2] == "metadata":
		return "must be a text, a number, true or false"
	}
	return "must be a text or a list of texts"
}

func queryField(op *huma.Operation, path, message string) pawl.Field {
	name, _, _ := strings.Cut(path, "[")
	var names []string
	for _, p := range op.Parameters {
		switch {
		case p.In != "query":
		case p.Name == name && p.Schema.Format == "date-time":
			return pawl.Field{Pointer: pointer(name), Message: "is no RFC 3339 time"}
		case p.Name == path && p.Style == "deepObject":
			return pawl.Field{Pointer: pointer(name), Message: "is asked for by member: " + name + "[key]=value"}
		case p.Name == name:
			return pawl.Field{Pointer: pointers(path), Message: message}
		default:
			names = append(names, p.Name)
		}
	}
	if names == nil {
		return pawl.Field{Pointer: pointer(path), Message: "is not known here: this call takes no parameters"}
	}
	return pawl.Field{Pointer: pointer(path), Message: "is not known here" + nearest.Question(path, names) +
		"; there are " + strings.Join(names, ", ")}
}

// pointers turns huma's items[3].type into /items/3/type.
func pointers(path string) string {
	var b strings.Builder
	for name := range strings.FieldsFuncSeq(path, func(r rune) bool { return r == '.' || r == '[' || r == ']' }) {
		b.WriteString(pointer(name))
	}
	return b.String()
}

var escaped = strings.NewReplacer("~", "~0", "/", "~1") // to make one takes 8 KiB

func pointer(name string) string { return "/" + escaped.Replace(name) }
