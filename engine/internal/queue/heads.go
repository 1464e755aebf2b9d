package queue

import (
	"slices"
	"sync"
	"time"

	"github.com/pawl-work/pawl/internal/clock"
	"github.com/pawl-work/pawl/store"
)

// heads has the queues (type and rank) of each namespace that have had rows, and the head
// of each: the id before which this process has left no row. Claims start at the head, so
// that they do not scan dead index entries before it. Rows that another process inserts
// before the head are found by a read from the start. That read is made every 500 ms
// (less often where it is slow), and before a claim answers that there is nothing.
type heads struct {
	mu     sync.Mutex
	known  map[string]*queueSet
	claims map[*Claim]bool      // in progress
	large  map[string]time.Time // until this time claims of a namespace check sizes first
}

// Claim is a claim in progress. It records which items this process inserts meanwhile
// into the queues of its namespace, because the claim may not have seen them.
type Claim struct {
	Queues    []store.Queue // in claim order; do not modify them
	Fresh     bool          // they were just read from the database
	namespace string
	set       *queueSet
	inserted  map[store.Queue]string // the lowest id, by queue
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

// Inserted records that this process has inserted an item into a queue.
func (q *Queues) Inserted(namespace, typ string, rank int, id string) {
	h := &q.heads
	h.mu.Lock()
	defer h.mu.Unlock()
	key := store.Queue{Type: typ, Rank: rank}
	for c := range h.claims {
		if low, found := c.inserted[key]; c.namespace == namespace && (!found || id < low) {
			c.inserted[key] = id
		}
	}
	s := h.known[namespace]
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

// End ends a claim. The heads move up to the ids that it got, but not beyond an id
// inserted meanwhile, and only in the set that the claim read.
func (q *Queues) End(c *Claim, got []store.Claimed) {
	tops := map[store.Queue]string{}
	for i := range got {
		key := store.Queue{Type: got[i].Type, Rank: got[i].Rank}
		tops[key] = max(tops[key], got[i].ItemID)
	}
	h := &q.heads
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.claims, c)
	if len(tops) == 0 || h.known[c.namespace] != c.set {
		return
	}
	queues := slices.Clone(c.set.queues)
	for key, top := range tops {
		if low, found := c.inserted[key]; found {
			top = min(top, low)
		}
		if at, found := slices.BinarySearchFunc(queues, key, byRank); found && queues[at].Head < top {
			queues[at].Head = top
		}
	}
	c.set.queues = queues
}

// sizesFor is how long claims check sizes first after a claim that met large rows.
const sizesFor = 10 * time.Second

// MetLarge records that a claim of a namespace met rows larger than their share.
func (q *Queues) MetLarge(namespace string) {
	h := &q.heads
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.large == nil {
		h.large = map[string]time.Time{}
	}
	h.large[namespace] = clock.Now().Add(sizesFor)
}

// IsLarge reports whether claims of a namespace must check sizes first.
func (q *Queues) IsLarge(namespace string) bool {
	h := &q.heads
	h.mu.Lock()
	defer h.mu.Unlock()
	until, noted := h.large[namespace]
	if noted && clock.Now().After(until) {
		delete(h.large, namespace)
		noted = false
	}
	return noted
}

// Drop makes the next claims of a namespace read from the start.
func (q *Queues) Drop(namespace string) {
	q.heads.mu.Lock()
	defer q.heads.mu.Unlock()
	delete(q.heads.known, namespace)
}

// Forget makes the next claims of all namespaces read from the start.
func (q *Queues) Forget() {
	q.heads.mu.Lock()
	defer q.heads.mu.Unlock()
	clear(q.heads.known)
}
