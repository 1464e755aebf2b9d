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

// lone returns a Committer whose groups run with run.
func lone(run func(ctx context.Context) error) *Committer[testRow, testRow] {
	return New(Options[testRow, testRow]{
		Ord:     func(r *testRow) *int { return &r.ord },
		RowOf:   func(r *testRow) *int { return &r.ord },
		Execute: func(ctx context.Context, rows []testRow) ([]testRow, error) { return rows, run(ctx) },
	})
}

// A call that joins no group runs in its caller's goroutine.
func TestALoneCallRunsInItsCallersGoroutine(t *testing.T) {
	var stack string
	c := lone(func(context.Context) error {
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

// If the context of a caller ends while its lone call is being written, the call has graceTime to end.
func TestTheCallerOfALoneCallGoes(t *testing.T) {
	for _, takes := range []time.Duration{graceTime / 2, 3 * graceTime} {
		synctest.Test(t, func(t *testing.T) {
			began := time.Now()
			c := lone(func(ctx context.Context) error {
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
			if ends := takes < graceTime; took != want || (len(out) == 1) != ends || (err == nil) != ends ||
				!ends && (!errors.Is(err, context.DeadlineExceeded) || pawl.CodeOf(err) != pawl.CodeUnavailable) {
				t.Errorf("a call that takes %v: after %v %v, %v", takes, took, out, err)
			}
			c.Close()
		})
	}
}
