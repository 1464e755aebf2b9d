package store

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"github.com/pawl-work/pawl"
)

// queuedItems answers Heads from memory, and counts the calls.
type queuedItems struct {
	Hot
	of    map[int64]int // items of each gate
	reads int
}

func (q *queuedItems) Heads(_ context.Context, _ Tx, _ int64, wishes []GateWish) (map[int64][]Pick, error) {
	q.reads++
	out := map[int64][]Pick{}
	for _, w := range wishes {
		for n := range min(w.Most, q.of[w.Gate]) {
			out[w.Gate] = append(out[w.Gate], Pick{ItemID: fmt.Sprintf("%d-%d", w.Gate, n)})
		}
	}
	return out, nil
}

// The items of many keys are read together: one statement for each claim, not one for each item.
func TestTurnsReadTogether(t *testing.T) {
	for name, of := range map[string]struct {
		gates, free, each, most int
		weights                 map[string]int
		turn                    Turn
	}{
		"a key for each item":   {gates: 100, free: 100, each: 5, most: 1},
		"some items of each":    {gates: 10, free: 100, each: 50, most: 1},
		"weights":               {gates: 10, free: 100, each: 50, weights: map[string]int{"1": 5, "2": 3}, most: 2},
		"in the midst of turns": {gates: 10, free: 100, each: 50, weights: map[string]int{"1": 5}, turn: Turn{1, 2}, most: 3},
		"fewer than are wanted": {gates: 10, free: 100, each: 2, most: 2},
		"one key has the most":  {gates: 10, free: 100, each: 1, weights: map[string]int{"3": 50}, most: 2},
	} {
		t.Run(name, func(t *testing.T) {
			q := &queuedItems{of: map[int64]int{}}
			var gates []*gate
			for i := range of.gates {
				id := int64(i + 1)
				q.of[id] = of.each
				gates = append(gates, &gate{id: id, key: fmt.Sprint(id)})
			}
			a := &Admitted{Turn: of.turn, hot: q, gateOf: map[string]*gate{}, free: of.free,
				rules: pawl.QueueLimits{PerKey: &pawl.KeyLimits{Weights: of.weights}}}
			if err := a.deal(t.Context(), nil, gates); err != nil {
				t.Fatal(err)
			}
			var got []int64
			for _, p := range a.Picks {
				got = append(got, a.gateOf[p.ItemID].id)
			}
			if want := turnsOneByOne(q.of, of.gates, of.free, of.weights, of.turn); !slices.Equal(got, want) {
				t.Errorf("picked %v, want %v", got, want)
			}
			if q.reads > of.most {
				t.Errorf("read %d times, want %d at most", q.reads, of.most)
			}
		})
	}
}

// turnsOneByOne is the model: each key takes as many items as its weight, one key after another.
func turnsOneByOne(items map[int64]int, gates, free int, weights map[string]int, turn Turn) (order []int64) {
	left := map[int64]int{}
	total := 0
	for id, n := range items {
		left[id], total = n, total+n
	}
	id, n := turn.Gate, turn.Left
	if id == 0 {
		id = 1
		n = max(1, weights["1"])
	}
	for len(order) < min(free, total) {
		for ; n > 0 && left[id] > 0 && len(order) < free; n-- {
			order = append(order, id)
			left[id]--
		}
		id = id%int64(gates) + 1
		n = max(1, weights[fmt.Sprint(id)])
	}
	return order
}
