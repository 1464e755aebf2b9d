package store

import (
	"cmp"
	"context"
	"encoding/hex"
	"encoding/json"
	"slices"
)

// among picks from the items that the claim names.
func (a *Admitted) among(ctx context.Context, tx Tx) error {
	gates, mine, err := a.gatesOfPicks(ctx, tx)
	if err != nil {
		return err
	}
	gates = slices.DeleteFunc(gates, a.out)
	slices.SortFunc(gates, func(x, y *gate) int { return cmp.Compare(x.id, y.id) })
	for _, g := range gates {
		locked, err := a.lock(ctx, tx, []*gate{g}, !a.ask.NoWait)
		if err == nil {
			err = a.count(ctx, tx, locked)
		}
		if err != nil {
			return err
		}
		if len(locked) == 0 {
			a.Busy = len(a.gates) == 0
			continue
		}
		a.Busy = false
		g.heads = mine[g.id]
		if n := a.roomOf(g); a.ordered() && n > 0 {
			holding, err := a.holding(ctx, tx, []*gate{g})
			if err != nil {
				return err
			}
			first, err := a.hot.Heads(ctx, tx, a.ask.Queue, []GateWish{{Gate: g.id, Most: 1, Oldest: true}})
			if err != nil {
				return err
			}
			g.heads = slices.DeleteFunc(g.heads, func(p Pick) bool {
				return !slices.ContainsFunc(first[g.id], func(f Pick) bool { return f.ItemID == p.ItemID })
			})
			inOrder([]*gate{g}, holding)
		} else {
			g.heads = g.heads[:min(n, len(g.heads))]
		}
	}
	a.byAge(gates)
	return nil
}

// gatesOfPicks returns the gates of the named items, and the items of each.
func (a *Admitted) gatesOfPicks(ctx context.Context, tx Tx) ([]*gate, map[int64][]Pick, error) {
	list := make([][]any, len(a.ask.Only))
	for i, p := range a.ask.Only {
		id, _ := parseID(itemPrefix, p.ItemID)
		list[i] = []any{hex.EncodeToString(id[:]), p.Rank}
	}
	text, _ := json.Marshal(list) // can always be encoded
	rows, err := tx.Query(ctx, limitsSQL["gates of picks"], a.ask.Queue, string(text))
	if err != nil {
		return nil, nil, err
	}
	defer rows.Close()
	var gates []*gate
	byID, mine := map[int64]*gate{}, map[int64][]Pick{}
	for rows.Next() {
		p, g := Pick{Type: a.ask.Type}, &gate{}
		if err := rows.Scan((*ItemID)(&p.ItemID), &p.Rank, &g.id, &g.pointer, &g.key); err != nil {
			return nil, nil, err
		}
		if byID[g.id] == nil {
			byID[g.id] = g
			gates = append(gates, g)
		}
		mine[g.id] = append(mine[g.id], p)
	}
	if err := rows.Err(); err != nil {
		return nil, nil, err
	}
	rows.Close()
	free, err := ItemIDs(ctx, tx, limitsSQL["lock unkeyed ready"], a.ask.Queue, string(text))
	for id, list := range mine {
		slices.SortFunc(list, byRankAndAge)
		mine[id] = slices.DeleteFunc(list, func(p Pick) bool { return !slices.Contains(free, p.ItemID) })
	}
	return gates, mine, err
}
