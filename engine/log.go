package engine

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/internal/clock"
	"github.com/pawl-work/pawl/store"
	"github.com/pawl-work/pawl/store/sqlite"
	"github.com/pawl-work/pawl/translog"
	"golang.org/x/mod/sumdb/tlog"
)

// keyBeside is the suffix of the signing key's file that belongs to a SQLite file.
const keyBeside = ".logkey"

const (
	// signEvery is the least time between two checkpoints of one process.
	signEvery = time.Second
	// lockTime bounds how long a signer waits for another.
	lockTime = 10 * time.Second
	// signAgainMost bounds the back-off of a signature that failed, which begins with signEvery: a log
	// that is no continuation stays so until it is forked.
	signAgainMost = time.Minute
	// sendAgainMost bounds the back-off of a checkpoint that could not be sent, which begins
	// with signEvery.
	sendAgainMost = time.Minute
)

// LogOptions configure who signs the transparency log. The zero value works.
type LogOptions struct {
	// Key is the file of the signing key. It is made when Run first signs. "" = beside a
	// SQLite database, and none for PostgreSQL: this process then signs nothing, and the log
	// is written all the same.
	Key string
	// Send is called with each new checkpoint that Run has signed; nil = not called. When it
	// fails, it is called again with the newest one, after 1 s and then twice as long each
	// time, up to a minute.
	Send func(ctx context.Context, note string) error
	// Witnesses are asked by Run to cosign each new checkpoint. Nothing waits for one that does not answer; it is asked
	// again after 1 s and then twice as long each time, up to a minute.
	Witnesses []LogWitness
}

func (o LogOptions) withKey(url string) LogOptions {
	if path, _, local, _ := sqlite.SplitURL(url); local && o.Key == "" {
		o.Key = path + keyBeside
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

// signLog signs the log if it has not size leaves. One that has fewer than were signed is refused.
func (e *Engine) signLog(ctx context.Context, size int64) (text string, signed int64, err error) {
	if e.opts.TransparencyLog.Key == "" {
		return "", size, errNoKey
	}
	ctx = forAll(ctx)
	changed := false
	err = e.k.Look(ctx, func(ctx context.Context, tx store.Tx) error {
		tree, err := store.ReadTree(ctx, tx)
		changed = err == nil && tree.Size != size
		return err
	})
	if err != nil || !changed {
		return "", size, err
	}
	release, err := e.lockKey(ctx)
	if err != nil {
		return "", size, err
	}
	defer release()
	c, err := e.signNow(ctx)
	if err != nil {
		return "", size, err
	}
	err = e.db.Do(ctx, func(ctx context.Context, tx store.Tx) (err error) {
		if c.CreatedAt, err = tx.Now(ctx); err != nil {
			return err
		}
		return putCheckpoint(ctx, tx, c)
	})
	if err != nil { // it is signed again, also if the log does not grow
		return "", size, err
	}
	e.cosigners.offer(c)
	return c.Note, c.Size, nil
}

// lockKey keeps other signers from the files of the key.
func (e *Engine) lockKey(ctx context.Context) (release func(), err error) {
	ctx, cancel := context.WithTimeout(ctx, lockTime)
	defer cancel()
	release, err = translog.Lock(ctx, e.opts.TransparencyLog.Key)
	return release, logError("log", err)
}

// signNow signs the log. The files of the key are locked.
func (e *Engine) signNow(ctx context.Context) (c signedCheckpoint, err error) {
	now := translog.Checkpoint{}
	var key *translog.Key
	err = e.db.View(ctx, func(ctx context.Context, tx store.Tx) error {
		l, err := readLog(ctx, tx)
		if err != nil {
			return err
		}
		last := l.last()
		if key, err = translog.OpenKey(e.opts.TransparencyLog.Key, last.Origin, true); err != nil {
			return logError("sign", err)
		}
		kept, found, err := key.Kept()
		if err != nil {
			return logError("sign", err)
		}
		if found {
			root, err := rootAt(l.tree, kept.Size)
			if err != nil || root != kept.Root {
				return logError("sign", errors.Join(errWentBack{kept, l.tree.Size}, err))
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
	return c, logError("sign", err)
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
func (e *Engine) signLoop(ctx context.Context) {
	if e.opts.TransparencyLog.Key == "" {
		return
	}
	size, failed := int64(0), ""
	var pause time.Duration // after a failed signature
	var again, looked time.Time
	out := outbox{send: e.opts.TransparencyLog.Send}
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
		tried := !now.Before(again) && (e.logGrew(size) || now.Sub(looked) >= signAgain)
		if tried {
			looked = now
			note, size, err = e.signLog(ctx, size)
			pause = signPause(pause, err)
			again = now.Add(pause)
		}
		if sent := out.push(ctx, note, now); err == nil {
			err = sent
		}
		if err != nil && err.Error() != failed {
			e.logError(ctx, "the checkpoint of the transparency log was not signed or not sent; retrying", err)
		}
		if err != nil {
			failed = err.Error()
		} else if tried {
			failed = ""
		}
	}
}

// logGrew reports whether the log may not have size leaves any more. Where events get positions, the feed learns that.
func (e *Engine) logGrew(size int64) bool {
	return e.db.Dialect().Commits == nil || e.feed.Newest() != size
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
	o.wait = min(max(2*o.wait, signEvery), sendAgainMost)
	o.next = now.Add(o.wait)
	return o.failed
}
