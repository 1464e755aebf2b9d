package logs_test

import (
	"bytes"
	"context"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/engine"
	"github.com/pawl-work/pawl/engine/internal/archives"
	"github.com/pawl-work/pawl/pawltest"
	"github.com/pawl-work/pawl/store"
)

// archivedFile archives a task of several events and values, and returns the file of its
// archive.
func (c *logged) archivedFile() string {
	c.Helper()
	ctx := pawl.WithProvenance(c.Context(), pawl.Provenance{AgentName: "research-bot", Model: "m-1"})
	task, err := pawl.Create(ctx, c.Service, pawl.NewTask{Type: "a", Payload: []byte(`{"p":1}`),
		Items: []pawl.NewItem{{Input: []byte(`{"i":1}`)}, {Input: []byte(`{"i":2}`)}}})
	c.ok(task, err)
	c.task = task
	c.Create(pawl.NewTask{Type: "b"}) // its events lie between
	for range 2 {
		c.ok(pawl.Complete(ctx, c.Service, c.Claim("a").Fence(), []byte(`{"r":1}`)))
		c.Create(pawl.NewTask{Type: "b", Items: make([]pawl.NewItem, 300)})
	}
	c.sign()
	return c.archiveOf()
}

// archiveOf archives the task, which has ended, and returns the file.
func (c *logged) archiveOf() (file string) {
	c.Helper()
	c.Advance(31 * 24 * time.Hour)
	c.ok(c.Service.Sweep(c.Context()))
	a, err := c.Service.ListArchives(c.Context(), pawl.Page{Limit: pawl.MaxPage})
	c.ok(nil, err)
	i := slices.IndexFunc(a.Items, func(a pawl.Archive) bool { return a.TaskID == c.task.ID })
	if i < 0 {
		c.Fatalf("archives %+v", a.Items)
	}
	file = a.Items[i].Path
	if file == "" { // PostgreSQL has it in its table
		err := c.Engine.DB().View(c.Context(), func(ctx context.Context, tx store.Tx) error {
			a, err := (&archives.Keeper{}).Read(ctx, c.Engine.DB(), "default", c.task.ID)
			file = c.TempDir() + "/archive"
			if err == nil {
				err = os.WriteFile(file, a.Body, 0o600)
			}
			return err
		})
		c.ok(nil, err)
	}
	return file
}

// rewritten returns a copy of an archive with a change.
func (c *logged) rewritten(file, from, to string) string {
	c.Helper()
	data, err := os.ReadFile(file)
	c.ok(nil, err)
	in, err := zstd.NewReader(bytes.NewReader(data))
	c.ok(nil, err)
	defer in.Close()
	var text bytes.Buffer
	_, err = text.ReadFrom(in)
	c.ok(nil, err)
	if !strings.Contains(text.String(), from) {
		c.Fatalf("the archive has no %s: %s", from, text.String())
	}
	var out bytes.Buffer
	zip, err := zstd.NewWriter(&out)
	c.ok(nil, err)
	_, err = zip.Write([]byte(strings.Replace(text.String(), from, to, 1)))
	c.ok(nil, err)
	c.ok(nil, zip.Close())
	copied := c.TempDir() + "/copy"
	c.ok(nil, os.WriteFile(copied, out.Bytes(), 0o600))
	return copied
}

// An archive proves its events by itself, with the public key of the log and without the
// database. One that was changed is at fault, and the event is named.
func TestAnArchiveProvesItsEvents(t *testing.T) {
	t.Parallel()
	eachSigned(t, func(t *testing.T, c *logged) {
		file := c.archivedFile()
		key := strings.TrimSpace(c.public())
		got, err := engine.VerifyArchive(file, []string{key})
		c.ok(nil, err)
		if !got.Intact || got.Events != 8 || got.Proved != 8 || got.TaskID != c.task.ID || got.Checkpoint == nil {
			t.Fatalf("%+v", got)
		}
		for _, x := range []struct{ name, from, to, kind string }{
			{"an actor", `"actor_type":"worker"`, `"actor_type":"user"`, "changed"},
			{"an input", `"input":"{\"i\":2}"`, `"input":"{\"i\":3}"`, "changed"},
			{"a payload", `"payload":"{\"p\":1}"`, `"payload":"{\"p\":2}"`, "changed"},
			{"a result", `"result":"{\"r\":1}"`, `"result":"{\"r\":2}"`, "changed"},
			{"provenance", `"model":"m-1"`, `"model":"m-2"`, "changed"},
			{"an event that is gone", `{"table":"task_events"`, `{"table":"removed"`, "missing"},
			{"a proof that is gone", `"leaves":[0,`, `"leaves":[9999,`, "unproved"},
			{"a checkpoint", `"checkpoint":"pawl/`, `"checkpoint":"pawl/x`, "root"},
			{"no line of the log", `{"table":"log"`, `{"table":"none"`, "root"},
		} {
			got, err := engine.VerifyArchive(c.rewritten(file, x.from, x.to), []string{key})
			c.ok(nil, err)
			found := false
			for _, f := range got.Faults {
				found = found || f.Kind == x.kind && (f.EventID != "" || x.kind == "root")
			}
			if got.Intact || !found || got.Events < 7 {
				t.Errorf("%s: %+v", x.name, got)
			}
		}
	})
}

// An archive proves its events where the database cannot: the leaves of all tasks were changed,
// and the rows of the others are gone.
func TestAnArchiveIsRestoredByItsOwnProofs(t *testing.T) {
	t.Parallel()
	eachSigned(t, func(t *testing.T, c *logged) {
		c.Cleanup(func() { c.ok(nil, forgetAll(c.Pawl)) })
		c.archivedFile()
		zeros := "decode(repeat('00', length(leaves)), 'hex')"
		if c.Database == pawltest.SQLite {
			zeros = "zeroblob(length(leaves))"
		}
		c.around("log_tiles", "UPDATE pawl.log_tiles SET leaves = "+zeros+" WHERE level = 0")
		c.ok(c.Service.RestoreArchive(t.Context(), c.task.ID))
		if got := c.verifyAll(); got.Intact {
			t.Error("nothing says that the leaves were changed")
		}
	})
}

// Tasks that are archived together have proofs of their own: what is damaged in the log takes those of no other.
func TestADamagedTileTakesNoProofOfOthers(t *testing.T) {
	t.Parallel()
	eachSigned(t, func(t *testing.T, c *logged) {
		var all []pawl.Task
		for range 120 { // 3 events each; a tile has 256
			all = append(all, c.Create(pawl.NewTask{Type: "a"}))
			c.ok(pawl.Complete(t.Context(), c.Service, c.Claim("a").Fence(), nil))
		}
		c.sign()
		zeros := "decode(repeat('00', length(leaves)), 'hex')"
		if c.Database == pawltest.SQLite {
			zeros = "zeroblob(length(leaves))"
		}
		c.around("log_tiles", "UPDATE pawl.log_tiles SET leaves = "+zeros+" WHERE level = 0 AND n = 0")
		key := strings.TrimSpace(c.public())
		for i, want := range map[int]int{0: 0, 119: 3} {
			c.task = all[i]
			got, err := engine.VerifyArchive(c.archiveOf(), []string{key})
			c.ok(nil, err)
			if got.Proved != want {
				t.Errorf("of task %d %d events are proved, want %d: %+v", i, got.Proved, want, got)
			}
		}
		c.Cleanup(func() { c.ok(nil, forgetAll(c.Pawl)) })
	})
}

// The events of a restored task are compared with the log before the feed is locked.
func TestARestoreComparesBeforeItLocks(t *testing.T) {
	pawltest.Each(t, func(t *testing.T, p *pawltest.Pawl) {
		task := p.Create(pawl.NewTask{Type: "a"})
		p.Complete(p.Claim("a"), "")
		p.Advance(31 * 24 * time.Hour)
		need[pawl.SweepStats](t)(p.Engine.Sweep(t.Context()))
		var mu sync.Mutex
		var locked, compared, n int
		e := p.Another(engine.Options{Statement: func(query string) {
			mu.Lock()
			defer mu.Unlock()
			n++
			if strings.Contains(query, "sink = 'feed'") {
				locked = n
			} else if strings.Contains(query, "COALESCE(e.since, 0)") {
				compared = n
			}
		}})
		need[pawl.Task](t)(e.RestoreArchive(t.Context(), task.ID))
		if compared == 0 || compared > locked {
			t.Errorf("statement %d compares events, statement %d locks the feed", compared, locked)
		}
	})
}
