// Package queue has what this process knows of the queues of claimable work: where claims
// begin to read, which queues exist, and which claims wait for work.
package queue

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/internal/clock"
	"github.com/pawl-work/pawl/internal/watch"
	"github.com/pawl-work/pawl/store"
)

// Queues is what this process knows of the queues of a database. It is safe for
// concurrent use.
type Queues struct {
	options Options
	heads   heads
	limits  limits
	waits   waits
}

// Options of Queues; all are required.
type Options struct {
	Hub *watch.Hub
	// View reads the queues outside of any transaction.
	View View
	// MaxTypes limits the types with queued work in a namespace.
	MaxTypes int
	// PollInterval is the longest time between two polls of a waiting claim, for work
	// without a notice.
	PollInterval time.Duration
}

// View runs fn on a snapshot for reading.
type View = func(ctx context.Context, fn func(ctx context.Context, tx store.Tx) error) error

// New returns the queues of a database.
func New(o Options) *Queues { return &Queues{options: o} }

// Ready tells the waiting claims of all processes that a namespace has claimable work.
func (q *Queues) Ready(namespace string) { q.options.Hub.Changed(watch.Work(namespace)) }

// Elsewhere handles a change of a topic by another process; see watch.Options. The work
// of the other process may lie before the heads that this process remembers.
func (q *Queues) Elsewhere(t watch.Topic) {
	if namespace, ok := t.Namespace(); ok {
		q.waits.setRemote(namespace)
	} else if q.waits.any() { // without waiting claims, later claims find the work in time
		q.Forget()
	}
}

// Read reads the queues of a namespace in claim order. Those that are paused are left out.
func Read(ctx context.Context, view View, namespace string) ([]store.Queue, error) {
	return read(ctx, view, namespace, false)
}

func read(ctx context.Context, view View, namespace string, paused bool) (queues []store.Queue, err error) {
	err = view(ctx, func(ctx context.Context, tx store.Tx) (err error) {
		queues, err = store.Queues(ctx, tx, namespace, paused)
		return err
	})
	slices.SortFunc(queues, byRank)
	return queues, err
}

// byRank compares two queues by claim order: rank, then type.
func byRank(a, b store.Queue) int {
	return cmp.Or(cmp.Compare(a.Rank, b.Rank), strings.Compare(a.Type, b.Type))
}

// Wanted returns the queues of the types. Without types it returns all except those of
// plan and apply items, which are claimed by name only. Bulk calls are not claimed.
func Wanted(queues []store.Queue, types []string) []store.Queue {
	var out []store.Queue
	for _, g := range queues {
		if g.Type == pawl.TypeBulk {
			continue
		}
		if len(types) > 0 && slices.Contains(types, g.Type) ||
			len(types) == 0 && !strings.HasSuffix(g.Type, ".plan") && !strings.HasSuffix(g.Type, ".apply") {
			out = append(out, g)
		}
	}
	return out
}

// Begin begins a claim. If look is set or the known queues are too old, it reads the
// queues from the database. The caller must end the claim with End.
func (q *Queues) Begin(ctx context.Context, namespace string, look bool) (*Claim, error) {
	h := &q.heads
	h.mu.Lock()
	defer h.mu.Unlock()
	s := h.known[namespace]
	fresh := s == nil || look || clock.Now().Sub(s.at) >= s.fresh
	if fresh {
		h.mu.Unlock()
		q.waits.clearRemote(namespace)
		began := clock.Now()
		queues, err := Read(ctx, q.options.View, namespace)
		s = &queueSet{queues: queues, at: began, fresh: max(headsFresh, readShare*clock.Now().Sub(began))}
		h.mu.Lock()
		if err != nil {
			return nil, err
		}
		if h.known == nil {
			h.known, h.claims = map[string]*queueSet{}, map[*Claim]bool{}
		}
		h.known[namespace] = s
	}
	c := &Claim{Queues: s.queues, Fresh: fresh, namespace: namespace, set: s, inserted: map[store.Queue]string{}}
	h.claims[c] = true
	return c, nil
}
