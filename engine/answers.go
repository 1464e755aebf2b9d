package engine

import (
	"context"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/engine/internal/kernel"
)

// answers returns the room of a batch whose answers have what is stored. The answers to the calls of
// a bulk call are not sent.
func (e *Engine) answers(op string) *kernel.Answers {
	return &kernel.Answers{Op: op, Unbounded: e.origin.Bulk != ""}
}

// eachly returns a function that calls kernel.Each.
func eachly[C, R any](
	op string,
	one func(*Engine, context.Context, *C) (R, error),
) func(*Engine, context.Context, []C) ([]pawl.Result[R], error) {
	return func(e *Engine, ctx context.Context, calls []C) ([]pawl.Result[R], error) {
		return kernel.Each(ctx, op, calls, func(ctx context.Context, c *C) (R, error) { return one(e, ctx, c) })
	}
}
