package engine

import (
	"context"
	"fmt"
	"math"
	"slices"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/store"
)

// fenced runs a batch of a worker's verb. Each call is checked. Valid calls go to the
// verb's group committer in waves in which no item occurs twice. A call that the
// store refused gets the reason. C is the call, Row and Ans are the store's input
// and output, R is the answer.
type fenced[C, Row, Ans, R any] struct {
	op        string // the verb of the lifecycle that the state must allow
	committer *groupCommitter[Row, Ans]
	fence     func(*C) pawl.Fence
	check     func(*C, *fields)
	row       func(i int, c *C) Row
	answer    func(c *C, a *Ans) R
	// excuse may turn a refusal into an answer; nil = it never does.
	excuse func(c *C, item pawl.Item, now int64) (R, bool)
}

func (v *fenced[C, Row, Ans, R]) do(ctx context.Context, e *Engine, calls []C) ([]pawl.Result[R], error) {
	if err := tooMany(v.op, len(calls)); err != nil {
		return nil, err
	}
	out := make([]pawl.Result[R], len(calls))
	var good []int
	for i := range calls {
		var f fields
		f.fence(v.fence(&calls[i]))
		v.check(&calls[i], &f)
		if out[i].Err = f.err(v.op); out[i].Err == nil {
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
	for len(good) > 0 {
		wave, rest := v.wave(calls, good)
		if err := v.runWave(ctx, e, calls, wave, out); err != nil {
			return nil, err
		}
		good = rest
	}
	return out, nil
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

// runWave runs a wave. A refused call whose fence and state turn out to be right
// runs again: its row was moved during the statement.
func (v *fenced[C, Row, Ans, R]) runWave(ctx context.Context, e *Engine, calls []C, wave []int, out []pawl.Result[R]) error {
	for try := 0; len(wave) > 0; try++ {
		rows := make([]Row, len(wave))
		for n, i := range wave {
			rows[n] = v.row(i, &calls[i])
			*v.committer.Ord(&rows[n]) = n
		}
		answers, err := v.committer.do(ctx, e, rows)
		if err != nil {
			return err
		}
		done := make([]bool, len(wave))
		for k := range answers {
			n := *v.committer.RowOf(&answers[k])
			done[n] = true
			out[wave[n]].Value, out[wave[n]].Err = v.answer(&calls[wave[n]], &answers[k]), nil
		}
		var again []int
		for n, i := range wave {
			if !done[n] && !v.refuse(ctx, e, &calls[i], &out[i]) {
				again = append(again, i)
			}
		}
		if try == 3 {
			for _, i := range again {
				out[i].Err = &pawl.Error{Code: pawl.CodeUnavailable, Op: v.op, Message: "the item is being moved; try again"}
			}
			return nil
		}
		wave = again
	}
	return nil
}

// refuse stores why a call was refused; false = there is no reason to refuse it.
func (v *fenced[C, Row, Ans, R]) refuse(ctx context.Context, e *Engine, c *C, out *pawl.Result[R]) bool {
	f := v.fence(c)
	item, now, err := e.look(ctx, f.ItemID)
	if err == nil {
		err = checkFence(item, f, now, v.op)
	}
	if err == nil {
		return false
	}
	if v.excuse != nil {
		if r, ok := v.excuse(c, item.Item, now); ok {
			out.Value = r
			return true
		}
	}
	out.Err = err
	return true
}

// look reads an item as it is now, not_found outside the caller's namespace.
func (e *Engine) look(ctx context.Context, id string) (it store.ItemRow, now int64, err error) {
	err = e.db.View(ctx, func(ctx context.Context, tx store.Tx) (err error) {
		if now, err = store.NowAgain(ctx, tx); err != nil {
			return err
		}
		it, err = store.GetItem(ctx, tx, pawl.CallerOf(ctx).Namespace, id, now)
		return err
	})
	return it, now, err
}

// checkFence is the order of answers (docs/contract.md §3) for a verb that carries a
// fence, after "unknown item": taken, expired or released, conflict. Nil means
// that the claim holds and the state allows the verb.
func checkFence(it store.ItemRow, f pawl.Fence, now int64, verb string) error {
	lost := func(reason, format string, args ...any) error {
		return &pawl.Error{Code: pawl.CodeLeaseLost, Op: verb, Reason: reason, State: string(it.State), Holder: it.LastWorkerID, Attempt: it.Attempt,
			Message: fmt.Sprintf(format, args...)}
	}
	if f.Attempt != it.Attempt || f.WorkerID != it.LastWorkerID {
		if it.LastWorkerID == "" {
			return lost(pawl.ReasonTaken, "the item has not been claimed")
		}
		return lost(pawl.ReasonTaken, "the lease was lost to %s, attempt %d; claim again", it.LastWorkerID, it.Attempt)
	}
	if !it.State.Ended() {
		switch {
		case it.State.Leased() && it.LeaseExpires <= now, !it.State.Leased() && it.LeftBy == "expired":
			return lost(pawl.ReasonExpired, "the lease of attempt %d has run out; claim again", it.Attempt)
		case it.LeftBy == "revoked":
			return lost(pawl.ReasonReleased, "the lease of attempt %d was revoked; stop, and claim again", it.Attempt)
		case it.LeftBy == "released", it.LeftBy == "suspended", it.LeftBy == "rejected":
			return lost(pawl.ReasonReleased, "attempt %d gave its lease up; claim again", it.Attempt)
		}
	}
	if it.State.Leased() && !(verb == "complete" && it.Acceptance) {
		return nil
	}
	return conflict(verb, string(it.State), allowed(it))
}

// allowed are the verbs that an item's state and type allow: what is accepted is
// submitted, the rest completed.
func allowed(it store.ItemRow) []string {
	other := "submit"
	if it.Acceptance && it.Kind == pawl.KindWork {
		other = "complete"
	}
	verbs := it.State.Allowed()
	return slices.DeleteFunc(append(make([]string, 0, len(verbs)), verbs...), func(v string) bool { return it.State.Leased() && v == other })
}

func conflict(op, state string, allowed []string) error {
	return &pawl.Error{Code: pawl.CodeConflict, Op: op, State: state, Allowed: allowed, Message: fmt.Sprintf("the state is %s, which does not allow %s", state, op)}
}

func fenceRow(c pawl.Caller, f pawl.Fence) store.Fence {
	return store.Fence{Namespace: c.Namespace, ItemID: f.ItemID, WorkerID: f.WorkerID, Attempt: min(f.Attempt, math.MaxInt32)} // the column holds no more, nor does an item
}
