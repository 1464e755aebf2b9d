package engine

import (
	"context"
	"errors"
	"log/slog"
	"path/filepath"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/engine/internal/archives"
	"github.com/pawl-work/pawl/store"
	"github.com/pawl-work/pawl/store/sqlite"
	"github.com/pawl-work/pawl/translog"
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
func (o *Options) scratch(ctx context.Context, dir string) (store.DB, error) {
	db, err := sqlite.Open(ctx, filepath.Join(dir, "pawl.db"), sqlite.Options{Clock: o.Clock, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		return nil, err
	}
	if _, err := db.Dialect().Migrator.Up(ctx); err != nil {
		return nil, errors.Join(err, db.Close())
	}
	return db, nil
}

// ArchiveVerification is the result of VerifyArchive: the TaskID, of a segment that of its first task, the number of Tasks, their
// Namespace, whether the archive is Intact, how many Events it has, and how many of them are Proved to be under its Checkpoint
// (nil = none that counts: one of the keys must have signed it, and the witnesses cosigned), the Faults, and Unproved, by id, as
// in LogVerification.
type ArchiveVerification = archives.Verification

// VerifyArchive proves that the events of the file of an archive, or of a segment, are in the transparency log, under
// the checkpoint that the archive has. It proves inclusion, not completeness: an event that was
// removed together with its place in the last line is not missed. It needs no database. keys are
// the public keys of which one must have signed the checkpoint; a text of several, one a line,
// is several keys.
func VerifyArchive(file string, keys []string) (ArchiveVerification, error) {
	return VerifyArchiveWith(file, translog.Trust{Keys: keys})
}

// VerifyArchiveWith is VerifyArchive for a checkpoint that witnesses must have cosigned, too.
func VerifyArchiveWith(file string, trust translog.Trust) (ArchiveVerification, error) {
	return archives.Verify(file, trust)
}
