package blobs

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"io"
	"time"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/internal/clock"
	"github.com/pawl-work/pawl/store"
	"github.com/pawl-work/pawl/store/objects"
)

// PutBlob stores a blob; see pawl.BlobWriter.
func (r *Blobs) PutBlob(ctx context.Context, call pawl.BlobUpload) (pawl.Blob, error) {
	if err := cmp.Or(r.check(&call), r.k.NotInTx("put_blob")); err != nil {
		return pawl.Blob{}, err
	}
	u := upload{ID: r.k.IDs.Next("upl"), Namespace: pawl.CallerOf(ctx).Namespace}
	if r.to != nil {
		u.Place = r.to.Name()
	}
	to, err := r.objects(u.Place)
	if err == nil {
		err = r.doAt(ctx, func(ctx context.Context, tx store.Tx, now int64) error { return begin(ctx, tx, now, u) })
	}
	if err != nil {
		return pawl.Blob{}, err
	}
	in := &uploadReader{ctx: ctx, content: call.Content, most: r.most, hash: sha256.New(), touched: clock.Now(),
		touch: func() error {
			return r.doAt(ctx, func(ctx context.Context, tx store.Tx, now int64) error { return touch(ctx, tx, now, u.ID) })
		}}
	blob, err := r.write(ctx, to, u, in, &call)
	if err != nil || blob.Existed {
		within, cancel := context.WithTimeout(context.WithoutCancel(ctx), answerTime)
		defer cancel()
		if err := r.drop(within, to, u.ID); err != nil { // a sweep removes it later
			r.k.Log.WarnContext(ctx, "an upload that is not needed was not removed; a sweep does it", "upload", u.ID, "error", err)
		}
	}
	return blob, err
}

func (r *Blobs) check(call *pawl.BlobUpload) error {
	if call.Content == nil {
		return pawl.Invalid("/content", "is missing")
	}
	if call.Size > r.most {
		return tooLargeBlob(r.most)
	}
	if call.Size < 0 {
		return pawl.Invalid("/size", "is negative")
	}
	if _, ok := pawl.ParseBlobAddress(call.Address); call.Address != "" && !ok {
		return errAddress
	}
	return nil
}

var errAddress = pawl.Invalid("/address", "is to be sha256: and 64 hex digits in lower case")

func tooLargeBlob(most int64) error {
	return &pawl.Error{Code: pawl.CodeTooLarge, Op: "put_blob", Message: fmt.Sprintf("a blob has at most %d bytes", most)}
}

// write writes the bytes, compares them with what is known of them and makes them readable.
func (r *Blobs) write(ctx context.Context, to objects.Store, u upload, in *uploadReader, call *pawl.BlobUpload) (pawl.Blob, error) {
	err := to.Write(ctx, u.ID, in)
	if in.failed != nil { // the reason, whatever the store made of it
		return pawl.Blob{}, in.failed
	}
	if err != nil {
		return pawl.Blob{}, storeFailed("put_blob", u.Place, err)
	}
	u.Size = in.n
	sum := in.hash.Sum(nil)
	blob := pawl.Blob{Address: pawl.BlobAddress(sum), Size: u.Size}
	switch {
	case call.Size != 0 && call.Size != u.Size:
		return pawl.Blob{}, pawl.Invalid("/size", "is %d, but the content has %d bytes", call.Size, u.Size)
	case call.Address != "" && call.Address != blob.Address:
		return pawl.Blob{}, pawl.Invalid("/address", "is %s, but the content is %s", call.Address, blob.Address)
	}
	if blob.Existed, err = r.finish(ctx, u, sum); err != nil {
		return pawl.Blob{}, err
	}
	return blob, nil
}

// answerTime is how long a call waits for an object store besides sending or reading a blob: an
// upload must not hold its room for as long as a store does not answer.
const answerTime = 10 * time.Second

// storeFailed says that an object store outside of the database does not do what it is asked.
func storeFailed(op, place string, err error) error {
	var known *pawl.Error
	if place == "" || errors.As(err, &known) {
		return err
	}
	return &pawl.Error{Code: pawl.CodeUnavailable, Op: op, Message: "the blob store " + place + " does not answer as it should", Err: err}
}

// finish makes an upload readable, unless the namespace has its bytes already: then it
// returns true. It looks whether the object that is to have them can be read.
func (r *Blobs) finish(ctx context.Context, u upload, sum []byte) (existed bool, err error) {
	for unread := ""; ; {
		var old upload
		err := r.doAt(ctx, func(ctx context.Context, tx store.Tx, now int64) (err error) {
			old, existed, err = publish(ctx, tx, now, u, sum, func(old upload) bool {
				_, unknown := r.objects(old.Place)
				return old.ID == unread || unknown != nil
			})
			return err
		})
		if err != nil || !existed || r.readable(ctx, old) {
			return existed, err
		}
		unread = old.ID
	}
}

// readable reports whether the last byte of an object can be read. It does not look at objects
// in the database. Why an object cannot be read is not asked: a bucket may answer that access is
// denied where an object is missing, and the new upload has the same bytes.
func (r *Blobs) readable(ctx context.Context, u upload) bool {
	from, err := r.objects(u.Place)
	if err != nil || u.Place == "" {
		return true
	}
	within, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	last, err := from.Read(within, u.ID, max(0, u.Size-1))
	if err != nil {
		return false
	}
	defer last.Close()
	_, err = io.ReadFull(last, make([]byte, min(u.Size, 1)))
	return err == nil
}

// drop removes an upload that is not stored, and its bytes. A sweep may have removed it
// before its last bytes were written.
func (r *Blobs) drop(ctx context.Context, from objects.Store, id string) error {
	remove := false
	err := r.doAt(ctx, func(ctx context.Context, tx store.Tx, now int64) (err error) {
		if remove, err = giveUp(ctx, tx, now, id); err == nil && !remove {
			remove, err = exists(ctx, tx, id)
			remove = !remove
		}
		return err
	})
	if err != nil || !remove { // the outcome was unknown, and it is stored
		return err
	}
	if err := from.Remove(ctx, id); err != nil {
		return err
	}
	return r.k.Base.Do(ctx, func(ctx context.Context, tx store.Tx) error { return removeRow(ctx, tx, id) })
}

// doAt runs fn in a transaction, with the transaction's time.
func (r *Blobs) doAt(ctx context.Context, fn func(ctx context.Context, tx store.Tx, now int64) error) error {
	return r.k.Base.Do(ctx, func(ctx context.Context, tx store.Tx) error {
		now, err := tx.Now(ctx)
		if err != nil {
			return err
		}
		return fn(ctx, tx, now)
	})
}

// touchEvery is how often an upload shows that it is going on.
const touchEvery = time.Minute

// uploadReader hashes and counts what is read of an upload's content.
type uploadReader struct {
	ctx     context.Context
	content io.Reader
	most    int64
	hash    hash.Hash
	n       int64
	touch   func() error
	touched time.Time
	failed  error // why reading ended, if not at the end
}

// Read implements io.Reader.
func (u *uploadReader) Read(b []byte) (int, error) {
	if u.failed != nil {
		return 0, u.failed
	}
	if err := u.ctx.Err(); err != nil {
		u.failed = &pawl.Error{Code: pawl.CodeUnavailable, Op: "put_blob", Message: "the upload was cut off", Err: err}
		return 0, u.failed
	}
	if now := clock.Now(); now.Sub(u.touched) > touchEvery {
		if u.failed = u.touch(); u.failed != nil {
			return 0, u.failed
		}
		u.touched = now
	}
	n, err := u.content.Read(b)
	u.hash.Write(b[:n])
	if u.n += int64(n); u.n > u.most {
		err = tooLargeBlob(u.most)
	}
	if err != nil && err != io.EOF {
		var known *pawl.Error
		if !errors.As(err, &known) {
			err = &pawl.Error{Code: pawl.CodeInvalid, Op: "put_blob", Message: "the content cannot be read to its end", Err: err}
		}
		u.failed = err
	}
	return n, err
}
