package logs_test

import (
	"bytes"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/engine"
	"github.com/pawl-work/pawl/pawltest"
	"github.com/pawl-work/pawl/translog"
)

// lines returns the lines of an archive.
func (c *logged) lines(file string) []string {
	c.Helper()
	data, err := os.ReadFile(file)
	c.ok(nil, err)
	in, err := zstd.NewReader(bytes.NewReader(data))
	c.ok(nil, err)
	defer in.Close()
	var text bytes.Buffer
	_, err = text.ReadFrom(in)
	c.ok(nil, err)
	return slices.Collect(strings.Lines(text.String()))
}

// written writes lines as an archive.
func (c *logged) written(lines []string) (file string) {
	c.Helper()
	var out bytes.Buffer
	zip, err := zstd.NewWriter(&out)
	c.ok(nil, err)
	_, err = zip.Write([]byte(strings.Join(lines, "")))
	c.ok(nil, err)
	c.ok(nil, zip.Close())
	file = c.TempDir() + "/archive"
	c.ok(nil, os.WriteFile(file, out.Bytes(), 0o600))
	return file
}

// row returns the index of the first line of a table with a text.
func (c *logged) row(lines []string, table, with string) int {
	c.Helper()
	at := slices.IndexFunc(lines, func(l string) bool {
		return strings.HasPrefix(l, `{"table":"`+table+`"`) && strings.Contains(l, with)
	})
	if at < 0 {
		c.Fatalf("no row of %s has %s:\n%s", table, with, strings.Join(lines, ""))
	}
	return at
}

// forgery is a change of an archive. faults are the kinds of what a check has to find.
type forgery struct {
	name   string
	change func(lines []string) []string
	kind   string
}

// refused checks that an archive is intact as it was written, and not with any of the changes.
func (c *logged) refused(file string, changes []forgery) {
	c.Helper()
	key := strings.TrimSpace(c.public())
	whole := c.lines(file)
	got, err := engine.VerifyArchive(c.written(whole), []string{key})
	c.ok(nil, err)
	if !got.Intact || got.Proved != got.Events || got.Unproved != nil {
		c.Fatalf("before: %+v", got)
	}
	for _, x := range changes {
		got, err := engine.VerifyArchive(c.written(x.change(slices.Clone(whole))), []string{key})
		if x.kind == "invalid" {
			if pawl.CodeOf(err) != pawl.CodeInvalid {
				c.Errorf("%s: %+v, %v", x.name, got, err)
			}
			continue
		}
		c.ok(nil, err)
		if got.Intact || !slices.ContainsFunc(got.Faults, func(f engine.LogFault) bool { return f.Kind == x.kind }) {
			c.Errorf("%s: %+v", x.name, got)
		}
	}
}

// before puts a changed copy of a row before it.
func (c *logged) before(table, from, to string) func([]string) []string {
	return func(lines []string) []string {
		at := c.row(lines, table, from)
		return slices.Insert(lines, at, strings.Replace(lines[at], from, to, 1))
	}
}

// without removes the rows of a table that have a text.
func without(table, with string) func([]string) []string {
	return func(lines []string) []string {
		return slices.DeleteFunc(lines, func(l string) bool {
			return strings.HasPrefix(l, `{"table":"`+table+`"`) && strings.Contains(l, with)
		})
	}
}

// replaced replaces the first text of a row.
func (c *logged) replaced(table, from, to string) func([]string) []string {
	return func(lines []string) []string {
		at := c.row(lines, table, from)
		lines[at] = strings.Replace(lines[at], from, to, 1)
		return lines
	}
}

// An archive with a row that its writer does not write is not intact: a second row of a key, in
// front of the genuine one, is what another reader of the file takes.
func TestAnArchiveWithForgedRowsIsNotIntact(t *testing.T) {
	t.Parallel()
	eachSigned(t, func(t *testing.T, c *logged) {
		file := c.archivedFile()
		lines := c.lines(file)
		other := lines[c.row(lines, "items", "")]
		other = strings.Replace(other, other[len(`{"table":"items","id":"`):][:len("itm_")+26], "itm_01ARZ3NDEKTSV4RRFFQ69G5FAV", 1)
		c.refused(file, []forgery{
			{"an event twice", c.before("task_events", `"actor_type":"worker"`, `"actor_type":"user"`), "row"},
			{"an item twice", c.before("items", `{\"i\":2}`, `{\"i\":3}`), "row"},
			{"a result twice", c.before("finished_items", `{\"r\":1}`, `{\"r\":2}`), "row"},
			{"the task twice", c.before("tasks", `{\"p\":1}`, `{\"p\":2}`), "row"},
			{"provenance twice", c.before("provenances", `"m-1"`, `"m-2"`), "row"},
			{"a row of a table without values twice", c.before("task_counters", `"completed"`, `"failed"`), "row"},
			{"two lines of the log", c.before("log", `"checkpoint":"pawl/`, `"checkpoint":"pawl/x`), "row"},
			{"a row behind the line of the log", func(l []string) []string {
				at := c.row(l, "task_counters", "")
				return append(slices.Delete(l, at, at+1), l[at])
			}, "row"},
			{"provenance before its event", func(l []string) []string {
				at, first := c.row(l, "provenances", ""), c.row(l, "task_events", "")
				moved := l[at]
				return slices.Insert(slices.Delete(l, at, at+1), first, moved)
			}, "row"},
			{"provenance of an unknown event", c.before("provenances", `"event_id":`, `"event_id":99`), "row"},
			{"another task", c.replaced("tasks", `"id":"tsk_`, `"id":"tsk_0`), "row"},
			{"another namespace", c.replaced("tasks", `"namespace":"default"`, `"namespace":"other"`), "row"},
			{"no rows", func([]string) []string { return nil }, "row"},
			{"the line of the log alone", func(l []string) []string {
				return []string{l[c.row(l, "log", "")]}
			}, "row"},
			{"no task", without("tasks", ""), "row"},
			{"no events", func(l []string) []string {
				out := without("provenances", "")(without("task_events", "")(l))
				for _, name := range []string{"events", "leaves", "proofs"} {
					out = c.emptied(out, name)
				}
				return out
			}, "row"},
			{"an added item", func(l []string) []string { return slices.Insert(l, c.row(l, "items", ""), other) }, "unproved"},
			{"an added result", c.before("task_events", `{"table":"task_events"`,
				`{"table":"task_results","task_id":"`+c.task.ID+`","namespace":"default","payload":"9","created_at":1}`+"\n"+
					`{"table":"unknown"`), "unproved"},
			{"a row of an unknown table", c.before("task_events", `"task_events"`, `"later_events"`), "row"},
			{"a number that is none", c.replaced("task_events", `"attempt":null`, `"attempt":0.5`), "row"},
			{"a text that is none", c.replaced("task_events", `"diff":null`, `"diff":{"forged":true}`), "row"},
			{"an added column", c.replaced("task_events", `"diff":null`, `"diff":null,"forged":true`), "row"},
			{"a member twice", c.replaced("items", `"input":"{\"i\":2}"`, `"input":"{\"i\":3}","input":"{\"i\":2}"`), "invalid"},
			{"two rows in a line", c.replaced("items", "}\n", "}{}\n"), "invalid"},
		})
	})
}

// emptied empties a list of the line of the log.
func (c *logged) emptied(lines []string, name string) []string {
	c.Helper()
	at := c.row(lines, "log", `"`+name+`":[`)
	head, tail, _ := strings.Cut(lines[at], `"`+name+`":[`)
	depth, end := 1, 0
	for ; depth > 0; end++ {
		switch tail[end] {
		case '[':
			depth++
		case ']':
			depth--
		}
	}
	lines[at] = head + `"` + name + `":[]` + tail[end:]
	return lines
}

// The input of a task of one is in the row of the task alone: a row of its item hides no change of it. So is that of
// the first item of a task that got more.
func TestTheArchiveOfATaskOfOneHasOneInput(t *testing.T) {
	t.Parallel()
	eachSigned(t, func(t *testing.T, c *logged) {
		for _, more := range []int{0, 2} {
			c.task = c.Create(pawl.NewTask{Type: "a", Payload: []byte(`{"p":1}`)})
			if more > 0 {
				add := pawl.AddItems{TaskID: c.task.ID, Items: []pawl.NewItem{{Input: []byte(`{"i":2}`)}, {}}}
				c.ok(first(c.Service.AddItems(t.Context(), []pawl.AddItems{add})))
			}
			for range 1 + more {
				c.Complete(c.Claim("a"), `{"r":1}`)
			}
			c.sign()
			item := `{"table":"items","id":"itm_` + strings.TrimPrefix(c.task.ID, "tsk_") + `","namespace":"default","task_id":"` + c.task.ID +
				`","input":"{\"p\":1}"}` + "\n"
			changed := c.replaced("tasks", `{\"p\":1}`, `{\"p\":2}`)
			all := []forgery{{"the input", changed, map[int]string{0: "changed", 2: "unproved"}[more]}}
			if more == 0 {
				all = append(all, forgery{"a row of its item", func(l []string) []string {
					l = changed(l)
					return slices.Insert(l, c.row(l, "tasks", "")+1, item)
				}, "row"}, forgery{"a payload", c.replaced("tasks", `"payload":null`, `"payload":"9"`), "unproved"})
			}
			c.refused(c.archiveOf(), all)
		}
	})
}

// After a rotation the file of public keys has several lines, and an archive is signed with the
// key of its time. A key that cannot be used is the caller's error, and no fault of the archive.
func TestAllKeysThatAreGivenCount(t *testing.T) {
	t.Parallel()
	eachSigned(t, func(t *testing.T, c *logged) {
		file := c.archivedFile()
		for range 2 {
			c.ok(nil, c.Engine.RotateLogKey(t.Context()))
		}
		public := c.public()
		keys := strings.Fields(public)
		if len(keys) != 3 {
			t.Fatalf("keys %q", public)
		}
		for _, given := range [][]string{{public}, keys, {public, keys[0]}, {keys[2] + "\r\n" + keys[0]}} {
			if got, err := engine.VerifyArchive(file, given); err != nil || !got.Intact {
				t.Errorf("%q: %+v, %v", given, got, err)
			}
		}
		if got, err := engine.VerifyArchive(file, keys[1:]); err != nil || got.Intact || got.Faults[0].Kind != "root" {
			t.Errorf("later keys: %+v, %v", got, err)
		}
		for _, given := range [][]string{nil, {""}, {"pawl/x"}, {keys[0], "x"}} {
			if _, err := engine.VerifyArchive(file, given); pawl.CodeOf(err) != pawl.CodeInvalid {
				t.Errorf("%q: %v", given, err)
			}
			if given == nil {
				continue // those beside the signing key
			}
			if _, err := c.Engine.VerifyLog(t.Context(), -1, &translog.Trust{Keys: given}); pawl.CodeOf(err) != pawl.CodeInvalid {
				t.Errorf("the log, %q: %v", given, err)
			}
		}
		c.sign() // with the newest
		if got, err := c.Engine.VerifyLog(t.Context(), -1, &translog.Trust{Keys: []string{public}}); err != nil || !got.Intact {
			t.Errorf("the log: %+v, %v", got, err)
		}
	})
}

// A changed leaf keeps no archive from being restored, also when another event of the archive
// has a leaf without the digest of its value: that leaf is what was logged.
func TestALeafWithoutADigestKeepsNoArchiveFromBeingRestored(t *testing.T) {
	t.Parallel()
	for _, changed := range []string{"first = 1", "first IN (0, 1)"} {
		t.Run(changed, func(t *testing.T) {
			eachSigned(t, func(t *testing.T, c *logged) {
				c.Cleanup(func() { c.ok(nil, forgetAll(c.Pawl)) })
				c.Create(pawl.NewTask{Type: "b"})
				c.sign() // the run of leaves from 0
				c.task = c.Create(pawl.NewTask{Type: "a"})
				c.sign() // from 1
				c.ok(pawl.Complete(t.Context(), c.Service, c.Claim("a").Fence(), []byte(`{"r":1}`)))
				c.around("finished_items", "UPDATE pawl.finished_items SET result = NULL WHERE task_id = '"+c.task.ID+"'")
				c.sign()
				c.around("finished_items", "UPDATE pawl.finished_items SET result = '{\"r\":1}' WHERE task_id = '"+c.task.ID+"'")
				c.Tampered()
				zeros := "decode(repeat('00', length(leaves)), 'hex')"
				if c.Database == pawltest.SQLite {
					zeros = "zeroblob(length(leaves))"
				}
				c.ok(nil, c.Exec("UPDATE pawl.log_runs SET leaves = "+zeros+" WHERE "+changed))
				c.Advance(31 * 24 * time.Hour)
				c.ok(c.Service.Sweep(t.Context()))
				c.ok(c.Service.RestoreArchive(t.Context(), c.task.ID))
				if got := c.verifyAll(); !names(got, "leaf", c.eventOf(c.task.ID, "proposed", "")) {
					t.Errorf("%+v", got.Faults)
				}
			})
		})
	}
}
