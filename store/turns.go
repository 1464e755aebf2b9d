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
	wishes := make([]GateWish, 0, len(gates))
	for _, g := range gates {
		g.weight = 1
		if k := a.rules.PerKey; k != nil && k.Weights[g.key] > 0 {
			g.weight = k.Weights[g.key]
		}
		if n := a.roomOf(g); n > 0 {
			wishes = append(wishes, GateWish{Gate: g.id, Most: n, Oldest: a.ordered()})
		}
	}
	if len(wishes) == 0 {
		return nil
	}
	heads, err := a.hot.Heads(ctx, tx, a.ask.Queue, wishes)
	if err != nil {
		return err
	}
	for _, g := range gates {
		g.heads = heads[g.id]
	}
	if k := a.rules.PerKey; k != nil && k.Fair != nil && !*k.Fair {
		a.byAge(gates)
		return nil
	}
	a.inTurns(gates)
	return nil
}

func (a *Admitted) ordered() bool {
	return a.rules.PerKey != nil && a.rules.PerKey.Order == pawl.OrderCreated
}

// inTurns takes the items of gates in rounds. The gates are in the order of their turns.
func (a *Admitted) inTurns(gates []*gate) {
	for a.free > 0 && slices.ContainsFunc(gates, func(g *gate) bool { return len(g.heads) > 0 }) {
		for _, g := range gates {
			if len(g.heads) == 0 {
				continue
			}
			if g.id != a.Turn.Gate || a.Turn.Left == 0 {
				a.Turn = Turn{g.id, g.weight}
			}
			for ; len(g.heads) > 0 && a.free > 0 && a.Turn.Left > 0; a.Turn.Left-- {
				a.take(g)
			}
			if a.free == 0 {
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
	a.free--
}
