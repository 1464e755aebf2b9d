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

// Shield runs run and returns a panic of it as a Panic.
func Shield(ctx context.Context, run func(ctx context.Context) error) (err error) {
	defer Recover(&err)
	return run(ctx)
}

// Recover must be deferred. It makes a panic an error.
func Recover(err *error) {
	if v := recover(); v != nil {
		*err = Panic{v, debug.Stack()}
	}
}
