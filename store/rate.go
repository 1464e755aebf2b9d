package store

import (
	"context"
	"math"

	"github.com/pawl-work/pawl"
)

// Rates are counted by the generic cell rate algorithm. A rate of n starts in s seconds has an
// interval of s/n. next is the time at which the next start would be on time; a start may be
// early by at most burst-1 intervals. Each start moves next on by one interval, from the
// present if it lies before that.

const second = 1_000_000

// interval returns the microseconds between two starts, rounded up.
func interval(r *pawl.Rate) int64 {
	return (int64(r.Seconds)*second + int64(r.Limit) - 1) / int64(r.Limit)
}

// onTime returns next as a rate allows it. It lies further ahead only after the clock went back.
func onTime(r *pawl.Rate, next, now int64) int64 {
	if r == nil {
		return next
	}
	return min(next, now+interval(r)*int64(r.Burst))
}

// startsAt returns how many starts the rate allows at the time now. nil allows any number.
func startsAt(r *pawl.Rate, next, now int64, most int) int {
	if r == nil {
		return most
	}
	return int(min(int64(most), max(0, (now+interval(r)*int64(r.Burst)-max(next, now))/interval(r))))
}

// startFrom returns the time from which the rate allows a start.
func startFrom(r *pawl.Rate, next int64) int64 {
	return next + interval(r) - interval(r)*int64(r.Burst)
}

// started returns what next is after n starts at the time now.
func started(r *pawl.Rate, next, now int64, n int) int64 {
	return max(next, now) + int64(n)*interval(r)
}

// boundNext stores the bounded time of the queue's rate, which is locked.
func (a *Admitted) boundNext(ctx context.Context, tx Tx) error {
	bound := onTime(a.rules.Rate, a.next, a.Now)
	if bound == a.next {
		return nil
	}
	a.next = bound
	_, err := tx.Exec(ctx, limitsSQL["bound next start of queue"], a.ask.Queue, bound)
	return err
}

// setNext sets the time of the rate of a gate, bounded.
func (a *Admitted) setNext(g *gate, next int64) {
	g.next = next
	if a.rules.PerKey != nil {
		g.next = onTime(a.rules.PerKey.Rate, next, a.Now)
	}
	a.stale = a.stale || g.next != next
}

// boundGates stores the bounded times of all gates.
func (a *Admitted) boundGates(ctx context.Context, tx Tx) error {
	_, err := tx.Exec(ctx, limitsSQL["bound next start of unlocked gates"], a.ask.Queue, a.pointer,
		onTime(a.rules.PerKey.Rate, math.MaxInt64, a.Now))
	return err
}

// Started writes the rates after a claim of the picks that got rows.
func (a *Admitted) Started(ctx context.Context, tx Tx, rows []Claimed) error {
	if len(rows) == 0 {
		return nil
	}
	if r := a.rules.Rate; r != nil {
		if _, err := tx.Exec(ctx, limitsSQL["set next start of queue"], a.ask.Queue, started(r, a.next, a.Now, len(rows))); err != nil {
			return err
		}
	}
	if a.rules.PerKey == nil || a.rules.PerKey.Rate == nil {
		return nil
	}
	n := map[int64]int{}
	for i := range rows {
		n[a.gateOf[rows[i].ItemID].id]++
	}
	var set [][]any
	for id, count := range n {
		set = append(set, []any{id, started(a.rules.PerKey.Rate, a.gates[id].next, a.Now, count)})
	}
	return tx.ExecEach(ctx, limitsSQL["set next start of gate"], set)
}
