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

// queueLimits bounds the types, and the pairs of type and priority, that a namespace
// has queued work of: a claim of any type reads each pair. It counts the pairs that
// this process has seen. Before it refuses one, it asks the database what is queued.
type queueLimits struct {
	mu   sync.Mutex
	seen map[string]*knownQueues // by namespace
}

// queue is a type and a priority; its items are claimed in the order of their ids.
type queue struct {
	name     string
	priority int
}

type knownQueues struct {
	names  map[string]bool
	queues map[queue]bool
	asked  time.Time // when the database was asked; zero = never
}

func newKnownQueues() *knownQueues {
	return &knownQueues{names: map[string]bool{}, queues: map[queue]bool{}}
}

// typesAsked is how long an answer of the database is valid.
const typesAsked = time.Second

// namespacesSeen bounds the namespaces remembered.
const namespacesSeen = 10_000

// has reports whether a queue is known or fits, and adds it; full says which limit is
// reached.
func (r *queueLimits) has(namespace string, q queue, most int) (full string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.seen == nil || len(r.seen) >= namespacesSeen && r.seen[namespace] == nil {
		r.seen = map[string]*knownQueues{}
	}
	s := r.seen[namespace]
	if s == nil {
		s = newKnownQueues()
		r.seen[namespace] = s
	}
	switch {
	case s.queues[q]:
		return ""
	case !s.names[q.name] && len(s.names) >= most:
		return "types"
	case len(s.queues) >= most*pawl.QueuesPerType:
		return "pairs of type and priority"
	}
	s.names[q.name], s.queues[q] = true, true
	return ""
}

// due reports whether this caller is to ask the database.
func (r *queueLimits) due(namespace string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	s, now := r.seen[namespace], clock.Now()
	if s == nil || now.Sub(s.asked) < typesAsked {
		return false
	}
	s.asked = now
	return true
}

func (r *queueLimits) set(namespace string, groups []store.Queue) {
	s := newKnownQueues()
	s.asked = clock.Now()
	for _, g := range groups {
		s.names[g.Type] = true
		s.queues[queue{g.Type, store.PriorityOf(g.Rank)}] = true
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.seen[namespace] = s
}

// checkItemQueues refuses items whose type, or type and priority, exceeds the
// namespace's limit. Items without a type have their task's.
func (e *Engine) checkItemQueues(ctx context.Context, task queue, items []pawl.NewItem) error {
	namespace, last := pawl.CallerOf(ctx).Namespace, task
	if len(items) == 0 {
		return e.checkQueue(ctx, namespace, task)
	}
	for i := range items {
		q := task
		if items[i].Type != "" {
			q.name = items[i].Type
		}
		if items[i].Priority != nil {
			q.priority = *items[i].Priority
		}
		if i > 0 && q == last {
			continue
		}
		if err := e.checkQueue(ctx, namespace, q); err != nil {
			return err
		}
		last = q
	}
	return nil
}

func (e *Engine) checkQueue(ctx context.Context, namespace string, q queue) error {
	most := e.opts.MaxTypes
	full := e.queueLimits.has(namespace, q, most)
	if full == "" {
		return nil
	}
	if e.queueLimits.due(namespace) {
		s, err := e.readQueues(ctx, namespace)
		if err != nil {
			return err
		}
		e.queueLimits.set(namespace, s.queues)
		if full = e.queueLimits.has(namespace, q, most); full == "" {
			return nil
		}
	}
	if full != "types" {
		most *= pawl.QueuesPerType
	}
	return &pawl.Error{Code: pawl.CodeLimit, RetryAfter: typesAsked,
		Message: fmt.Sprintf("work of %d %s is queued in this namespace, and no more are taken until some of it is done", most, full)}
}
