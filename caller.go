package pawl

import (
	"context"
	"slices"
	"strings"
)

// The names of namespaces that have a meaning, and the types of actors.
const (
	// DefaultNamespace is the namespace of calls that name none.
	DefaultNamespace = "default"

	// AnyNamespace as the namespace of an API key allows every namespace.
	AnyNamespace = "*"

	// The types of actors.
	ActorUser   = "user"
	ActorAgent  = "agent"
	ActorWorker = "worker"
	ActorSystem = "system"
	ActorAPI    = "api"
)

// The words of callers.
var (
	// ActorTypes lists all actor types.
	ActorTypes = []string{ActorUser, ActorAgent, ActorWorker, ActorSystem, ActorAPI}
	// KeyRoles are the roles that an API key may have. Each is named for an interface of Service.
	KeyRoles = []string{"submitter", "claimer", "approver", "operator", "reader"}
)

// Caller is who makes a call: the namespace that it is confined to, and the actor that
// events name. Servers set it from the API key; programs that embed the engine set it
// with As.
type Caller struct {
	Namespace string // "" = DefaultNamespace
	ActorType string // "" = by the verb: api when creating, worker when working, user for an operator
	ActorID   string
	Key       string // the id of the API key of the call, which owns the leases it claims; "" = none
}

type callerKey struct{}

// As returns a context whose calls are made by c.
func As(ctx context.Context, c Caller) context.Context {
	return context.WithValue(ctx, callerKey{}, c)
}

// CallerOf returns the caller of a context. Its namespace is never empty.
func CallerOf(ctx context.Context) Caller {
	c, _ := ctx.Value(callerKey{}).(Caller)
	if c.Namespace == "" {
		c.Namespace = DefaultNamespace
	}
	return c
}

// ParseActor reads an actor as texts name it: type/id, or an id alone, whose type is by the
// verb. The type is one of ActorTypes. An id has no slash, so that no text names one actor
// as the type and id of another.
func ParseActor(text string) (actorType, id string, err error) {
	actorType, id, typed := strings.Cut(text, "/")
	if !typed {
		actorType, id = "", text
	}
	if actorType != "" && !slices.Contains(ActorTypes, actorType) {
		return "", "", Invalid("/actor_type", "is %q; possible: %s", actorType, strings.Join(ActorTypes, ", "))
	}
	if strings.Contains(id, "/") {
		return "", "", Invalid("/actor_id", "is %q; the name of an actor has no slash", id)
	}
	return actorType, id, nil
}
