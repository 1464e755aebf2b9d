package worker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/pawl-work/pawl"
)

// HandlerFunc does one item: its input as JSON in, its result as JSON out.
// Inside it pawl.ItemFrom(ctx) is the claim.
type HandlerFunc func(ctx context.Context, input json.RawMessage) (json.RawMessage, error)

// Handler does the items of one type. Handle makes one of a typed function; a
// program that wants the raw JSON fills it in itself.
type Handler struct {
	Type string // "" = every type that no other handler of the worker is for
	Do   HandlerFunc
}

// Handle makes a handler of a typed function: the item's input is read into In,
// what it returns becomes the item's result as JSON (≤ 1 MiB). An input that
// does not fit In fails the item for good, with code invalid_input; a result
// that cannot be written, with invalid_result. The first middleware is the
// outermost, inside those of the Options.
func Handle[In, Out any](typ string, fn func(context.Context, In) (Out, error), mw ...Middleware) Handler {
	do := func(ctx context.Context, input json.RawMessage) (json.RawMessage, error) {
		var in In
		if len(input) > 0 {
			if err := json.Unmarshal(input, &in); err != nil {
				return nil, pawl.Permanent(Failed(pawl.Failure{Code: CodeInvalidInput, Message: fmt.Sprintf("the input does not fit the handler of %s: %v", typ, err)}))
			}
		}
		out, err := fn(ctx, in)
		if err != nil {
			return nil, err
		}
		raw, err := json.Marshal(out)
		if err != nil {
			return nil, pawl.Permanent(Failed(pawl.Failure{Code: CodeInvalidResult, Message: fmt.Sprintf("the result cannot be written as JSON: %v", err)}))
		}
		return raw, nil
	}
	return Handler{Type: typ, Do: chain(do, mw)}
}

// Codes of an item's error that the worker gives.
const (
	CodePanic         = "panic"          // the handler panicked; detail has the stack
	CodeInvalidInput  = "invalid_input"  // the input does not fit the handler; final
	CodeInvalidResult = "invalid_result" // the result was refused; final
)

type failedError struct{ f pawl.Failure }

func (e *failedError) Error() string { return e.f.Message }

// Failed is an error that is handed in as f stands, with its code and detail.
// Wrap it with pawl.Permanent or pawl.RetryAfter to steer the retry.
func Failed(f pawl.Failure) error { return &failedError{f} }

// maxMessage and maxDetail keep an error within pawl.MaxErrorBytes.
const (
	maxMessage = 8 << 10
	maxDetail  = 48 << 10
)

// failCall turns a handler's error into the call that reports it, in a form that
// is not refused: a report that is refused would leave the item to run out.
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
	call.Error.Message = legible(call.Error.Message, maxMessage)
	if call.Error.Message == "" {
		call.Error.Message = fmt.Sprintf("%T", err)
	}
	call.Error.Code = legible(call.Error.Code, pawl.MaxTypeLen)
	if d := call.Error.Detail; len(d) > maxDetail || !json.Valid(d) || strings.Contains(string(d), `\u0000`) {
		call.Error.Detail = nil
	}
	if ms := call.RetryAfterMS; ms != nil {
		*ms = min(max(*ms, 0), pawl.MaxDelay.Milliseconds())
	}
	return call
}

// legible is valid UTF-8 without NUL and at most limit bytes long.
func legible(s string, limit int) string {
	s = strings.ReplaceAll(strings.ToValidUTF8(s, "\uFFFD"), "\x00", "\uFFFD")
	if len(s) > limit {
		s = strings.ToValidUTF8(s[:limit-len("…")], "") + "…"
	}
	return s
}
