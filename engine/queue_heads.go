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

// queueHeads knows the queues (type and rank) of each namespace that have had rows, and
// the head of each: the id before which this process has left no row. Claims start at
// the head, so that they do not scan dead index entries before it. Rows that another
// process inserts before the head are found by a read from the start: every 500 ms
// (less often where that read is slow), and before a claim answers that there is
// nothing.
type queueHeads struct {
	mu      sync.Mutex
	known   map[string]*queueSet
	watches map[*insertWatch]bool
	large   map[string]time.Time // until when claims of a namespace check sizes first
	asked   time.Time
	version int64
}

// insertWatch records what this process inserts into a namespace's queues during a
// claim: the claim may not have seen it.
type insertWatch struct {
	namespace string
	set       *queueSet
	from      []store.Queue
	put       map[store.Queue]string // the lowest id inserted, by queue
}

// queueSet is a namespace's queues in claim order. The slice is never modified, because
// running claims read it.
type queueSet struct {
	queues []store.Queue
	at     time.Time
	fresh  time.Duration // how long it is valid
}

const (
	headsFresh = 500 * time.Millisecond
	readShare  = 20 // reads from the start take at most 1/readShare of the time
)

// lowerHead records that this process has inserted an item into a queue.
func (g *queueHeads) lowerHead(namespace, typ string, rank int, id string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	key := store.Queue{Type: typ, Rank: rank}
	for m := range g.watches {
		if low, put := m.put[key]; m.namespace == namespace && (!put || id < low) {
			m.put[key] = id
		}
	}
	s := g.known[namespace]
	if s == nil {
		return
	}
	at, found := slices.BinarySearchFunc(s.queues, key, byRank)
	switch {
	case !found:
		s.queues = slices.Insert(slices.Clone(s.queues), at, key)
	case id < s.queues[at].Head:
		s.queues = slices.Clone(s.queues)
		s.queues[at].Head = id
	}
}

// raiseHeads ends a claim. The heads move up to the ids that it got, but not beyond an
// id inserted meanwhile, and only in the set that the claim read.
func (g *queueHeads) raiseHeads(m *insertWatch, got []store.Claimed) {
	tops := map[store.Queue]string{}
	for i := range got {
		key := store.Queue{Type: got[i].Type, Rank: got[i].Rank}
		tops[key] = max(tops[key], got[i].ItemID)
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.watches, m)
	if len(tops) == 0 || g.known[m.namespace] != m.set {
		return
	}
	queues := slices.Clone(m.set.queues)
	for key, top := range tops {
		if low, put := m.put[key]; put {
			top = min(top, low)
		}
		if at, found := slices.BinarySearchFunc(queues, key, byRank); found && queues[at].Head < top {
			queues[at].Head = top
		}
	}
	m.set.queues = queues
}

// sizesFor is how long claims check sizes first after one that met large rows.
const sizesFor = 10 * time.Second

// metLarge records that a claim of a namespace met rows larger than their share.
func (g *queueHeads) metLarge(namespace string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.large == nil {
		g.large = map[string]time.Time{}
	}
	g.large[namespace] = clock.Now().Add(sizesFor)
}

func (g *queueHeads) isLarge(namespace string) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	until, noted := g.large[namespace]
	if noted && clock.Now().After(until) {
		delete(g.large, namespace)
		noted = false
	}
	return noted
}

// drop makes the next claims of a namespace read from the start.
func (g *queueHeads) drop(namespace string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.known, namespace)
}

// forget makes the next claims of all namespaces read from the start.
func (g *queueHeads) forget() {
	g.mu.Lock()
	defer g.mu.Unlock()
	clear(g.known)
}

// byRank is claim order: rank, then type.
func byRank(a, b store.Queue) int {
	return cmp.Or(cmp.Compare(a.Rank, b.Rank), strings.Compare(a.Type, b.Type))
}

// queuesFor begins a claim. It returns the current queues and whether they were just
// read from the database. End the claim with raiseHeads.
func (e *Engine) queuesFor(ctx context.Context, namespace string, look bool) (*insertWatch, bool, error) {
	e.heads.mu.Lock()
	defer e.heads.mu.Unlock()
	s := e.heads.known[namespace]
	fresh := s == nil || look || clock.Now().Sub(s.at) >= s.fresh
	if fresh {
		e.heads.mu.Unlock()
		e.wake.clearRemote(namespace)
		var err error
		s, err = e.readQueues(ctx, namespace)
		e.heads.mu.Lock()
		if err != nil {
			return nil, false, err
		}
		if e.heads.known == nil {
			e.heads.known, e.heads.watches = map[string]*queueSet{}, map[*insertWatch]bool{}
		}
		e.heads.known[namespace] = s
	}
	m := &insertWatch{namespace: namespace, set: s, from: s.queues, put: map[store.Queue]string{}}
	e.heads.watches[m] = true
	return m, fresh, nil
}

func (e *Engine) readQueues(ctx context.Context, namespace string) (*queueSet, error) {
	s := &queueSet{at: clock.Now()}
	read := e.notifyingDB.look
	if e.db.Dialect().Look == nil || e.scope != nil {
		read = e.db.View
	}
	err := read(ctx, func(ctx context.Context, tx store.Tx) (err error) {
		s.queues, err = store.Queues(ctx, tx, namespace)
		return err
	})
	slices.SortFunc(s.queues, byRank)
	s.fresh = max(headsFresh, readShare*clock.Now().Sub(s.at))
	return s, err
}

// wanted returns the queues of the types. Without types it returns all except those of
// plan and apply items, which are claimed by name only.
func wanted(queues []store.Queue, types []string) []store.Queue {
	var out []store.Queue
	for _, g := range queues {
		if len(types) > 0 && slices.Contains(types, g.Type) ||
			len(types) == 0 && !strings.HasSuffix(g.Type, ".plan") && !strings.HasSuffix(g.Type, ".apply") {
			out = append(out, g)
		}
	}
	return out
}
