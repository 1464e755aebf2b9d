package engine_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/engine"
	"github.com/pawl-work/pawl/pawltest"
)

// chained is a task of some events, sealed in two passes. A test can change its events
// without Pawl.
type chained struct {
	*scene
	task   pawl.Task
	events []pawl.Event
}

func newChained(t *testing.T, p *pawltest.Pawl) *chained {
	t.Helper()
	c := &chained{scene: &scene{T: t, Pawl: p}}
	t.Cleanup(func() { c.ok(nil, forgetAll(p)) })
	ctx := pawl.WithProvenance(t.Context(), pawl.Provenance{AgentName: "research-bot", Model: "m-1"})
	task, err := pawl.Create(ctx, p.Service, pawl.NewTask{Type: "a", Payload: []byte(`1`)})
	c.ok(task, err)
	c.task = task
	c.ok(pawl.Create(ctx, p.Service, pawl.NewTask{Type: "b"})) // events of other tasks lie between
	c.ok(nil, p.Engine.Seal(t.Context()))
	for range 2 {
		l := c.claim("a")
		c.ok(pawl.Fail(t.Context(), p.Service, l.Fence(), pawl.RetryAfter(0, fmt.Errorf("no"))))
		c.ok(pawl.Create(t.Context(), p.Service, pawl.NewTask{Type: "b"}))
	}
	c.ok(nil, p.Engine.Seal(t.Context()))
	list, err := p.Service.ListEvents(t.Context(), pawl.EventFilter{TaskID: task.ID, Asc: true})
	c.ok(nil, err)
	c.events = list.Items
	if got := c.verify(""); !got.Intact || got.Sealed != 5 || got.Events != 5 || len(got.Head) != 43 {
		t.Fatalf("before anybody wrote around it: %+v", got)
	}
	return c
}

// forgetAll removes what a test has broken, before the rules are checked.
func forgetAll(p *pawltest.Pawl) error {
	ctx := context.Background()
	list, err := p.Service.ListTasks(ctx, pawl.TaskFilter{})
	if err != nil {
		return err
	}
	var calls []pawl.TaskCall
	for _, t := range list.Items {
		calls = append(calls, pawl.TaskCall{TaskID: t.ID, Force: true})
	}
	_, err = p.Service.DeleteTasks(ctx, calls)
	return err
}

func (c *chained) verify(head string) engine.Chain {
	c.Helper()
	got, err := c.Engine.VerifyTask(c.Context(), c.task.ID, head)
	c.ok(nil, err)
	return got
}

// around changes a table that refuses changes, as an owner of the database can. It removes
// the trigger that refuses them and then restores it.
func (c *chained) around(table string, queries ...string) {
	c.Helper()
	off, on := "ALTER TABLE pawl."+table+" DISABLE TRIGGER USER", "ALTER TABLE pawl."+table+" ENABLE TRIGGER USER"
	if c.Database == pawltest.SQLite {
		off = "DROP TRIGGER " + table + "_no_update"
		on = "CREATE TRIGGER " + table + "_no_update BEFORE UPDATE ON " + table +
			" BEGIN SELECT RAISE(ABORT, 'pawl: " + table + " is append-only'); END"
	}
	all := append([]string{off, "INSERT INTO pawl.retention_gate (reason) VALUES ('test')"}, queries...)
	for _, q := range append(all, "DELETE FROM pawl.retention_gate", on) {
		if err := c.Exec(q); err != nil {
			c.Fatalf("%s: %v", q, err)
		}
	}
}

func number(e pawl.Event) string { return strings.TrimPrefix(e.ID, "evt_") }

func (c *chained) broken(kind string, at int) {
	c.Helper()
	got := c.verify("")
	if got.Intact || got.Break == nil || got.Break.Kind != kind || at >= 0 && got.Break.EventID != c.events[at].ID {
		c.Errorf("%s at %d was found as %+v", kind, at, got.Break)
	}
	breaches, looked, err := c.Engine.CheckChains(c.Context(), -1)
	if err != nil || looked != 4 || len(breaches) != 1 || !strings.HasPrefix(breaches[0].Subject, c.task.ID) {
		c.Errorf("of %d chains the doctor finds %v, %v", looked, breaches, err)
	}
}

// A change of the events outside Pawl is found, whatever it is, and its place is
// reported.
func TestChainShowsWhatWasWrittenAroundIt(t *testing.T) {
	t.Parallel()
	for _, x := range []struct {
		name, kind string
		at         int
		table      string
		does       func(c *chained) []string
	}{
		{"a changed actor", "changed", 1, "task_events", func(c *chained) []string {
			return []string{"UPDATE pawl.task_events SET actor_id = 'somebody' WHERE id = " + number(c.events[1])}
		}},
		{"a changed time", "changed", 4, "task_events", func(c *chained) []string {
			return []string{"UPDATE pawl.task_events SET created_at = created_at + 1 WHERE id = " + number(c.events[4])}
		}},
		{"the first of two changes", "changed", 0, "task_events", func(c *chained) []string {
			return []string{"UPDATE pawl.task_events SET data = '{}' WHERE id IN (" + number(c.events[0]) + ", " + number(c.events[3]) + ")"}
		}},
		{"changed provenance", "changed", 0, "task_events", func(c *chained) []string {
			return []string{"UPDATE pawl.provenances SET model = 'm-2' WHERE task_id = '" + c.task.ID + "'"}
		}},
		{"removed provenance", "changed", 0, "task_events", func(c *chained) []string {
			return []string{"DELETE FROM pawl.provenances WHERE task_id = '" + c.task.ID + "'"}
		}},
		{"a missing event", "missing", 2, "task_events", func(c *chained) []string {
			return []string{"DELETE FROM pawl.task_events WHERE id = " + number(c.events[2])}
		}},
		{"a missing end", "missing", 4, "task_events", func(c *chained) []string {
			return []string{"DELETE FROM pawl.task_events WHERE id = " + number(c.events[4])}
		}},
		{"two that changed places", "reordered", 1, "task_events", func(c *chained) []string {
			a, b := number(c.events[1]), number(c.events[4])
			return []string{"UPDATE pawl.task_events SET id = 1000000 WHERE id = " + a, "UPDATE pawl.task_events SET id = " + a + " WHERE id = " + b,
				"UPDATE pawl.task_events SET id = " + b + " WHERE id = 1000000"}
		}},
		{"an event of another task", "inserted", -1, "task_events", func(c *chained) []string {
			return []string{"UPDATE pawl.task_events SET task_id = '" + c.task.ID + "' WHERE id = (SELECT MIN(id) FROM pawl.task_events WHERE " +
				"task_id <> '" + c.task.ID + "' AND id < " + number(c.events[4]) + " AND id > " + number(c.events[1]) + ")"}
		}},
		{"a changed seal", "changed", 1, "seals", func(c *chained) []string {
			return []string{"UPDATE pawl.seals SET links = (SELECT links FROM pawl.seals WHERE task_id = '" + c.task.ID +
				"' AND last = 1) || substr(links, 44) WHERE task_id = '" + c.task.ID + "' AND last = 5"}
		}},
		{"a seal that is no seal", "seals", -1, "seals", func(c *chained) []string {
			return []string{"UPDATE pawl.seals SET links = '?' WHERE task_id = '" + c.task.ID + "' AND last = 5"}
		}},
		{"a missing seal", "seals", -1, "seals", func(c *chained) []string {
			return []string{"DELETE FROM pawl.seals WHERE task_id = '" + c.task.ID + "' AND last = 1"}
		}},
		{"a missing last seal", "inserted", 1, "seals", func(c *chained) []string {
			return []string{"DELETE FROM pawl.seals WHERE task_id = '" + c.task.ID + "' AND last = 5"}
		}},
	} {
		t.Run(x.name, func(t *testing.T) {
			pawltest.Each(t, func(t *testing.T, p *pawltest.Pawl) {
				c := newChained(t, p)
				c.around(x.table, x.does(c)...)
				if x.kind == "inserted" && x.at < 0 { // the other task misses one
					got := c.verify("")
					if got.Break == nil || got.Break.Kind != x.kind {
						t.Errorf("found as %+v", got.Break)
					}
					return
				}
				c.broken(x.kind, x.at)
			})
		})
	}
}

// An end of the chain that was cut off with its seals, or a chain that was written anew,
// is found only by comparing with an older head that is kept elsewhere.
func TestAKeptHeadShowsACutEnd(t *testing.T) {
	t.Parallel()
	pawltest.Each(t, func(t *testing.T, p *pawltest.Pawl) {
		c := newChained(t, p)
		head := c.verify("").Head
		l := c.claim("a")
		c.ok(pawl.Complete(t.Context(), p.Service, l.Fence(), []byte(`1`)))
		c.ok(nil, p.Engine.Seal(t.Context()))
		if got := c.verify(head); !got.Intact || got.Sealed != 7 || got.Head == head {
			t.Fatalf("an older head: %+v", got)
		}
		head = c.verify("").Head
		c.around("task_events", "DELETE FROM pawl.seals WHERE task_id = '"+c.task.ID+"' AND last = 7",
			"DELETE FROM pawl.task_events WHERE task_id = '"+c.task.ID+"' AND id > "+number(c.events[4]))
		if got := c.verify(""); !got.Intact || got.Sealed != 5 {
			t.Errorf("without a head: %+v", got)
		}
		if got := c.verify(head); got.Intact || got.Break.Kind != "head" {
			t.Errorf("with the head: %+v", got)
		}
		if got := c.verify("nonsense"); got.Intact {
			t.Error("any text is a head")
		}
	})
}

// An event that is not sealed yet is no breach: verify says how far the chain goes.
func TestVerifySaysHowFarItIsSealed(t *testing.T) {
	t.Parallel()
	pawltest.Each(t, func(t *testing.T, p *pawltest.Pawl) {
		c := newChained(t, p)
		l := c.claim("a")
		if got := c.verify(""); !got.Intact || got.Sealed != 5 || got.Events != 6 {
			t.Errorf("with an event behind the seals: %+v", got)
		}
		if _, err := p.Engine.Feed().Head(t.Context()); err != nil { // it now has a position and no seal
			t.Fatal(err)
		}
		if got := c.verify(""); !got.Intact || got.Sealed != 5 || got.Events != 6 {
			t.Errorf("with a position: %+v", got)
		}
		c.ok(pawl.Release(t.Context(), p.Service, l.Fence()))
		c.ok(nil, p.Engine.Seal(t.Context()))
		if got := c.verify(""); !got.Intact || got.Sealed != 7 {
			t.Errorf("sealed: %+v", got)
		}
	})
}

// Several engines seal one chain without gaps while others write. A running engine seals
// by itself.
func TestManySealOneChain(t *testing.T) {
	t.Parallel()
	for _, which := range pawltest.Databases {
		t.Run(string(which), func(t *testing.T) {
			t.Parallel()
			p := pawltest.OpenReal(t, which)
			engines := []*engine.Engine{p.Engine, p.Another(engine.Options{}), p.Another(engine.Options{})}
			var busy sync.WaitGroup
			for n, e := range engines {
				busy.Go(func() {
					for i := range 20 {
						_, err := pawl.Create(t.Context(), e,
							pawl.NewTask{Type: "a", Items: []pawl.NewItem{{Input: []byte(`1`)}, {Input: []byte(`2`)}, {Input: []byte(`3`)}}})
						if err != nil {
							t.Error(err)
						}
						ls, err := e.Claim(t.Context(), pawl.ClaimRequest{WorkerID: fmt.Sprint("w", n), Limit: 3})
						if err != nil {
							t.Error(err)
						}
						for _, l := range ls {
							if _, err := pawl.Complete(t.Context(), e, l.Fence(), nil); err != nil {
								t.Error(err)
							}
						}
						if i%3 == n {
							if err := e.Seal(t.Context()); err != nil {
								t.Error(err)
							}
						}
					}
				})
			}
			busy.Wait()
			if err := engines[1].Seal(t.Context()); err != nil {
				t.Fatal(err)
			}
			whole(t, p.Engine, 60)

			ctx, stop := context.WithCancel(t.Context())
			defer stop()
			for _, e := range engines[1:] {
				busy.Go(func() { _ = e.Run(ctx) })
			}
			task, err := pawl.Create(t.Context(), p.Engine, pawl.NewTask{Type: "b"})
			if err != nil {
				t.Fatal(err)
			}
			for deadline := time.After(time.Minute); ; {
				got, err := p.Engine.VerifyTask(t.Context(), task.ID, "")
				if err != nil || !got.Intact {
					t.Fatalf("%+v, %v", got, err)
				}
				if got.Sealed == 1 {
					break
				}
				select {
				case <-deadline:
					t.Fatal("nobody sealed it")
				case <-time.After(20 * time.Millisecond):
				}
			}
			stop()
			busy.Wait()
		})
	}
}

// whole checks that all events of all tasks are sealed and that the seals are right.
func whole(t *testing.T, e *engine.Engine, tasks int) {
	t.Helper()
	breaches, looked, err := e.CheckChains(t.Context(), -1)
	if err != nil || len(breaches) > 0 || looked != tasks {
		t.Fatalf("%d chains: %v, %v", looked, breaches, err)
	}
	list, err := e.ListTasks(t.Context(), pawl.TaskFilter{Page: pawl.Page{Limit: 1000}})
	if err != nil {
		t.Fatal(err)
	}
	for _, task := range list.Items {
		c, err := e.VerifyTask(t.Context(), task.ID, "")
		if err != nil || c.Sealed != int64(c.Events) || c.Events < 4 {
			t.Errorf("%s: %+v, %v", task.ID, c, err)
		}
	}
}

// A task that is restored from its archive has its chain. Events that were not sealed
// when it was archived are sealed then.
func TestChainsLiveThroughTheArchive(t *testing.T) {
	t.Parallel()
	pawltest.Each(t, func(t *testing.T, p *pawltest.Pawl) {
		ctx := pawl.WithProvenance(t.Context(), pawl.Provenance{AgentName: "research-bot"})
		c := &chained{scene: &scene{T: t, Pawl: p}}
		for n, half := range []bool{true, false} {
			task, err := pawl.Create(ctx, p.Service, pawl.NewTask{Type: "a"})
			c.ok(nil, err)
			c.task = task
			c.ok(nil, p.Engine.Seal(t.Context()))
			l := c.claim("a")
			c.ok(pawl.Complete(ctx, p.Service, l.Fence(), []byte(`1`)))
			if !half {
				c.ok(nil, p.Engine.Seal(t.Context()))
			}
			p.Advance(31 * 24 * time.Hour)
			c.ok(p.Service.Sweep(t.Context()))
			if _, err := p.Engine.VerifyTask(t.Context(), task.ID, ""); pawl.CodeOf(err) != pawl.CodeNotFound {
				t.Fatalf("it is not archived: %v", err)
			}
			c.ok(pawl.Create(t.Context(), p.Service, pawl.NewTask{Type: fmt.Sprint("b", n)}))
			c.ok(nil, p.Engine.Seal(t.Context()))
			c.ok(p.Service.RestoreArchive(t.Context(), task.ID))
			if got := c.verify(""); !got.Intact || got.Sealed != 3 {
				t.Errorf("half sealed %v: %+v", half, got)
			}
			rows, err := p.Service.ListProvenance(t.Context(), pawl.ProvenanceFilter{TaskID: task.ID})
			if err != nil || len(rows.Items) != 2 || rows.Items[1].EventID == "" {
				t.Errorf("provenance %v, %v", rows.Items, err)
			}
		}
	})
}

// More events than one batch takes are sealed in several batches and still form one
// chain.
func TestAChainGoesOnFromBatchToBatch(t *testing.T) {
	pawltest.Each(t, func(t *testing.T, p *pawltest.Pawl) {
		const items = 10_500
		c := &chained{scene: &scene{T: t, Pawl: p}}
		c.task = c.create(pawl.NewTask{Type: "a", Items: make([]pawl.NewItem, items)})
		c.ok(first(p.Service.CancelTasks(t.Context(), []pawl.TaskCall{{TaskID: c.task.ID}})))
		c.ok(nil, p.Engine.Seal(t.Context()))
		got := c.verify("")
		if !got.Intact || got.Sealed != int64(got.Events) || got.Events < 2*items {
			t.Errorf("%+v", got)
		}
	})
}
