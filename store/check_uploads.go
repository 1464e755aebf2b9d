package store

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"io"
	"io/fs"

	"github.com/pawl-work/pawl/store/objects"
)

// uploadedBlob is a blob that a caller uploaded.
type uploadedBlob struct {
	Upload
	address []byte
}

// changedUploads reads every uploaded blob from its object store and compares it with its
// address.
func (r Rule) changedUploads(ctx context.Context, db DB, from func(place string) (objects.Store, error), report func(Breach)) error {
	for place, n := (BlobPlace{}), pageBlobs; n == pageBlobs; {
		blobs, err := uploadedBlobs(ctx, db, place)
		if err != nil {
			return err
		}
		for _, b := range blobs {
			found, repair, err := b.fault(ctx, db, from)
			if err != nil {
				return err
			}
			if found != "" {
				report(Breach{Rule: r.Name, Subject: BlobName(b.address), Found: found, Repair: cmp.Or(repair, r.Repair)})
			}
			place = BlobPlace{b.Namespace, b.address}
		}
		n = len(blobs)
	}
	return nil
}

func uploadedBlobs(ctx context.Context, db DB, after BlobPlace) (out []uploadedBlob, err error) {
	err = db.View(ctx, func(ctx context.Context, tx Tx) error {
		out = nil
		rows, err := tx.Query(ctx, uploadSQL["page"], after.Namespace, after.bytes(), pageBlobs)
		if err != nil {
			return err
		}
		defer rows.Close()
		for rows.Next() {
			var b uploadedBlob
			if err := rows.Scan(&b.Namespace, &b.address, &b.ID, &b.Place, &b.Size); err != nil {
				return err
			}
			out = append(out, b)
		}
		return rows.Err()
	})
	return out, err
}

// fault reads the blob and says what is wrong with it and how to repair it; "" = nothing, or
// it was removed meanwhile.
func (b *uploadedBlob) fault(ctx context.Context, db DB, from func(place string) (objects.Store, error)) (found, repair string, err error) {
	n, sum, failed := b.read(ctx, from)
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
	err = db.View(ctx, func(ctx context.Context, tx Tx) error {
		now, found, err := FindUpload(ctx, tx, b.Namespace, b.address)
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
func (b *uploadedBlob) in() string {
	if b.Place == "" {
		return ""
	}
	return ": object " + b.ID + " of the store " + b.Place
}

func (b *uploadedBlob) read(ctx context.Context, from func(place string) (objects.Store, error)) (n int64, sum []byte, err error) {
	where, err := from(b.Place)
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
