package blobs

import (
	"bytes"
	"context"
	"io"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/store"
)

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
				return gone(tx.Exec(ctx, texts["add piece"], key, number, piece[:n]))
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
		_, err := tx.Exec(ctx, texts["remove pieces"], key)
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
			_, err := store.Row(ctx, tx, []any{&body}, texts["piece"], p.key, p.at/pawl.MaxBlobPiece)
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
