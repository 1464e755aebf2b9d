package store

import (
	"cmp"
	"context"
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
		heads, err := a.hot.Heads(ctx, tx, a.ask.Queue, wishes)
		if err != nil {
			return err
		}
		for i, g := range open {
			g.heads = heads[g.id]
			g.empty = len(g.heads) < wishes[i].Most
			g.heads = g.heads[min(g.picked, len(g.heads)):]
		}
		if fair {
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
// have room. If none of the first items of the queue has a gate with room, the gates are asked
// in the order of their numbers.
func (a *Admitted) oldest(ctx context.Context, tx Tx) error {
	gates, err := a.gatesOf(ctx, tx, limitsSQL["first queued"], a.ask.Queue, firstQueued)
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
	if err != nil || a.free == 0 || len(a.Picks) > 0 {
		return err
	}
	if len(busy) > 0 {
		return a.passed(ctx, tx, busy)
	}
	return a.choose(ctx, tx)
}

// firstQueued is how many queued items are looked at if keys do not take turns.
const firstQueued = 1000
