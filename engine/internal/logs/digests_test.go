package logs_test

import (
	"fmt"
	"testing"

	"github.com/pawl-work/pawl"
)

// withoutDigests makes events look as a program of an earlier version has written them.
func (c *logged) withoutDigests(where string) {
	c.Helper()
	c.around("task_events", "UPDATE pawl.task_events SET digest = NULL WHERE "+where)
}

// The log takes the digests that the verbs have stored, and reads the values of other events: both give one leaf.
func TestTheLogTakesStoredDigests(t *testing.T) {
	t.Parallel()
	for name, without := range map[string]string{"all are stored": "1 = 0", "none is stored": "1 = 1", "some are stored": "id % 2 = 0"} {
		t.Run(name, func(t *testing.T) {
			eachSigned(t, func(t *testing.T, c *logged) {
				many, one := c.valued()
				c.withoutDigests(without)
				c.sign()
				for _, c.task = range []pawl.Task{many, one} {
					if got := c.verify(); !got.Intact || got.Signed != got.Events || got.Unproved != nil {
						t.Errorf("%+v", got)
					}
				}
			})
		})
	}
}

// A value that changes before its event is logged is found: a check hashes the value.
func TestAValueThatChangesBeforeItIsLoggedIsFound(t *testing.T) {
	t.Parallel()
	eachSigned(t, func(t *testing.T, c *logged) {
		_, c.task = c.valued()
		want := c.eventOf(c.task.ID, "completed", "")
		c.around("finished_items", "UPDATE pawl.finished_items SET result = '9' WHERE task_id = '"+c.task.ID+"'")
		c.sign()
		if got := c.verify(); got.Intact || len(got.Faults) != 1 || got.Faults[0].Kind != "changed" || got.Faults[0].EventID != want.ID {
			t.Errorf("%+v", got.Faults)
		}
		if got := c.verifyAll(); len(got.Faults) != 1 || !names(got, "changed", want) {
			t.Errorf("%+v", got.Faults)
		}
	})
}

// A stored digest of another value is found, before and after its event was logged.
func TestAStoredDigestOfAnotherValueIsFound(t *testing.T) {
	t.Parallel()
	for _, before := range []bool{true, false} {
		t.Run(fmt.Sprintf("before it is logged %v", before), func(t *testing.T) {
			eachSigned(t, func(t *testing.T, c *logged) {
				_, c.task = c.valued()
				want, other := c.eventOf(c.task.ID, "completed", ""), c.eventOf(c.task.ID, "proposed", "")
				if !before {
					c.sign()
				}
				c.around("task_events", "UPDATE pawl.task_events SET digest = (SELECT o.digest FROM pawl.task_events o WHERE o.id = "+
					number(other)+") WHERE id = "+number(want))
				c.sign()
				if got := c.verify(); got.Intact || len(got.Faults) != 1 || got.Faults[0].Kind != "changed" || got.Faults[0].EventID != want.ID {
					t.Errorf("%+v", got.Faults)
				}
				if got := c.verifyAll(); len(got.Faults) != 1 || !names(got, "changed", want) {
					t.Errorf("%+v", got.Faults)
				}
			})
		})
	}
}
