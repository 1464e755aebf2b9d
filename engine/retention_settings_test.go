package engine_test

import (
	"io"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/engine"
	"github.com/pawl-work/pawl/pawltest"
)

// settingsOf are the defaults with changes.
func settingsOf(change func(*pawl.SweepOptions)) *pawl.SweepOptions {
	o := pawl.DefaultSweepOptions()
	change(&o)
	return &o
}

// Ages that a process was given count for all processes: the defaults of another remove nothing, and later ages take their place.
func TestAgesAreThoseOfTheDatabase(t *testing.T) {
	for _, which := range pawltest.Databases {
		t.Run(string(which), func(t *testing.T) {
			ctx := asOperator(t.Context())
			keeps := settingsOf(func(o *pawl.SweepOptions) { o.RetainTasks, o.RetainKeys = 0, time.Minute })
			p := pawltest.OpenWith(t, which, engine.Options{Sweep: keeps, SweepSet: []string{"retain_tasks"}})
			id := endedTasks(t, p, 1)[0]
			need[pawl.SweepStats](t)(p.Engine.Sweep(ctx))
			p.Advance(40 * 24 * time.Hour)
			pruned := func(o engine.Options, want int64) {
				t.Helper()
				e := p.Another(o)
				if got := need[pawl.Prunable](t)(e.Prunable(ctx)).Tasks; got != want {
					t.Errorf("%d tasks are due, want %d", got, want)
				}
				if got := need[pawl.SweepStats](t)(e.Sweep(ctx)).TasksPruned; got != want {
					t.Errorf("%d tasks were removed, want %d", got, want)
				}
			}
			hour := settingsOf(func(o *pawl.SweepOptions) { o.RetainTasks = time.Hour })
			pruned(engine.Options{}, 0)
			pruned(engine.Options{Sweep: hour, SweepSet: []string{"stale_after"}}, 0)
			settings := need[pawl.Stats](t)(p.Another(engine.Options{}).Stats(ctx)).Sweeps.Settings
			if settings["retain_tasks"] != "0s" || settings["retain_keys"] != "168h0m0s" {
				t.Errorf("the settings in force are %v", settings)
			}
			pruned(engine.Options{Sweep: hour, SweepSet: []string{"retain_tasks"}, SweepOnce: true}, 1)
			need[pawl.Task](t)(p.Engine.RestoreArchive(ctx, id))
			p.Advance(40 * 24 * time.Hour)
			pruned(engine.Options{}, 0)
			pruned(engine.Options{Sweep: hour}, 1)
		})
	}
}

// The default directory of a SQLite database is the same when it is given.
func TestTheDefaultArchiveDirectoryMayBeGiven(t *testing.T) {
	ctx := asOperator(t.Context())
	p := pawltest.Open(t, pawltest.SQLite)
	path := strings.TrimPrefix(p.URL, "sqlite:")
	given := settingsOf(func(o *pawl.SweepOptions) { o.ArchiveDir, o.RetainTasks = path+".archives", time.Hour })
	need[pawl.SweepStats](t)(p.Another(engine.Options{Sweep: given}).Sweep(ctx)) // it counts for all processes
	endedTasks(t, p, 1)
	p.Advance(2 * time.Hour)
	if n := need[pawl.SweepStats](t)(p.Engine.Sweep(ctx)).TasksPruned; n != 1 {
		t.Errorf("a process with the default removed %d tasks", n)
	}
}

// A process that was not given the directory of archives removes no tasks.
func TestOnlyWhatHasTheArchiveDirectoryRemovesTasks(t *testing.T) {
	for _, which := range pawltest.Databases {
		t.Run(string(which), func(t *testing.T) {
			ctx, dir := asOperator(t.Context()), t.TempDir()
			quiet := slog.New(slog.NewTextHandler(io.Discard, nil))
			given := settingsOf(func(o *pawl.SweepOptions) { o.ArchiveDir, o.RetainTasks = dir, time.Hour })
			p := pawltest.OpenWith(t, which, engine.Options{Sweep: given})
			need[pawl.SweepStats](t)(p.Engine.Sweep(ctx))
			endedTasks(t, p, 1)
			p.Advance(2 * time.Hour)
			for _, o := range []engine.Options{{Log: quiet}, {Log: quiet, Sweep: given, SweepSet: []string{}}} {
				want := int64(0)
				if o.Sweep != nil {
					want = 1
				}
				if got := need[pawl.SweepStats](t)(p.Another(o).Sweep(ctx)).TasksPruned; got != want {
					t.Errorf("with %v, %d tasks were removed, want %d", o.SweepSet, got, want)
				}
			}
			if files, _ := filepath.Glob(filepath.Join(dir, "*", "*")); len(files) != 1 {
				t.Errorf("the directory has %v", files)
			}
		})
	}
}
