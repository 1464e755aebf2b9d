package pawl

import "context"

// DefaultNamespace is where work lives when nobody says otherwise.
const DefaultNamespace = "default"

// Caller is who asks: the namespace he is walled into and the name that events
// carry. Doors set it from the API key; an embedder sets it with As.
type Caller struct {
	Namespace string // "" = DefaultNamespace
	ActorType string // "" = by the verb: api creates, worker works, user operates
	ActorID   string
	Key       string // the API key he calls with: what he claims belongs to it; "" = none
}

type callerKey struct{}

// As returns a context whose calls are made by c.
func As(ctx context.Context, c Caller) context.Context {
	return context.WithValue(ctx, callerKey{}, c)
}

// CallerOf is the caller of a context; its namespace is never empty.
func CallerOf(ctx context.Context) Caller {
	c, _ := ctx.Value(callerKey{}).(Caller)
	if c.Namespace == "" {
		c.Namespace = DefaultNamespace
	}
	return c
}
