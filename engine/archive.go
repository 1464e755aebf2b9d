package engine

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"path/filepath"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/engine/internal/rules"
	"github.com/pawl-work/pawl/internal/idform"
	"github.com/pawl-work/pawl/store"
	"github.com/pawl-work/pawl/store/sqlite"
)

// archivesBeside is the suffix of the archive directory that belongs to a SQLite file.
const archivesBeside = ".archives"

// retention sets the options of Sweep that are not given, and returns the directory of archives that is. The default one of
// a SQLite database is work.db.archives for work.db; PostgreSQL stores archives in a table.
func (o *Options) retention(url string) (given string, err error) {
	all := pawl.DefaultSweepOptions()
	if o.Sweep == nil {
		o.SweepSet = []string{}
	} else if all = *o.Sweep; all.ArchiveDir != "" {
		if given, err = filepath.Abs(all.ArchiveDir); err != nil {
			return "", &pawl.Error{Code: pawl.CodeInvalid, Op: "open", Message: "the directory for archives has no absolute path", Err: err}
		}
		all.ArchiveDir = given
	}
	if path, _, local, _ := sqlite.SplitURL(url); local && given == "" {
		all.ArchiveDir, err = filepath.Abs(path + archivesBeside)
	}
	o.Sweep = &all
	return given, err
}

// scratch opens a database in a directory of temporary files.
func (e *Engine) scratch(ctx context.Context, dir string) (store.DB, error) {
	db, err := sqlite.Open(ctx, filepath.Join(dir, "pawl.db"), sqlite.Options{Clock: e.opts.Clock, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		return nil, err
	}
	if _, err := db.Dialect().Migrator.Up(ctx); err != nil {
		return nil, errors.Join(err, db.Close())
	}
	return db, nil
}

// ListArchives lists the archived tasks of the caller's namespace, newest first.
func (e *Engine) ListArchives(ctx context.Context, p pawl.Page) (pawl.List[pawl.Archive], error) {
	if err := rules.CheckPage(&p); err != nil {
		return pawl.List[pawl.Archive]{}, err
	}
	return e.sweeper.List(ctx, pawl.CallerOf(ctx).Namespace, p)
}

// RestoreArchive restores a task from its archive; see sweep.Restore.
func (e *Engine) RestoreArchive(ctx context.Context, taskID string) (pawl.Task, error) {
	taskID = idform.Task(taskID)
	if err := e.notInTx("restore"); err != nil {
		return pawl.Task{}, err
	}
	if err := e.sweeper.Restore(ctx, pawl.CallerOf(ctx).Namespace, taskID); err != nil {
		return pawl.Task{}, err
	}
	return e.GetTask(ctx, taskID)
}

// DeleteArchive removes what is archived of a task; see sweep.DeleteArchive.
func (e *Engine) DeleteArchive(ctx context.Context, taskID string) error {
	taskID = idform.Task(taskID)
	if err := cmp.Or(e.notInTx("delete"), e.acts(ctx, "delete")); err != nil { // a copy knows the files of its original
		return err
	}
	c := pawl.CallerOf(ctx)
	return e.sweeper.DeleteArchive(ctx, c.Namespace, taskID, store.Deletion{Key: c.Key, Actor: actor(c, pawl.ActorUser, "")})
}
