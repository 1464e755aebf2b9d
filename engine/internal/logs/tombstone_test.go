package logs_test

import (
	"context"
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/engine"
	"github.com/pawl-work/pawl/pawltest"
	"github.com/pawl-work/pawl/store"
)

const day = 24 * time.Hour

// deletedBy deletes the task with force and returns the only event that is left.
func (c *logged) deletedBy(caller pawl.Caller, reason string) (pawl.Event, store.Tombstone) {
	c.Helper()
	ctx := pawl.As(c.Context(), caller)
	c.ok(first(c.Service.DeleteTasks(ctx, []pawl.TaskCall{{TaskID: c.task.ID, Force: true, Reason: reason}})))
	list, err := c.Service.ListEvents(c.Context(), pawl.EventFilter{TaskID: c.task.ID})
	c.ok(list, err)
	if len(list.Items) != 1 || list.Items[0].Event != "deleted" {
		c.Fatalf("a deleted task left %+v", list.Items)
	}
	var b store.Tombstone
	c.ok(nil, json.Unmarshal(list.Items[0].Data, &b))
	return list.Items[0], b
}

func (c *logged) breaches() []engine.Breach {
	c.Helper()
	all, err := c.Engine.Check(c.Context())
	c.ok(nil, err)
	logged, _, err := c.Engine.CheckLog(c.Context(), -1)
	c.ok(nil, err)
	return append(all, logged...)
}

func TestADeletedTaskLeavesATombstone(t *testing.T) {
	t.Parallel()
	eachSigned(t, func(t *testing.T, c *logged) {
		p := c.Pawl
		c.someEvents()
		c.ok(first(p.Service.CancelTasks(t.Context(), []pawl.TaskCall{{TaskID: c.task.ID}})))
		c.sign()
		before := c.verify()
		e, b := c.deletedBy(pawl.Caller{ActorType: "user", ActorID: "ann", Key: "key_1"}, "a test")
		if e.ActorID != "ann" || e.Message != "a test" || e.CreatedAt.IsZero() {
			t.Errorf("the event is %+v", e)
		}
		want := store.Tombstone{Key: "key_1", Type: "a", State: "cancelled", Events: int64(before.Events), LastEvent: b.LastEvent}
		if !reflect.DeepEqual(b, want) || !strings.HasPrefix(b.LastEvent, "evt_") {
			t.Errorf("the tombstone is %+v, want %+v", b, want)
		}
		feed, err := p.Service.ListEvents(t.Context(), pawl.EventFilter{Event: "deleted"})
		c.ok(nil, err)
		if len(feed.Items) != 1 || feed.Items[0].ID != e.ID {
			t.Errorf("deleted tasks are listed as %+v", feed.Items)
		}
		_, err = p.Service.GetTask(t.Context(), c.task.ID)
		if pawl.CodeOf(err) != pawl.CodeNotFound || !strings.Contains(err.Error(), "was deleted on") || !strings.Contains(err.Error(), "ann") {
			t.Errorf("the task is %v", err)
		}
		if _, err := p.Service.ListEvents(pawl.As(t.Context(), pawl.Caller{Namespace: "other"}),
			pawl.EventFilter{TaskID: c.task.ID}); pawl.CodeOf(
			err,
		) != pawl.CodeNotFound {
			t.Errorf("another namespace reads it: %v", err)
		}
		c.sign()
		if got := c.verify(); !got.Intact || got.Signed != 1 || got.Deleted == nil || got.Deleted.ActorID != "ann" {
			t.Errorf("%+v", got)
		}
		c.ok(nil, p.Engine.Log(t.Context()))
		if got := c.breaches(); len(got) > 0 {
			t.Errorf("the doctor finds %+v", got)
		}
		c.ok(p.Service.Sweep(t.Context()))
		p.Advance(89 * day)
		c.ok(p.Service.Sweep(t.Context()))
		if got := c.verify(); !got.Intact {
			t.Errorf("after 89 days: %+v", got)
		}
		p.Advance(2 * day)
		c.ok(p.Service.Sweep(t.Context()))
		if _, err := p.Engine.VerifyTask(t.Context(), c.task.ID, nil); pawl.CodeOf(err) != pawl.CodeNotFound {
			t.Errorf("after 91 days: %v", err)
		}
		if got := c.breaches(); len(got) > 0 {
			t.Errorf("the doctor finds %+v", got)
		}
	})
}

// A change or removal of any part of what a deleted task left is found.
func TestAChangedTombstoneIsFound(t *testing.T) {
	t.Parallel()
	const deleted = "WHERE move IN (SELECT code FROM pawl.moves WHERE event = 'deleted')"
	for name, does := range map[string][2]string{
		"a changed actor":      {"task_events", "UPDATE pawl.task_events SET actor = 0 " + deleted},
		"changed data":         {"task_events", "UPDATE pawl.task_events SET data = '{}' " + deleted},
		"a removed event":      {"task_events", "DELETE FROM pawl.task_events " + deleted},
		"a task without a row": {"task_events", "DELETE FROM pawl.tasks WHERE id = '$'"},
		"a removed record":     {"task_events", "DELETE FROM pawl.log_removals"},
		"a changed record":     {"task_events", "UPDATE pawl.log_removals SET created_at = 1"},
	} {
		t.Run(name, func(t *testing.T) {
			eachSigned(t, func(t *testing.T, c *logged) {
				p := c.Pawl
				c.someEvents()
				t.Cleanup(func() { // before the rules are checked
					var all []string
					for _, table := range []string{"task_events", "tombstones", "provenances", "checkpoints", "ready", "scheduled",
						"parked_items",
						"finished_items", "task_counters", "items", "tasks"} {
						all = append(all, "DELETE FROM pawl."+table)
					}
					c.around("task_events", all...)
				})
				c.ok(first(p.Service.CancelTasks(t.Context(), []pawl.TaskCall{{TaskID: c.task.ID}})))
				if !strings.Contains(does[1], "pawl.tasks") {
					c.deletedBy(pawl.Caller{ActorID: "ann"}, "")
				}
				c.sign()
				c.around(does[0], strings.ReplaceAll(does[1], "$", c.task.ID))
				if got := c.breaches(); len(got) == 0 {
					t.Error("the doctor finds nothing")
				}
			})
		})
	}
}

// A task that is restored from its archive after its deletion continues its chain. It is
// not taken for a task that is being deleted, and can be deleted again.
func TestATaskIsRestoredAfterItsDeletion(t *testing.T) {
	t.Parallel()
	pawltest.Each(t, func(t *testing.T, p *pawltest.Pawl) {
		c := &logged{scene: &scene{T: t, Pawl: p}}
		c.task = c.Create(pawl.NewTask{Type: "a"})
		c.ok(pawl.Fail(t.Context(), p.Service, c.Claim("a").Fence(), pawl.Permanent(errors.New("no"))))
		c.ok(nil, p.Engine.Log(t.Context()))
		archive := func() {
			for range 2 { // the first one dead-letters it
				p.Advance(99 * day)
				c.ok(p.Service.Sweep(t.Context()))
			}
		}
		archive()
		for range 2 {
			c.ok(p.Service.RestoreArchive(t.Context(), c.task.ID))
			c.ok(first(p.Service.RetryTasks(t.Context(), []pawl.TaskCall{{TaskID: c.task.ID}})))
			c.ok(nil, p.Engine.Log(t.Context()))
			c.ok(p.Service.Sweep(t.Context()))
			if got := c.verify(); !got.Intact || got.Deleted != nil {
				t.Fatalf("%+v", got)
			}
			c.deletedLast()
		}
		c.ok(p.Service.RestoreArchive(t.Context(), c.task.ID))
		archive()
		c.ok(p.Service.RestoreArchive(t.Context(), c.task.ID))
		if got := c.breaches(); len(got) > 0 {
			t.Errorf("the doctor finds %+v", got)
		}
	})
}

// deletedLast deletes the task with force. What it leaves is intact.
func (c *logged) deletedLast() {
	c.Helper()
	c.ok(first(c.Service.DeleteTasks(c.Context(), []pawl.TaskCall{{TaskID: c.task.ID, Force: true}})))
	if got := c.verify(); !got.Intact || got.Deleted == nil {
		c.Fatalf("%+v", got)
	}
}

// A deletion in many transactions has one tombstone from the first one on. Another
// process ends the deletion.
func TestALargeTaskHasOneTombstone(t *testing.T) {
	t.Parallel()
	pawltest.Each(t, func(t *testing.T, p *pawltest.Pawl) {
		c := &logged{scene: &scene{T: t, Pawl: p}}
		c.task = c.Create(pawl.NewTask{Type: "a", Items: make([]pawl.NewItem, 50)})
		c.ok(first(p.Service.CancelTasks(t.Context(), []pawl.TaskCall{{TaskID: c.task.ID}})))
		c.ok(nil, p.Engine.Log(t.Context()))
		by := &store.Deletion{Actor: store.Actor{Type: "user", ID: "ann"}}
		batch := func() (done bool) {
			c.ok(nil, p.Engine.DB().Do(t.Context(), func(ctx context.Context, tx store.Tx) (err error) {
				done, err = store.DeleteTask(ctx, tx, "default", c.task.ID, by, 60)
				return err
			}))
			return done
		}
		for n := range 3 {
			if batch() {
				t.Fatalf("it is gone after %d batches", n+1)
			}
			by = nil // another process continues
		}
		c.ok(nil, p.Engine.Log(t.Context()))
		if got := c.breaches(); len(got) > 0 {
			t.Errorf("half-way the doctor finds %+v", got)
		}
		for !batch() {
		}
		c.ok(nil, p.Engine.Log(t.Context()))
		if got := c.verify(); !got.Intact || got.Deleted.ActorID != "ann" || got.Deleted.Tombstone.Events < 100 {
			t.Errorf("%+v", got)
		}
		if got := c.breaches(); len(got) > 0 {
			t.Errorf("the doctor finds %+v", got)
		}
	})
}

// Two passes remove old tombstones at once, the second while the transaction of the first is
// open. Each tombstone is counted as removed once.
func TestTwoPassesRemoveATombstoneOnce(t *testing.T) {
	t.Parallel()
	pawltest.Each(t, func(t *testing.T, p *pawltest.Pawl) {
		const n = 3
		for range n {
			task := need[pawl.Task](t)(pawl.Create(t.Context(), p.Engine, pawl.NewTask{Type: "a"}))
			need[string](t)(first(p.Engine.DeleteTasks(t.Context(), []pawl.TaskCall{{TaskID: task.ID, Force: true}})))
		}
		p.Advance(time.Second)
		remove := func(held func()) (removed int, err error) {
			err = p.Engine.DB().Do(t.Context(), func(ctx context.Context, tx store.Tx) error {
				now, err := tx.Now(ctx)
				if err == nil {
					removed, err = store.RemoveTombstones(ctx, tx, now, 100)
				}
				held()
				return err
			})
			return removed, err
		}
		began, second := make(chan struct{}), make(chan int, 1)
		go func() {
			<-began
			removed, err := remove(func() {})
			if err != nil {
				t.Error(err)
			}
			second <- removed
		}()
		removed, err := remove(func() {
			close(began)
			time.Sleep(300 * time.Millisecond) // the second pass reads in this time
		})
		if err != nil {
			t.Fatal(err)
		}
		if other := <-second; removed != n || other != 0 {
			t.Errorf("removed %d and %d tombstones of %d", removed, other, n)
		}
		if found := need[[]engine.Breach](t)(p.Engine.Check(t.Context())); len(found) > 0 {
			t.Errorf("the totals: %+v", found)
		}
	})
}
