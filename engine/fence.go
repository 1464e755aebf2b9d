package engine

import (
	"context"
	"slices"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/engine/internal/commit"
	"github.com/pawl-work/pawl/engine/internal/kernel"
	"github.com/pawl-work/pawl/engine/internal/rules"
	"github.com/pawl-work/pawl/store"
)

// maxTries is how often a call runs at most if its row is moved during its statement.
const maxTries = 4

// fenced runs a batch of a worker's verb. It checks each call. Valid calls go to the
// verb's group committer in waves; no item occurs twice in a wave. A call that the store
// refused gets the reason as its error. C is the call, Row and Ans are the store's input
// and output, R is the answer.
type fenced[C, Row, Ans, R any] struct {
	op        string // the verb of the lifecycle that the state must allow
	committer *commit.Committer[Row, Ans]
	fence     func(*C) pawl.Fence
	check     func(*rules.Fields, *C)
	value     func(*C) []byte // which may refer to uploaded blobs; nil = none
	row       func(i int, c *C) Row
	answer    func(c *C, a *Ans) (R, effects)
	// refused makes the answer to a call whose item the store did not move. err is the
	// refusal by the fence or the item's state; nil = the answer is err.
	refused func(c *C, item store.ItemRow, now int64, err error) (R, error)
}

// do returns an answer for each call, and the effects of the calls that were carried out.
// It returns effects with an error too: the waves before it have committed.
func (v *fenced[C, Row, Ans, R]) do(ctx context.Context, e *Engine, calls []C) (out []pawl.Result[R], then effects, err error) {
	if err := rules.CheckBatch(v.op, len(calls)); err != nil {
		return nil, then, err
	}
	out = make([]pawl.Result[R], len(calls))
	good, err := v.valid(ctx, e, calls, out)
	if err != nil {
		return nil, then, err
	}
	for len(good) > 0 {
		wave, rest := v.wave(calls, good)
		for try := 1; len(wave) > 0; try++ {
			answers, err := v.committer.Do(ctx, e.db, v.rows(calls, wave))
			if err != nil {
				return nil, then, err
			}
			var did effects
			wave, did = v.settle(ctx, e, calls, wave, answers, out)
			then = then.and(did)
			if try == maxTries {
				v.giveUp(wave, out)
				break
			}
		}
		good = rest
	}
	return out, then, nil
}

// valid checks the calls and returns the indexes of those that the store is asked for.
func (v *fenced[C, Row, Ans, R]) valid(ctx context.Context, e *Engine, calls []C, out []pawl.Result[R]) (good []int, err error) {
	good = make([]int, 0, len(calls))
	var f rules.Fields
	for i := range calls {
		f = nil
		f.Fence(v.fence(&calls[i]))
		v.check(&f, &calls[i])
		out[i].Err = f.Err(v.op)
		if out[i].Err == nil && v.value != nil {
			out[i].Err = e.referItem(ctx, v.op, v.fence(&calls[i]).ItemID, blobsIn(v.value(&calls[i])))
		}
		if out[i].Err == nil {
			good = append(good, i)
		}
	}
	if c := pawl.CallerOf(ctx); c.Key != "" {
		fences := make([]pawl.Fence, len(good))
		for n, i := range good {
			fences[n] = v.fence(&calls[i])
		}
		others, err := e.leasesOfOtherKeys(ctx, c, fences)
		if err != nil {
			return nil, err
		}
		good = slices.DeleteFunc(good, func(i int) bool {
			out[i].Err = others[v.fence(&calls[i])]
			return out[i].Err != nil
		})
	}
	return good, nil
}

// wave separates the first call of each item from the rest.
func (v *fenced[C, Row, Ans, R]) wave(calls []C, good []int) (wave, rest []int) {
	seen := make(map[string]bool, len(good))
	for _, i := range good {
		if id := v.fence(&calls[i]).ItemID; seen[id] {
			rest = append(rest, i)
		} else {
			seen[id] = true
			wave = append(wave, i)
		}
	}
	return wave, rest
}

// rows returns the store's input for a wave. Each row has its index in the wave.
func (v *fenced[C, Row, Ans, R]) rows(calls []C, wave []int) []Row {
	rows := make([]Row, len(wave))
	for n, i := range wave {
		rows[n] = v.row(i, &calls[i])
		*v.committer.Ord(&rows[n]) = n
	}
	return rows
}

// settle stores the answers of a wave and the errors of its refused calls. It returns the
// calls to run again, whose fence and state are right: their row was moved during the
// statement. then are the effects of the calls that were carried out.
func (v *fenced[C, Row, Ans, R]) settle(
	ctx context.Context,
	e *Engine,
	calls []C,
	wave []int,
	answers []Ans,
	out []pawl.Result[R],
) (again []int, then effects) {
	done := make([]bool, len(wave))
	for k := range answers {
		n := *v.committer.RowOf(&answers[k])
		done[n] = true
		value, did := v.answer(&calls[wave[n]], &answers[k])
		out[wave[n]], then = pawl.Result[R]{Value: value}, then.and(did)
	}
	for n, i := range wave {
		if !done[n] && !v.refuse(ctx, e, &calls[i], &out[i]) {
			again = append(again, i)
		}
	}
	return again, then
}

// giveUp answers calls whose rows were moved during each of their statements.
func (v *fenced[C, Row, Ans, R]) giveUp(wave []int, out []pawl.Result[R]) {
	for _, i := range wave {
		out[i].Err = &pawl.Error{Code: pawl.CodeUnavailable, Op: v.op, Message: "another call is changing the item; try again"}
	}
}

// refuse stores why a call was refused. It returns false if there is no reason to refuse
// it.
func (v *fenced[C, Row, Ans, R]) refuse(ctx context.Context, e *Engine, c *C, out *pawl.Result[R]) bool {
	f := v.fence(c)
	item, now, err := e.k.Item(ctx, f.ItemID)
	if err == nil {
		err = rules.CheckFence(rules.Item(item), f, now, v.op)
	}
	if err == nil && v.op == "complete" {
		err = e.effectOpen(ctx, v.op, f)
	}
	if err == nil {
		return false
	}
	if out.Err = err; v.refused != nil && item.ID != "" {
		out.Value, out.Err = v.refused(c, item, now, err)
	}
	return true
}

func fenceRow(c pawl.Caller, f pawl.Fence) store.Fence {
	return kernel.Fence(c, f)
}
