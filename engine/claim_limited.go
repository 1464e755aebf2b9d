package engine

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/store"
)

// nextStart is when a rate lets another item start, and the present, by the database's clock; and
// how long the claim leaves to others what its worker has lost (0 = nothing is left to them).
type nextStart struct{ at, now, own int64 }

// sooner keeps the earlier time.
func (n *nextStart) sooner(at, now int64) {
	if at > 0 && (n.at == 0 || at < n.at) {
		n.at, n.now = at, now
	}
}

// claimFrom claims for a group from queues in claim order. Queues with limits are claimed from
// one by one, each at its best rank. plain has the rows from queues without limits.
func (e *Engine) claimFrom(ctx context.Context, group []claimCall, queues []store.Queue) (out, plain []store.Claimed, err error) {
	limited, err := e.limitsOf(ctx, group[0].namespace)
	if err != nil {
		return nil, nil, err
	}
	if !slices.ContainsFunc(queues, func(q store.Queue) bool { return limited[q.Type] != nil }) {
		out, err = e.claimFor(ctx, group, queues)
		return out, out, err
	}
	parts := e.parts(queues, limited)
	var ids []int64
	for _, part := range parts {
		if q := limited[part[0].Type]; q != nil {
			ids = append(ids, q.ID)
		}
	}
	if err := e.shareLimits(ctx, ids); err != nil {
		return nil, nil, err
	}
	for _, part := range parts {
		rest := remaining(group, out)
		if len(rest.calls) == 0 || full(out) {
			break
		}
		var rows []store.Claimed
		if q := limited[part[0].Type]; q != nil {
			rows, err = e.claimLimited(ctx, rest.calls, q, nil)
		} else {
			rows, err = e.claimFor(ctx, rest.calls, part)
			plain = append(plain, rows...)
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

// parts divides queues in claim order: those without limits together, at their best rank, and
// each type with limits. Of equal ranks, another one is first each time.
func (e *Engine) parts(queues []store.Queue, limited map[string]*store.LimitedQueue) [][]store.Queue {
	at, out := map[string]int{}, [][]store.Queue(nil)
	for _, q := range queues {
		name := "" // no type
		if limited[q.Type] != nil {
			name = q.Type
		}
		i, known := at[name]
		if !known {
			i = len(out)
			at[name], out = i, append(out, nil)
		}
		out[i] = append(out[i], q)
	}
	same := 1
	for same < len(out) && out[same][0].Rank == out[0][0].Rank {
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

// shareLimits prepares a transaction of several verbs for a claim from queues with limits. It
// locks the limits of several queues in one order: such claims would deadlock otherwise.
func (e *Engine) shareLimits(ctx context.Context, queues []int64) error {
	if e.scope == nil || len(queues) == 0 || !e.scope.own && len(queues) == 1 {
		return nil
	}
	return e.db.Do(ctx, func(ctx context.Context, tx store.Tx) error {
		if e.scope.own {
			snapshot, err := e.db.Dialect().Snapshot(ctx, tx)
			if err != nil {
				return err
			}
			if snapshot {
				return &pawl.Error{Code: pawl.CodeInvalid, Op: "claim", Message: "a queue with limits cannot be claimed from in a " +
					"REPEATABLE READ or SERIALIZABLE transaction, which does not see all leases: use READ COMMITTED"}
			}
		}
		if len(queues) == 1 {
			return nil
		}
		return store.LockLimits(ctx, tx, queues)
	})
}

// claimPicked claims named items.
func (e *Engine) claimPicked(ctx context.Context, wish *claimCall, picks []store.Pick) ([]store.Claimed, error) {
	limited, err := e.limitsOf(ctx, wish.namespace)
	if err != nil {
		return nil, err
	}
	var plain []store.Pick
	byType := map[string][]store.Pick{}
	for _, p := range picks {
		if limited[p.Type] == nil {
			plain = append(plain, p)
		} else {
			byType[p.Type] = append(byType[p.Type], p)
		}
	}
	var ids []int64
	for typ := range byType {
		ids = append(ids, limited[typ].ID)
	}
	if err := e.shareLimits(ctx, ids); err != nil {
		return nil, err
	}
	var out []store.Claimed
	if plain = plain[:min(len(plain), wish.who.Limit)]; len(plain) > 0 {
		cl := store.Claim{Namespace: wish.namespace, Picks: plain}
		if cl.Leases, err = e.leasesOf(ctx, []claimCall{*wish}, typesOf(plain, func(p *store.Pick) string { return p.Type })); err != nil {
			return nil, err
		}
		if out, err = e.claimRows(ctx, cl, []claimCall{*wish}); err != nil {
			return nil, err
		}
	}
	for typ, mine := range byType {
		call := *wish
		if call.who.Limit -= len(out); call.who.Limit <= 0 || full(out) {
			break
		}
		rows, err := e.claimLimited(ctx, []claimCall{call}, limited[typ], mine)
		if out = append(out, rows...); err != nil && len(out) == 0 {
			return nil, err
		}
	}
	return out, nil
}

// A claim that found the gates of its queue locked tries again: other claims hold them for as long
// as a commit takes.
const (
	busyTries = 20
	busyPause = time.Millisecond
)

// errBusy rolls back a claim that found nothing because others had the gates.
var errBusy = errors.New("the gates are locked")

// claimLimited claims for a group from one queue with limits; only = nil claims any items.
func (e *Engine) claimLimited(ctx context.Context, group []claimCall, q *store.LimitedQueue,
	only []store.Pick) (rows []store.Claimed, err error) {
	leases, err := e.leasesOf(ctx, group, slices.Values([]string{q.Type}))
	if err != nil {
		return nil, err
	}
	var searched store.Search
	for try := 1; ; try++ {
		var a *store.Admitted
		cl := store.Claim{Namespace: group[0].namespace, Leases: leases, Admitted: true}
		rows, err = e.claimBy(ctx, &cl, group, func(ctx context.Context, tx store.Tx, cl store.Claim) (rows []store.Claimed, err error) {
			rows, a, err = e.claimAdmitted(ctx, tx, cl, q, only, try == busyTries, searched)
			if err == nil && a.Busy && len(rows) == 0 { // a transaction that goes on must not keep its locks
				err = errBusy
			}
			return rows, err
		})
		if errors.Is(err, errBusy) {
			err = nil
		}
		if err != nil || a == nil {
			return nil, err
		}
		if a.Known != nil {
			q = &store.LimitedQueue{ID: q.ID, Type: q.Type, Limits: *a.Known}
		}
		if a.Unsettled {
			var done bool
			if searched, done, err = e.searchFirst(ctx, group[0].namespace, q); err != nil || !done {
				return nil, err
			}
			try--
			continue
		}
		if a.Unlimited { // another process has removed the limits
			e.limits.drop(group[0].namespace)
		}
		for i := range group {
			group[i].next.sooner(a.NextAt, a.Now)
		}
		if len(rows) > 0 || !a.Busy || try == busyTries {
			e.limits.setTurn(q.ID, a.Turn)
			return rows, nil
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(time.Duration(try) * busyPause):
		}
	}
}

// claimAdmitted claims what the limits of a queue allow now.
func (e *Engine) claimAdmitted(ctx context.Context, tx store.Tx, cl store.Claim, q *store.LimitedQueue,
	only []store.Pick, last bool, searched store.Search) ([]store.Claimed, *store.Admitted, error) {
	hot := e.db.Dialect().Hot
	gate, _ := e.limits.gate(gateKey{q.ID, "", ""})
	a, err := store.Admit(ctx, tx, hot,
		store.Admission{Queue: q.ID, Type: q.Type, Claimants: cl.Claimants, Turn: e.limits.turn(q.ID), Only: only, Last: last,
			Known: q.Limits, Gate: gate, Settled: keyingSoon.Microseconds(), Searched: searched,
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
