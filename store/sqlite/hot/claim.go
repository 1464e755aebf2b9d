package hot

import (
	"cmp"
	"context"
	"slices"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/store"
)

var (
	claim      = read("claim.sql")
	claimHead  = claim.get("Head")
	claimTake  = claim.get("Take")
	claimPick  = claim.get("Pick")
	claimAdmit = claim.get("PickAdmitted")
	claimHeads = claim.get("Heads")
	claimOld   = claim.get("Oldest")
	claimPeek  = claim.get("Peek")
	claimLease = newInsert(claim.get("Lease"))
)

// claimed is a row of ready that moves to leases.
type claimed struct {
	queue    int64
	kind     string
	itemID   store.ItemID
	taskID   store.TaskID
	rank     int64
	priority int
	store.Carried
	startedAt, since               *int64
	err, key, reasons, said, trace store.Text
	input                          string
	forked                         *int
}

func (r *claimed) targets() []any {
	return slices.Concat([]any{&r.rank, &r.priority, &r.itemID, &r.taskID}, store.Targets(r.Columns()), []any{
		&r.startedAt, &r.since, &r.err, &r.key, &r.input, &r.trace, &r.forked, &r.reasons, &r.said})
}

// batch is what a claim has taken so far. It is full when it has its rows, or with the row
// that brings its bytes to pawl.MaxClaimBytes.
type batch struct {
	rows         []claimed
	limit, bytes int
	picking      string // the statement that takes a pick
}

func (b *batch) full() bool { return len(b.rows) >= b.limit || b.bytes >= pawl.MaxClaimBytes }

// Claim implements store.Hot. No other connection writes at the same time, so no row is
// locked.
func (Verbs) Claim(ctx context.Context, tx store.Tx, c store.Claim) ([]store.Claimed, error) {
	now, err := tx.Now(ctx)
	if err != nil {
		return nil, err
	}
	b := batch{limit: c.Limit(), picking: claimPick}
	if c.Admitted {
		b.picking = claimAdmit
	}
	if len(c.Picks) > 0 {
		err = b.pick(ctx, tx, c.Namespace, c.Picks)
	} else {
		err = b.walk(ctx, tx, &c)
	}
	if err != nil {
		return nil, err
	}
	slices.SortFunc(b.rows, func(a, b claimed) int {
		return cmp.Or(cmp.Compare(a.rank, b.rank), cmp.Compare(a.itemID, b.itemID))
	})
	out := make([]store.Claimed, len(b.rows))
	who, dealt := -1, 0
	var h holder
	leases, events := inserter{insert: claimLease}, inserter{insert: addEvent}
	for i := range b.rows {
		for who < 0 || dealt == c.Claimants[who].Limit {
			who, dealt = who+1, 0
			if h, err = newHolder(ctx, tx, &c, who, now); err != nil {
				return nil, err
			}
		}
		dealt++
		if out[i], err = h.hold(ctx, tx, &b.rows[i], &leases, &events); err != nil {
			return nil, err
		}
		out[i].Claimant = who
	}
	return out, flush(ctx, tx, &leases, &events)
}

// walk takes rows from the queues in their order. Queues of the same rank are taken from
// together.
func (b *batch) walk(ctx context.Context, tx store.Tx, c *store.Claim) (err error) {
	for rest := c.Queues; len(rest) > 0 && !b.full() && err == nil; {
		n := 1
		for n < len(rest) && rest[n].Rank == rest[0].Rank {
			n++
		}
		if n == 1 {
			err = b.take(ctx, tx, c.Namespace, rest[0])
		} else {
			var picks []store.Pick
			if picks, err = merge(ctx, tx, c.Namespace, rest[:n], b.limit-len(b.rows)); err == nil {
				err = b.pick(ctx, tx, c.Namespace, picks)
			}
		}
		rest = rest[n:]
	}
	return err
}

// take takes the first rows of a queue. It deletes all rows between the first and the
// last, which is correct because no other connection writes at the same time.
func (b *batch) take(ctx context.Context, tx store.Tx, namespace string, g store.Queue) error {
	from := len(b.rows)
	queue, found, err := store.FindQueue(ctx, tx, store.QueueName{Namespace: namespace, Type: g.Type})
	if err != nil || !found {
		return err
	}
	err = b.read(ctx, tx, queue, g.Type, claimHead, int64(g.Rank), store.FromItem(g.Head), int64(b.limit-from))
	if err == nil && len(b.rows) > from {
		_, err = tx.Exec(ctx, claimTake, queue, int64(g.Rank), b.rows[from].itemID, b.rows[len(b.rows)-1].itemID)
	}
	return err
}

// merge returns the first rows by item id of queues of the same rank.
func merge(ctx context.Context, tx store.Tx, namespace string, groups []store.Queue, wanted int) ([]store.Pick, error) {
	var picks []store.Pick
	for _, g := range groups {
		queue, found, err := store.FindQueue(ctx, tx, store.QueueName{Namespace: namespace, Type: g.Type})
		if err != nil {
			return nil, err
		}
		if !found {
			continue
		}
		rows, err := tx.Query(ctx, claimPeek, queue, int64(g.Rank), store.FromItem(g.Head), int64(wanted))
		if err != nil {
			return nil, err
		}
		for rows.Next() {
			p := store.Pick{Type: g.Type, Rank: g.Rank}
			if err := rows.Scan((*store.ItemID)(&p.ItemID)); err != nil {
				rows.Close()
				return nil, err
			}
			picks = append(picks, p)
		}
		rows.Close()
		if err := rows.Err(); err != nil {
			return nil, err
		}
	}
	slices.SortFunc(picks, func(a, b store.Pick) int { return cmp.Compare(a.ItemID, b.ItemID) })
	return picks[:min(wanted, len(picks))], nil
}

// pick takes the named rows that still exist.
func (b *batch) pick(ctx context.Context, tx store.Tx, namespace string, picks []store.Pick) error {
	for _, p := range picks {
		if b.full() {
			break
		}
		queue, found, err := store.FindQueue(ctx, tx, store.QueueName{Namespace: namespace, Type: p.Type})
		if err != nil {
			return err
		}
		if !found {
			continue
		}
		if err := b.read(ctx, tx, queue, p.Type, b.picking, int64(p.Rank), store.ItemID(p.ItemID)); err != nil {
			return err
		}
	}
	return nil
}

func (b *batch) read(ctx context.Context, tx store.Tx, queue int64, kind, query string, args ...any) error {
	rows, err := tx.Query(ctx, query, append([]any{queue}, args...)...)
	if err != nil {
		return err
	}
	defer rows.Close()
	r := claimed{queue: queue, kind: kind}
	targets := r.targets()
	for !b.full() && rows.Next() {
		if err := rows.Scan(targets...); err != nil {
			return err
		}
		b.rows = append(b.rows, r)
		b.bytes += len(r.input) + len(r.err) + len(r.reasons)
	}
	return rows.Err()
}

// holder is a claimant, with the number of its worker and the actor of its events.
type holder struct {
	*store.Claimant
	namespace string
	leases    map[string]int // of types, if the claimant names none
	worker    int64
	by        by
	now       int64
}

func newHolder(ctx context.Context, tx store.Tx, cl *store.Claim, who int, now int64) (holder, error) {
	c := &cl.Claimants[who]
	h := holder{Claimant: c, namespace: cl.Namespace, leases: cl.Leases, now: now}
	var err error
	if h.worker, err = store.ActorID(ctx, tx, store.Worker(c.WorkerID)); err != nil {
		return h, err
	}
	h.by = by{h.worker, c.Key}
	if c.Actor.Type != "" {
		h.by.actor, err = store.ActorID(ctx, tx, c.Actor.Named())
	}
	return h, err
}

// hold adds the lease and its event to those that are inserted.
func (h *holder) hold(ctx context.Context, tx store.Tx, r *claimed, leases, events *inserter) (store.Claimed, error) {
	now, c := h.now, h.Claimant
	seconds := cmp.Or(c.LeaseSeconds, h.leases[r.kind])
	expires := r.LeaseEnd(now, now+int64(seconds)*1_000_000)
	started := now
	if r.startedAt != nil {
		started = *r.startedAt
	}
	r.Attempt++
	e := event{namespace: h.namespace, taskID: r.taskID, itemID: r.itemID, solo: r.Solo, attempt: int64(r.Attempt), name: "leased",
		from: "queued", to: "leased", by: h.by, queue: r.queue}
	if r.since != nil {
		e.since = *r.since
	}
	err := leases.add(ctx, tx, with(r.Columns(), r.itemID, h.namespace, r.taskID, r.queue, int64(r.priority), flag(c.Prefetch), h.worker,
		int64(seconds), started, now, expires, r.err, c.Key, store.StoppedIn(r.said))...)
	if err == nil {
		err = e.add(ctx, tx, events, now)
	}
	return store.Claimed{
		ItemID: string(r.itemID), TaskID: string(r.taskID), Type: r.kind, Key: r.key, Rank: int(r.rank), Priority: r.priority,
		Attempt: r.Attempt, Failures: r.Failures, MaxAttempts: r.MaxAttempts, LeaseSeconds: seconds,
		Input: []byte(r.input), Said: r.said, Error: r.err, Reasons: r.reasons, Trace: r.trace, AcquiredAt: now, LeaseExpiresAt: expires,
		Rework: r.Rework, Forked: r.forked != nil && *r.forked > 0,
	}, err
}

// Heads implements store.Hot.
func (Verbs) Heads(ctx context.Context, tx store.Tx, queue int64, gates []store.GateWish) (map[int64][]store.Pick, error) {
	out := map[int64][]store.Pick{}
	for _, g := range gates {
		query, most := claimHeads, g.Most
		if g.Oldest {
			query, most = claimOld, 1
		}
		rows, err := tx.Query(ctx, query, queue, g.Gate, int64(most))
		if err != nil {
			return nil, err
		}
		for rows.Next() {
			var p store.Pick
			if err := rows.Scan(&p.Rank, (*store.ItemID)(&p.ItemID)); err != nil {
				rows.Close()
				return nil, err
			}
			out[g.Gate] = append(out[g.Gate], p)
		}
		rows.Close()
		if err := rows.Err(); err != nil {
			return nil, err
		}
	}
	return out, nil
}
