package engine

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/engine/internal/kernel"
	"github.com/pawl-work/pawl/store"
)

// nextStart is when a rate lets another item start, and the present, by the database's clock; and
// how long the claim leaves to others what its worker has lost (0 = nothing is left to them), and when that was lost.
// others: a queue has work, and its limit for each worker keeps this one from it.
type nextStart struct {
	at, now, own, lost int64
	others             bool
}

// sooner keeps the earlier time.
func (n *nextStart) sooner(at, now int64) {
	if at > 0 && (n.at == 0 || at < n.at) {
		n.at, n.now = at, now
	}
}

// claimFrom claims for a group from queues in claim order. Queues with limits are claimed from
// one by one, each at its best rank. plain has the rows from queues without limits. A queue of
// which another transaction locks the limits stops no other.
func (e *Engine) claimFrom(ctx context.Context, group []claimCall, queues []store.Queue) (out, plain []store.Claimed, err error) {
	limited, err := e.limitsOf(ctx, nil, group[0].namespace)
	if err != nil {
		return nil, nil, err
	}
	if !slices.ContainsFunc(queues, func(q store.Queue) bool { return limited[q.Type] != nil }) {
		out, err = e.claimFor(ctx, group, queues)
		e.claimedBeside(ctx, group[0].namespace, out)
		return out, out, err
	}
	if err := e.seesLeases(ctx); err != nil {
		return nil, nil, err
	}
	parts := partsOf(e, queues, limited, func(q store.Queue) store.Queue { return q })
	for _, part := range parts {
		rest := remaining(group, out)
		if len(rest.calls) == 0 || full(out) {
			break
		}
		var rows []store.Claimed
		if q := limited[part[0].Type]; q != nil {
			rows, err = e.claimLimited(ctx, rest.calls, q, nil, len(parts) == 1)
		} else {
			rows, err = e.claimFor(ctx, rest.calls, part)
			plain = append(plain, rows...)
			e.claimedBeside(ctx, group[0].namespace, rows)
		}
		for i := range rows {
			rows[i].Claimant = rest.of[rows[i].Claimant]
		}
		if out = append(out, rows...); err != nil {
			break
		}
	}
	if len(out) > 0 {
		err = nil // those are leased; what failed is tried by the next claim
	}
	slices.SortStableFunc(out, func(a, b store.Claimed) int { return a.Claimant - b.Claimant })
	return out, plain, err
}

// partsOf divides queues, or items, in claim order: those without limits together, at their best rank, and
// each type with limits. Of equal ranks, another one is first each time. of returns the type and the rank.
func partsOf[T any](e *Engine, all []T, limited map[string]*store.LimitedQueue, of func(T) store.Queue) [][]T {
	at, out := map[string]int{}, [][]T(nil)
	for _, q := range all {
		name := "" // no type
		if typ := of(q).Type; limited[typ] != nil {
			name = typ
		}
		i, known := at[name]
		if !known {
			i = len(out)
			at[name], out = i, append(out, nil)
		}
		out[i] = append(out[i], q)
	}
	same := 1
	for same < len(out) && of(out[same][0]).Rank == of(out[0][0]).Rank {
		same++
	}
	n := int(e.limits.rotation.Add(1)) % same
	return slices.Concat(out[n:same], out[:n], out[same:])
}

// rest are the calls of a group that may take more, and their places in the group.
type rest struct {
	calls []claimCall
	of    []int
}

func remaining(group []claimCall, got []store.Claimed) rest {
	var r rest
	n := make([]int, len(group))
	for i := range got {
		n[got[i].Claimant]++
	}
	for i, c := range group {
		if c.who.Limit -= n[i]; c.who.Limit > 0 {
			r.calls, r.of = append(r.calls, c), append(r.of, i)
		}
	}
	return r
}

// seesLeases refuses a claim from a queue with limits in a transaction that does not see all
// leases.
func (e *Engine) seesLeases(ctx context.Context) error {
	if e.scope == nil || !e.scope.Own {
		return nil
	}
	return e.db.Do(ctx, func(ctx context.Context, tx store.Tx) error {
		snapshot, err := e.db.Dialect().Snapshot(ctx, tx)
		if err == nil && snapshot {
			err = &pawl.Error{Code: pawl.CodeInvalid, Op: "claim", Message: "a queue with limits cannot be claimed from in a " +
				"REPEATABLE READ or SERIALIZABLE transaction, which does not see all leases: use READ COMMITTED"}
		}
		return err
	})
}

// claimPicked claims named items, which are in claim order, as claimFrom does from queues.
func (e *Engine) claimPicked(ctx context.Context, wish *claimCall, picks []store.Pick) (out []store.Claimed, err error) {
	limited, err := e.limitsOf(ctx, nil, wish.namespace)
	if err != nil {
		return nil, err
	}
	if slices.ContainsFunc(picks, func(p store.Pick) bool { return limited[p.Type] != nil }) {
		if err := e.seesLeases(ctx); err != nil {
			return nil, err
		}
	}
	parts := partsOf(e, picks, limited, func(p store.Pick) store.Queue { return store.Queue{Type: p.Type, Rank: p.Rank} })
	for _, part := range parts {
		call := *wish
		if call.who.Limit -= len(out); err != nil || call.who.Limit <= 0 || full(out) {
			break
		}
		var rows []store.Claimed
		if q := limited[part[0].Type]; q != nil {
			rows, err = e.claimLimited(ctx, []claimCall{call}, q, part, len(parts) == 1)
		} else {
			rows, err = e.claimPlain(ctx, &call, part)
		}
		out = append(out, rows...)
	}
	if len(out) > 0 {
		err = nil // those are leased
	}
	return out, err
}

// claimPlain claims the first of some items of queues without limits. Those that other transactions
// lock are passed over.
func (e *Engine) claimPlain(ctx context.Context, wish *claimCall, picks []store.Pick) (out []store.Claimed, err error) {
	call := *wish
	cl := store.Claim{Namespace: wish.namespace}
	err = e.leasesOf(ctx, &cl, []claimCall{call}, typesOf(picks, func(p *store.Pick) string { return p.Type }))
	for len(picks) > 0 && call.who.Limit > 0 && !full(out) && err == nil {
		n := min(len(picks), call.who.Limit)
		var rows []store.Claimed
		cl.Picks = picks[:n]
		rows, err = e.claimRows(ctx, cl, []claimCall{call})
		e.claimedBeside(ctx, wish.namespace, rows)
		picks, out = picks[n:], append(out, rows...)
		call.who.Limit -= len(rows)
	}
	if len(out) > 0 {
		err = nil // those are leased
	}
	return out, err
}

// A claim that found the gates of its queue locked tries again: other claims hold them for as long
// as a commit takes. At its last try it waits for one, unless there are other queues to claim from.
const (
	busyTries       = 20
	busyTriesOfMany = 6 // of one of several queues
	busyPause       = time.Millisecond
)

var (
	// errBusy rolls back a claim that found nothing because others had the gates.
	errBusy = errors.New("the gates are locked")
	// errTookMore rolls back a claim that locked more than it picked.
	errTookMore = errors.New("more is locked than was picked")
)

// limitedClaim is a claim from one queue with limits.
type limitedClaim struct {
	group    []claimCall
	q        *store.LimitedQueue
	only     []store.Pick // nil = any items
	alone    bool         // the claim is from no other queue
	try      int
	claim    store.Claim
	searched store.Search
	exact    []store.Pick // in the caller's transaction: what it may lock, found by a try that was undone
	turn     store.Turn   // after exact
}

// tries returns how often the claim tries if the gates are locked.
func (c *limitedClaim) tries() int {
	if c.alone {
		return busyTries
	}
	return busyTriesOfMany
}

// claimLimited claims for a group from one queue with limits; only = nil claims any items. In a
// transaction of several verbs it waits for no lock: two of them would wait for each other. It
// keeps no lock that it does not need: the transaction may be open for long.
func (e *Engine) claimLimited(ctx context.Context, group []claimCall, q *store.LimitedQueue, only []store.Pick,
	alone bool) (rows []store.Claimed, err error) {
	c := &limitedClaim{group: group, q: q, only: only, alone: alone, claim: store.Claim{Namespace: group[0].namespace, Admitted: true}}
	if err = e.leasesOf(ctx, &c.claim, group, slices.Values([]string{q.Type})); err != nil {
		return nil, err
	}
	wait := kernel.LockedRow
	if alone && e.scope == nil {
		wait = kernel.LockedCall
	}
	ctx = store.WithLockWait(ctx, wait)
	for c.try = 1; ; c.try++ {
		rows, a, err := e.tryLimited(ctx, c)
		if err != nil || a == nil {
			return nil, err
		}
		if a.Known != nil {
			c.q = &store.LimitedQueue{ID: q.ID, Type: q.Type, Limits: *a.Known}
		}
		if a.Unsettled {
			var done bool
			if c.searched, done, err = e.searchFirst(ctx, group[0].namespace, c.q); err != nil || !done {
				return nil, err
			}
			c.try--
			continue
		}
		if a.Unlimited { // another process has removed the limits
			e.limits.drop(group[0].namespace)
		}
		for i := range group {
			group[i].next.sooner(a.NextAt, a.Now)
			group[i].next.others = group[i].next.others || a.IsFull(i)
		}
		if len(rows) > 0 || !a.Busy || c.try >= c.tries() {
			e.limits.setTurn(q.ID, a.Turn)
			return rows, nil
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(time.Duration(c.try) * busyPause):
		}
	}
}

// tryLimited tries once. Without an answer there is nothing to claim, also if another transaction keeps a lock that is
// needed: others get nothing from the queue until it ends.
func (e *Engine) tryLimited(ctx context.Context, c *limitedClaim) (rows []store.Claimed, a *store.Admitted, err error) {
	last := c.alone && e.scope == nil && c.try == busyTries
	cl := c.claim
	rows, err = e.claimBy(ctx, &cl, c.group, func(ctx context.Context, tx store.Tx, cl store.Claim) (rows []store.Claimed, err error) {
		rows, a, err = e.claimAdmitted(ctx, tx, cl, c, last)
		switch {
		case err != nil:
		case a.Busy && len(rows) == 0: // a transaction that goes on must not keep its locks
			err = errBusy
		case e.k.InTx() && c.only == nil && c.exact == nil && a.TookMore():
			c.exact, c.turn, err = a.Picks, a.Turn, errTookMore
		}
		return rows, err
	})
	switch {
	case errors.Is(err, errTookMore):
		rows, a, err = e.tryLimited(ctx, c)
		if c.exact = nil; a != nil && len(rows) > 0 {
			a.Turn = c.turn
		}
		return rows, a, err
	case errors.Is(err, errBusy):
		err = nil
	case errors.Is(err, store.ErrLocked) && e.db.Dialect().ParallelWrites:
		return nil, nil, nil
	}
	return rows, a, err
}

// claimAdmitted claims what the limits of a queue allow now.
func (e *Engine) claimAdmitted(ctx context.Context, tx store.Tx, cl store.Claim, c *limitedClaim,
	last bool) ([]store.Claimed, *store.Admitted, error) {
	hot, q, only := e.db.Dialect().Hot, c.q, c.only
	if only == nil {
		only = c.exact
	}
	gate, _ := e.limits.gate(gateKey{q.ID, "", ""})
	a, err := store.Admit(ctx, tx, hot,
		store.Admission{Queue: q.ID, Type: q.Type, Claimants: cl.Claimants, Turn: e.limits.turn(q.ID), Only: only, Last: last, NoWait: e.k.InTx(),
			Known: q.Limits, Gate: gate, Settled: keyingSoon.Microseconds(), Searched: c.searched,
			Alone: !e.db.Dialect().ParallelWrites})
	if err != nil || len(a.Picks) == 0 {
		return nil, a, err
	}
	all := cl.Claimants
	var of []int
	cl.Claimants, cl.Picks = nil, a.Picks
	for i, n := range a.Limits {
		if n > 0 {
			c := all[i]
			c.Limit = n
			cl.Claimants, of = append(cl.Claimants, c), append(of, i)
		}
	}
	rows, err := hot.Claim(ctx, tx, cl)
	if err != nil {
		return nil, a, err
	}
	for i := range rows {
		rows[i].Claimant = of[rows[i].Claimant]
	}
	return rows, a, a.Started(ctx, tx, rows)
}
