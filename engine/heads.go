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

// groupCache knows which (type, rank) stretches of ready have had rows, per
// namespace, and the head of each: the id before which this process has left
// nothing. Claims start at the head, so that they do not walk the dead entries
// before it. What another process puts before it is met by a look from the
// start: every 500 ms (longer where looking is dear), and before a claim says
// "nothing".
type groupCache struct {
	mu      sync.Mutex
	known   map[string]*groupSet
	marks   map[*mark]bool
	large   map[string]time.Time // until when a namespace's claims look at sizes first
	asked   time.Time
	version int64
}

// mark watches what this process puts into a namespace's stretches while a claim
// is under way: the claim may not have seen it.
type mark struct {
	namespace string
	set       *groupSet
	from      []store.Group
	put       map[store.Group]string // the lowest id put, by stretch
}

// groupSet is a namespace's stretches in claim order. The slice is never
// changed once made: claims under way read it.
type groupSet struct {
	groups []store.Group
	at     time.Time
	fresh  time.Duration // how long it is good for
}

const (
	groupsFresh = 500 * time.Millisecond
	groupsShare = 20 // a look from the start takes at most this part of the time
)

// lower notes that this process has just put an item into a stretch.
func (g *groupCache) lower(namespace, typ string, rank int, id string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	key := store.Group{Type: typ, Rank: rank}
	for m := range g.marks {
		if low, put := m.put[key]; m.namespace == namespace && (!put || id < low) {
			m.put[key] = id
		}
	}
	s := g.known[namespace]
	if s == nil {
		return
	}
	at, found := slices.BinarySearchFunc(s.groups, key, byRank)
	switch {
	case !found:
		s.groups = slices.Insert(slices.Clone(s.groups), at, key)
	case id < s.groups[at].Head:
		s.groups = slices.Clone(s.groups)
		s.groups[at].Head = id
	}
}

// raise ends a claim: the heads move up to what it got, but not beyond what was
// put meanwhile, and only in the set that it read.
func (g *groupCache) raise(m *mark, got []store.Claimed) {
	tops := map[store.Group]string{}
	for i := range got {
		key := store.Group{Type: got[i].Type, Rank: got[i].Rank}
		tops[key] = max(tops[key], got[i].ItemID)
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.marks, m)
	if len(tops) == 0 || g.known[m.namespace] != m.set {
		return
	}
	groups := slices.Clone(m.set.groups)
	for key, top := range tops {
		if low, put := m.put[key]; put {
			top = min(top, low)
		}
		if at, found := slices.BinarySearchFunc(groups, key, byRank); found && groups[at].Head < top {
			groups[at].Head = top
		}
	}
	m.set.groups = groups
}

// sizesFor is how long claims look at sizes first after one that met large rows.
const sizesFor = 10 * time.Second

// metLarge notes that a claim of a namespace met rows that were more than their share.
func (g *groupCache) metLarge(namespace string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.large == nil {
		g.large = map[string]time.Time{}
	}
	g.large[namespace] = clock.Now().Add(sizesFor)
}

func (g *groupCache) isLarge(namespace string) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	until, noted := g.large[namespace]
	if noted && clock.Now().After(until) {
		delete(g.large, namespace)
		noted = false
	}
	return noted
}

// drop has the next claims of a namespace look from the start.
func (g *groupCache) drop(namespace string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.known, namespace)
}

// forget has the next claims look from the start.
func (g *groupCache) forget() {
	g.mu.Lock()
	defer g.mu.Unlock()
	clear(g.known)
}

// byRank is claim order: rank, then type.
func byRank(a, b store.Group) int {
	return cmp.Or(cmp.Compare(a.Rank, b.Rank), strings.Compare(a.Type, b.Type))
}

// groupsFor begins a claim: its stretches as they are now, and whether the
// database was just looked at. End it with raise.
func (e *Engine) groupsFor(ctx context.Context, namespace string, look bool) (*mark, bool, error) {
	e.groups.mu.Lock()
	defer e.groups.mu.Unlock()
	s := e.groups.known[namespace]
	fresh := s == nil || look || clock.Now().Sub(s.at) >= s.fresh
	if fresh {
		e.groups.mu.Unlock()
		e.wake.looked(namespace)
		var err error
		s, err = e.lookAtGroups(ctx, namespace)
		e.groups.mu.Lock()
		if err != nil {
			return nil, false, err
		}
		if e.groups.known == nil {
			e.groups.known, e.groups.marks = map[string]*groupSet{}, map[*mark]bool{}
		}
		e.groups.known[namespace] = s
	}
	m := &mark{namespace: namespace, set: s, from: s.groups, put: map[store.Group]string{}}
	e.groups.marks[m] = true
	return m, fresh, nil
}

func (e *Engine) lookAtGroups(ctx context.Context, namespace string) (*groupSet, error) {
	s := &groupSet{at: clock.Now()}
	read := e.db.Dialect().Look
	if read == nil || e.scope != nil {
		read = e.db.View
	}
	err := read(ctx, func(ctx context.Context, tx store.Tx) (err error) {
		s.groups, err = store.Groups(ctx, tx, namespace)
		return err
	})
	slices.SortFunc(s.groups, byRank)
	s.fresh = max(groupsFresh, groupsShare*clock.Now().Sub(s.at))
	return s, err
}

// wanted are the stretches of the types; of none: every kind of work, but not
// plan and apply items, which are claimed by name only.
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
