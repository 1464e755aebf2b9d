package commit

import (
	"context"
	"errors"
	"runtime/debug"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-work/pawl"
)

// lone returns a Committer whose groups run with run. It gives what a caller that has gone would get to orphaned.
func lone(orphaned *int, run func(ctx context.Context) error) *Committer[testRow, testRow] {
	return New(Options[testRow, testRow]{
		Ord:      func(r *testRow) *int { return &r.ord },
		RowOf:    func(r *testRow) *int { return &r.ord },
		Orphaned: func(_ context.Context, _, out []testRow) { *orphaned += len(out) },
		Execute:  func(ctx context.Context, rows []testRow) ([]testRow, error) { return rows, run(ctx) },
	})
}

// A call that joins no group runs in its caller's goroutine.
func TestALoneCallRunsInItsCallersGoroutine(t *testing.T) {
	var stack string
	c := lone(new(int), func(context.Context) error {
		stack = string(debug.Stack())
		return nil
	})
	for range 2 {
		if out, err := c.Do(t.Context(), nil, []testRow{{id: 1}}); len(out) != 1 || err != nil {
			t.Fatal(out, err)
		}
		if !strings.Contains(stack, t.Name()) {
			t.Errorf("another goroutine runs it:\n%s", stack)
		}
	}
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	stack = ""
	if _, err := c.Do(gone, nil, []testRow{{id: 1}}); !errors.Is(err, context.Canceled) || stack != "" {
		t.Error("a caller that has gone before:", err, stack)
	}
	c.Close()
}

// If the context of a caller ends while its lone call is being written, the call has graceTime to end. What it got is
// given back, because its caller has gone.
func TestTheCallerOfALoneCallGoes(t *testing.T) {
	for _, takes := range []time.Duration{graceTime / 2, 3 * graceTime} {
		synctest.Test(t, func(t *testing.T) {
			orphaned, began := 0, time.Now()
			c := lone(&orphaned, func(ctx context.Context) error {
				select {
				case <-time.After(takes):
					return nil
				case <-ctx.Done():
					return ctx.Err()
				}
			})
			ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
			defer cancel()
			out, err := c.Do(ctx, nil, []testRow{{id: 1}})
			took, want := time.Since(began), min(takes, graceTime+time.Millisecond)
			if given := takes < graceTime; took != want || out != nil || (orphaned == 1) != given ||
				!errors.Is(err, context.DeadlineExceeded) || (pawl.CodeOf(err) == pawl.CodeUnavailable) == given {
				t.Errorf("a call that takes %v: after %v %v, %v; %d given back", takes, took, out, err, orphaned)
			}
			c.Close()
		})
	}
}
