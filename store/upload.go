package store

import (
	"context"

	"github.com/pawl-work/pawl"
)

var uploadSQL = Texts(sqlFiles, "upload.sql")

// Upload is an object that has or gets the bytes of a blob. Its id is its key in the place
// where the bytes are.
type Upload struct {
	ID, Namespace string
	Place         string // the name of the object store; "" = the database
	Size          int64
}

var errUploadGone = &pawl.Error{Code: pawl.CodeUnavailable, Op: "put_blob",
	Message: "the upload made no progress for so long that it was removed; upload the blob again"}

// UploadGone returns the error of an upload of which a statement has changed n rows.
func UploadGone(n int64, err error) error {
	if err == nil && n == 0 {
		return errUploadGone
	}
	return err
}

// FinishUpload makes the bytes of an upload readable under their address. If the namespace
// has them already in an object that is not lost, it returns that object, and the upload is
// to be removed.
func FinishUpload(ctx context.Context, tx Tx, now int64, u Upload, address []byte, lost func(Upload) bool) (old Upload, existed bool,
	err error) {
	for range 10 { // another transaction may be removing the row
		n, err := tx.Exec(ctx, uploadSQL["publish"], u.Namespace, address, u.ID, now)
		if err != nil {
			return old, false, err
		}
		if n == 1 {
			return old, false, UploadGone(tx.Exec(ctx, uploadSQL["stored"], u.ID, u.Size, now))
		}
		if n, err := tx.Exec(ctx, uploadSQL["use"], u.Namespace, address, now); err != nil || n == 1 {
			if err == nil {
				old, existed, err = keepReadable(ctx, tx, now, u, address, lost)
			}
			return old, existed, err
		}
	}
	return old, false, &pawl.Error{Code: pawl.CodeUnavailable, Op: "put_blob",
		Message: "blob " + BlobName(address) + " is being removed; try again"}
}

// keepReadable gives an address the bytes of a new upload if those that it has are lost. The
// address is locked.
func keepReadable(ctx context.Context, tx Tx, now int64, u Upload, address []byte, lost func(Upload) bool) (old Upload, readable bool,
	err error) {
	var missing int64
	found, err := Row(ctx, tx, []any{&old.ID, &old.Place, &old.Size, &missing}, uploadSQL["object"], u.Namespace, address)
	if err != nil || found && missing == 0 && !lost(old) {
		return old, true, err
	}
	if _, err := tx.Exec(ctx, uploadSQL["replace"], u.Namespace, address, u.ID); err != nil {
		return old, false, err
	}
	if _, err := tx.Exec(ctx, uploadSQL["dismiss"], old.ID, now); err != nil {
		return old, false, err
	}
	return old, false, UploadGone(tx.Exec(ctx, uploadSQL["stored"], u.ID, u.Size, now))
}

// UseUpload marks a blob as used, as useBlob does: retention looks at blobs that were not used for
// pawl.DefaultRetainBlobs, so one that was used in the last half of that needs no write. It
// returns false if the namespace does not have the blob. After that time a stored text that belongs
// to no task keeps it too: a schedule, a signal, or the answer of a key.
func UseUpload(ctx context.Context, tx Tx, now int64, namespace string, address []byte) (there bool, err error) {
	var used int64
	if there, err = Row(ctx, tx, []any{&used}, uploadSQL["last use"], namespace, address); err != nil || !there {
		return false, err
	}
	if used > now-pawl.DefaultRetainBlobs.Microseconds()/2 {
		return true, nil
	}
	n, err := tx.Exec(ctx, uploadSQL["use"], namespace, address, now)
	return n == 1, err
}

// FindUpload finds the object that has the bytes of a blob.
func FindUpload(ctx context.Context, tx Tx, namespace string, address []byte) (u Upload, found bool, err error) {
	var used int64
	u.Namespace = namespace
	found, err = Row(ctx, tx, []any{&u.ID, &u.Place, &u.Size, &used}, uploadSQL["find"], namespace, address)
	return u, found, err
}

// GiveUpUpload marks an upload as one whose bytes are removed, unless it was used since.
func GiveUpUpload(ctx context.Context, tx Tx, by int64, id string) (bool, error) {
	n, err := tx.Exec(ctx, uploadSQL["give up"], id, by)
	return n == 1, err
}

// RemoveUpload removes the row of an upload whose bytes were removed.
func RemoveUpload(ctx context.Context, tx Tx, id string) error {
	_, err := tx.Exec(ctx, uploadSQL["remove"], id)
	return err
}

// IdleUploadedBlobs is IdleBlobs for uploaded blobs. It also lists those with a reference of a
// task that is gone.
func IdleUploadedBlobs(ctx context.Context, tx Tx, by int64, after BlobPlace, limit int) (idle []BlobPlace, next BlobPlace, err error) {
	return idleBlobs(ctx, tx, uploadSQL["page of unused"], after, limit, by)
}

// RemoveUploadedBlobs makes those of the given blobs unreadable that no task refers to and that
// were not used since a time. The caller leaves those out that texts hold: see textHolds.
// Their bytes are removed later, as those of uploads that were cut off.
func RemoveUploadedBlobs(ctx context.Context, tx Tx, by int64, idle []BlobPlace) (removed int64, err error) {
	now, err := tx.Now(ctx)
	if err != nil {
		return 0, err
	}
	for _, b := range idle {
		if _, err := tx.Exec(ctx, uploadSQL["forget references"], b.Namespace, b.Address, by); err != nil {
			return removed, err
		}
		var id string
		found, err := Row(ctx, tx, []any{&id}, uploadSQL["unpublish"], b.Namespace, b.Address, by)
		if err == nil && found {
			_, err = tx.Exec(ctx, uploadSQL["dismiss"], id, now)
			removed++
		}
		if err != nil {
			return removed, err
		}
	}
	return removed, nil
}
