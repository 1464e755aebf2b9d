package worker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"

	"github.com/pawl-work/pawl"
)

// HandlerFunc handles one item: it gets the input and returns the result, both JSON.
// pawl.ItemFrom(ctx) returns the claim.
type HandlerFunc func(ctx context.Context, input json.RawMessage) (json.RawMessage, error)

// Handler handles the items of one type. Handle makes one from a typed function; fill
// in the struct to work with raw JSON.
type Handler struct {
	Type string // "" = every type without a handler of its own
	Do   HandlerFunc
}

// Handle makes a handler from a typed function, for a type by its name or as a pawl.Job, whose
// payload and result have the types of the function. The item's input is decoded into In;
// the return value becomes the item's result as JSON (≤ 1 MiB). An input that does
// not fit In fails the item permanently with code invalid_input; a result that
// cannot be encoded, with invalid_result. The first middleware is the outermost,
// inside those of the Options.
func Handle[In, Out any, T ~string | pawl.Job[In, Out]](of T, fn func(context.Context, In) (Out, error), mw ...Middleware) Handler {
	typ := typeName(of)
	do := func(ctx context.Context, input json.RawMessage) (json.RawMessage, error) {
		var in In
		if len(input) > 0 {
			if err := json.Unmarshal(input, &in); err != nil {
				return nil, pawl.Permanent(
					Failed(pawl.Failure{Code: CodeInvalidInput, Message: fmt.Sprintf("the input does not fit the handler of %s: %v", typ, err)}),
				)
			}
		}
		out, err := fn(ctx, in)
		if err != nil {
			return nil, err
		}
		raw, err := json.Marshal(out)
		if err != nil {
			return nil, pawl.Permanent(
				Failed(pawl.Failure{Code: CodeInvalidResult, Message: fmt.Sprintf("the result cannot be written as JSON: %v", err)}),
			)
		}
		return raw, nil
	}
	return Handler{Type: typ, Do: chain(do, mw)}
}

// typeName returns the name of a type or of a job.
func typeName(of any) string {
	if job, ok := of.(interface{ JobName() string }); ok {
		return job.JobName()
	}
	return reflect.ValueOf(of).String()
}

// Codes of an item's error that the worker sets.
const (
	CodePanic         = "panic"          // the handler panicked; detail has the stack
	CodeInvalidInput  = "invalid_input"  // the input does not fit the handler; final
	CodeInvalidResult = "invalid_result" // the result was refused; final
)

type failedError struct{ f pawl.Failure }

func (e *failedError) Error() string { return e.f.Message }

// Failed returns an error that is reported as f, with its code and detail. Wrap it
// with pawl.Permanent or pawl.RetryAfter to control the retry.
func Failed(f pawl.Failure) error { return &failedError{f} }

// maxMessage and maxDetail keep an error within pawl.MaxErrorBytes.
const (
	maxMessage = 8 << 10
	maxDetail  = 48 << 10
)

// failCall turns a handler's error into a call that the service does not refuse: after
// a refusal the item would be retried only when its lease expires.
func failCall(f pawl.Fence, err error) pawl.FailCall {
	call := pawl.FailCallOf(f, err)
	var failed *failedError
	var known *pawl.Error
	switch {
	case errors.As(err, &failed):
		call.Error = failed.f
		if call.Error.Message == "" {
			call.Error.Message = call.Error.Code
		}
	case errors.As(err, &known):
		call.Error.Code = string(known.Code)
	}
	call.Error.Message = sanitize(call.Error.Message, maxMessage)
	if call.Error.Message == "" {
		call.Error.Message = fmt.Sprintf("%T", err)
	}
	call.Error.Code = sanitize(call.Error.Code, pawl.MaxTypeLen)
	if d := call.Error.Detail; len(d) > maxDetail || !json.Valid(d) || strings.Contains(string(d), `\u0000`) {
		call.Error.Detail = nil
	}
	if ms := call.RetryAfterMS; ms != nil {
		*ms = min(max(*ms, 0), pawl.MaxDelay.Milliseconds())
	}
	return call
}

// sanitize returns s as valid UTF-8 without NUL, at most limit bytes long.
func sanitize(s string, limit int) string {
	s = strings.ReplaceAll(strings.ToValidUTF8(s, "\uFFFD"), "\x00", "\uFFFD")
	if len(s) > limit {
		s = strings.ToValidUTF8(s[:limit-len("…")], "") + "…"
	}
	return s
}
