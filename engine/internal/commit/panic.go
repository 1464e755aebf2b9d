package commit

import (
	"context"
	"fmt"
	"runtime/debug"
)

// Panic is the error by which a panic leaves a transaction that another goroutine may
// run.
type Panic struct {
	Value any
	Stack []byte
}

// Error implements error.
func (p Panic) Error() string { return fmt.Sprint("panic: ", p.Value) }

// Shield runs run on a value and returns a panic of it as a Panic.
func Shield[K any](ctx context.Context, k K, run func(ctx context.Context, k K) error) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = Panic{v, debug.Stack()}
		}
	}()
	return run(ctx, k)
}
