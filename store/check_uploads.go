package store

import (
	"bytes"
	"context"
	"crypto/sha256"
	"io"
)

// uploadedBlob is a blob that a caller uploaded.
type uploadedBlob struct {
	Upload
	address []byte
}

// changedUploads compares every uploaded blob whose bytes are in the database with its
// address. The bytes of other object stores are compared when they are read.
func (r Rule) changedUploads(ctx context.Context, db DB, report func(Breach)) error {
	for place, n := (BlobPlace{}), pageBlobs; n == pageBlobs; {
		blobs, err := uploadedBlobs(ctx, db, place)
		if err != nil {
			return err
		}
		for _, b := range blobs {
			found, err := b.fault(ctx, db)
			if err != nil {
				return err
			}
			if found != "" {
				report(Breach{Rule: r.Name, Subject: BlobName(b.address), Found: found, Repair: r.Repair})
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

// fault reads the blob and says what is wrong with it; "" = nothing, or it was removed
// meanwhile.
func (b *uploadedBlob) fault(ctx context.Context, db DB) (string, error) {
	if b.Place != "" {
		return "", nil
	}
	content, err := Objects{db}.Read(ctx, b.ID, 0)
	if err != nil {
		return "", err
	}
	defer content.Close()
	hash := sha256.New()
	n, err := io.Copy(hash, content)
	if err != nil || n == b.Size && bytes.Equal(hash.Sum(nil), b.address) {
		return "", err
	}
	there := false
	err = db.View(ctx, func(ctx context.Context, tx Tx) error {
		now, found, err := FindUpload(ctx, tx, b.Namespace, b.address)
		there = found && now.ID == b.ID
		return err
	})
	switch {
	case err != nil || !there:
		return "", err
	case n < b.Size:
		return "bytes of it are missing", nil
	}
	return "what it stores was changed", nil
}
