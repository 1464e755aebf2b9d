// Package queue holds what this process knows of the queues of claimable work: where
// claims begin to read, what queues there are, and who waits for work.
package queue

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"github.com/pawl-work/pawl/internal/clock"
	"github.com/pawl-work/pawl/internal/watch"
	"github.com/pawl-work/pawl/store"
)

// Queues is what this process knows of the queues of a database. It is safe for use by
// many goroutines.
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
	// MaxTypes bounds the types that a namespace has queued work of.
	MaxTypes int
	// PollInterval is how often at least a waiting claim looks for work that no notice
	// has come of.
	PollInterval time.Duration
}

// View runs fn on a snapshot for reading.
type View = func(ctx context.Context, fn func(ctx context.Context, tx store.Tx) error) error

// New returns the queues of a database.
func New(o Options) *Queues { return &Queues{options: o} }

// Ready reports claimable work of a namespace to the waiting claims of all processes.
func (q *Queues) Ready(namespace string) { q.options.Hub.Changed(watch.Work(namespace)) }

// Elsewhere takes up that another process changed a topic; see watch.Options. Its work
// may lie before the heads that this process remembers.
func (q *Queues) Elsewhere(t watch.Topic) {
	if namespace, ok := t.Namespace(); ok {
		q.waits.setRemote(namespace)
	} else if q.waits.any() { // other claims find it out in time
		q.Forget()
	}
}

// Read reads the queues of a namespace in claim order.
func Read(ctx context.Context, view View, namespace string) (queues []store.Queue, err error) {
	err = view(ctx, func(ctx context.Context, tx store.Tx) (err error) {
		queues, err = store.Queues(ctx, tx, namespace)
		return err
	})
	slices.SortFunc(queues, byRank)
	return queues, err
}

// byRank is claim order: rank, then type.
func byRank(a, b store.Queue) int {
	return cmp.Or(cmp.Compare(a.Rank, b.Rank), strings.Compare(a.Type, b.Type))
}

// Wanted returns the queues of the types. Without types it returns all except those of
// plan and apply items, which are claimed by name only.
func Wanted(queues []store.Queue, types []string) []store.Queue {
	var out []store.Queue
	for _, g := range queues {
		if len(types) > 0 && slices.Contains(types, g.Type) ||
			len(types) == 0 && !strings.HasSuffix(g.Type, ".plan") && !strings.HasSuffix(g.Type, ".apply") {
			out = append(out, g)
		}
	}
	return out
}

// Begin begins a claim. If look is set, or what is known is too old, it reads the
// queues from the database. End the claim with End.
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
