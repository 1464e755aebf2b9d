package commit

import (
	"context"
	"testing"
	"time"

	"github.com/pawl-work/pawl"
)

// Close ends the calls that wait and refuses later ones, so that it waits for the running flushes
// alone.
func TestCloseWaitsForRunningFlushesAlone(t *testing.T) {
	for _, ungrouped := range []bool{false, true} {
		running, hold := make(chan struct{}, 4), make(chan struct{})
		c := New(Options[testRow, testRow]{
			Ungrouped: ungrouped,
			Ord:       func(r *testRow) *int { return &r.ord },
			RowOf:     func(r *testRow) *int { return &r.ord },
			Execute: func(ctx context.Context, rows []testRow) ([]testRow, error) {
				running <- struct{}{}
				<-hold
				return rows, nil
			},
		})
		errs := make(chan error, 4)
		call := func() {
			_, err := c.Do(t.Context(), nil, []testRow{{}})
			errs <- err
		}
		for range maxFlushes {
			go call()
			<-running
		}
		if !ungrouped {
			go call()
			for waiting := 0; waiting == 0; time.Sleep(time.Millisecond) {
				c.mu.Lock()
				waiting = len(c.waiting)
				c.mu.Unlock()
			}
		}
		closed := make(chan struct{})
		go func() { c.Close(); close(closed) }()
		if !ungrouped {
			if err := <-errs; pawl.CodeOf(err) != pawl.CodeUnavailable {
				t.Error("a call that waits:", err)
			}
		}
		for refusing := false; !refusing; time.Sleep(time.Millisecond) {
			c.mu.Lock()
			refusing = c.closed
			c.mu.Unlock()
		}
		go call()
		select {
		case <-running:
			t.Error("a later call runs")
		case err := <-errs:
			if pawl.CodeOf(err) != pawl.CodeUnavailable {
				t.Error("a later call:", err)
			}
		}
		select {
		case <-closed:
			t.Error("Close did not wait for the running flushes")
		default:
		}
		close(hold)
		for range maxFlushes {
			if err := <-errs; err != nil {
				t.Error("a call in a flush:", err)
			}
		}
		<-closed
	}
}
