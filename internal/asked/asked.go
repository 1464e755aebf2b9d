// Package asked has what the caller of a verb asks for besides its arguments. The root package and the doors put it into
// the context of the call; what implements the verb reads it there.
package asked

import "context"

// Key names what is asked for.
type Key int

// The keys, with the types of their values.
const (
	Item   Key = iota // bool: verbs that change an item return it
	NextAt            // *time.Time: a claim says when a rate allows the next start
	Epoch             // int64: the epoch of the number that a reader of a message continues after
	Tries             // string: the key that all tries of one call share
	Rows              // func(int): a clone or fork says how many rows it has made
)

// With returns a context that asks for something.
func With(ctx context.Context, k Key, v any) context.Context { return context.WithValue(ctx, k, v) }

// Of returns what a context asks for; the zero value if it does not.
func Of[T any](ctx context.Context, k Key) T {
	v, _ := ctx.Value(k).(T)
	return v
}
