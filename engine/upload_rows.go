package engine

import (
	"bytes"
	"context"
	"io"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/store"
)

// beginUpload adds an upload that cannot be read yet.
func beginUpload(ctx context.Context, tx store.Tx, now int64, u store.Upload) error {
	_, err := tx.Exec(ctx, uploadSQL["begin"], u.ID, u.Namespace, u.Place, now)
	return err
}

// touchUpload says that an upload is going on.
func touchUpload(ctx context.Context, tx store.Tx, now int64, id string) error {
	return store.UploadGone(tx.Exec(ctx, uploadSQL["touch"], id, now))
}

// uploadExists reports whether the database knows an upload.
func uploadExists(ctx context.Context, tx store.Tx, id string) (bool, error) {
	var one int
	return store.Row(ctx, tx, []any{&one}, uploadSQL["exists"], id)
}

// blobPlaces returns the names of the object stores that have or had uploads, without the
// database.
func blobPlaces(ctx context.Context, tx store.Tx) (out []string, err error) {
	for place := ""; ; out = append(out, place) {
		if found, err := store.Row(ctx, tx, []any{&place}, uploadSQL["next place"], place); err != nil || !found {
			return out, err
		}
	}
}

// referToUpload keeps a blob for as long as a task or its archive exists, and at least for
// pawl.DefaultRetainBlobs. It returns false if the namespace does not have the blob.
func referToUpload(ctx context.Context, tx store.Tx, now int64, namespace string, address []byte, taskID string) (bool, error) {
	if there, err := store.UseUpload(ctx, tx, now, namespace, address); err != nil || !there {
		return false, err
	}
	_, err := tx.Exec(ctx, uploadSQL["refer"], namespace, address, store.TaskID(taskID), now)
	return true, err
}

// listObjects stores the bytes of uploads in the database, in pieces of pawl.MaxBlobPiece. It
// is an objects.Store.
type listObjects struct{ DB store.DB }

// Name returns the name that uploads have in their place.
func (o listObjects) Name() string { return "" }

// Write stores what r has, each piece in a transaction of its own.
func (o listObjects) Write(ctx context.Context, key string, r io.Reader) error {
	piece := make([]byte, pawl.MaxBlobPiece)
	for number := 0; ; number++ {
		n, err := io.ReadFull(r, piece)
		if err != nil && err != io.EOF && err != io.ErrUnexpectedEOF {
			return err
		}
		if n > 0 {
			err := o.DB.Do(ctx, func(ctx context.Context, tx store.Tx) error {
				return store.UploadGone(tx.Exec(ctx, uploadSQL["add piece"], key, number, piece[:n]))
			})
			if err != nil {
				return err
			}
		}
		if n < len(piece) {
			return nil
		}
	}
}

// WriteMemory returns the size of a piece, and of its copy on the way to the database.
func (o listObjects) WriteMemory() int64 { return 2 * pawl.MaxBlobPiece }

// Read returns the bytes from an offset on. A piece that is missing is the end.
func (o listObjects) Read(ctx context.Context, key string, offset int64) (io.ReadCloser, error) {
	return io.NopCloser(&pieceReader{ctx: ctx, db: o.DB, key: key, at: offset}), nil
}

// Remove removes the bytes of an object.
func (o listObjects) Remove(ctx context.Context, key string) error {
	return o.DB.Do(ctx, func(ctx context.Context, tx store.Tx) error {
		_, err := tx.Exec(ctx, uploadSQL["remove pieces"], key)
		return err
	})
}

type pieceReader struct {
	ctx  context.Context
	db   store.DB
	key  string
	at   int64
	rest bytes.Reader // of the piece at hand
}

// Read implements io.Reader.
func (p *pieceReader) Read(b []byte) (int, error) {
	if p.rest.Len() == 0 {
		var body []byte
		err := p.db.View(p.ctx, func(ctx context.Context, tx store.Tx) error {
			_, err := store.Row(ctx, tx, []any{&body}, uploadSQL["piece"], p.key, p.at/pawl.MaxBlobPiece)
			return err
		})
		if err != nil {
			return 0, err
		}
		skip := p.at % pawl.MaxBlobPiece
		if int64(len(body)) <= skip {
			return 0, io.EOF
		}
		p.rest.Reset(body[skip:])
	}
	n, err := p.rest.Read(b)
	p.at += int64(n)
	return n, err
}
