package logs_test

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/mod/sumdb/note"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/engine"
	"github.com/pawl-work/pawl/pawltest"
	"github.com/pawl-work/pawl/store"
	"github.com/pawl-work/pawl/translog"
)

// packed returns numbers of events as a literal of SQL, as the tables of the log have them.
func (c *logged) packed(events ...pawl.Event) string {
	var ids []int64
	for _, e := range events {
		var n int64
		for _, digit := range number(e) {
			n = n*10 + int64(digit-'0')
		}
		ids = append(ids, n)
	}
	text := hex.EncodeToString(store.Pack(ids))
	if c.Database == pawltest.Postgres {
		return "decode('" + text + "', 'hex')"
	}
	return "x'" + text + "'"
}

// names says whether a fault of a kind names an event.
func names(v engine.LogVerification, kind string, e pawl.Event) bool {
	return !v.Intact && slices.ContainsFunc(v.Faults, func(f engine.LogFault) bool { return f.Kind == kind && f.EventID == e.ID })
}

// A row that says that an event was removed hides nothing when the log does not say so.
func TestARemovalThatIsNotInTheLogHidesNothing(t *testing.T) {
	t.Parallel()
	for name, does := range map[string]func(c *logged, gone pawl.Event) []string{
		"a row with a leaf of another event": func(c *logged, gone pawl.Event) []string {
			return []string{"INSERT INTO pawl.log_removals (ids, leaf, created_at) VALUES (" + c.packed(gone) + ", 5, 1)"}
		},
		"a row with a leaf behind the log": func(c *logged, gone pawl.Event) []string {
			return []string{"INSERT INTO pawl.log_removals (ids, leaf, created_at) VALUES (" + c.packed(gone) + ", 1000, 1)"}
		},
		"a record that was changed": func(c *logged, gone pawl.Event) []string {
			return []string{"UPDATE pawl.log_removals SET ids = " + c.packed(gone)}
		},
	} {
		t.Run(name, func(t *testing.T) {
			eachSigned(t, func(t *testing.T, c *logged) {
				other := c.Create(pawl.NewTask{Type: "c"})
				c.ok(first(c.Service.DeleteTasks(t.Context(), []pawl.TaskCall{{TaskID: other.ID, Force: true}})))
				c.task = c.Create(pawl.NewTask{Type: "a"})
				c.ok(pawl.Complete(t.Context(), c.Service, c.Claim("a").Fence(), nil))
				c.Cleanup(func() { c.ok(nil, forgetAll(c.Pawl)) })
				c.sign()
				if got := c.verifyAll(); !got.Intact {
					t.Fatalf("before anybody wrote around it: %+v", got)
				}
				list, err := c.Service.ListEvents(t.Context(), pawl.EventFilter{TaskID: c.task.ID, Asc: true})
				c.ok(nil, err)
				gone := list.Items[1]
				c.around("task_events", append(does(c, gone), "DELETE FROM pawl.task_events WHERE id = "+number(gone))...)
				got := c.verifyAll()
				if !names(got, "missing", gone) {
					t.Errorf("%+v", got)
				}
				if !slices.ContainsFunc(got.Faults, func(f engine.LogFault) bool { return f.Kind == "removal" }) {
					t.Errorf("the row is not named: %+v", got)
				}
			})
		})
	}
}

// A removal that the log does not have yet is named, and is none of the log's faults.
func TestARemovalThatWaitsForTheLogIsNamed(t *testing.T) {
	t.Parallel()
	eachSigned(t, func(t *testing.T, c *logged) {
		c.someEvents()
		c.ok(first(c.Service.DeleteTasks(t.Context(), []pawl.TaskCall{{TaskID: c.task.ID, Force: true}})))
		got := c.verifyAll()
		if !got.Intact || got.Unlogged == nil || got.Unlogged.Events != 5 || !slices.Contains(got.Unlogged.IDs, c.events[0].ID) {
			t.Errorf("%+v", got.Unlogged)
		}
		c.sign()
		if got := c.verifyAll(); !got.Intact || got.Unlogged != nil {
			t.Errorf("logged: %+v", got)
		}
	})
}

// The removal of an event excuses nothing that happens to it after its task was restored.
func TestAnEventThatWasRestoredMustBeThere(t *testing.T) {
	t.Parallel()
	eachSigned(t, func(t *testing.T, c *logged) {
		c.task = c.Create(pawl.NewTask{Type: "a"})
		c.ok(pawl.Complete(t.Context(), c.Service, c.Claim("a").Fence(), nil))
		c.Cleanup(func() { c.ok(nil, forgetAll(c.Pawl)) })
		list, err := c.Service.ListEvents(t.Context(), pawl.EventFilter{TaskID: c.task.ID, Asc: true})
		c.ok(nil, err)
		retire := func() {
			c.Advance(31 * 24 * time.Hour)
			c.ok(c.Service.Sweep(t.Context()))
			c.sign()
		}
		c.sign()
		for range 2 {
			retire()
			c.ok(c.Service.RestoreArchive(t.Context(), c.task.ID))
			c.sign()
		}
		retire()
		if got := c.verifyAll(); !got.Intact {
			t.Errorf("removed again: %+v", got)
		}
		c.ok(c.Service.RestoreArchive(t.Context(), c.task.ID))
		if got := c.verifyAll(); !got.Intact {
			t.Errorf("restored and not logged: %+v", got)
		}
		c.sign()
		c.around("task_events", "DELETE FROM pawl.task_events WHERE id = "+number(list.Items[1]))
		if got := c.verifyAll(); len(got.Faults) != 1 || !names(got, "missing", list.Items[1]) {
			t.Errorf("%+v", got)
		}
	})
}

// An id on two pages, and positions on two pages, are faults of the pages.
func TestPagesNameEachEventOnce(t *testing.T) {
	t.Parallel()
	eachSigned(t, func(t *testing.T, c *logged) {
		c.someEvents()
		c.around("task_events", "INSERT INTO pawl.log_pages (page, ids, count, created_at, low, high) "+
			"SELECT page, ids, count, created_at, low, high FROM pawl.feed_pages WHERE page = 1")
		got := c.verifyAll()
		if got.Intact || got.Faults[0].Kind != "page" || got.Faults[0].Position != 1 {
			t.Errorf("a page twice: %+v", got)
		}
		c.around("task_events", "DELETE FROM pawl.log_pages", "UPDATE pawl.feed_pages SET ids = "+c.packed(c.events[0])+
			", count = 1 WHERE page = (SELECT MAX(page) FROM pawl.feed_pages)")
		got = c.verifyAll()
		if !names(got, "page", c.events[0]) {
			t.Errorf("an event twice: %+v", got)
		}
	})
}

// Who names a key wants its signature: a log without a checkpoint of that key is not intact.
func TestAKeyThatSignedNothingIsAFault(t *testing.T) {
	t.Parallel()
	eachSigned(t, func(t *testing.T, c *logged) {
		c.someEvents()
		_, public, err := note.GenerateKey(rand.Reader, "pawl/other")
		c.ok(nil, err)
		all, err := c.Engine.VerifyLog(t.Context(), -1, &translog.Trust{Keys: []string{public}})
		if err != nil || all.Intact || all.Faults[0].Kind != "root" {
			t.Errorf("the log: %+v, %v", all, err)
		}
		one, err := c.Engine.VerifyTask(t.Context(), c.task.ID, &translog.Trust{Keys: []string{public}})
		if err != nil || one.Intact || one.Faults[0].Kind != "root" {
			t.Errorf("the task: %+v, %v", one, err)
		}
	})
}

// The proofs of a task come in pages, each under its own checkpoint, and every one is true.
func TestProofsHavePages(t *testing.T) {
	t.Parallel()
	eachSigned(t, func(t *testing.T, c *logged) {
		c.task = c.Create(pawl.NewTask{Type: "a", Items: make([]pawl.NewItem, 300)})
		c.sign()
		c.ok(pawl.Complete(t.Context(), c.Service, c.Claim("a").Fence(), nil)) // no checkpoint has these events yet
		list, err := c.Service.ListEvents(t.Context(), pawl.EventFilter{TaskID: c.task.ID, Asc: true, Page: pawl.Page{Limit: 1000}})
		c.ok(nil, err)
		var proved []string
		for page := (pawl.Page{Limit: 70}); ; {
			got, err := c.Engine.ProveTask(t.Context(), c.task.ID, page)
			c.ok(nil, err)
			if len(got.Proofs) > 70 {
				t.Fatalf("a page of %d", len(got.Proofs))
			}
			checkpoint := opened(t, got.Checkpoint.Note, c.public())
			for _, p := range got.Proofs {
				c.ok(nil, checkpoint.proves(p))
				proved = append(proved, p.EventID)
			}
			if got.Next == "" {
				break
			}
			page.Cursor = got.Next
		}
		var want []string
		for _, e := range list.Items[:301] {
			want = append(want, e.ID)
		}
		if !slices.Equal(proved, want) {
			t.Errorf("%d proofs of %d events", len(proved), len(want))
		}
		for _, page := range []pawl.Page{{Limit: 1001}, {Limit: -1}, {Cursor: "x"}} {
			if _, err := c.Engine.ProveTask(t.Context(), c.task.ID, page); pawl.CodeOf(err) != pawl.CodeInvalid {
				t.Errorf("page %+v: %v", page, err)
			}
		}
	})
}

// An archive with an event, an input or a result that is not what was logged is not restored. One of events that no signed
// checkpoint has is restored without a proof.
func TestAChangedArchiveIsNotRestored(t *testing.T) {
	t.Parallel()
	eachSigned(t, func(t *testing.T, c *logged) {
		end := func() string {
			task := c.Create(pawl.NewTask{Type: "a"})
			c.Complete(c.Claim("a"), `1`)
			return task.ID
		}
		tasks := []string{end(), end()}
		c.sign()
		changed := []pawl.Event{c.eventOf(tasks[0], "leased", ""), c.eventOf(tasks[1], "completed", "")}
		c.around("task_events", "UPDATE pawl.task_events SET actor = 0 WHERE id = "+number(changed[0])) // and then it is archived
		c.around("finished_items", "UPDATE pawl.finished_items SET result = '9' WHERE task_id = '"+tasks[1]+"'")
		unsigned := end()
		c.Advance(31 * 24 * time.Hour)
		c.ok(c.Service.Sweep(t.Context()))
		for i, id := range tasks {
			_, err := c.Service.RestoreArchive(t.Context(), id)
			if err == nil || !strings.Contains(fmt.Sprint(err, errors.Unwrap(err)), changed[i].ID+" is not what was logged") {
				t.Errorf("it is restored: %v", err)
			}
			if _, err := c.Service.GetTask(t.Context(), id); pawl.CodeOf(err) != pawl.CodeNotFound {
				t.Errorf("the task is there: %v", err)
			}
		}
		c.ok(c.Service.RestoreArchive(t.Context(), unsigned))
	})
}

// A leaf that was changed keeps no archive from being restored: the signed root says that the
// archive is what was logged. A check then names the leaf. Leaves of other tasks that were
// changed with it change nothing of that, and a changed archive is refused all the same.
func TestAChangedLeafKeepsNoArchiveFromBeingRestored(t *testing.T) {
	t.Parallel()
	for _, x := range []struct {
		name    string
		leaves  string // the run of leaves that is replaced
		changed bool   // the archive is changed too
	}{
		{"a leaf of the task", "first = 1", false},
		{"leaves of the task and of others", "first > 0", false},
		{"a leaf, and the archive", "first = 1", true},
		{"a leaf of another task, and the archive", "first = 0", true},
	} {
		t.Run(x.name, func(t *testing.T) {
			eachSigned(t, func(t *testing.T, c *logged) {
				c.Cleanup(func() { c.ok(nil, forgetAll(c.Pawl)) })
				c.Create(pawl.NewTask{Type: "b"})
				c.sign() // the first run of leaves
				c.task = c.Create(pawl.NewTask{Type: "a"})
				c.sign()
				c.Create(pawl.NewTask{Type: "b"})
				c.ok(pawl.Complete(t.Context(), c.Service, c.Claim("a").Fence(), nil))
				c.sign()
				list, err := c.Service.ListEvents(t.Context(), pawl.EventFilter{TaskID: c.task.ID, Asc: true})
				c.ok(nil, err)
				if x.changed {
					c.around("task_events", "UPDATE pawl.task_events SET actor = 0 WHERE id = "+number(list.Items[1]))
				}
				c.Tampered()
				zeros := "decode(repeat('00', length(leaves)), 'hex')"
				if c.Database == pawltest.SQLite {
					zeros = "zeroblob(length(leaves))"
				}
				c.ok(nil, c.Exec("UPDATE pawl.log_runs SET leaves = "+zeros+" WHERE "+x.leaves))
				c.Advance(31 * 24 * time.Hour)
				c.ok(c.Service.Sweep(t.Context()))
				_, err = c.Service.RestoreArchive(t.Context(), c.task.ID)
				if x.changed {
					if err == nil || !strings.Contains(fmt.Sprint(err, errors.Unwrap(err)), list.Items[1].ID) {
						t.Errorf("it is restored: %v, %v", err, errors.Unwrap(err))
					}
					return
				}
				c.ok(nil, err)
				got, err := c.Engine.VerifyTask(t.Context(), c.task.ID, nil)
				c.ok(nil, err)
				if got.Intact || x.leaves == "first = 1" && (len(got.Faults) != 1 || got.Faults[0].Kind != "leaf" ||
					got.Faults[0].EventID != list.Items[0].ID) {
					t.Errorf("the task: %+v", got.Faults)
				}
				if all := c.verifyAll(); all.Intact || !names(all, "leaf", list.Items[0]) {
					t.Errorf("the log: %+v", all.Faults)
				}
			})
		})
	}
}

// A row that names another history does not make the checkpoint beside the key count for
// nothing.
func TestTheCheckpointBesideTheKeyCounts(t *testing.T) {
	t.Parallel()
	eachSigned(t, func(t *testing.T, c *logged) {
		c.someEvents()
		c.sign()
		if got := c.verifyAll(); !got.Intact {
			t.Fatalf("before anybody wrote around it: %+v", got)
		}
		c.Tampered()
		c.ok(nil, c.Exec("UPDATE pawl.log_epochs SET origin = 'pawl/another'"))
		got := c.verifyAll()
		if got.Intact || !slices.ContainsFunc(got.Faults, func(f engine.LogFault) bool { return f.Kind == "root" }) {
			t.Errorf("%+v", got)
		}
	})
}
