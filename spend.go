package pawl

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"unicode/utf8"
)

// Reservation is an amount of a budget that a handler has reserved. Settle it with what was
// really spent.
type Reservation struct {
	ID     string
	Budget string
	Amount int64

	h     *attemptState
	named string // with its budget, by Reserve; "" = by ReserveKey
}

// Reserve reserves an amount of a budget before the handler spends it, for example before it
// calls a model:
//
//	r, err := pawl.Reserve(ctx, "llm", 120_000)
//	if err != nil {
//		return Out{}, err
//	}
//	answer, err := call(ctx)
//	if err := r.Settle(ctx, answer.Tokens); err != nil {
//		return Out{}, err
//	}
//
// The reservation is named after the step that the call is in, if any, and the number of
// earlier calls there. A later attempt that reserves under the same name goes on with an
// unsettled reservation instead of making another; so does the step's function when it runs
// again in this attempt, as with Retried. If it is settled, the money is spent again, and
// there is another reservation. Concurrent calls outside of steps, or in one step, need keys:
// see ReserveKey.
//
// If the budget is exhausted, Reserve does what the budget's on_exhausted asks. With "fail"
// the error is ErrBudgetExhausted, marked as Permanent: return it, and the item fails and is
// not retried. With "suspend" and "ask" the item is suspended and the error is ErrSuspended:
// return it unchanged. The next attempt runs when the budget is changed or deleted; with
// "suspend" also when the next period begins, with "ask" also when a person has decided. While
// others have reserved so much that the amount may become free again, the item is suspended
// for BudgetRetry at most.
func Reserve(ctx context.Context, budget string, amount int64) (*Reservation, error) {
	h, err := attemptOf(ctx)
	if err != nil {
		return nil, err
	}
	step, _ := ctx.Value(stepKey{}).(string)
	h.mu.Lock()
	if h.reserved[step] == nil {
		h.reserved[step] = map[string]int{}
	}
	var key string
	for used := true; used; h.reserved[step][budget]++ {
		key = fmt.Sprintf("%s#%d", step, h.reserved[step][budget])
		used = h.settled[budget+"\x00"+key]
	}
	h.mu.Unlock()
	r, err := h.reserve(ctx, budget, key, amount)
	if err == nil {
		r.named = budget + "\x00" + key
	}
	return r, err
}

// ReserveKey is Reserve with a name of the caller's for the reservation, which is unique
// within the item and the budget. Use a name once in each attempt.
func ReserveKey(ctx context.Context, budget, key string, amount int64) (*Reservation, error) {
	h, err := attemptOf(ctx)
	if err != nil {
		return nil, err
	}
	return h.reserve(ctx, budget, key, amount)
}

// Settle records what was really spent: 0 and more, also more than was reserved. It works
// until the lease ends. To settle twice with the same amount is fine; another amount is
// ErrConflict.
func (r *Reservation) Settle(ctx context.Context, amount int64) error {
	// The money is spent: a context that ends now must not lose that.
	_, err := r.h.SettleBudget(context.WithoutCancel(ctx), r.Budget, SettleCall{Reservation: r.ID, Amount: amount})
	if err == nil && r.named != "" {
		r.h.mu.Lock()
		r.h.settled[r.named] = true
		r.h.mu.Unlock()
	}
	return err
}

// stepKey is the context key of the name of the innermost step.
type stepKey struct{}

// recount returns a function that sets the numbers of the step's reservations back to what they are now, so that what a
// failed try has not settled is reserved again under its name and not a second time.
func recount(ctx context.Context) func() {
	h, err := attemptOf(ctx)
	step, _ := ctx.Value(stepKey{}).(string)
	if err != nil || step == "" { // outside of steps, other calls may count at the same time
		return func() {}
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	before := maps.Clone(h.reserved[step])
	return func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		h.reserved[step] = maps.Clone(before)
	}
}

func (h *attemptState) reserve(ctx context.Context, budget, key string, amount int64) (*Reservation, error) {
	if longest := MaxKeyLen - len("@2147483647"); utf8.RuneCountInString(key) > longest {
		hash, err := HashOf(key)
		if err != nil {
			return nil, err
		}
		key = hash
	}
	call := ReserveCall{Amount: amount, Key: key}
	if p, _ := ctx.Value(provenanceKey{}).(*Provenance); p != nil {
		call.AgentID, call.Model = p.AgentID, p.Model
	}
	got, err := h.ReserveBudget(ctx, budget, call)
	if err == nil && got.Settled != nil { // by an earlier attempt, which lost what it paid for
		call.Key = fmt.Sprintf("%s@%d", key, h.Lease().Attempt)
		got, err = h.ReserveBudget(ctx, budget, call)
	}
	if err != nil {
		return nil, h.exhausted(ctx, amount, err)
	}
	return &Reservation{ID: got.Reservation, Budget: budget, Amount: got.Amount, h: h}, nil
}

// exhausted does what an exhausted budget asks, and returns the error for the handler.
func (h *attemptState) exhausted(ctx context.Context, amount int64, err error) error {
	var e *Error
	if !errors.As(err, &e) || e.Exhausted == nil {
		return err
	}
	x := e.Exhausted
	if x.OnExhausted == ExhaustedFail {
		return Permanent(err)
	}
	call := SuspendCall{Signal: BudgetSignal, Key: x.SignalKey}
	if x.OnExhausted == ExhaustedSuspend && amount <= x.Limit {
		call.Until = x.PeriodEnd
	}
	mayFit := x.Remaining+x.Reserved >= amount || x.OnExhausted == ExhaustedAsk && x.TaskID == ""
	if soon := h.Now().Add(BudgetRetry); mayFit && (call.Until == nil || soon.Before(*call.Until)) {
		call.Until = &soon
	}
	if err := h.Suspend(ctx, call); err != nil {
		return err
	}
	return ErrSuspended
}
