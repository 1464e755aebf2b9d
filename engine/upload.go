package engine

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"slices"
	"time"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/internal/clock"
	"github.com/pawl-work/pawl/store"
	"github.com/pawl-work/pawl/store/objects"
)

// objectsOf returns the object store of a name.
func (e *Engine) objectsOf(place string) (objects.Store, error) {
	if place == "" {
		return listObjects{DB: e.root.db}, nil
	}
	if o := e.opts.Blobs; o != nil && o.Name() == place {
		return o, nil
	}
	for _, o := range e.opts.BlobStores {
		if o.Name() == place {
			return o, nil
		}
	}
	return nil, &pawl.Error{Code: pawl.CodeUnavailable, Op: "blob",
		Message: "the blob is in the object store " + place + ", which is not configured"}
}

// UsedBlobStores returns the names of the object stores besides the database that have or had
// blobs of the database.
func (e *Engine) UsedBlobStores(ctx context.Context) (places []string, err error) {
	err = e.db.View(forAll(ctx), func(ctx context.Context, tx store.Tx) error {
		places, err = blobPlaces(ctx, tx)
		return err
	})
	return places, err
}

// UnknownBlobStores returns the UsedBlobStores that Options does not have.
func (e *Engine) UnknownBlobStores(ctx context.Context) ([]string, error) {
	places, err := e.UsedBlobStores(ctx)
	return slices.DeleteFunc(places, func(place string) bool {
		_, err := e.objectsOf(place)
		return err == nil
	}), err
}

// UploadMemory returns about how many bytes of memory the upload of a large blob takes.
func (e *Engine) UploadMemory() int64 {
	if e.opts.Blobs != nil {
		return e.opts.Blobs.WriteMemory()
	}
	return listObjects{}.WriteMemory()
}

// PutBlob stores a blob; see pawl.BlobWriter.
func (e *Engine) PutBlob(ctx context.Context, upload pawl.BlobUpload) (pawl.Blob, error) {
	if err := cmp.Or(e.checkUpload(&upload), e.notInTx("put_blob")); err != nil {
		return pawl.Blob{}, err
	}
	u := store.Upload{ID: e.k.IDs.Next("upl"), Namespace: pawl.CallerOf(ctx).Namespace}
	if e.opts.Blobs != nil {
		u.Place = e.opts.Blobs.Name()
	}
	to, err := e.objectsOf(u.Place)
	if err == nil {
		err = e.doAt(ctx, func(ctx context.Context, tx store.Tx, now int64) error { return beginUpload(ctx, tx, now, u) })
	}
	if err != nil {
		return pawl.Blob{}, err
	}
	in := &uploadReader{ctx: ctx, content: upload.Content, most: e.opts.MaxBlobBytes, hash: sha256.New(), touched: clock.Now(),
		touch: func() error {
			return e.doAt(ctx, func(ctx context.Context, tx store.Tx, now int64) error { return touchUpload(ctx, tx, now, u.ID) })
		}}
	blob, err := e.upload(ctx, to, u, in, &upload)
	if err != nil || blob.Existed {
		within, cancel := context.WithTimeout(context.WithoutCancel(ctx), answerTime)
		defer cancel()
		if err := e.dropUpload(within, to, u.ID); err != nil { // a sweep removes it later
			e.log.WarnContext(ctx, "an upload that is not needed was not removed; a sweep does it", "upload", u.ID, "error", err)
		}
	}
	return blob, err
}

func (e *Engine) checkUpload(upload *pawl.BlobUpload) error {
	if upload.Content == nil {
		return pawl.Invalid("/content", "is missing")
	}
	if upload.Size > e.opts.MaxBlobBytes {
		return tooLargeBlob(e.opts.MaxBlobBytes)
	}
	if upload.Size < 0 {
		return pawl.Invalid("/size", "is negative")
	}
	if _, ok := pawl.ParseBlobAddress(upload.Address); upload.Address != "" && !ok {
		return errAddress
	}
	return nil
}

var errAddress = pawl.Invalid("/address", "is to be sha256: and 64 hex digits in lower case")

func tooLargeBlob(most int64) error {
	return &pawl.Error{Code: pawl.CodeTooLarge, Op: "put_blob", Message: fmt.Sprintf("a blob has at most %d bytes", most)}
}

// upload writes the bytes, compares them with what is known of them and makes them readable.
func (e *Engine) upload(ctx context.Context, to objects.Store, u store.Upload, in *uploadReader, upload *pawl.BlobUpload) (pawl.Blob,
	error) {
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
	case upload.Size != 0 && upload.Size != u.Size:
		return pawl.Blob{}, pawl.Invalid("/size", "is %d, but the content has %d bytes", upload.Size, u.Size)
	case upload.Address != "" && upload.Address != blob.Address:
		return pawl.Blob{}, pawl.Invalid("/address", "is %s, but the content is %s", upload.Address, blob.Address)
	}
	if blob.Existed, err = e.finishUpload(ctx, u, sum); err != nil {
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

// finishUpload makes an upload readable, unless the namespace has its bytes already: then it
// returns true. It looks whether the object that is to have them can be read.
func (e *Engine) finishUpload(ctx context.Context, u store.Upload, sum []byte) (existed bool, err error) {
	for unread := ""; ; {
		var old store.Upload
		err := e.doAt(ctx, func(ctx context.Context, tx store.Tx, now int64) (err error) {
			old, existed, err = store.FinishUpload(ctx, tx, now, u, sum, func(old store.Upload) bool {
				_, unknown := e.objectsOf(old.Place)
				return old.ID == unread || unknown != nil
			})
			return err
		})
		if err != nil || !existed || e.readable(ctx, old) {
			return existed, err
		}
		unread = old.ID
	}
}

// readable reports whether the last byte of an object can be read. It does not look at objects
// in the database. Why an object cannot be read is not asked: a bucket may answer that access is
// denied where an object is missing, and the new upload has the same bytes.
func (e *Engine) readable(ctx context.Context, u store.Upload) bool {
	from, err := e.objectsOf(u.Place)
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

// dropUpload removes an upload that is not stored, and its bytes. A sweep may have removed it
// before its last bytes were written.
func (e *Engine) dropUpload(ctx context.Context, from objects.Store, id string) error {
	remove := false
	err := e.doAt(ctx, func(ctx context.Context, tx store.Tx, now int64) (err error) {
		if remove, err = store.GiveUpUpload(ctx, tx, now, id); err == nil && !remove {
			remove, err = uploadExists(ctx, tx, id)
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
	return e.root.db.Do(ctx, func(ctx context.Context, tx store.Tx) error { return store.RemoveUpload(ctx, tx, id) })
}

// doAt runs fn in a transaction, with the transaction's time.
func (e *Engine) doAt(ctx context.Context, fn func(ctx context.Context, tx store.Tx, now int64) error) error {
	return e.root.db.Do(ctx, func(ctx context.Context, tx store.Tx) error {
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

// OpenBlob opens a blob; see pawl.BlobReader.
func (e *Engine) OpenBlob(ctx context.Context, address string) (pawl.Blob, io.ReadSeekCloser, error) {
	sum, ok := pawl.ParseBlobAddress(address)
	var u store.Upload
	err := e.db.View(ctx, func(ctx context.Context, tx store.Tx) (err error) {
		var found bool
		if u, found, err = store.FindUpload(ctx, tx, pawl.CallerOf(ctx).Namespace, sum); err == nil && !(ok && found) {
			err = &pawl.Error{Code: pawl.CodeNotFound, Op: "blob", Message: "no blob " + address}
		}
		return err
	})
	if err != nil {
		return pawl.Blob{}, nil, err
	}
	from, err := e.objectsOf(u.Place)
	if err != nil {
		return pawl.Blob{}, nil, err
	}
	return pawl.Blob{Address: address, Size: u.Size}, &blobReader{ctx: ctx, from: from, upload: u, sum: sum, hash: sha256.New()}, nil
}

// blobReader reads a blob from its object. It compares the bytes with the address when all
// of them were read in order.
type blobReader struct {
	ctx    context.Context
	from   objects.Store
	upload store.Upload
	sum    []byte
	at     int64
	body   io.ReadCloser // at at; nil = to be opened
	hash   hash.Hash     // of all bytes before at; nil = some were passed over
}

// Read implements io.Reader.
func (r *blobReader) Read(b []byte) (n int, err error) {
	left := r.upload.Size - r.at
	if left <= 0 || len(b) == 0 {
		if len(b) > 0 {
			err = r.intact(io.EOF)
		}
		return 0, err
	}
	if r.body == nil {
		r.body, err = r.from.Read(r.ctx, r.upload.ID, r.at)
		if errors.Is(err, fs.ErrNotExist) {
			return 0, store.BadBlob(r.sum, "is missing bytes")
		}
		if err != nil {
			return 0, storeFailed("blob", r.upload.Place, err)
		}
	}
	for n == 0 && err == nil {
		n, err = r.body.Read(b[:min(int64(len(b)), left)])
	}
	if err != nil && err != io.EOF {
		err = storeFailed("blob", r.upload.Place, err)
	}
	if r.hash != nil {
		r.hash.Write(b[:n])
	}
	switch r.at += int64(n); {
	case r.at == r.upload.Size:
		if err := r.intact(nil); err != nil {
			return 0, err
		}
		return n, nil
	case err == io.EOF:
		return n, store.BadBlob(r.sum, "is missing bytes")
	}
	return n, err
}

func (r *blobReader) intact(err error) error {
	if r.hash != nil && !bytes.Equal(r.hash.Sum(nil), r.sum) {
		return store.BadBlob(r.sum, "was changed")
	}
	return err
}

// Seek moves to another place.
func (r *blobReader) Seek(offset int64, whence int) (int64, error) {
	switch whence {
	case io.SeekCurrent:
		offset += r.at
	case io.SeekEnd:
		offset += r.upload.Size
	}
	if offset < 0 {
		return 0, pawl.Invalid("/offset", "is before the beginning")
	}
	if offset == r.at {
		return offset, nil
	}
	if r.hash = nil; offset == 0 {
		r.hash = sha256.New()
	}
	r.at = offset
	return offset, r.Close()
}

// Close closes what was opened.
func (r *blobReader) Close() error {
	if r.body == nil {
		return nil
	}
	body := r.body
	r.body = nil
	return body.Close()
}
