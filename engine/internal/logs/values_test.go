package logs_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/engine"
	"github.com/pawl-work/pawl/pawltest"
	"github.com/pawl-work/pawl/store"
)

// valued makes a task of two items with inputs, one of which has a result, and a task of one
// that has completed.
func (c *logged) valued() (many, one pawl.Task) {
	c.Helper()
	many = c.Create(pawl.NewTask{Type: "a", Payload: []byte(`{"p":1}`),
		Items: []pawl.NewItem{{Input: []byte(`{"i":1}`)}, {Input: []byte(`{"i":2}`)}}})
	c.ok(pawl.Complete(c.Context(), c.Service, c.Claim("a").Fence(), []byte(`{"r":1}`)))
	one = c.Create(pawl.NewTask{Type: "b", Payload: []byte(`{"p":2}`)})
	c.ok(pawl.Complete(c.Context(), c.Service, c.Claim("b").Fence(), []byte(`{"r":2}`)))
	c.Cleanup(func() { c.ok(nil, forgetAll(c.Pawl)) })
	return many, one
}

func (c *logged) eventOf(taskID, name string, itemID string) pawl.Event {
	c.Helper()
	list, err := c.Service.ListEvents(c.Context(), pawl.EventFilter{TaskID: taskID, Asc: true})
	c.ok(nil, err)
	for _, e := range list.Items {
		if e.Event == name && (itemID == "" || e.ItemID == itemID) {
			return e
		}
	}
	c.Fatalf("task %s has no event %s", taskID, name)
	return pawl.Event{}
}

// Inputs and results are in the log: one that was changed is found, and its event is named.
func TestAChangedInputOrResultIsFound(t *testing.T) {
	t.Parallel()
	for _, x := range []struct {
		name, event string
		ofOne       bool
		query       string // its argument is a task
	}{
		{"the input of an item", "planned", false, "UPDATE pawl.items SET input = '{\"i\":9}' WHERE task_id = '%s' AND position = 0"},
		{"the payload of a task", "proposed", false, "UPDATE pawl.tasks SET payload = '9' WHERE id = '%s'"},
		{"the result of an item", "completed", false, "UPDATE pawl.finished_items SET result = '9' WHERE task_id = '%s'"},
		{"the input of a task of one", "proposed", true, "UPDATE pawl.tasks SET input = '9' WHERE id = '%s'"},
		{"the result of a task of one", "completed", true, "UPDATE pawl.finished_items SET result = '9' WHERE task_id = '%s'"},
		{"a result that is gone", "completed", true, "UPDATE pawl.finished_items SET result = NULL WHERE task_id = '%s'"},
	} {
		t.Run(x.name, func(t *testing.T) {
			eachSigned(t, func(t *testing.T, c *logged) {
				many, one := c.valued()
				c.sign()
				if c.task = many; x.ofOne {
					c.task = one
				}
				if got := c.verify(); !got.Intact || got.Signed != got.Events || got.Unproved != nil {
					t.Fatalf("before: %+v", got)
				}
				want := c.eventOf(c.task.ID, x.event, "")
				c.around("finished_items", fmt.Sprintf(x.query, c.task.ID))
				if got := c.verify(); got.Intact || len(got.Faults) != 1 || got.Faults[0].Kind != "changed" || got.Faults[0].EventID != want.ID {
					t.Errorf("the task: %+v", got.Faults)
				}
				if got := c.verifyAll(); len(got.Faults) != 1 || !names(got, "changed", want) {
					t.Errorf("the log: %+v", got.Faults)
				}
			})
		})
	}
}

// A value that was gone when its event was logged, without a stored digest, is named as one that the
// log does not prove: a program of an earlier version has written the event. So is one that is gone
// because its task is being deleted; an event that stands for no value is compared all the same.
func TestValuesThatWereRemovedAreNamed(t *testing.T) {
	t.Parallel()
	eachSigned(t, func(t *testing.T, c *logged) {
		_, one := c.valued()
		c.task = one
		ended := c.eventOf(one.ID, "completed", "")
		c.withoutDigests("id = " + number(ended))
		c.around("finished_items", "UPDATE pawl.finished_items SET result = NULL WHERE task_id = '"+one.ID+"'")
		c.sign()
		c.around("finished_items", "UPDATE pawl.finished_items SET result = '{\"r\":2}' WHERE task_id = '"+one.ID+"'")
		if got := c.verify(); !got.Intact || !slices.Equal(got.Unproved, []string{ended.ID}) {
			t.Errorf("gone when it was logged: %+v", got)
		}
		if got := c.verifyAll(); !got.Intact || got.Unproved == nil || got.Unproved.Events != 1 || got.Unproved.IDs[0] != ended.ID {
			t.Errorf("gone when it was logged: %+v", got.Unproved)
		}
		c.Cleanup(func() { c.ok(nil, forgetAll(c.Pawl)) })
		got, err := engine.VerifyArchive(c.archiveOf(), []string{strings.TrimSpace(c.public())})
		c.ok(nil, err)
		if !got.Intact || got.Proved != got.Events || !slices.Equal(got.Unproved, []string{ended.ID}) {
			t.Errorf("the archive: %+v", got)
		}
	})
}

// A value that was gone when its event was logged is proved by the digest that was stored with the event.
func TestAValueThatWasGoneIsProvedByItsDigest(t *testing.T) {
	t.Parallel()
	eachSigned(t, func(t *testing.T, c *logged) {
		_, c.task = c.valued()
		c.around("finished_items", "UPDATE pawl.finished_items SET result = NULL WHERE task_id = '"+c.task.ID+"'")
		c.sign()
		c.around("finished_items", "UPDATE pawl.finished_items SET result = '{\"r\":2}' WHERE task_id = '"+c.task.ID+"'")
		if got := c.verify(); !got.Intact || got.Unproved != nil {
			t.Errorf("%+v", got)
		}
	})
}

func TestValuesOfATaskThatIsBeingDeletedAreNamed(t *testing.T) {
	t.Parallel()
	eachSigned(t, func(t *testing.T, c *logged) {
		many, _ := c.valued()
		c.task = many
		c.ok(pawl.Complete(t.Context(), c.Service, c.Claim("a").Fence(), []byte(`{"r":3}`)))
		c.sign()
		ended, leased := c.eventOf(many.ID, "completed", ""), c.eventOf(many.ID, "leased", "")
		err := c.Engine.DB().Do(t.Context(), func(ctx context.Context, tx store.Tx) error {
			done, err := store.DeleteTask(ctx, tx, "default", many.ID, nil, 2) // the finished items, and nothing else
			if done {
				err = errors.New("it is gone")
			}
			return err
		})
		c.ok(nil, err)
		c.sign()
		if got := c.verify(); !got.Intact || !slices.Contains(got.Unproved, ended.ID) {
			t.Errorf("%+v", got)
		}
		if got := c.verifyAll(); !got.Intact || got.Unproved == nil || !slices.Contains(got.Unproved.IDs, ended.ID) {
			t.Errorf("%+v", got)
		}
		c.around("task_events", "UPDATE pawl.task_events SET actor = 0 WHERE id = "+number(leased))
		if got := c.verify(); got.Intact || got.Faults[0].EventID != leased.ID {
			t.Errorf("a changed claim: %+v", got)
		}
	})
}

// A check of the newest 0 events reads none of them.
func TestACheckOfNoEventsReadsNone(t *testing.T) {
	t.Parallel()
	for _, which := range pawltest.Databases {
		t.Run(string(which), func(t *testing.T) {
			t.Parallel()
			p := pawltest.OpenWith(t, which, withKey(t))
			if _, err := pawl.Create(t.Context(), p.Service, pawl.NewTask{Type: "a", Items: make([]pawl.NewItem, 200)}); err != nil {
				t.Fatal(err)
			}
			if err := p.Engine.Log(t.Context()); err != nil {
				t.Fatal(err)
			}
			var reads atomic.Int64
			e := p.Another(engine.Options{Statement: func(query string) {
				if strings.Contains(query, "feed_pages") && strings.Contains(query, "high") {
					reads.Add(1) // the page of an event is looked up
				}
			}})
			got, err := e.VerifyLog(t.Context(), 0, nil)
			if err != nil || !got.Intact || got.Events != 0 {
				t.Errorf("%+v, %v", got, err)
			}
			if reads.Load() > 0 {
				t.Errorf("the pages of %d events were looked up", reads.Load())
			}
		})
	}
}
