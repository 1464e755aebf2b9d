package engine_test

import (
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/engine"
	"github.com/pawl-work/pawl/pawltest"
)

// A copy knows where the archives of its original are. It reads and removes those beside itself alone.
func TestACopyLeavesTheArchivesOfItsOriginal(t *testing.T) {
	ctx, o := asOperator(t.Context()), pawl.DefaultSweepOptions()
	o.RetainTasks = time.Microsecond
	quiet := slog.New(slog.NewTextHandler(io.Discard, nil))
	original := "sqlite:" + filepath.Join(t.TempDir(), "pawl.db")
	of := need[*engine.Engine](t)(engine.OpenWith(ctx, original, engine.Options{Sweep: &o, Identity: "check", Log: quiet}))
	defer of.Close()
	ids := endedTasks(t, &pawltest.Pawl{Engine: of}, 20)
	for pruned := int64(0); pruned < 20; {
		pruned += need[pawl.SweepStats](t)(of.Sweep(ctx)).TasksPruned
	}
	file := filepath.Join(t.TempDir(), "copy.db")
	ok(t, of.Backup(ctx, file))
	e := need[*engine.Engine](t)(engine.OpenWith(ctx, "sqlite:"+file, engine.Options{Identity: "check", Log: quiet}))
	defer e.Close()
	if err := e.DeleteArchive(ctx, ids[0]); pawl.CodeOf(err) != pawl.CodeQuarantined {
		t.Errorf("in quarantine: %v", err)
	}
	need[engine.Adoption](t)(e.Adopt(ctx, true))
	ok(t, e.DeleteArchive(ctx, ids[0]))
	need[pawl.Task](t)(e.RestoreArchive(ctx, ids[1]))
	for _, id := range ids {
		need[pawl.Task](t)(of.RestoreArchive(ctx, id))
	}
	files := need[[]string](t)(filepath.Glob(filepath.Join(file+".archives", "*", "*")))
	if len(files) == 0 {
		t.Error("the copy has no archives")
	}
	for _, f := range files {
		ok(t, os.Truncate(f, 10))
	}
	found := slices.ContainsFunc(need[[]engine.Breach](t)(e.Check(ctx)), func(b engine.Breach) bool { return b.Code == "archive_unreadable" })
	if !found {
		t.Error("doctor reads the files of the original")
	}
}
