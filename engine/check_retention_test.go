package engine_test

import (
	"os"
	"slices"
	"testing"
	"time"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/engine"
	"github.com/pawl-work/pawl/pawltest"
)

// broken returns the subjects of the breaches of a rule.
func broken(t *testing.T, p *pawltest.Pawl, rule string) (out []string) {
	t.Helper()
	for _, b := range need[[]engine.Breach](t)(p.Engine.Check(t.Context())) {
		if b.Rule == rule && b.Code == rule && b.Repair != "" {
			out = append(out, b.Subject)
		}
	}
	return out
}

// ended creates tasks that have ended.
func endedTasks(t *testing.T, p *pawltest.Pawl, n int) (ids []string) {
	t.Helper()
	for range n {
		ids = append(ids, need[pawl.Task](t)(pawl.Create(t.Context(), p.Engine, pawl.NewTask{Type: "a"})).ID)
		l := leases(t, p.Engine, pawl.ClaimRequest{WorkerID: "w"}, 1)[0]
		need[pawl.Moved](t)(pawl.Complete(t.Context(), p.Engine, l.Fence(), nil))
	}
	return ids
}

// An archive that is gone or changed is named. One whose task was restored is not needed.
func TestDoctorFindsLostArchives(t *testing.T) {
	t.Parallel()
	pawltest.Each(t, func(t *testing.T, p *pawltest.Pawl) {
		ids := endedTasks(t, p, 3)
		p.Advance(31 * 24 * time.Hour)
		need[pawl.SweepStats](t)(p.Engine.Sweep(t.Context()))
		if got := broken(t, p, "archive_unreadable"); got != nil {
			t.Fatalf("before: %v", got)
		}
		need[pawl.Task](t)(p.Engine.RestoreArchive(asOperator(t.Context()), ids[2]))
		list := need[pawl.List[pawl.Archive]](t)(p.Engine.ListArchives(t.Context(), pawl.Page{}))
		for _, a := range list.Items {
			if a.Path == "" {
				break
			}
			// They are in one segment.
			if err := os.Truncate(a.Path, 10); err != nil {
				t.Fatal(err)
			}
		}
		if p.Database == pawltest.Postgres {
			if err := p.Exec(`UPDATE pawl.segments SET body = substr(body, 1, 10)`); err != nil {
				t.Fatal(err)
			}
		}
		got := broken(t, p, "archive_unreadable")
		if slices.Sort(got); !slices.Equal(got, ids[:2]) {
			t.Errorf("%v, want %v", got, ids[:2])
		}
	})
}

// A task that the cursor of its retention has passed, and that is there all the same, is named.
func TestDoctorFindsWhatRetentionHasPassed(t *testing.T) {
	t.Parallel()
	pawltest.Each(t, func(t *testing.T, p *pawltest.Pawl) {
		stuck := endedTasks(t, p, 1)
		if err := p.Exec(`INSERT INTO pawl.relay_cursors (sink, position, detail, updated_at)
			SELECT 'sweep.retain', MAX(id), '{}', 0 FROM pawl.task_events`); err != nil {
			t.Fatal(err)
		}
		endedTasks(t, p, 1) // behind the cursor
		if got := broken(t, p, "retention_stuck"); !slices.Equal(got, stuck) {
			t.Errorf("%v, want %v", got, stuck)
		}
		if err := p.Exec(`UPDATE pawl.relay_cursors SET detail = '{"again":["` + stuck[0] + `"]}' WHERE sink = 'sweep.retain'`); err != nil {
			t.Fatal(err)
		}
		if got := broken(t, p, "retention_stuck"); got != nil {
			t.Errorf("of what is tried again: %v", got)
		}
	})
}

// What is still to come for more than an hour is a warning.
func TestDoctorWarnsOfPendingConsequences(t *testing.T) {
	t.Parallel()
	pawltest.Each(t, func(t *testing.T, p *pawltest.Pawl) {
		pending := func() (out []string) {
			for _, w := range need[[]engine.Warning](t)(p.Engine.Warnings(t.Context())) {
				if w.Code == "consequence_pending" {
					out = append(out, w.Detail)
				}
			}
			return out
		}
		parent := need[pawl.Task](t)(pawl.Create(t.Context(), p.Engine, pawl.NewTask{Type: "a"}))
		need[pawl.Task](t)(pawl.Create(t.Context(), p.Engine, pawl.NewTask{Type: "a", ParentID: parent.ID}))
		if err := p.Exec(`UPDATE pawl.parents SET todo = 1`); err != nil {
			t.Fatal(err)
		}
		p.Advance(59 * time.Minute)
		if got := pending(); got != nil {
			t.Errorf("after 59 minutes: %v", got)
		}
		p.Advance(2 * time.Minute)
		if got := pending(); len(got) != 1 {
			t.Errorf("after 61 minutes: %v", got)
		}
		if err := p.Exec(`UPDATE pawl.parents SET todo = 0`); err != nil {
			t.Fatal(err)
		}
	})
}
