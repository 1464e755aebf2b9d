package engine

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"golang.org/x/mod/sumdb/tlog"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/store"
	"github.com/pawl-work/pawl/translog"
)

// keyBeside is the suffix of the signing key's file that belongs to a SQLite file.
const keyBeside = ".logkey"

// signEvery is the least time between two checkpoints of one process.
const signEvery = time.Second

// LogOptions configure who signs the transparency log. The zero value works.
type LogOptions struct {
	// Key is the file of the signing key. It is made when Run first signs. "" = beside a
	// SQLite database, and none for PostgreSQL: this process then signs nothing, and the log
	// is written all the same.
	Key string
	// Send is called with each new checkpoint that Run has signed; nil = not called. Run goes
	// on when it fails, and calls it again with the next one.
	Send func(ctx context.Context, note string) error
}

func (o LogOptions) withKey(url string) LogOptions {
	if path, local := strings.CutPrefix(url, "sqlite:"); local && o.Key == "" {
		o.Key = strings.TrimPrefix(path, "//") + keyBeside
	}
	return o
}

var errNoKey = &pawl.Error{Code: pawl.CodeNotFound, Op: "log", Message: "no signing key is configured: set record.key"}

// errWentBack is returned when the log is not a continuation of what this signer has signed.
type errWentBack struct {
	kept translog.Checkpoint
	size int64
}

func (e errWentBack) Error() string {
	return fmt.Sprintf("the log is not a continuation of the checkpoint of %d leaves that this signer has signed; it has %d now: "+
		"the database went back in time, or the log was changed. Find out which; then `pawl log fork` begins a new history", e.kept.Size, e.size)
}

// Log adds everything that was committed before the call to the transparency log; Run does
// so continuously.
func (e *Engine) Log(ctx context.Context) error { return e.feed.Log(ctx) }

// SignLog signs the log as it is now and returns the checkpoint, a signed note. It signs
// nothing that is inconsistent with the highest checkpoint that this signer has signed.
// Without a key it is not_found.
func (e *Engine) SignLog(ctx context.Context) (string, error) {
	note, _, err := e.signLog(ctx, -1)
	return note, err
}

// signLog signs the log if it is larger than size.
func (e *Engine) signLog(ctx context.Context, size int64) (text string, signed int64, err error) {
	if e.opts.TransparencyLog.Key == "" {
		return "", size, errNoKey
	}
	now := translog.Checkpoint{}
	var epoch int64
	var key *translog.Key
	err = e.db.View(ctx, func(ctx context.Context, tx store.Tx) error {
		l, err := readLog(ctx, tx)
		if err != nil || l.tree.Size <= size {
			return err
		}
		tree, last := l.tree, l.last()
		if key, err = translog.OpenKey(e.opts.TransparencyLog.Key, last.Origin, true); err != nil {
			return logError("sign", err)
		}
		kept, found, err := key.Kept()
		if err != nil {
			return logError("sign", err)
		}
		if found {
			root, err := rootAt(tree, kept.Size)
			if err != nil || root != kept.Root {
				return logError("sign", errors.Join(errWentBack{kept, tree.Size}, err))
			}
		}
		epoch = last.Epoch
		now = translog.Checkpoint{Origin: last.Origin, Size: tree.Size}
		now.Root, err = tree.Root(tree.Size)
		return err
	})
	if err != nil || now.Origin == "" {
		return "", size, err
	}
	if text, err = key.Sign(now); err != nil {
		return "", size, logError("sign", err)
	}
	c := store.SignedCheckpoint{Signer: key.Name(), Epoch: epoch, Size: now.Size, Note: text}
	return text, now.Size, e.db.Do(ctx, func(ctx context.Context, tx store.Tx) (err error) {
		if c.CreatedAt, err = tx.Now(ctx); err != nil {
			return err
		}
		return store.PutCheckpoint(ctx, tx, c)
	})
}

// rootAt returns the root of the first size leaves; a log that is smaller has none.
func rootAt(tree *store.Tree, size int64) (tlog.Hash, error) {
	if size > tree.Size {
		return tlog.Hash{}, nil
	}
	return tree.Root(size)
}

// logError returns an error of the signer's files as an error of the service.
func logError(op string, err error) error {
	var known *pawl.Error
	if err == nil || errors.As(err, &known) {
		return err
	}
	code := pawl.CodeConflict
	var onDisk *os.PathError
	if errors.As(err, &onDisk) {
		code = pawl.CodeUnavailable
	}
	return &pawl.Error{Code: code, Op: op, Message: err.Error(), Err: err}
}

// signLoop signs new checkpoints until ctx ends.
func (e *Engine) signLoop(ctx context.Context) {
	if e.opts.TransparencyLog.Key == "" {
		return
	}
	size, failed := int64(0), ""
	timer := time.NewTicker(signEvery)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		}
		note, signed, err := e.signLog(ctx, size)
		if err == nil && note != "" && e.opts.TransparencyLog.Send != nil {
			err = e.opts.TransparencyLog.Send(ctx, note)
		}
		size = signed
		if err != nil && err.Error() != failed {
			e.logError(ctx, "the checkpoint of the transparency log was not signed or not sent; retrying", err)
		}
		if failed = ""; err != nil {
			failed = err.Error()
		}
	}
}

// ForkLog begins a new history of the log, after the database went back in time. The new log
// continues the leaves that there are, under another name, with another key. It names the
// last checkpoint of the old one and the leaves that are lost. A log that this signer's
// highest checkpoint is consistent with is a conflict: nothing is lost there.
func (e *Engine) ForkLog(ctx context.Context) (LogFork, error) {
	var next store.LogEpoch
	path := e.opts.TransparencyLog.Key
	if path == "" {
		return LogFork{}, errNoKey
	}
	err := e.db.Do(ctx, func(ctx context.Context, tx store.Tx) error {
		s, err := store.LockFeed(ctx, tx)
		if err != nil {
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
		next = store.LogEpoch{Epoch: last.Epoch + 1, Size: min(tree.Size, kept.Size), Lost: kept.Size}
		if n := len(s.Starts); n > 0 { // where the feed noticed it
			next.Size = min(next.Size, s.Starts[n-1].Position)
		}
		next.Origin = fmt.Sprintf("%s/%d", strings.TrimSuffix(last.Origin, fmt.Sprintf("/%d", last.Epoch)), next.Epoch)
		if next.Checkpoint, err = key.KeptText(); err != nil {
			return logError("fork", err)
		}
		if next.CreatedAt, err = tx.Now(ctx); err != nil {
			return err
		}
		return store.PutEpoch(ctx, tx, next)
	})
	if err == nil {
		err = translog.Rotate(path, next.Origin)
	}
	return fork(next), logError("fork", err)
}

// RotateLogKey replaces the signing key. Checkpoints of the old key can still be checked. It
// also replaces a key that is lost.
func (e *Engine) RotateLogKey(ctx context.Context) error {
	if e.opts.TransparencyLog.Key == "" {
		return errNoKey
	}
	var l logState
	err := e.db.View(ctx, func(ctx context.Context, tx store.Tx) (err error) {
		l, err = readLog(ctx, tx)
		return err
	})
	if err != nil {
		return err
	}
	return logError("rotate", translog.Rotate(e.opts.TransparencyLog.Key, l.last().Origin))
}
