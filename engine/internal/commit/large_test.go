package commit

import (
	"context"
	"sync"
	"testing"
	"time"
)

// A large call begins a flush of its own beside two others, and does not wait for their commits. Small calls
// wait and are one group, also when the flushes of large calls end before the others.
func TestLargeCallsHaveMoreFlushes(t *testing.T) {
	began, hold := make(chan int, 16), make(chan struct{})
	const maxLargeFlushes = 4
	c := New(Options[testRow, testRow]{
		LargeFlushes: maxLargeFlushes,
		Ord:          func(r *testRow) *int { return &r.ord },
		RowOf:        func(r *testRow) *int { return &r.ord },
		Execute: func(_ context.Context, rows []testRow) ([]testRow, error) {
			began <- len(rows)
			<-hold
			return rows, nil
		},
	})
	next := func() int {
		t.Helper()
		select {
		case rows := <-began:
			return rows
		case <-time.After(10 * time.Second):
			t.Fatal("no flush begins")
			return 0
		}
	}
	var calls sync.WaitGroup
	call := func(rows int) {
		calls.Go(func() {
			all := make([]testRow, rows)
			for i := range all {
				all[i].ord = i
			}
			if out, err := c.Do(t.Context(), nil, all); err != nil || len(out) != rows {
				t.Errorf("a call of %d rows: %d answers, %v", rows, len(out), err)
			}
		})
	}
	until := func(running, waiting int) {
		t.Helper()
		for end := time.Now().Add(10 * time.Second); ; time.Sleep(time.Millisecond) {
			c.mu.Lock()
			r, w := c.running, len(c.waiting)
			c.mu.Unlock()
			if r == running && w == waiting {
				return
			}
			if time.Now().After(end) {
				t.Fatalf("%d flushes run and %d calls wait, want %d and %d", r, w, running, waiting)
			}
		}
	}
	for range maxFlushes {
		call(1)
		next()
	}
	call(largeRows - 1)
	until(maxFlushes, 1)
	call(largeRows)
	if rows := next(); rows != 2*largeRows-1 {
		t.Errorf("the flush that begins for a large call has %d rows, not also those of the call before it", rows)
	}
	for range maxLargeFlushes - maxFlushes - 1 {
		call(largeRows)
		next()
	}
	call(largeRows)
	until(maxLargeFlushes, 1)
	for running := maxLargeFlushes; running > maxFlushes; running-- {
		hold <- struct{}{}
		if running == maxLargeFlushes {
			next() // the large call that waited
			for i := range 5 {
				call(1)
				until(maxLargeFlushes, i+1)
			}
			hold <- struct{}{}
		}
		until(running-1, 5)
	}
	hold <- struct{}{}
	if rows := next(); rows != 5 {
		t.Errorf("a group of %d small calls, want 5", rows)
	}
	close(hold)
	calls.Wait()
	c.flushes.Wait()
	until(0, 0)
}
