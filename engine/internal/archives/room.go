// Package archives is the room of archives: how tasks are archived and removed, alone or many in a segment, and how their
// archives are listed, read, verified, restored and deleted. When a task goes, retention says, which is the sweep's. What
// the rows of a task are, and how the log proves them, is in store.
package archives

import (
	"cmp"
	"context"
	"embed"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/engine/internal/kernel"
	"github.com/pawl-work/pawl/engine/internal/rules"
	"github.com/pawl-work/pawl/internal/idform"
	"github.com/pawl-work/pawl/store"
)

//go:embed *.sql
var sqlFiles embed.FS

var (
	texts     = store.Texts(sqlFiles, "archive.sql")
	segmented = store.Texts(sqlFiles, "segment.sql")
)

// Archives are the archives of a database. Its methods are those of pawl.Service.
type Archives struct {
	k      *kernel.Kernel
	keeper *Keeper
}

// New returns the archives of a database, whose files are in a directory. scratch is that of Keeper.
func New(k *kernel.Kernel, dir string, scratch func(ctx context.Context, dir string) (store.DB, error)) *Archives {
	return &Archives{k, &Keeper{DB: k.DB, Dir: dir, NewID: k.IDs.Next, Log: k.Log, Scratch: scratch,
		Signed: func() (readSigned, error) { return k.Signed() }}}
}

// Over returns the archives over another Kernel of the same database.
func Over(a *Archives, k *kernel.Kernel) *Archives { return &Archives{k, a.keeper} }

// Of returns what archives tasks and reads their archives.
func Of(a *Archives) *Keeper { return a.keeper }

// Declared is the declaration of the room. Its rows are of tasks that are not there any more, or were restored.
func Declared() kernel.Room {
	return kernel.Room{
		Name: "archives",
		Tables: []kernel.Table{
			{Name: "archives", Key: "task", Archive: "none", Copy: "none", Plain: []string{"namespace", "path", "sha256"},
				Changes: "when the task is restored or archived again; of a restore the log tells"},
			{Name: "segments", Key: "namespace", Plain: []string{"namespace", "path", "sha256"},
				Changes: "when a task is deleted from it, of which its event tells"},
		},
	}
}

// ListArchives lists the archived tasks of the caller's namespace, newest first.
func (a *Archives) ListArchives(ctx context.Context, p pawl.Page) (pawl.List[pawl.Archive], error) {
	if err := rules.CheckPage(&p); err != nil {
		return pawl.List[pawl.Archive]{}, err
	}
	return a.keeper.List(ctx, pawl.CallerOf(ctx).Namespace, p)
}

// RestoreArchive restores a task from its archive; see Keeper.Restore.
func (a *Archives) RestoreArchive(ctx context.Context, taskID string) (pawl.Task, error) {
	taskID = idform.Task(taskID)
	if err := a.k.NotInTx("restore"); err != nil {
		return pawl.Task{}, err
	}
	if err := a.keeper.Restore(ctx, pawl.CallerOf(ctx).Namespace, taskID); err != nil {
		return pawl.Task{}, err
	}
	return a.k.Verbs(a.k).GetTask(ctx, taskID)
}

// DeleteArchive removes what is archived of a task; see Keeper.Delete.
func (a *Archives) DeleteArchive(ctx context.Context, taskID string) error {
	taskID = idform.Task(taskID)
	if err := cmp.Or(a.k.NotInTx("delete"), a.k.Acts(ctx, "delete")); err != nil { // a copy knows the files of its original
		return err
	}
	c := pawl.CallerOf(ctx)
	return a.keeper.Delete(ctx, c.Namespace, taskID, store.Deletion{Key: c.Key, Actor: kernel.Actor(c, pawl.ActorUser, "")})
}
