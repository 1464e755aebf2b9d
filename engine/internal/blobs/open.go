package blobs

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"hash"
	"io"
	"io/fs"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/store"
	"github.com/pawl-work/pawl/store/objects"
)

// OpenBlob opens a blob; see pawl.BlobReader.
func (r *Blobs) OpenBlob(ctx context.Context, address string) (pawl.Blob, io.ReadSeekCloser, error) {
	sum, ok := pawl.ParseBlobAddress(address)
	var u upload
	err := r.k.DB.View(ctx, func(ctx context.Context, tx store.Tx) (err error) {
		var found bool
		if u, found, err = find(ctx, tx, pawl.CallerOf(ctx).Namespace, sum); err == nil && !(ok && found) {
			err = &pawl.Error{Code: pawl.CodeNotFound, Op: "blob", Message: "no blob " + address}
		}
		return err
	})
	if err != nil {
		return pawl.Blob{}, nil, err
	}
	from, err := r.objects(u.Place)
	if err != nil {
		return pawl.Blob{}, nil, err
	}
	return pawl.Blob{Address: address, Size: u.Size}, &blobReader{ctx: ctx, from: from, of: u, sum: sum, hash: sha256.New()}, nil
}

// blobReader reads a blob from its object. It compares the bytes with the address when all
// of them were read in order.
type blobReader struct {
	ctx  context.Context
	from objects.Store
	of   upload
	sum  []byte
	at   int64
	body io.ReadCloser // at at; nil = to be opened
	hash hash.Hash     // of all bytes before at; nil = some were passed over
}

// Read implements io.Reader.
func (r *blobReader) Read(b []byte) (n int, err error) {
	left := r.of.Size - r.at
	if left <= 0 || len(b) == 0 {
		if len(b) > 0 {
			err = r.intact(io.EOF)
		}
		return 0, err
	}
	if r.body == nil {
		r.body, err = r.from.Read(r.ctx, r.of.ID, r.at)
		if errors.Is(err, fs.ErrNotExist) {
			return 0, store.BadBlob(r.sum, "is missing bytes")
		}
		if err != nil {
			return 0, storeFailed("blob", r.of.Place, err)
		}
	}
	for n == 0 && err == nil {
		n, err = r.body.Read(b[:min(int64(len(b)), left)])
	}
	if err != nil && err != io.EOF {
		err = storeFailed("blob", r.of.Place, err)
	}
	if r.hash != nil {
		r.hash.Write(b[:n])
	}
	switch r.at += int64(n); {
	case r.at == r.of.Size:
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
		offset += r.of.Size
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
