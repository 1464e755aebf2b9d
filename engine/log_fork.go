package engine

import (
	"context"
	"fmt"
	"strings"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/store"
	"github.com/pawl-work/pawl/translog"
)

// ForkLog begins a new history of the log, after the database went back in time. The new log
// continues the leaves that there are, under another name, with another key. It names the
// last checkpoint of the old one and the leaves that are lost. A log that this signer's
// highest checkpoint is consistent with is a conflict: nothing is lost there. How many leaves
// the two have in common is known by the checkpoints in the database: it may be more, by those
// of a second, and is never less.
func (e *Engine) ForkLog(ctx context.Context) (LogFork, error) {
	var next logEpoch
	path := e.opts.TransparencyLog.Key
	if path == "" {
		return LogFork{}, errNoKey
	}
	release, err := e.lockKey(ctx)
	if err != nil {
		return LogFork{}, err
	}
	defer release()
	err = e.db.Do(forAll(ctx), func(ctx context.Context, tx store.Tx) error {
		if _, err := store.LockFeed(ctx, tx); err != nil {
			return err
		}
		l, err := readLog(ctx, tx)
		if err != nil {
			return err
		}
		tree, last := l.tree, l.last()
		key, err := translog.OpenKey(path, last.Origin, false)
		if err != nil {
			return logError("fork", err)
		}
		kept, found, err := key.Kept()
		if err != nil {
			return logError("fork", err)
		}
		root, err := rootAt(tree, kept.Size)
		if err != nil {
			return err
		}
		if !found || root == kept.Root {
			return &pawl.Error{Code: pawl.CodeConflict, Op: "fork",
				Message: "the log continues the checkpoint that was signed last: nothing is lost"}
		}
		next = logEpoch{Epoch: last.Epoch + 1, Lost: kept.Size}
		if next.Size, err = l.common(path, kept); err != nil {
			return logError("fork", err)
		}
		next.Origin = fmt.Sprintf("%s/%d", strings.TrimSuffix(last.Origin, fmt.Sprintf("/%d", last.Epoch)), next.Epoch)
		if next.Checkpoint, err = key.KeptText(); err != nil {
			return logError("fork", err)
		}
		if next.CreatedAt, err = tx.Now(ctx); err != nil {
			return err
		}
		return putEpoch(ctx, tx, next)
	})
	if err == nil {
		err = translog.Rotate(path, next.Origin)
	}
	return fork(next), logError("fork", err)
}

// common returns a number of leaves that the log has in common with the history of a
// checkpoint that it does not continue: the size of the largest checkpoint in the database
// that this signer has signed before that one, and whose root the log has.
func (l logState) common(path string, kept translog.Checkpoint) (size int64, err error) {
	keys, err := translog.Public(path)
	if err != nil {
		return 0, err
	}
	return l.commonOf(keys, kept)
}

// commonOf is common for the public keys of the signer.
func (l logState) commonOf(keys []string, kept translog.Checkpoint) (size int64, err error) {
	for _, s := range l.signed {
		c, err := translog.Open(s.Note, keys)
		if err != nil || c.Origin != kept.Origin || c.Size > kept.Size || c.Size <= size {
			continue // of another signer or history
		}
		root, err := rootAt(l.tree, c.Size)
		if err != nil {
			return 0, err
		}
		if root == c.Root {
			size = c.Size
		}
	}
	return size, nil
}

// RotateLogKey replaces the signing key. Checkpoints of the old key can still be checked. It
// also replaces a key that is lost.
func (e *Engine) RotateLogKey(ctx context.Context) error {
	if e.opts.TransparencyLog.Key == "" {
		return errNoKey
	}
	release, err := e.lockKey(ctx)
	if err != nil {
		return err
	}
	defer release()
	var l logState
	err = e.db.View(forAll(ctx), func(ctx context.Context, tx store.Tx) (err error) {
		l, err = readLog(ctx, tx)
		return err
	})
	if err != nil {
		return err
	}
	return logError("rotate", translog.Rotate(e.opts.TransparencyLog.Key, l.last().Origin))
}
