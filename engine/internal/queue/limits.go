package queue

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/internal/clock"
	"github.com/pawl-work/pawl/store"
)

// limits bounds the types, and the pairs of type and priority, with queued work in a
// namespace, because a claim of any type reads each pair. It counts the pairs that this
// process has seen. Before it refuses a pair, it asks the database what is queued.
type limits struct {
	mu   sync.Mutex
	seen map[string]*knownPairs // by namespace
}

// Pair is a type and a priority. Items of one pair are claimed in the order of their ids.
type Pair struct {
	Type     string
	Priority int
}

type knownPairs struct {
	types map[string]bool
	pairs map[Pair]bool
	asked time.Time // when the database was asked; zero = never
}

func newKnownPairs() *knownPairs {
	return &knownPairs{types: map[string]bool{}, pairs: map[Pair]bool{}}
}

// typesAsked is how long an answer of the database is valid.
const typesAsked = time.Second

// namespacesSeen is how many namespaces are remembered at most.
const namespacesSeen = 10_000

// has adds a pair if it is known or fits into the limits. Otherwise full says which limit
// is reached.
func (l *limits) has(namespace string, p Pair, most int) (full string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.seen == nil || len(l.seen) >= namespacesSeen && l.seen[namespace] == nil {
		l.seen = map[string]*knownPairs{}
	}
	s := l.seen[namespace]
	if s == nil {
		s = newKnownPairs()
		l.seen[namespace] = s
	}
	switch {
	case s.pairs[p]:
		return ""
	case !s.types[p.Type] && len(s.types) >= most:
		return "types"
	case len(s.pairs) >= most*pawl.QueuesPerType:
		return "pairs of type and priority"
	}
	s.types[p.Type], s.pairs[p] = true, true
	return ""
}

// due reports whether the caller must ask the database.
func (l *limits) due(namespace string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	s, now := l.seen[namespace], clock.Now()
	if s == nil || now.Sub(s.asked) < typesAsked {
		return false
	}
	s.asked = now
	return true
}

func (l *limits) set(namespace string, queues []store.Queue) {
	s := newKnownPairs()
	s.asked = clock.Now()
	for _, g := range queues {
		s.types[g.Type] = true
		s.pairs[Pair{g.Type, store.PriorityOf(g.Rank)}] = true
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.seen[namespace] = s
}

// CheckItems refuses items whose type, or type and priority, exceeds the namespace's
// limit. An item without a type has the task's type; without items, the task's own pair
// is checked. view reads what is queued.
func (q *Queues) CheckItems(ctx context.Context, view View, namespace string, task Pair, items []pawl.NewItem) error {
	last := task
	if len(items) == 0 {
		return q.Check(ctx, view, namespace, task)
	}
	for i := range items {
		p := task
		if items[i].Type != "" {
			p.Type = items[i].Type
		}
		if items[i].Priority != nil {
			p.Priority = *items[i].Priority
		}
		if i > 0 && p == last {
			continue
		}
		if err := q.Check(ctx, view, namespace, p); err != nil {
			return err
		}
		last = p
	}
	return nil
}

// Check refuses a pair that exceeds the namespace's limit; see CheckItems.
func (q *Queues) Check(ctx context.Context, view View, namespace string, p Pair) error {
	l, most := &q.limits, q.options.MaxTypes
	full := l.has(namespace, p, most)
	if full == "" {
		return nil
	}
	if l.due(namespace) {
		queues, err := read(ctx, view, namespace, true)
		if err != nil {
			return err
		}
		l.set(namespace, queues)
		if full = l.has(namespace, p, most); full == "" {
			return nil
		}
	}
	if full != "types" {
		most *= pawl.QueuesPerType
	}
	return &pawl.Error{Code: pawl.CodeLimit, RetryAfter: typesAsked,
		Message: fmt.Sprintf("work of %d %s is queued in this namespace, and no more are taken until some of it is done", most, full)}
}
