package engine

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/pawl-work/pawl/internal/clock"
	"github.com/pawl-work/pawl/store"
)

// waker tells waiting claims of this process that a namespace has new work.
type waker struct {
	mu      sync.Mutex
	waiting map[string]chan struct{}
}

// on is closed at the next word about the namespace.
func (w *waker) on(namespace string) <-chan struct{} {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.waiting == nil {
		w.waiting = map[string]chan struct{}{}
	}
	if w.waiting[namespace] == nil {
		w.waiting[namespace] = make(chan struct{})
	}
	return w.waiting[namespace]
}

// all wakes every claim that waits in the namespace; "" wakes all namespaces.
func (w *waker) all(namespace string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for ns, ch := range w.waiting {
		if namespace == "" || ns == namespace {
			close(ch)
			delete(w.waiting, ns)
		}
	}
}

// changed asks SQLite, at most every 20 ms for the whole process, whether
// anybody wrote since; then every waiting claim looks again. Elsewhere waiting
// claims poll, and it says false.
func (e *Engine) changed(ctx context.Context) bool {
	ask := e.db.Dialect().Changed
	if ask == nil {
		return false
	}
	e.groups.mu.Lock()
	defer e.groups.mu.Unlock()
	if clock.Now().Sub(e.groups.asked) < 20*time.Millisecond {
		return true
	}
	n, err := ask(ctx)
	e.groups.asked = clock.Now()
	if err != nil || n == e.groups.version {
		return true // keep asking at this pace: asking costs microseconds
	}
	e.groups.version = n
	e.groups.known = nil
	e.wake.all("")
	return true
}

// groupCache knows which (type, rank) stretches of ready have had rows, per
// namespace. It may name empty ones; those it misses are found by a look from
// the start, at most 500 ms later, and before a claim says "nothing".
type groupCache struct {
	mu      sync.Mutex
	known   map[string]*groupSet
	asked   time.Time
	version int64
}

type groupSet struct {
	groups []store.Group
	at     time.Time
}

const groupsFresh = 500 * time.Millisecond

// add notes a stretch that this process has just written to.
func (g *groupCache) add(namespace, typ string, rank int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if s := g.known[namespace]; s != nil {
		s.insert(store.Group{Type: typ, Rank: rank})
	}
}

// forget has the next claims look from the start.
func (g *groupCache) forget() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.known = nil
}

func (s *groupSet) insert(n store.Group) {
	at, found := slices.BinarySearchFunc(s.groups, n, byRank)
	if !found {
		s.groups = slices.Insert(slices.Clone(s.groups), at, n)
	}
}

// byRank is claim order: rank, then type.
func byRank(a, b store.Group) int {
	return cmp.Or(cmp.Compare(a.Rank, b.Rank), strings.Compare(a.Type, b.Type))
}

// groupsFor lists the stretches for the types (none: every kind of work, but
// not plan and apply items, which are claimed by name only), in claim order. It
// says whether it has just looked at the database.
func (e *Engine) groupsFor(ctx context.Context, namespace string, types []string, look bool) ([]store.Group, bool, error) {
	e.groups.mu.Lock()
	set := e.groups.known[namespace]
	if set != nil && clock.Now().Sub(set.at) < groupsFresh && !look {
		groups := set.groups
		e.groups.mu.Unlock()
		return wanted(groups, types), false, nil
	}
	e.groups.mu.Unlock()
	fresh := &groupSet{at: clock.Now()}
	err := e.db.View(ctx, func(ctx context.Context, tx store.Tx) (err error) {
		fresh.groups, err = store.Groups(ctx, tx, namespace)
		return err
	})
	if err != nil {
		return nil, false, err
	}
	slices.SortFunc(fresh.groups, byRank)
	e.groups.mu.Lock()
	defer e.groups.mu.Unlock()
	if e.groups.known == nil {
		e.groups.known = map[string]*groupSet{}
	}
	e.groups.known[namespace] = fresh
	return wanted(fresh.groups, types), true, nil
}

func wanted(groups []store.Group, types []string) []store.Group {
	var out []store.Group
	for _, g := range groups {
		if len(types) > 0 && slices.Contains(types, g.Type) ||
			len(types) == 0 && !strings.HasSuffix(g.Type, ".plan") && !strings.HasSuffix(g.Type, ".apply") {
			out = append(out, g)
		}
	}
	return out
}
