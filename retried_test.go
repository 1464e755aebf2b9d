package pawl_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/pawltest"
)

var errAway = errors.New("away")

// failing returns a function that fails with the errors, one after the other, and then returns 7.
func failing(calls *int, errs ...error) func(context.Context) (int, error) {
	return func(context.Context) (int, error) {
		if *calls++; *calls <= len(errs) {
			return 0, errs[*calls-1]
		}
		return 7, nil
	}
}

func TestAStepIsTriedAgain(t *testing.T) {
	never := func(error) bool { return false }
	twice := []error{errAway, errAway}
	for name, c := range map[string]struct {
		tries pawl.Tries
		errs  []error
		calls int
		want  error
		least time.Duration
		most  time.Duration
	}{
		"it succeeds":           {pawl.Tries{}, nil, 1, nil, 0, 0},
		"by default":            {pawl.Tries{}, twice, 3, nil, 2400 * time.Millisecond, 3600 * time.Millisecond},
		"the last error":        {pawl.Tries{Most: 2}, twice, 2, errAway, 800 * time.Millisecond, 1200 * time.Millisecond},
		"once":                  {pawl.Tries{Most: 1}, twice, 1, errAway, 0, 0},
		"the longest delay":     {pawl.Tries{Base: 4e9, Max: 5e9}, twice, 3, nil, 7200 * time.Millisecond, 10800 * time.Millisecond},
		"permanent":             {pawl.Tries{}, []error{pawl.Permanent(errAway)}, 1, errAway, 0, 0},
		"permanent, wrapped":    {pawl.Tries{}, []error{fmt.Errorf("no: %w", pawl.Permanent(errAway))}, 1, errAway, 0, 0},
		"When":                  {pawl.Tries{When: never}, twice, 1, errAway, 0, 0},
		"a short RetryAfter":    {pawl.Tries{}, []error{pawl.RetryAfter(20*time.Second, errAway)}, 2, nil, 20 * time.Second, 20 * time.Second},
		"a long RetryAfter":     {pawl.Tries{}, []error{pawl.RetryAfter(31*time.Second, errAway)}, 1, errAway, 0, 0},
		"snoozed":               {pawl.Tries{}, []error{pawl.Snooze(time.Second)}, 1, pawl.Snooze(time.Second), 0, 0},
		"suspended":             {pawl.Tries{}, []error{pawl.ErrSuspended}, 1, pawl.ErrSuspended, 0, 0},
		"the lease is lost":     {pawl.Tries{}, []error{pawl.ErrLeaseLost}, 1, pawl.ErrLeaseLost, 0, 0},
		"the item is cancelled": {pawl.Tries{}, []error{pawl.ErrCancelled}, 1, pawl.ErrCancelled, 0, 0},
		"too many":              {pawl.Tries{Most: pawl.MaxTries + 1}, nil, 0, pawl.ErrInvalid, 0, 0},
		"a negative delay":      {pawl.Tries{Base: -1}, nil, 0, pawl.ErrInvalid, 0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				calls, began := 0, time.Now()
				i := newItem()
				got, err := pawl.Step(i.attempt(1), "fetch", pawl.Retried(failing(&calls, c.errs...), c.tries))
				took := time.Since(began)
				if !errors.Is(err, c.want) || c.want == nil && (got != 7 || len(i.saved) != 1) || c.want != nil && len(i.saved) != 0 {
					t.Errorf("%d, %v; %d saved", got, err, len(i.saved))
				}
				if calls != c.calls || took < c.least || took > c.most {
					t.Errorf("%d calls in %v; want %d in %v to %v", calls, took, c.calls, c.least, c.most)
				}
			})
		})
	}
}

func TestAStepIsNotTriedAgainAfterTheAttempt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		calls, began := 0, time.Now()
		ctx, end := context.WithCancelCause(newItem().attempt(1))
		time.AfterFunc(10*time.Second, func() { end(pawl.ErrLeaseLost) })
		fn := pawl.Retried(func(context.Context) (int, error) { calls++; return 0, errAway }, pawl.Tries{Most: 100})
		if _, err := pawl.Step(ctx, "fetch", fn); !errors.Is(err, errAway) || time.Since(began) != 10*time.Second || calls > 5 {
			t.Errorf("%v after %v and %d calls", err, time.Since(began), calls)
		}
		calls = 0
		if _, err := fn(ctx); !errors.Is(err, errAway) || calls != 1 {
			t.Errorf("after the end: %v, %d calls", err, calls)
		}
	})
}

func TestAStepOfAMessageIsNotTriedAgain(t *testing.T) {
	i, calls := newItem(), 0
	ctx := i.attempt(1)
	m, err := pawl.StartMessage(ctx, pawl.Reply{})
	if err != nil {
		t.Fatal(err)
	}
	fn := pawl.Retried(failing(&calls, errAway), pawl.Tries{Base: 1})
	if _, err = pawl.MessageStep(ctx, m, "tell", fn); !errors.Is(err, pawl.ErrInvalid) || calls != 0 {
		t.Errorf("%v, %d calls", err, calls)
	}
	got, err := pawl.MessageStep(ctx, m, "look and tell", func(ctx context.Context) (int, error) { return pawl.Step(ctx, "look", fn) })
	if err != nil || got != 7 || calls != 2 {
		t.Errorf("a step inside: %d, %v, %d calls", got, err, calls)
	}
}

// What a failed try has reserved and not settled, the next one goes on with; what it has settled is spent again.
func TestATryGoesOnWithAReservation(t *testing.T) {
	for name, c := range map[string]struct {
		settles bool // before it fails
		spent   int64
	}{"it fails before it settles": {false, 60}, "it settles before it fails": {true, 120}} {
		t.Run(name, func(t *testing.T) {
			s := pawltest.NewSession(pawl.Lease{})
			s.Budgets = map[string]*pawl.Budget{"llm": {NewBudget: pawl.NewBudget{Limit: 200}}}
			ids := map[string]bool{}
			ask := func(fail bool) func(context.Context) (int, error) {
				return func(ctx context.Context) (int, error) {
					r, err := pawl.Reserve(ctx, "llm", 80)
					if err != nil {
						return 0, err
					}
					ids[r.ID] = true
					if fail && !c.settles {
						return 0, errAway
					}
					if err := r.Settle(ctx, 60); err != nil || !fail {
						return 7, err
					}
					return 0, errAway
				}
			}
			calls, ctx := 0, s.Context(t.Context())
			fn := pawl.Retried(func(ctx context.Context) (int, error) {
				calls++
				return ask(calls == 1)(ctx)
			}, pawl.Tries{Base: 1})
			got, err := pawl.Step(ctx, "ask", fn)
			if b := s.Budgets["llm"]; err != nil || got != 7 || b.Spent != c.spent || b.Reserved != 0 || len(ids) != int(c.spent/60) {
				t.Errorf("tried again: %d, %v; %d reservations, %+v", got, err, len(ids), b)
			}
			// The same when the handler itself runs the step again.
			s.Budgets["llm"].Limit = 400
			clear(ids)
			_, failed := pawl.Step(ctx, "ask again", ask(true))
			got, err = pawl.Step(ctx, "ask again", ask(false))
			if b := s.Budgets["llm"]; !errors.Is(failed, errAway) || err != nil || got != 7 || b.Spent != 2*c.spent || b.Reserved != 0 ||
				len(ids) != int(c.spent/60) {
				t.Errorf("run again: %v, %d, %v; %d reservations, %+v", failed, got, err, len(ids), b)
			}
		})
	}
}
