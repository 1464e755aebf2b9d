package logs

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/engine/internal/kernel"
	"github.com/pawl-work/pawl/internal/clock"
	"github.com/pawl-work/pawl/store"
	"github.com/pawl-work/pawl/translog"
	"golang.org/x/mod/sumdb/tlog"
)

const (
	signAgain = 10 * time.Second // between two looks for what is to be signed, if nothing tells of it
	// signEvery is the least time between two checkpoints of one process.
	signEvery = time.Second
	// lockTime bounds how long a signer waits for another.
	lockTime = 10 * time.Second
	// signAgainMost bounds the back-off of a signature that failed, which begins with signEvery: a log
	// that is no continuation stays so until it is forked.
	signAgainMost = time.Minute
)

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

// SignLog signs the log as it is now and returns the checkpoint, a signed note. It signs
// nothing that is inconsistent with the highest checkpoint that this signer has signed.
// Without a key it is not_found.
func (g *Log) SignLog(ctx context.Context) (string, error) {
	note, _, err := g.sign(ctx, -1)
	return note, err
}

// sign signs the log if it has not size leaves. One that has fewer than were signed is refused.
func (g *Log) sign(ctx context.Context, size int64) (text string, signed int64, err error) {
	ctx = kernel.ForAll(ctx)
	if now, err := g.size(ctx); err != nil || now == size {
		return "", size, err
	}
	release, err := g.lockKey(ctx)
	if err != nil {
		return "", size, err
	}
	defer release()
	c, err := g.signNow(ctx)
	if err != nil {
		return "", size, err
	}
	err = g.k.DB.Do(ctx, func(ctx context.Context, tx store.Tx) (err error) {
		if c.CreatedAt, err = tx.Now(ctx); err != nil {
			return err
		}
		return putCheckpoint(ctx, tx, c)
	})
	if err != nil { // it is signed again, also if the log does not grow
		return "", size, err
	}
	g.cosigners.offer(c)
	return c.Note, c.Size, nil
}

// size returns how many leaves the log has.
func (g *Log) size(ctx context.Context) (size int64, err error) {
	err = g.k.Look(ctx, func(ctx context.Context, tx store.Tx) error {
		tree, err := store.ReadTree(ctx, tx)
		size = tree.Size
		return err
	})
	return size, err
}

// lockKey keeps other signers from the files of the key.
func (g *Log) lockKey(ctx context.Context) (release func(), err error) {
	if g.key == "" {
		return nil, errNoKey
	}
	ctx, cancel := context.WithTimeout(ctx, lockTime)
	defer cancel()
	release, err = translog.Lock(ctx, g.key)
	return release, signerError("log", err)
}

// signNow signs the log. The files of the key are locked.
func (g *Log) signNow(ctx context.Context) (c signedCheckpoint, err error) {
	now := translog.Checkpoint{}
	var key *translog.Key
	err = g.k.DB.View(ctx, func(ctx context.Context, tx store.Tx) error {
		l, err := readLog(ctx, tx)
		if err != nil {
			return err
		}
		last := l.last()
		if key, err = translog.OpenKey(g.key, last.Origin, true); err != nil {
			return signerError("sign", err)
		}
		kept, found, err := key.Kept()
		if err != nil {
			return signerError("sign", err)
		}
		if found {
			root, err := rootAt(l.tree, kept.Size)
			if err != nil || root != kept.Root {
				return signerError("sign", errors.Join(errWentBack{kept, l.tree.Size}, err))
			}
		}
		c.Epoch = last.Epoch
		now = translog.Checkpoint{Origin: last.Origin, Size: l.tree.Size}
		now.Root, err = l.tree.Root(l.tree.Size)
		return err
	})
	if err != nil {
		return c, err
	}
	c.Signer, c.Size = key.Name(), now.Size
	c.Note, err = key.Sign(now)
	return c, signerError("sign", err)
}

// rootAt returns the root of the first size leaves; a log that is smaller has none.
func rootAt(tree *store.Tree, size int64) (tlog.Hash, error) {
	if size > tree.Size {
		return tlog.Hash{}, nil
	}
	return tree.Root(size)
}

// logError returns an error of the signer's files as an error of the service.
func signerError(op string, err error) error {
	var known *pawl.Error
	if err == nil || errors.As(err, &known) {
		return err
	}
	code := pawl.CodeConflict
	var onDisk *os.PathError
	if errors.As(err, &onDisk) || errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) {
		code = pawl.CodeUnavailable
	}
	return &pawl.Error{Code: code, Op: op, Message: err.Error(), Err: err}
}

// signPause returns the pause before the next signature: none after one that succeeded, else twice
// the one before.
func signPause(before time.Duration, err error) time.Duration {
	if err == nil {
		return 0
	}
	return min(max(signEvery, 2*before), signAgainMost)
}

// signLoop signs and sends new checkpoints until ctx ends.
func (g *Log) signLoop(ctx context.Context) {
	if g.key == "" {
		return
	}
	size, failed := int64(0), ""
	var pause time.Duration // after a failed signature
	var again, looked time.Time
	out := outbox{send: g.send}
	timer := time.NewTicker(signEvery)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		}
		var note string
		var err error
		now := clock.Now()
		tried := !now.Before(again) && (g.logGrew(size) || now.Sub(looked) >= signAgain)
		if tried {
			looked = now
			note, size, err = g.sign(ctx, size)
			pause = signPause(pause, err)
			again = now.Add(pause)
		}
		if sent := out.push(ctx, note, now); err == nil {
			err = sent
		}
		if err != nil && err.Error() != failed {
			g.k.LogError(ctx, "the checkpoint of the transparency log was not signed or not sent; retrying", err)
		}
		if err != nil {
			failed = err.Error()
		} else if tried {
			failed = ""
		}
	}
}

// logGrew reports whether the log may not have size leaves any more. Where events get positions, the feed learns that.
func (g *Log) logGrew(size int64) bool {
	return g.k.DB.Dialect().Commits == nil || g.k.Feed.Newest() != size
}

// outbox has the newest checkpoint that was not sent yet.
type outbox struct {
	send   func(ctx context.Context, note string) error
	note   string // "" = all are sent
	next   time.Time
	wait   time.Duration // the last pause; 0 = the last one was sent
	failed error
}

// push sends the checkpoint that waits, with back-off. A new one takes its place. It returns
// why the last attempt failed, until one succeeds.
func (o *outbox) push(ctx context.Context, note string, now time.Time) error {
	if note != "" {
		o.note = note
	}
	if o.send == nil || o.note == "" || now.Before(o.next) {
		return o.failed
	}
	if o.failed = o.send(ctx, o.note); o.failed == nil {
		o.note, o.wait, o.next = "", 0, time.Time{}
		return nil
	}
	o.wait = signPause(o.wait, o.failed)
	o.next = now.Add(o.wait)
	return o.failed
}
