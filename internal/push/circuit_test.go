package push

import (
	"testing"
	"time"
)

// However many calls were in flight when a URL fell silent: it is left alone for a second, and twice as long after each
// call that finds it silent after that.
func TestCallsInFlightCountOnce(t *testing.T) {
	c := circuit{}
	now := time.Unix(1000, 0)
	want := func(wait time.Duration, most int) {
		t.Helper()
		if got := c.wait(now); got != wait || c.most(16) != most {
			t.Errorf("left alone for %v, then %d calls; want %v and %d", got, c.most(16), wait, most)
		}
	}
	before := now
	for range openAfter - 1 {
		c.note(false, before, now)
	}
	want(0, 16)
	for range 16 {
		c.note(false, before, now)
		now = now.Add(time.Millisecond)
	}
	now = now.Add(-16 * time.Millisecond)
	want(time.Second, 1)
	for _, wait := range []time.Duration{2, 4, 8, 16, 32, 60, 60} {
		now = now.Add(time.Minute)
		begun := now
		now = now.Add(time.Second)
		c.note(false, begun, now)
		c.note(false, begun, now) // another type of the same URL
		want(wait*time.Second, 1)
	}
	c.note(true, now, now)
	want(0, 16)
}
