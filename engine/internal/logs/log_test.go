package logs_test

import (
	"context"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/engine"
	"github.com/pawl-work/pawl/pawltest"
)

// A change of the events or of their log outside Pawl is found, whatever it is, and exactly
// what was changed is named.
func TestTheLogShowsWhatWasWrittenAroundIt(t *testing.T) {
	t.Parallel()
	for _, x := range []struct {
		name, kind string
		at         int // the event of the task; -1 = none
		ofTask     bool
		table      string
		does       func(c *logged) []string
	}{
		{"a changed actor", "changed", 1, true, "task_events", func(c *logged) []string {
			return []string{"UPDATE pawl.task_events SET actor = 0 WHERE id = " + number(c.events[1])}
		}},
		{"a changed time", "changed", 4, true, "task_events", func(c *logged) []string {
			return []string{"UPDATE pawl.task_events SET created_at = created_at + 1 WHERE id = " + number(c.events[4])}
		}},
		{"changed provenance", "changed", 0, true, "task_events", func(c *logged) []string {
			return []string{"UPDATE pawl.provenances SET model = 'm-2' WHERE task_id = '" + c.task.ID + "'"}
		}},
		{"removed provenance", "changed", 0, true, "task_events", func(c *logged) []string {
			return []string{"DELETE FROM pawl.provenances WHERE task_id = '" + c.task.ID + "'"}
		}},
		{"a missing event", "missing", 2, false, "task_events", func(c *logged) []string {
			return []string{"DELETE FROM pawl.task_events WHERE id = " + number(c.events[2])}
		}},
		{"a missing end", "missing", 4, false, "task_events", func(c *logged) []string {
			return []string{"DELETE FROM pawl.task_events WHERE id = " + number(c.events[4])}
		}},
		{"an event that is inserted", "inserted", -1, true, "task_events", func(c *logged) []string {
			set := "json_set(detail, '$.top', (SELECT MAX(id) FROM pawl.task_events))"
			if c.Database == pawltest.Postgres {
				set = "jsonb_set(detail::jsonb, '{top}', (SELECT to_jsonb(MAX(id)) FROM pawl.task_events))::text"
			}
			return []string{"INSERT INTO pawl.task_events (namespace, task_id, move, actor, created_at) VALUES ('default', '" +
				c.task.ID + "', (SELECT code FROM pawl.moves WHERE event = 'stale'), 0, 1)",
				"UPDATE pawl.relay_cursors SET detail = " + set + " WHERE sink = 'feed'"}
		}},
		{"a changed leaf", "leaf", 0, true, "task_events", func(*logged) []string {
			return []string{"UPDATE pawl.log_runs SET leaves = (SELECT leaves FROM pawl.log_runs WHERE first = 1) WHERE first = 0"}
		}},
		{"leaves that are cut off", "tile", -1, true, "task_events", func(*logged) []string {
			return []string{"DELETE FROM pawl.log_runs WHERE first > 0"}
		}},
		{"a page that is cut off", "page", -1, false, "task_events", func(*logged) []string {
			return []string{"UPDATE pawl.feed_pages SET ids = substr(ids, 1, length(ids) - 1) WHERE page = (SELECT MAX(page) FROM pawl.feed_pages)"}
		}},
		{"a page that is missing", "page", -1, false, "task_events", func(*logged) []string {
			return []string{"DELETE FROM pawl.feed_pages WHERE page = 1"}
		}},
	} {
		t.Run(x.name, func(t *testing.T) {
			eachSigned(t, func(t *testing.T, c *logged) {
				c.someEvents()
				c.around(x.table, x.does(c)...)
				names := func(faults []engine.LogFault) bool {
					for _, f := range faults {
						if f.Kind == x.kind && (x.at < 0 || f.EventID == c.events[x.at].ID) {
							return len(faults) == 1 || x.kind == "page"
						}
					}
					return false
				}
				if got := c.verify(); x.ofTask && (got.Intact || !names(got.Faults)) {
					t.Errorf("the task: %+v", got.Faults)
				}
				if got := c.verifyAll(); got.Intact || !names(got.Faults) {
					t.Errorf("the log: %+v", got.Faults)
				}
				if breaches, _, err := c.Engine.CheckLog(t.Context(), -1); err != nil || len(breaches) == 0 {
					t.Errorf("the doctor finds %v, %v", breaches, err)
				}
			})
		})
	}
}

// An end that was cut off with its leaves, or a log that was written anew, is found by the
// checkpoint beside the key, and by one that is kept elsewhere.
func TestACheckpointShowsACutEnd(t *testing.T) {
	t.Parallel()
	eachSigned(t, func(t *testing.T, c *logged) {
		c.someEvents()
		note := c.sign()
		since := func() engine.SinceVerification {
			v, err := c.Engine.VerifySince(t.Context(), note, nil)
			c.ok(nil, err)
			return v
		}
		l := c.Claim("a")
		c.ok(pawl.Complete(t.Context(), c.Service, l.Fence(), []byte(`1`)))
		c.sign()
		if got := since(); !got.Consistent || got.Since != 8 || got.Size != 10 {
			t.Fatalf("an older checkpoint: %+v", got)
		}
		c.around("task_events", "UPDATE pawl.task_events SET actor = 0 WHERE id = "+number(c.events[0]),
			"DELETE FROM pawl.log_runs", "DELETE FROM pawl.feed_pages", "DELETE FROM pawl.log_checkpoints",
			"UPDATE pawl.relay_cursors SET position = 0, detail = '{}' WHERE sink = 'feed'")
		c.ok(nil, c.Engine.Log(t.Context())) // written anew
		if got := since(); got.Consistent || !strings.Contains(got.Found, "another root") {
			t.Errorf("with the checkpoint: %+v", got)
		}
		if got := c.verify(); got.Intact || got.Faults[0].Kind != "root" {
			t.Errorf("with the checkpoint beside the key: %+v", got)
		}
		_, err := c.Engine.SignLog(t.Context())
		if pawl.CodeOf(err) != pawl.CodeConflict || !strings.Contains(err.Error(), "not a continuation") {
			t.Errorf("it is signed: %v", err)
		}
	})
}

// An event that is not in the log yet is no fault: verify says how far the log goes.
func TestVerifySaysHowFarItIsLogged(t *testing.T) {
	t.Parallel()
	eachSigned(t, func(t *testing.T, c *logged) {
		c.someEvents()
		l := c.Claim("a")
		if got := c.verify(); !got.Intact || got.Logged != 5 || got.Events != 6 {
			t.Errorf("with an event behind the log: %+v", got)
		}
		c.ok(nil, c.Engine.Log(t.Context()))
		if got := c.verify(); !got.Intact || got.Logged != 6 || got.Signed != 5 {
			t.Errorf("with an event behind the checkpoint: %+v", got)
		}
		c.ok(pawl.Release(t.Context(), c.Service, l.Fence()))
		c.sign()
		if got := c.verify(); !got.Intact || got.Signed != 7 {
			t.Errorf("signed: %+v", got)
		}
	})
}

// Several engines write one log without gaps while others write events. A running engine
// logs and signs by itself.
func TestManyWriteOneLog(t *testing.T) {
	t.Parallel()
	for _, which := range pawltest.Databases {
		t.Run(string(which), func(t *testing.T) {
			t.Parallel()
			o := withKey(t)
			p := pawltest.OpenReal(t, which, o)
			engines := []*engine.Engine{p.Engine, p.Another(o), p.Another(o)}
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
							if err := e.Log(t.Context()); err != nil {
								t.Error(err)
							}
						}
					}
				})
			}
			busy.Wait()
			if err := engines[1].Log(t.Context()); err != nil {
				t.Fatal(err)
			}
			got, err := p.Engine.VerifyLog(t.Context(), -1, nil)
			if err != nil || !got.Intact || got.Events != int(got.Size) || got.Events < 60*10 {
				t.Fatalf("%+v, %v", got, err)
			}

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
				got, err := p.Engine.VerifyTask(t.Context(), task.ID, nil)
				if err != nil || !got.Intact {
					t.Fatalf("%+v, %v", got, err)
				}
				if got.Signed == 1 {
					break
				}
				select {
				case <-deadline:
					t.Fatal("nobody signed it")
				case <-time.After(20 * time.Millisecond):
				}
			}
			stop()
			busy.Wait()
		})
	}
}

// A task that is restored from its archive is in the log as before. Events that were not in
// the log when it was archived are added then.
func TestTheLogLivesThroughTheArchive(t *testing.T) {
	t.Parallel()
	eachSigned(t, func(t *testing.T, c *logged) {
		ctx := pawl.WithProvenance(t.Context(), pawl.Provenance{AgentName: "research-bot"})
		for n := range 2 {
			task, err := pawl.Create(ctx, c.Service, pawl.NewTask{Type: "a"})
			c.ok(nil, err)
			c.task = task
			c.ok(nil, c.Engine.Log(t.Context()))
			l := c.Claim("a")
			c.ok(pawl.Complete(ctx, c.Service, l.Fence(), []byte(`1`)))
			c.Advance(31 * 24 * time.Hour)
			c.ok(c.Service.Sweep(t.Context()))
			c.ok(pawl.Create(t.Context(), c.Service, pawl.NewTask{Type: fmt.Sprint("b", n)}))
			c.sign()
			if got := c.verifyAll(); !got.Intact {
				t.Errorf("in the archive: %+v", got)
			}
			c.ok(c.Service.RestoreArchive(t.Context(), task.ID))
			c.sign()
			if got := c.verify(); !got.Intact || got.Signed != 3 {
				t.Errorf("restored: %+v", got)
			}
			if got := c.verifyAll(); !got.Intact {
				t.Errorf("restored: %+v", got)
			}
			rows, err := c.Service.ListProvenance(t.Context(), pawl.ProvenanceFilter{TaskID: task.ID})
			if err != nil || len(rows.Items) != 2 || rows.Items[1].EventID == "" {
				t.Errorf("provenance %v, %v", rows.Items, err)
			}
		}
	})
}

// More events than a page and a tile take are all proved.
func TestALargeTaskIsInTheLog(t *testing.T) {
	eachSigned(t, func(t *testing.T, c *logged) {
		const items = 5_500 // several batches of the sequencer
		c.task = c.Create(pawl.NewTask{Type: "a", Items: make([]pawl.NewItem, items)})
		c.ok(first(c.Service.CancelTasks(t.Context(), []pawl.TaskCall{{TaskID: c.task.ID}})))
		c.sign()
		got := c.verify()
		if !got.Intact || got.Signed != got.Events || got.Events < 2*items {
			t.Errorf("%+v", got)
		}
		if all := c.verifyAll(); !all.Intact || all.Events != got.Events {
			t.Errorf("%+v", all)
		}
		page, err := c.Service.ListEvents(t.Context(), pawl.EventFilter{TaskID: c.task.ID, Asc: true, Page: pawl.Page{Limit: 1000}})
		c.ok(nil, err)
		c.around("task_events", "UPDATE pawl.task_events SET message = 'x' WHERE id = "+number(page.Items[700]))
		if got := c.verify(); len(got.Faults) != 1 || got.Faults[0].Kind != "changed" || got.Faults[0].EventID != page.Items[700].ID {
			t.Errorf("a changed row: %+v", got.Faults)
		}
	})
}

// A checkpoint that was signed and not stored is signed again, although the log does not grow.
func TestACheckpointThatWasNotStoredIsSignedAgain(t *testing.T) {
	t.Parallel()
	eachSigned(t, func(t *testing.T, c *logged) {
		c.someEvents()
		c.ok(nil, c.Engine.Log(t.Context()))
		c.ok(nil, c.Exec("ALTER TABLE pawl.log_checkpoints RENAME TO away"))
		size, err := c.Engine.SignAfter(t.Context(), 0)
		if err == nil {
			t.Fatal("it was stored")
		}
		c.ok(nil, c.Exec("ALTER TABLE pawl.away RENAME TO log_checkpoints"))
		size, err = c.Engine.SignAfter(t.Context(), size)
		c.ok(nil, err)
		if got := c.verify(); !got.Intact || got.Signed != 5 {
			t.Errorf("%+v", got)
		}
	})
}

// Each fault of a signer's files has its message, and nothing is signed.
func TestASignerIsRefusedWhatItCannotKnow(t *testing.T) {
	t.Parallel()
	o := withKey(t)
	other, otherKey := pawltest.OpenWith(t, pawltest.SQLite, o), o.TransparencyLog.Key
	if err := other.Exec("UPDATE pawl.log_epochs SET origin = 'pawl/other'"); err != nil { // tests of SQLite have copies of one file
		t.Fatal(err)
	}
	if _, err := other.Engine.SignLog(t.Context()); err != nil {
		t.Fatal(err)
	}
	eachSigned(t, func(t *testing.T, c *logged) {
		c.someEvents()
		refused := func(says string) {
			t.Helper()
			_, err := c.Engine.SignLog(t.Context())
			if err == nil || !strings.Contains(err.Error(), says) {
				t.Errorf("%q is %v", says, err)
			}
		}
		c.ok(nil, os.Rename(c.key, c.key+".away"))
		refused("the signing key is lost")
		if got := c.verify(); !got.Intact || got.Signed != 5 {
			t.Errorf("without the private key: %+v", got)
		}
		c.ok(nil, c.Engine.RotateLogKey(t.Context()))
		c.sign()
		if got := c.verify(); !got.Intact || got.Signed != 5 {
			t.Errorf("with another key: %+v", got)
		}
		info, err := os.Stat(c.key)
		if err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("the key's file is %v, %v", info.Mode(), err)
		}
		text, err := os.ReadFile(otherKey + ".signed")
		c.ok(nil, err)
		c.ok(nil, os.WriteFile(c.key+".signed", text, 0o600))
		refused("is of another database")
		c.ok(nil, os.WriteFile(c.key+".signed", []byte("nonsense"), 0o600))
		refused("is damaged")
		c.ok(nil, os.Remove(c.key+".signed"))
		text, err = os.ReadFile(otherKey)
		c.ok(nil, err)
		c.ok(nil, os.WriteFile(c.key, text, 0o600))
		refused("is of another log")
	})
}
