package store

import (
	"cmp"
	"context"
	"encoding/json"
	"slices"
	"strings"

	"github.com/pawl-work/pawl"
)

// Turn is where the round robin of a queue's keys goes on: gate Gate still has Left items in its
// turn. With 0 the next gate is at turn.
type Turn struct {
	Gate int64
	Left int
}

// deal picks from locked gates: in turns, or by priority and age.
func (a *Admitted) deal(ctx context.Context, tx Tx, gates []*gate) error {
	k := a.rules.PerKey
	fair := k.Fair == nil || *k.Fair
	for _, g := range gates {
		g.room, g.weight = a.roomOf(g), max(1, k.Weights[g.key])
	}
	for a.free > 0 {
		open := slices.DeleteFunc(slices.Clone(gates), func(g *gate) bool { return g.empty || g.picked >= g.room })
		if len(open) == 0 {
			break
		}
		weights := 0
		for _, g := range open {
			weights += g.weight
		}
		wishes := make([]GateWish, len(open))
		for i, g := range open {
			wishes[i] = GateWish{Gate: g.id, Most: g.room, Oldest: a.ordered()}
			if fair { // as much as its turns may come to
				wishes[i].Most = min(g.room, g.picked+max(g.weight, (a.free*g.weight+weights-1)/weights))
			}
		}
		holding, err := a.holding(ctx, tx, open)
		if err != nil {
			return err
		}
		heads, err := a.hot.Heads(ctx, tx, a.ask.Queue, wishes)
		if err != nil {
			return err
		}
		for i, g := range open {
			g.empty = len(heads[g.id]) < wishes[i].Most
			g.heads = a.unpicked(heads[g.id])
		}
		if inOrder(open, holding); fair {
			a.inTurns(a.fromTurn(open))
		} else {
			a.byAge(open)
		}
	}
	for _, g := range gates {
		if g.rated && g.picked == g.room && !g.empty {
			a.sooner(startFrom(k.Rate, started(k.Rate, g.next, a.Now, g.picked)))
		}
	}
	return nil
}

// unpicked returns those of some items that are not picked, and notes that they are locked.
func (a *Admitted) unpicked(heads []Pick) []Pick {
	heads = slices.DeleteFunc(heads, func(p Pick) bool { return a.gateOf[p.ItemID] != nil })
	if a.locked == nil {
		a.locked = map[string]bool{}
	}
	for _, p := range heads {
		a.locked[p.ItemID] = true
	}
	return heads
}

// holding is oldestHeld if items are claimed in order. It is read before the heads: what is queued
// in between is then a head.
func (a *Admitted) holding(ctx context.Context, tx Tx, gates []*gate) (map[int64]string, error) {
	if !a.ordered() {
		return nil, nil
	}
	ids := make([]int64, len(gates))
	for i, g := range gates {
		ids[i] = g.id
	}
	return oldestHeld(ctx, tx, ids)
}

// oldestHeld returns the oldest item of each gate that is in back-off or suspended.
func oldestHeld(ctx context.Context, tx Tx, gates []int64) (map[int64]string, error) {
	if len(gates) == 0 {
		return nil, nil
	}
	list := make([][]int64, len(gates))
	for i, id := range gates {
		list[i] = []int64{id}
	}
	text, _ := json.Marshal(list) // can always be encoded
	rows, err := tx.Query(ctx, limitsSQL["holding"], string(text))
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	out := map[int64]string{}
	for rows.Next() {
		var gate int64
		var item string
		if err := rows.Scan(&gate, (*ItemID)(&item)); err != nil {
			return nil, err
		}
		if was := out[gate]; was == "" || item < was {
			out[gate] = item
		}
	}
	return out, rows.Err()
}

// inOrder drops the heads of gates that an older item holds up.
func inOrder(gates []*gate, holding map[int64]string) {
	for _, g := range gates {
		if oldest := holding[g.id]; oldest != "" && slices.ContainsFunc(g.heads, func(p Pick) bool { return oldest < p.ItemID }) {
			g.heads, g.empty, g.held = nil, true, g.picked == 0
		}
	}
}

// fromTurn returns gates in the order of their turns.
func (a *Admitted) fromTurn(gates []*gate) []*gate {
	i := slices.IndexFunc(gates, func(g *gate) bool { return g.id == a.Turn.Gate })
	if i < 0 {
		return gates
	}
	if a.Turn.Left == 0 {
		i++
	}
	return slices.Concat(gates[i:], gates[:i])
}

func (a *Admitted) ordered() bool {
	return a.rules.PerKey != nil && a.rules.PerKey.Order == pawl.OrderCreated
}

// unread reports whether a gate has room for items that are not read yet.
func (g *gate) unread() bool { return len(g.heads) == 0 && !g.empty && g.picked < g.room }

// inTurns takes the items of gates in rounds, until a turn needs items that are to be read
// first. The gates are in the order of their turns.
func (a *Admitted) inTurns(gates []*gate) {
	for a.free > 0 && slices.ContainsFunc(gates, func(g *gate) bool { return len(g.heads) > 0 }) {
		for _, g := range gates {
			if g.unread() {
				return
			}
			if len(g.heads) == 0 {
				continue
			}
			if g.id != a.Turn.Gate || a.Turn.Left == 0 {
				a.Turn = Turn{g.id, g.weight}
			}
			for ; len(g.heads) > 0 && a.free > 0 && a.Turn.Left > 0; a.Turn.Left-- {
				a.take(g)
			}
			if a.free == 0 || a.Turn.Left > 0 && g.unread() {
				return
			}
		}
	}
}

// byAge takes the items of the highest rank, and of one rank the oldest.
func (a *Admitted) byAge(gates []*gate) {
	for a.free > 0 {
		var first *gate
		for _, g := range gates {
			if len(g.heads) > 0 && (first == nil || byRankAndAge(g.heads[0], first.heads[0]) < 0) {
				first = g
			}
		}
		if first == nil {
			return
		}
		a.take(first)
	}
}

func byRankAndAge(a, b Pick) int {
	return cmp.Or(cmp.Compare(a.Rank, b.Rank), strings.Compare(a.ItemID, b.ItemID))
}

// take picks the first item of a gate.
func (a *Admitted) take(g *gate) {
	p := g.heads[0]
	p.Type = a.ask.Type
	g.heads = g.heads[1:]
	a.Picks = append(a.Picks, p)
	a.gateOf[p.ItemID] = g
	g.picked++
	a.free--
}

// oldest picks the items of the highest priority, and of one priority the oldest, from gates that
// have room. If the first items of the queue are not enough, all gates with room are compared.
func (a *Admitted) oldest(ctx context.Context, tx Tx) error {
	gates, all, err := a.firstGates(ctx, tx)
	if err != nil {
		return err
	}
	seen := map[int64]bool{}
	gates = slices.DeleteFunc(gates, func(g *gate) bool {
		again := seen[g.id]
		seen[g.id] = true
		return again
	})
	busy, err := a.pickFrom(ctx, tx, gates, false)
	if err != nil || a.free == 0 {
		return err
	}
	if all {
		return a.passed(ctx, tx, busy)
	}
	var others []*gate
	for after, end := int64(0), false; !end; {
		some, err := a.withWork(ctx, tx, after, firstQueued)
		if err != nil {
			return err
		}
		if end = len(some) < firstQueued; !end {
			after = some[len(some)-1].id
		}
		others = append(others, slices.DeleteFunc(some, func(g *gate) bool {
			return seen[g.id] || a.out(g) || a.roomOf(g) == 0
		})...)
	}
	if err := a.byFirst(ctx, tx, others); err != nil {
		return err
	}
	more, err := a.pickFrom(ctx, tx, others, false)
	if err != nil {
		return err
	}
	return a.passed(ctx, tx, append(busy, more...))
}

// firstGates returns the gates to pick from first, in order, and whether they are all that there is.
func (a *Admitted) firstGates(ctx context.Context, tx Tx) (gates []*gate, all bool, err error) {
	if a.hinted() {
		if gates, err = a.withWork(ctx, tx, 0, firstQueued); err != nil {
			return nil, false, err
		}
		if len(gates) < firstQueued {
			gates = slices.DeleteFunc(gates, func(g *gate) bool { return a.out(g) || a.roomOf(g) == 0 })
			return gates, true, a.byFirst(ctx, tx, gates)
		}
	}
	gates, err = a.gatesOf(ctx, tx, limitsSQL["first queued"], a.ask.Queue, firstQueued)
	return gates, false, err
}

// byFirst sorts gates by the first item of each.
func (a *Admitted) byFirst(ctx context.Context, tx Tx, gates []*gate) error {
	wishes := make([]GateWish, len(gates))
	for i, g := range gates {
		wishes[i] = GateWish{Gate: g.id, Most: 1, Oldest: a.ordered(), Look: true}
	}
	if len(wishes) == 0 {
		return nil
	}
	heads, err := a.hot.Heads(ctx, tx, a.ask.Queue, wishes)
	slices.SortStableFunc(gates, func(x, y *gate) int {
		p, q := heads[x.id], heads[y.id]
		if len(p) == 0 || len(q) == 0 { // taken meanwhile
			return len(q) - len(p)
		}
		return byRankAndAge(p[0], q[0])
	})
	return err
}

// firstQueued is how many queued items are looked at if keys do not take turns.
const firstQueued = 1000
