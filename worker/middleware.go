package worker

import (
	"context"
	"encoding/json"
	"fmt"
	"runtime/debug"
	"time"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/internal/clock"
)

// Middleware wraps a handler; it runs around every item.
type Middleware func(next HandlerFunc) HandlerFunc

// chain wraps do so that the first middleware is the outermost. A panic of do is
// recovered innermost, so that every middleware sees an error.
func chain(do HandlerFunc, mw []Middleware) HandlerFunc {
	if do == nil {
		return nil
	}
	do = Recover(do)
	for i := len(mw) - 1; i >= 0; i-- {
		do = mw[i](do)
	}
	return do
}

// Recover turns a panic into an error with code panic; its detail has the value and
// the stack. Every handler already runs inside it.
func Recover(next HandlerFunc) HandlerFunc {
	return func(ctx context.Context, input json.RawMessage) (out json.RawMessage, err error) {
		defer func() {
			if v := recover(); v != nil {
				out, err = nil, panicked(v, debug.Stack())
			}
		}()
		if out, err = next(ctx, input); err != nil {
			_ = err.Error() // an error whose Error method panics (a typed nil) panics here, where it is recovered
		}
		return out, err
	}
}

func panicked(v any, stack []byte) error {
	text := sanitize(fmt.Sprint(v), 2<<10)
	detail, _ := json.Marshal(map[string]string{"panic": text, "stack": sanitize(string(stack), maxDetail/2)}) // strings always can
	return Failed(pawl.Failure{Code: CodePanic, Message: "panic: " + text, Detail: detail})
}

// Timing calls seen after every item with its claim, the time that the handler took
// by the monotonic clock, and the handler's error.
func Timing(seen func(ctx context.Context, lease pawl.Lease, took time.Duration, err error)) Middleware {
	return func(next HandlerFunc) HandlerFunc {
		return func(ctx context.Context, input json.RawMessage) (json.RawMessage, error) {
			start := clock.Now()
			out, err := next(ctx, input)
			lease, _ := pawl.ItemFrom(ctx) // in a handler there is one
			seen(ctx, lease, clock.Now().Sub(start), err)
			return out, err
		}
	}
}
