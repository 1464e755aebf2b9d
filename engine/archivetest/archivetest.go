// Package archivetest is for tests of the sweep: it gives a sweeper the archives that an engine gives its own.
package archivetest

import (
	"context"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/engine/internal/archives"
	"github.com/pawl-work/pawl/store"
	"github.com/pawl-work/pawl/sweep"
)

// Archived is what was archived of a task.
type Archived = archives.Archived

// BeginCopy begins to copy a directory of archives.
func BeginCopy(ctx context.Context, from, to string) (*archives.Copying, error) {
	return archives.BeginCopy(ctx, from, to)
}

// Sweeper is a sweeper with archives. They follow its settings.
type Sweeper struct{ *sweep.Sweeper }

// New gives a sweeper archives.
func New(s *sweep.Sweeper) *Sweeper {
	with := &Sweeper{s}
	s.Archive = archive{with}
	return with
}

func (s *Sweeper) keeper() *archives.Keeper {
	return &archives.Keeper{DB: s.DB, Dir: s.Options.ArchiveDir, NewID: s.NewID, Log: s.Log, Tasks: s.Sweeper}
}

// archive implements sweep.Archive.
type archive struct{ *Sweeper }

func (a archive) Retire(ctx context.Context, tasks []string) (int64, error) {
	return a.keeper().Retire(ctx, tasks)
}

func (a archive) RemoveAbandoned() error { return a.keeper().RemoveAbandoned() }

// Retire archives and removes tasks, like retention.
func (s *Sweeper) Retire(ctx context.Context, tasks ...string) error {
	_, err := s.keeper().Retire(ctx, tasks)
	return err
}

// Read reads the archive of a task.
func (s *Sweeper) Read(ctx context.Context, namespace, taskID string) (Archived, error) {
	return s.keeper().Read(ctx, s.DB, namespace, taskID)
}

// List lists the archives of a namespace.
func (s *Sweeper) List(ctx context.Context, namespace string, p pawl.Page) (pawl.List[pawl.Archive], error) {
	return s.keeper().List(ctx, namespace, p)
}

// Restore restores a task from its archive.
func (s *Sweeper) Restore(ctx context.Context, namespace, taskID string) error {
	return s.keeper().Restore(ctx, namespace, taskID)
}

// Peek runs fn with the rows of an archived task.
func (s *Sweeper) Peek(ctx context.Context, db store.DB, namespace, taskID string,
	fn func(ctx context.Context, tx store.Tx, archived bool) error) error {
	return s.keeper().Peek(ctx, db, namespace, taskID, fn)
}

// DeleteArchive removes what is archived of a task.
func (s *Sweeper) DeleteArchive(ctx context.Context, namespace, taskID string, by store.Deletion) error {
	return s.keeper().Delete(ctx, namespace, taskID, by)
}

// Check does what the doctor does.
func (s *Sweeper) Check(ctx context.Context, db store.DB, report func(store.Breach)) error {
	if err := s.keeper().Check(ctx, db, report); err != nil {
		return err
	}
	return s.Sweeper.Check(ctx, db, report)
}
