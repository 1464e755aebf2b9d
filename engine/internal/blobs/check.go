package blobs

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"io"
	"io/fs"

	"github.com/pawl-work/pawl/store"
)

// pageBlobs is the number of blobs that one read of Check covers.
const pageBlobs = 100

// uploaded is a blob that a caller uploaded.
type uploaded struct {
	upload
	address []byte
}

// Check implements kernel.Blobs. It reads every blob from its object.
func (a asked) Check(ctx context.Context, db store.DB, report func(store.Breach)) error {
	rule := store.RuleOf("blob contents")
	for after := (uploaded{address: []byte{}}); ; {
		var page []uploaded
		err := db.View(ctx, func(ctx context.Context, tx store.Tx) (err error) {
			args := []any{after.Namespace, after.address, pageBlobs}
			page, err = store.All(ctx, tx, texts["page"], args, func(rows store.Rows, b *uploaded) error {
				return rows.Scan(&b.Namespace, &b.address, &b.ID, &b.Place, &b.Size)
			})
			return err
		})
		if err != nil {
			return err
		}
		for _, b := range page {
			found, repair, err := a.r.fault(ctx, db, &b)
			if err != nil {
				return err
			}
			if found != "" {
				report(store.Breach{Rule: rule.Name, Subject: store.BlobName(b.address), Found: found, Repair: cmp.Or(repair, rule.Repair)})
			}
			after = b
		}
		if len(page) < pageBlobs {
			return nil
		}
	}
}

// fault reads the blob and says what is wrong with it and how to repair it; "" = nothing, or
// it was removed meanwhile.
func (r *Blobs) fault(ctx context.Context, db store.DB, b *uploaded) (found, repair string, err error) {
	n, sum, failed := r.sum(ctx, b)
	if err := ctx.Err(); err != nil {
		return "", "", err
	}
	if failed != nil && b.Place == "" {
		return "", "", failed // the database cannot be read
	}
	if failed == nil && n == b.Size && bytes.Equal(sum, b.address) {
		return "", "", nil
	}
	there := false
	err = db.View(ctx, func(ctx context.Context, tx store.Tx) error {
		now, found, err := find(ctx, tx, b.Namespace, b.address)
		there = found && now.ID == b.ID
		return err
	})
	switch {
	case err != nil || !there:
		return "", "", err
	case failed != nil && !errors.Is(failed, fs.ErrNotExist):
		return "it cannot be read: " + failed.Error(), "make its store readable and configure it", nil
	case n < b.Size:
		return "bytes of it are missing" + b.in(), "upload the same bytes again, or restore a backup", nil
	case b.Place != "":
		return "what it stores was changed" + b.in(), "remove the object and upload the same bytes again, or restore a backup", nil
	}
	return "what it stores was changed", "", nil
}

// in says where the bytes are, if they are not in the database.
func (b *uploaded) in() string {
	if b.Place == "" {
		return ""
	}
	return ": object " + b.ID + " of the store " + b.Place
}

// sum reads the bytes of a blob.
func (r *Blobs) sum(ctx context.Context, b *uploaded) (n int64, sum []byte, err error) {
	where, err := r.objects(b.Place)
	if err != nil {
		return 0, nil, err
	}
	content, err := where.Read(ctx, b.ID, 0)
	if err != nil {
		return 0, nil, err
	}
	defer content.Close()
	hash := sha256.New()
	n, err = io.Copy(hash, content)
	return n, hash.Sum(nil), err
}
