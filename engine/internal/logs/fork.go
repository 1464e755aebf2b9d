package logs

import (
	"context"
	"os"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/engine/internal/kernel"
	"github.com/pawl-work/pawl/store"
	"github.com/pawl-work/pawl/translog"
)

// ForkLog begins a new history of the log, after the database went back in time. The new log
// continues the leaves that there are, under another name, with another key. It names the
// last checkpoint of the old one and the leaves that are lost. A log that this signer's
// highest checkpoint is consistent with is a conflict: nothing is lost there. How many leaves
// the two have in common is known by the checkpoints in the database: it may be more, by those
// of a second, and is never less.
func (g *Log) ForkLog(ctx context.Context) (Fork, error) {
	var next epoch
	release, err := g.lockKey(ctx)
	if err != nil {
		return Fork{}, err
	}
	defer release()
	err = g.k.DB.Do(kernel.ForAll(ctx), func(ctx context.Context, tx store.Tx) error {
		if _, err := store.LockFeed(ctx, tx); err != nil {
			return err
		}
		l, err := readLog(ctx, tx)
		if err != nil {
			return err
		}
		tree, last := l.tree, l.last()
		key, err := translog.OpenKey(g.key, last.Origin, false)
		if err != nil {
			return signerError("fork", err)
		}
		kept, found, err := key.Kept()
		if err != nil {
			return signerError("fork", err)
		}
		root, err := rootAt(tree, kept.Size)
		if err != nil {
			return err
		}
		if !found || root == kept.Root {
			return &pawl.Error{Code: pawl.CodeConflict, Op: "fork",
				Message: "the log continues the checkpoint that was signed last: nothing is lost"}
		}
		next = epoch{Lost: kept.Size}
		keys, err := translog.Public(g.key)
		if err == nil {
			next.Size, err = l.common(keys, kept)
		}
		if err != nil {
			return signerError("fork", err)
		}
		if next.Checkpoint, err = key.KeptText(); err != nil {
			return signerError("fork", err)
		}
		next, err = next.begin(ctx, tx, last)
		return err
	})
	if err == nil {
		err = translog.Rotate(g.key, next.Origin)
	}
	return forkOf(next), signerError("fork", err)
}

// common returns a number of leaves that the log has in common with the history of a
// checkpoint that it does not continue: the size of the largest checkpoint in the database
// that this signer, who has the public keys, has signed before that one, and whose root the log has.
func (l state) common(keys []string, kept translog.Checkpoint) (size int64, err error) {
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
func (g *Log) RotateLogKey(ctx context.Context) error {
	release, err := g.lockKey(ctx)
	if err != nil {
		return err
	}
	defer release()
	l, err := g.read(ctx)
	if err != nil {
		return err
	}
	return signerError("rotate", translog.Rotate(g.key, l.last().Origin))
}

// Begin begins a new history of the log for a database that was adopted. It has leaves in common with the one before.
func Begin(ctx context.Context, tx store.Tx, leaves int64) error {
	l, err := readLog(ctx, tx)
	if err != nil {
		return err
	}
	next := epoch{Size: leaves, Lost: leaves}
	if len(l.signed) > 0 {
		next.Checkpoint = l.signed[0].Note
	}
	_, err = next.begin(ctx, tx, l.last())
	return err
}

// Rekey replaces the signing key of this process if it is of the history before the last. One that is not there is made when
// the log is signed.
func Rekey(ctx context.Context, g *Log) error {
	if g.key == "" {
		return nil
	}
	if _, err := os.Stat(g.key); err != nil {
		return nil
	}
	l, err := g.read(ctx)
	if err != nil || len(l.epochs) < 2 {
		return err
	}
	release, err := g.lockKey(ctx)
	if err != nil {
		return err
	}
	defer release()
	if _, err := translog.OpenKey(g.key, l.epochs[len(l.epochs)-2].Origin, false); err != nil { // of another log, or replaced already
		return nil
	}
	return signerError("rotate", translog.Rotate(g.key, l.last().Origin))
}
