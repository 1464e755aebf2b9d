package logs_test

import (
	"context"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/engine"
	"github.com/pawl-work/pawl/engine/internal/archives"
	"github.com/pawl-work/pawl/store"
)

// segmented ends n tasks of one item, signs their log and archives them together. It returns their ids and the file
// of their segment.
func (c *logged) segmented(n int) (ids []string, file string) {
	c.Helper()
	for range n {
		ids = append(ids, c.Create(pawl.NewTask{Type: "a", Payload: []byte(`{"p":1}`)}).ID)
		c.Create(pawl.NewTask{Type: "b"}) // its events lie between
	}
	for range n {
		c.ok(pawl.Complete(c.Context(), c.Service, c.Claim("a").Fence(), []byte(`{"r":1}`)))
	}
	c.sign()
	c.Advance(31 * 24 * time.Hour)
	c.ok(c.Service.Sweep(c.Context()))
	return ids, c.segmentFile(ids[0])
}

// segmentFile returns the file of the segment of a task.
func (c *logged) segmentFile(id string) (file string) {
	c.Helper()
	c.ok(nil, c.Engine.DB().View(c.Context(), func(ctx context.Context, tx store.Tx) error {
		a, err := (&archives.Keeper{}).Read(ctx, c.Engine.DB(), "default", id)
		if err != nil || a.Segment == nil {
			c.Fatalf("the archive of %s: %+v, %v", id, a, err)
		}
		if file = a.Segment.Path; file == "" {
			body, err := a.Segment.ReadBody(ctx, tx)
			c.ok(nil, err)
			file = c.TempDir() + "/segment"
			return os.WriteFile(file, body, 0o600)
		}
		return nil
	}))
	return file
}

// A segment proves the events of all its tasks with the public key of the log alone. One that was changed is at fault.
func TestASegmentProvesItsEvents(t *testing.T) {
	t.Parallel()
	eachSigned(t, func(t *testing.T, c *logged) {
		ids, file := c.segmented(20)
		keys := []string{strings.TrimSpace(c.public())}
		got, err := engine.VerifyArchive(file, keys)
		c.ok(nil, err)
		if !got.Intact || got.Tasks != 20 || got.Events != 60 || got.Proved != 60 {
			t.Fatalf("%+v", got)
		}
		for _, x := range []struct{ name, from, to, kind string }{
			{"an actor", `"actor_type":"worker"`, `"actor_type":"user"`, store.FaultChanged},
			{"an input", `"input":"{\"p\":1}"`, `"input":"{\"p\":2}"`, store.FaultChanged},
			{"a result", `"result":"{\"r\":1}"`, `"result":"{\"r\":2}"`, store.FaultChanged},
			{"an event that is gone", `{"table":"task_events"`, `{"table":"removed"`, store.FaultMissing},
			{"a checkpoint", `"checkpoint":"pawl/`, `"checkpoint":"pawl/x`, store.FaultRoot},
			{"a task that is gone", `{"table":"tasks","id":"` + slices.Min(ids), `{"table":"tasks","id":"tsk_`, store.FaultMissing},
		} {
			got, err := engine.VerifyArchive(c.rewritten(file, x.from, x.to), keys)
			c.ok(nil, err)
			if got.Intact || !slices.ContainsFunc(got.Faults, func(f engine.LogFault) bool { return f.Kind == x.kind }) {
				t.Errorf("%s: %+v", x.name, got)
			}
		}
		if got, err = engine.VerifyArchive(file, otherKey(t)); err != nil || got.Intact || got.Proved != 0 {
			t.Errorf("with another key: %+v, %v", got, err)
		}
		c.ok(c.Service.RestoreArchive(c.Context(), ids[7]))
		for _, id := range []string{ids[0], ids[8], ids[19]} {
			c.ok(nil, c.Service.DeleteArchive(c.Context(), id))
		}
		got, err = engine.VerifyArchive(c.segmentFile(ids[1]), keys)
		c.ok(nil, err)
		if !got.Intact || got.Tasks != 17 || got.Events != 51 || got.Proved != 51 {
			t.Errorf("without the tasks that were deleted: %+v", got)
		}
		c.ok(c.Service.RestoreArchive(c.Context(), ids[9]))
		if r, err := c.Service.Doctor(c.Context(), pawl.DoctorCall{}); err != nil || len(r.Breaches) > 0 {
			t.Errorf("doctor: %+v, %v", r, err)
		}
	})
}
