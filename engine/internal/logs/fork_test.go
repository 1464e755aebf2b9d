package logs_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/engine"
	"github.com/pawl-work/pawl/pawltest"
	"github.com/pawl-work/pawl/store"
)

// read reads one row without Pawl.
func (c *logged) read(query string, into ...any) {
	c.Helper()
	c.ok(nil, c.Engine.DB().View(c.Context(), func(ctx context.Context, tx store.Tx) error {
		_, err := store.Row(ctx, tx, into, query)
		return err
	}))
}

// A database that went back in time and went on: nothing is signed until the log is forked.
// The fork says how much of the old log it continues for certain, and never more.
func TestALogIsForked(t *testing.T) {
	t.Parallel()
	eachSigned(t, func(t *testing.T, c *logged) {
		c.someEvents()
		old := c.sign()
		var position int64
		var detail, kept string
		c.read("SELECT position, detail FROM pawl.relay_cursors WHERE sink = 'feed'", &position, &detail)
		c.read("SELECT note FROM pawl.log_checkpoints", &kept)
		if _, err := c.Engine.ForkLog(t.Context()); pawl.CodeOf(err) != pawl.CodeConflict {
			t.Errorf("a fork of a log that continues what was signed: %v", err)
		}
		var high int64
		c.read("SELECT MAX(id) FROM pawl.task_events", &high)
		c.ok(pawl.Complete(t.Context(), c.Service, c.Claim("a").Fence(), nil))
		lost := c.sign() // 10 leaves, and the process that signed them ends
		c.around("task_events", fmt.Sprintf("UPDATE pawl.task_events SET actor = 0 WHERE id > %d", high),
			"DELETE FROM pawl.log_runs WHERE first >= 8", "DELETE FROM pawl.feed_pages WHERE page > 8",
			"UPDATE pawl.log_checkpoints SET size = 8, note = '"+kept+"'",
			fmt.Sprintf("UPDATE pawl.relay_cursors SET position = %d, detail = '%s' WHERE sink = 'feed'", position, detail))
		if _, err := c.Engine.SignAfter(t.Context(), 10); pawl.CodeOf(err) != pawl.CodeConflict {
			t.Errorf("a signer that is running says nothing of the lost leaves: %v", err)
		}
		c.ok(c.Create(pawl.NewTask{Type: "c"}), nil)
		c.ok(nil, c.Engine.Log(t.Context())) // 11 leaves, three of them others than the lost ones
		if _, err := c.Engine.SignLog(t.Context()); pawl.CodeOf(err) != pawl.CodeConflict {
			t.Errorf("it is signed: %v", err)
		}
		got, err := c.Engine.VerifySince(t.Context(), lost, nil)
		if err != nil || got.Consistent || !strings.Contains(got.Found, "went back in time") {
			t.Errorf("since the lost checkpoint: %+v, %v", got, err)
		}
		if got, _, err := c.Engine.CheckLog(t.Context(), -1); err != nil || len(got) != 1 || !strings.Contains(got[0].Repair, "pawl log fork") ||
			got[0].Found != "root: the database went back in time: of the 10 leaves that were signed, some after leaf 8 are lost" {
			t.Errorf("the doctor says %+v, %v", got, err)
		}
		f, err := c.Engine.ForkLog(t.Context())
		if err != nil || f.Size != 8 || f.Lost != 2 || !strings.HasSuffix(f.Origin, "/2") || f.Checkpoint != lost {
			t.Fatalf("the fork is %+v, %v", f, err)
		}
		note := c.sign()
		if got := c.verifyAll(); !got.Intact || len(got.Forks) != 1 || got.Checkpoint.Note != note || got.Size < 11 {
			t.Errorf("forked: %+v", got)
		}
		if got := c.verify(); !got.Intact || got.Signed != 7 {
			t.Errorf("forked: %+v", got)
		}
		for text, want := range map[string]string{old: "", note: "", lost: "2 leaves of the checkpoint are lost after leaf 8"} {
			got, err := c.Engine.VerifySince(t.Context(), text, nil)
			if err != nil || got.Consistent != (want == "") || !strings.Contains(got.Found, want) {
				t.Errorf("since %q: %+v, %v", text, got, err)
			}
		}
		c.ok(c.Create(pawl.NewTask{Type: "c"}), nil)
		c.sign()
		if _, err := c.Engine.ForkLog(t.Context()); pawl.CodeOf(err) != pawl.CodeConflict {
			t.Errorf("a second fork: %v", err)
		}
	})
}

// Engines that sign with one key never take each other's checkpoints for a database that went
// back in time, and the kept one never gets smaller.
func TestManySignWithOneKey(t *testing.T) {
	t.Parallel()
	for _, which := range pawltest.Databases {
		t.Run(string(which), func(t *testing.T) {
			t.Parallel()
			o := withKey(t)
			p := pawltest.OpenReal(t, which, o)
			var busy sync.WaitGroup
			for _, e := range []*engine.Engine{p.Engine, p.Another(o), p.Another(o)} {
				busy.Go(func() {
					for range 30 {
						if _, err := pawl.Create(t.Context(), e, pawl.NewTask{Type: "a"}); err != nil {
							t.Error(err)
						}
						if err := e.Log(t.Context()); err != nil {
							t.Error(err)
						}
						if _, err := e.SignLog(t.Context()); err != nil {
							t.Error(err)
						}
					}
				})
			}
			busy.Wait()
			c, err := p.Engine.LogCheckpoint(t.Context())
			if err != nil || c.Size < 90 {
				t.Errorf("%+v, %v", c, err)
			}
		})
	}
}
