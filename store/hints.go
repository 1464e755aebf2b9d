package store

import (
	"context"
	"encoding/json"
	"math"

	"github.com/pawl-work/pawl"
)

// A claim from a queue with keys looks at the gates that have hints, rows of gate_hints. Triggers add
// one when an item of a gate becomes ready or a lease of it ends. What was read together with a
// hint was read after the change that the hint stands for: a gate that is then full, or has no
// work, needs that row no longer. A later change adds another row.

// hintsRead is how many hints of one gate are read, and removed, at a time.
const hintsRead = 1000

// hinted reports whether the claim looks only at gates with hints. In a caller's transaction, which may
// be open for long, it changes no hint: with a rate for each key, whose hints change with the time, it
// looks at all gates with work.
func (a *Admitted) hinted() bool {
	return a.pointer != "" && (!a.ask.NoWait || a.rules.PerKey.Rate == nil)
}

// withWork reads gates that may have room and queued items, in order of their numbers.
func (a *Admitted) withWork(ctx context.Context, tx Tx, after int64, most int) ([]*gate, error) {
	if !a.hinted() {
		return a.gatesOf(ctx, tx, limitsSQL["gates with work"], a.ask.Queue, after, most)
	}
	if !a.asked {
		a.asked = true
		if err := a.lookAtDue(ctx, tx); err != nil {
			return nil, err
		}
	}
	rows, err := tx.Query(ctx, limitsSQL["hinted gates"], a.ask.Queue, after, most, hintsRead)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var out []*gate
	for rows.Next() {
		g, work, hints := &gate{counted: true}, 0, ""
		if err := rows.Scan(&g.id, &g.pointer, &g.key, &g.next, &g.leased, &work, &hints); err != nil {
			return nil, err
		}
		_ = json.Unmarshal([]byte(hints), &g.hints) // made by the statement
		a.setNext(g, g.next)
		g.empty = work == 0
		out = append(out, g)
	}
	if err := rows.Err(); err != nil {
		return nil, err
	}
	rows.Close()
	return out, a.forgetDone(ctx, tx, out)
}

// forgetDone removes the hints of gates from which nothing can be claimed until something changes.
// A gate whose rate allows no start yet is looked at again when it does.
func (a *Admitted) forgetDone(ctx context.Context, tx Tx, gates []*gate) error {
	if a.ask.NoWait {
		return nil
	}
	k := a.rules.PerKey
	var done []*gate
	var later [][]any
	lost := false
	for _, g := range gates {
		lost = lost || g.pointer == "" && !g.empty // the gate is gone: its items need another one
		switch {
		case g.pointer != a.pointer, g.empty, g.held, k.Concurrency != nil && g.leased >= *k.Concurrency, a.ordered() && g.leased > 0:
		case k.Rate != nil && startsAt(k.Rate, g.next, a.Now, 1) == 0:
			later = append(later, []any{a.ask.Queue, startFrom(k.Rate, g.next), g.id})
		default:
			continue
		}
		done = append(done, g)
	}
	if lost {
		if _, err := tx.Exec(ctx, limitsSQL["hint search"], a.ask.Queue, searchHint); err != nil {
			return err
		}
	}
	if len(later) > 0 {
		if err := tx.ExecEach(ctx, limitsSQL["hint later"], later); err != nil {
			return err
		}
	}
	var read [][]int64
	least, most := int64(math.MaxInt32), int64(0)
	for _, g := range done {
		least, most = min(least, g.id), max(most, g.id)
		for _, hint := range g.hints {
			read = append(read, []int64{g.id, hint})
		}
	}
	if len(read) == 0 {
		return nil
	}
	list, _ := json.Marshal(read) // can always be encoded
	_, err := tx.Exec(ctx, limitsSQL["forget hints"], a.ask.Queue, string(list), least, most)
	return err
}

// forgetHeld removes the hints of gates whose items are held up. When the item that holds them up
// leaves its place, it adds one.
func (a *Admitted) forgetHeld(ctx context.Context, tx Tx, gates []*gate) error {
	var held []*gate
	for _, g := range gates {
		if g.held && len(g.hints) > 0 {
			held = append(held, g)
		}
	}
	return a.forgetDone(ctx, tx, held)
}

// lookAtDue gives hints to gates whose rates allow a start by now, and notes when the next one does.
func (a *Admitted) lookAtDue(ctx context.Context, tx Tx) error {
	r := a.rules.PerKey.Rate
	if r == nil || a.ask.NoWait {
		return nil
	}
	for again := true; again; {
		rows, err := tx.Query(ctx, limitsSQL["due hints"], a.ask.Queue, a.Now, startFrom(r, onTime(r, math.MaxInt64, a.Now)), hintsRead)
		if err != nil {
			return err
		}
		var due [][]any
		for rows.Next() {
			var id int64
			if err := rows.Scan(&id); err != nil {
				rows.Close()
				return err
			}
			due = append(due, []any{a.ask.Queue, 0, id})
		}
		rows.Close()
		if err := rows.Err(); err != nil {
			return err
		}
		if err := tx.ExecEach(ctx, limitsSQL["hint later"], due); err != nil {
			return err
		}
		again = len(due) == hintsRead
	}
	var next int64
	if found, err := Row(ctx, tx, []any{&next}, limitsSQL["next hint"], a.ask.Queue); err != nil || !found {
		return err
	}
	a.sooner(next)
	return nil
}

// hintAll has all gates of a queue that have work looked at again, after a change of its limits.
func hintAll(ctx context.Context, tx Tx, queue int64, l *pawl.QueueLimits) error {
	if pointerOf(l) == "" {
		return nil
	}
	_, err := tx.Exec(ctx, limitsSQL["hint all"], queue)
	return err
}

// ForgetHints removes the hints of gates after a number from which nothing can be claimed, as a claim
// does. It returns the last number that it has looked at; 0 = there are no more. Claims in callers'
// transactions remove none. A queue without keys needs no hints: all are removed.
func ForgetHints(ctx context.Context, tx Tx, queue, after int64) (last int64, err error) {
	row, found, err := readLimits(ctx, tx, queue, shared+unlocked)
	if err != nil || !found {
		return 0, err
	}
	if row.limits.PerKey == nil {
		if n, err := tx.Exec(ctx, limitsSQL["drop hints"], queue, mostGates); err != nil || n < mostGates {
			return 0, err
		}
		return max(after, 1), nil
	}
	a := &Admitted{ask: Admission{Queue: queue}, rules: row.limits, pointer: pointerOf(&row.limits)}
	if a.Now, err = NowAgain(ctx, tx); err != nil {
		return 0, err
	}
	gates, err := a.withWork(ctx, tx, after, mostGates)
	if err != nil || len(gates) < mostGates {
		return 0, err
	}
	return gates[len(gates)-1].id, nil
}
