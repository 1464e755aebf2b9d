package blobs

import (
	"context"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/store"
)

// begin adds an upload that cannot be read yet.
func begin(ctx context.Context, tx store.Tx, now int64, u upload) error {
	_, err := tx.Exec(ctx, texts["begin"], u.ID, u.Namespace, u.Place, now)
	return err
}

// touch says that an upload is going on.
func touch(ctx context.Context, tx store.Tx, now int64, id string) error {
	return gone(tx.Exec(ctx, texts["touch"], id, now))
}

// exists reports whether the database knows an upload.
func exists(ctx context.Context, tx store.Tx, id string) (bool, error) {
	var one int
	return store.Row(ctx, tx, []any{&one}, texts["exists"], id)
}

// places returns the names of the object stores that have or had uploads, without the
// database.
func places(ctx context.Context, tx store.Tx) (out []string, err error) {
	for place := ""; ; out = append(out, place) {
		if found, err := store.Row(ctx, tx, []any{&place}, texts["next place"], place); err != nil || !found {
			return out, err
		}
	}
}

// upload is an object that has or gets the bytes of a blob. Its id is its key in the place
// where the bytes are.
type upload struct {
	ID, Namespace string
	Place         string // the name of the object store; "" = the database
	Size          int64
}

var errGone = &pawl.Error{Code: pawl.CodeUnavailable, Op: "put_blob",
	Message: "the upload made no progress for so long that it was removed; upload the blob again"}

// gone returns the error of an upload of which a statement has changed n rows.
func gone(n int64, err error) error {
	if err == nil && n == 0 {
		return errGone
	}
	return err
}

// publish makes the bytes of an upload readable under their address. If the namespace
// has them already in an object that is not lost, it returns that object, and the upload is
// to be removed.
func publish(ctx context.Context, tx store.Tx, now int64, u upload, address []byte, lost func(upload) bool) (old upload, existed bool,
	err error) {
	for range 10 { // another transaction may be removing the row
		n, err := tx.Exec(ctx, texts["publish"], u.Namespace, address, u.ID, now)
		if err != nil {
			return old, false, err
		}
		if n == 1 {
			return old, false, gone(tx.Exec(ctx, texts["stored"], u.ID, u.Size, now))
		}
		if n, err := tx.Exec(ctx, texts["use"], u.Namespace, address, now); err != nil || n == 1 {
			if err == nil {
				old, existed, err = keepReadable(ctx, tx, now, u, address, lost)
			}
			return old, existed, err
		}
	}
	return old, false, &pawl.Error{Code: pawl.CodeUnavailable, Op: "put_blob",
		Message: "blob " + store.BlobName(address) + " is being removed; try again"}
}

// keepReadable gives an address the bytes of a new upload if those that it has are lost. The
// address is locked.
func keepReadable(ctx context.Context, tx store.Tx, now int64, u upload, address []byte, lost func(upload) bool) (old upload, readable bool,
	err error) {
	var missing int64
	found, err := store.Row(ctx, tx, []any{&old.ID, &old.Place, &old.Size, &missing}, texts["object"], u.Namespace, address)
	if err != nil || found && missing == 0 && !lost(old) {
		return old, true, err
	}
	if _, err := tx.Exec(ctx, texts["replace"], u.Namespace, address, u.ID); err != nil {
		return old, false, err
	}
	if _, err := tx.Exec(ctx, texts["dismiss"], old.ID, now); err != nil {
		return old, false, err
	}
	return old, false, gone(tx.Exec(ctx, texts["stored"], u.ID, u.Size, now))
}

// find finds the object that has the bytes of a blob.
func find(ctx context.Context, tx store.Tx, namespace string, address []byte) (u upload, found bool, err error) {
	var used int64
	u.Namespace = namespace
	found, err = store.Row(ctx, tx, []any{&u.ID, &u.Place, &u.Size, &used}, texts["find"], namespace, address)
	return u, found, err
}

// giveUp marks an upload as one whose bytes are removed, unless it was used since.
func giveUp(ctx context.Context, tx store.Tx, by int64, id string) (bool, error) {
	n, err := tx.Exec(ctx, texts["give up"], id, by)
	return n == 1, err
}

// removeRow removes the row of an upload whose bytes were removed.
func removeRow(ctx context.Context, tx store.Tx, id string) error {
	_, err := tx.Exec(ctx, texts["remove"], id)
	return err
}
