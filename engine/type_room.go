package engine

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/internal/clock"
	"github.com/pawl-work/pawl/store"
)

// typeRoom bounds how many types a namespace has queued work of: a claim of any
// type looks at each of them. It counts the types that this process has seen, and
// asks the database what is queued before it refuses one.
type typeRoom struct {
	mu   sync.Mutex
	seen map[string]*typesSeen // by namespace
}

type typesSeen struct {
	names map[string]bool
	asked time.Time // when the database was; zero = never
}

// typesAsked is how long an answer of the database stands.
const typesAsked = time.Second

// namespacesSeen bounds what is remembered.
const namespacesSeen = 10_000

// has says whether a type is known or there is room for it, and enters it.
func (r *typeRoom) has(namespace, name string, most int) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.seen == nil || len(r.seen) >= namespacesSeen && r.seen[namespace] == nil {
		r.seen = map[string]*typesSeen{}
	}
	s := r.seen[namespace]
	if s == nil {
		s = &typesSeen{names: map[string]bool{}}
		r.seen[namespace] = s
	}
	if !s.names[name] && len(s.names) >= most {
		return false
	}
	s.names[name] = true
	return true
}

// due says whether the database is to be asked, and by this caller.
func (r *typeRoom) due(namespace string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	s, now := r.seen[namespace], clock.Now()
	if s == nil || now.Sub(s.asked) < typesAsked {
		return false
	}
	s.asked = now
	return true
}

func (r *typeRoom) set(namespace string, groups []store.Group) {
	s := &typesSeen{names: map[string]bool{}, asked: clock.Now()}
	for _, g := range groups {
		s.names[g.Type] = true
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.seen[namespace] = s
}

// roomForType refuses a type that is one too many for its namespace.
func (e *Engine) roomForType(ctx context.Context, namespace, name string) error {
	most := e.opts.MaxTypes
	if e.typeRoom.has(namespace, name, most) {
		return nil
	}
	if e.typeRoom.due(namespace) {
		s, err := e.lookAtGroups(ctx, namespace)
		if err != nil {
			return err
		}
		e.typeRoom.set(namespace, s.groups)
		if e.typeRoom.has(namespace, name, most) {
			return nil
		}
	}
	return &pawl.Error{Code: pawl.CodeLimit, Op: "create", RetryAfter: typesAsked,
		Message: fmt.Sprintf("work of %d types is queued in this namespace, and no more types are taken until some of it is done", most)}
}
