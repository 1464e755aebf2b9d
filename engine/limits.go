package engine

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/engine/internal/kernel"
	"github.com/pawl-work/pawl/internal/clock"
	"github.com/pawl-work/pawl/store"
)

const (
	// limitsFresh is how long this process uses the limits that it has read, to give gates to
	// new items and to tell which queues have any. The limits themselves are read by each claim.
	limitsFresh = 500 * time.Millisecond
	// keyingGrace is how long after a change other processes may still write items without
	// gates: what they know is fresh, and no statement takes longer.
	keyingGrace = time.Minute
	// keyingEvery is how often all items of queues with limits are searched for those that have
	// no gate.
	keyingEvery = 10 * time.Minute
	// keyingSoon is how long after a change all processes know it. keyingWait is how long a claim
	// in order searches for items without gates; the next one goes on.
	keyingSoon = 4 * limitsFresh
	keyingWait = time.Second
)

// limits is what this process knows of the queues with limits.
type limits struct {
	mu    sync.Mutex
	known map[string]*namespaceLimits
	gates map[gateKey]knownGate // whose rows are committed
	turns map[int64]store.Turn
	// rotation counts claims, so that of queues with equal ranks each is first at times.
	rotation atomic.Uint32
}

type namespaceLimits struct {
	until  time.Time
	queues map[string]*store.LimitedQueue // by type
}

// limitsOf returns the queues with limits of a namespace. In a transaction (tx; nil = in none, or in that of e) it waits for
// no other connection: if none is free, it reads them there. That may see gates that are rolled back, and is not kept.
func (e *Engine) limitsOf(ctx context.Context, tx store.Tx, namespace string) (map[string]*store.LimitedQueue, error) {
	l := e.limits
	l.mu.Lock()
	known := l.known[namespace]
	l.mu.Unlock()
	if known != nil && clock.Now().Before(known.until) {
		return known.queues, nil
	}
	began := clock.Now()
	fresh := &namespaceLimits{until: began.Add(limitsFresh), queues: map[string]*store.LimitedQueue{}}
	read := func(ctx context.Context, tx store.Tx) error {
		queues, err := limitedQueues(ctx, tx, namespace)
		for i := range queues {
			fresh.queues[queues[i].Type] = &queues[i]
		}
		return err
	}
	beside := ctx
	if tx != nil {
		beside = store.IfFree(ctx)
	}
	err := e.queueView()(beside, read)
	inside := tx != nil && errors.Is(err, store.ErrNoneFree)
	if inside {
		err = read(ctx, tx)
	}
	if err != nil {
		return nil, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.known == nil || len(l.known) >= pawl.MaxKnownNames {
		l.known = map[string]*namespaceLimits{}
	}
	if e.scope == nil && !inside { // a transaction may see what is not committed
		l.known[namespace] = fresh
	}
	return fresh.queues, nil
}

func (l *limits) drop(namespace string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.known, namespace)
}

// knowsAny reports whether a namespace had queues with limits when they were read last.
func (l *limits) knowsAny(namespace string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	known := l.known[namespace]
	return known != nil && len(known.queues) > 0
}

// SetQueue changes the limits of a queue; see pawl.QueueKeeper.
func (e *Engine) SetQueue(ctx context.Context, typ string, patch pawl.QueuePatch) (pawl.Queue, error) {
	if err := checkQueue("set_queue", typ); err != nil {
		return pawl.Queue{}, err
	}
	ns := pawl.CallerOf(ctx).Namespace
	var q store.LimitedQueue
	var unkeyed bool
	err := e.db.Do(ctx, func(ctx context.Context, tx store.Tx) (err error) {
		q, unkeyed, err = store.SetLimits(ctx, tx, store.QueueName{Namespace: ns, Type: typ},
			func(stored string) (string, pawl.QueueLimits, error) { return patchLimits(stored, patch) })
		return err
	})
	if err != nil {
		return pawl.Queue{}, err
	}
	e.after(func() {
		e.limits.drop(ns)
		e.queues.Drop(ns)
		e.ready(ns)
		if !unkeyed {
			return
		}
		ctx := context.WithoutCancel(ctx)
		if err := cmp.Or(e.root.giveGates(ctx, ns, q), e.root.giveLateLeasesGates(ctx, ns, q)); err != nil {
			e.logError(ctx, "giving gates to items failed; the next sweep repeats it", err)
		}
	})
	return e.GetQueue(ctx, typ)
}

// giveGates gives gates to the items of a queue that have none of its pointer.
func (e *Engine) giveGates(ctx context.Context, namespace string, q store.LimitedQueue) error {
	_, err := e.searchItems(ctx, namespace, q)
	return err
}

// searchItems is giveGates. It returns what the search follows; the zero value if the queue has
// another pointer now.
func (e *Engine) searchItems(ctx context.Context, namespace string, q store.LimitedQueue) (s store.Search, err error) {
	k := store.Keying{Queue: q, Namespace: namespace}
	var same bool
	err = e.db.View(ctx, func(ctx context.Context, tx store.Tx) (err error) {
		same, err = k.Begin(ctx, tx)
		return err
	})
	if err != nil || !same {
		return s, err
	}
	for !k.Done() {
		if err := e.giveSomeGates(ctx, &k); err != nil {
			return s, err
		}
	}
	err = e.db.Do(ctx, func(ctx context.Context, tx store.Tx) (err error) {
		s, err = k.End(ctx, tx)
		return err
	})
	return s, err
}

// searchFirst is searchItems before a claim in order. It reports false if the claim can take
// nothing yet: the search takes longer, or it would wait for the transaction that the claim is in.
func (e *Engine) searchFirst(ctx context.Context, namespace string, q *store.LimitedQueue) (s store.Search, done bool, err error) {
	if e.k.InTx() {
		return s, false, nil
	}
	short, cancel := context.WithTimeout(ctx, keyingWait)
	defer cancel()
	s, err = e.searchItems(short, namespace, *q)
	if short.Err() != nil && ctx.Err() == nil {
		return s, false, nil
	}
	return s, err == nil && s.ChangedAt != 0, err
}

func (e *Engine) giveSomeGates(ctx context.Context, k *store.Keying) error {
	var found []store.Unkeyed
	err := e.db.View(ctx, func(ctx context.Context, tx store.Tx) (err error) {
		found, err = k.Read(ctx, tx)
		return err
	})
	if err != nil || len(found) == 0 {
		return err
	}
	err = e.db.Do(ctx, func(ctx context.Context, tx store.Tx) error { return k.Set(ctx, tx, found) })
	e.ready(k.Namespace)
	return err
}

// besideLimits is how long a claim that began before the first limits of a queue may run beside them.
const besideLimits = 100 * time.Millisecond

// giveLateLeasesGates is giveLeasesGates after claims that ran beside the first limits.
func (e *Engine) giveLateLeasesGates(ctx context.Context, namespace string, q store.LimitedQueue) error {
	if !e.db.Dialect().ParallelWrites {
		return nil
	}
	time.Sleep(besideLimits)
	return e.giveLeasesGates(ctx, namespace, q)
}

// claimedBeside gives gates to leases that a transaction of the caller's has taken from queues without limits, if
// these have got some meanwhile.
func (e *Engine) claimedBeside(ctx context.Context, namespace string, rows []store.Claimed) {
	if e.scope == nil || len(rows) == 0 {
		return
	}
	types := map[string]bool{}
	for i := range rows {
		types[rows[i].Type] = true
	}
	e.after(func() {
		e, ctx := e.root, context.WithoutCancel(ctx)
		e.limits.drop(namespace)
		limited, err := e.limitsOf(ctx, nil, namespace)
		for typ := range types {
			if q := limited[typ]; err == nil && q != nil {
				err = e.giveLeasesGates(ctx, namespace, *q)
			}
		}
		if err != nil {
			e.logError(ctx, "giving gates to leases failed; the next sweep repeats it", err)
		}
	})
}

// giveLeasesGates gives gates to the leases of a queue that have none.
func (e *Engine) giveLeasesGates(ctx context.Context, namespace string, q store.LimitedQueue) error {
	k := store.Keying{Queue: q, Namespace: namespace}
	for k.OfLeases() {
		if err := e.giveSomeGates(ctx, &k); err != nil {
			return err
		}
	}
	return nil
}

// keyQueues gives gates to items that came without them: twice after each change of a pointer,
// and rarely besides. Creators know the limits, but a process may have been frozen between
// reading them and writing.
func (e *Engine) keyQueues(ctx context.Context) error {
	var due []store.KeyingDue
	err := e.k.Look(ctx, func(ctx context.Context, tx store.Tx) (err error) {
		due, err = store.DueKeying(ctx, tx, keyingSoon.Microseconds(), keyingGrace.Microseconds(), keyingEvery.Microseconds())
		return err
	})
	ctx = store.WithLockWait(ctx, kernel.LockedRow)
	for i := 0; err == nil && i < len(due); i++ {
		err = e.unlessLocked(ctx, func(ctx context.Context) error {
			var mine bool
			err := e.db.Do(ctx, func(ctx context.Context, tx store.Tx) (err error) {
				mine, err = due[i].Begin(ctx, tx)
				return err
			})
			if err == nil && mine {
				err = e.giveGates(ctx, due[i].Namespace, due[i].Queue)
			}
			return err
		})
	}
	if err != nil || !e.db.Dialect().ParallelWrites {
		return err
	}
	err = e.k.Look(ctx, func(ctx context.Context, tx store.Tx) (err error) {
		due, err = store.QueuesWithBareLeases(ctx, tx)
		return err
	})
	for i := 0; err == nil && i < len(due); i++ {
		err = e.unlessLocked(ctx, func(ctx context.Context) error { return e.giveLeasesGates(ctx, due[i].Namespace, due[i].Queue) })
	}
	return err
}

// keyedItem is a new item, with the texts of its task that may have its key.
type keyedItem struct {
	*store.NewItem
	payload, metadata string
}

func (k *keyedItem) key(q *store.LimitedQueue) string {
	return store.KeyOf(q.Pointer(), []byte(k.Input), []byte(k.payload), []byte(k.metadata))
}

// gateDrafts sets the gates of the items of new tasks; see gateItems.
func (e *Engine) gateDrafts(ctx context.Context, tx store.Tx, drafts []draft) error {
	var of []string // drafts of schedules are of several namespaces
	for i := range drafts {
		if ns := drafts[i].task.Namespace; !slices.Contains(of, ns) {
			of = append(of, ns)
		}
	}
	slices.Sort(of)
	for _, ns := range of {
		queues, err := e.limitsOf(ctx, tx, ns)
		if err == nil && len(queues) > 0 {
			err = e.gateItems(ctx, tx, queues, keyedItems(drafts, ns))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// keyedItems returns the items of the drafts of a namespace.
func keyedItems(drafts []draft, namespace string) (items []keyedItem) {
	for i := range drafts {
		d := &drafts[i]
		if d.task.Namespace != namespace {
			continue
		}
		var payload string
		if d.task.Payload != nil {
			payload = *d.task.Payload
		}
		for j := range d.items {
			items = append(items, keyedItem{&d.items[j], payload, d.task.Metadata})
		}
	}
	return items
}

// insertMore inserts new items of a task that exists, with the gates of their queues.
func (e *Engine) insertMore(ctx context.Context, tx store.Tx, items []store.NewItem) error {
	if err := e.gateMore(ctx, tx, items); err != nil {
		return err
	}
	_, err := insertItems(ctx, tx, e.db.Dialect().Hot, nil, items)
	return err
}

func (e *Engine) gateMore(ctx context.Context, tx store.Tx, items []store.NewItem) error {
	queues, err := e.limitsOf(ctx, tx, items[0].Namespace)
	if err != nil || !slices.ContainsFunc(items, func(i store.NewItem) bool { return queues[i.Type] != nil }) {
		return err
	}
	payload, metadata, err := taskTexts(ctx, tx, items[0].TaskID)
	if err != nil {
		return err
	}
	keyed := make([]keyedItem, len(items))
	for i := range items {
		keyed[i] = keyedItem{&items[i], payload, metadata}
	}
	return e.gateItems(ctx, tx, queues, keyed)
}

// gateItems sets the gates of new items whose queues have limits. With tx, it adds missing gates
// in that transaction; without, in one of its own.
func (e *Engine) gateItems(ctx context.Context, tx store.Tx, queues map[string]*store.LimitedQueue, items []keyedItem) error {
	missing := map[string]map[string]bool{} // keys by type
	for i := range items {
		it := &items[i]
		q := queues[it.Type]
		if q == nil {
			continue
		}
		key := it.key(q)
		if id, known := e.limits.gate(gateKey{q.ID, q.Pointer(), key}); known {
			it.Gate = &id
			continue
		}
		if missing[it.Type] == nil {
			missing[it.Type] = map[string]bool{}
		}
		missing[it.Type][key] = true
	}
	for _, typ := range slices.Sorted(maps.Keys(missing)) {
		q := queues[typ]
		gates, err := e.gates(ctx, tx, items[0].Namespace, q, slices.Collect(maps.Keys(missing[typ])))
		if err != nil {
			return err
		}
		for i := range items {
			if it := &items[i]; it.Type == typ && it.Gate == nil {
				id := gates[it.key(q)].ID
				it.Gate = &id
			}
		}
	}
	return nil
}

func (l *limits) turn(queue int64) store.Turn {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.turns[queue]
}

func (l *limits) setTurn(queue int64, t store.Turn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.turns == nil {
		l.turns = map[int64]store.Turn{}
	}
	l.turns[queue] = t
}

// taskTexts returns the payload and the metadata of a task.
func taskTexts(ctx context.Context, tx store.Tx, id string) (payload, metadata string, err error) {
	var p, m store.Text
	_, err = store.Row(ctx, tx, []any{&p, &m}, limitsSQL["texts of task"], store.TaskID(id))
	return string(p), string(m), err
}

// limitedQueues reads the queues of a namespace that have limits.
func limitedQueues(ctx context.Context, tx store.Tx, namespace string) ([]store.LimitedQueue, error) {
	return store.All(ctx, tx, limitsSQL["limits"], []any{namespace}, func(rows store.Rows, q *store.LimitedQueue) error {
		var text string
		if err := rows.Scan(&q.ID, &q.Type, &text); err != nil {
			return err
		}
		q.Limits = store.LimitsOf(text)
		return nil
	})
}
