package kernel

import (
	"context"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/store"
	"github.com/pawl-work/pawl/store/objects"
)

// Blobs are what others ask of uploaded blobs. A blob that the namespace does not have is invalid.
type Blobs interface {
	// Before marks blobs as used before a transaction of the caller's refers to them, where others write beside it: they
	// would wait until it ends to do the same. If no connection is free, that transaction does it.
	Before(ctx context.Context, k *Kernel, addresses [][]byte) error
	// Refer keeps blobs for as long as a task or its archive exists. The transaction is to be rolled back if it returns an
	// error: no reference of a call that is refused stays.
	Refer(ctx context.Context, tx store.Tx, now int64, op, taskID string, addresses [][]byte) error
	// Use keeps the blobs that a text refers to which belongs to no task. The text is stored in the same transaction.
	Use(ctx context.Context, tx store.Tx, now int64, op string, addresses [][]byte) error
	// Objects returns the object store of a name; "" = the database.
	Objects(place string) (objects.Store, error)
	// Places returns the names of the object stores besides the database that have or had blobs.
	Places(ctx context.Context) ([]string, error)
	// Check compares every blob with its address.
	Check(ctx context.Context, db store.DB, report func(store.Breach)) error
}

// Keep keeps uploaded blobs for as long as a task or its archive exists. It is called before what refers to them is stored: if
// that is not, nothing keeps the blobs a day later. taskOf returns the task; "" = none, which is left to the call itself. A blob
// that the namespace does not have is invalid.
func (k *Kernel) Keep(ctx context.Context, op string, addresses [][]byte, taskOf func(context.Context, store.Tx) (string, error)) error {
	if len(addresses) == 0 {
		return nil
	}
	if err := k.Blobs.Before(ctx, k, addresses); err != nil {
		return err
	}
	return k.DB.Do(ctx, func(ctx context.Context, tx store.Tx) error {
		now, err := tx.Now(ctx)
		if err != nil {
			return err
		}
		taskID, err := taskOf(ctx, tx)
		if err != nil || taskID == "" {
			return err
		}
		return k.Blobs.Refer(ctx, tx, now, op, taskID, addresses)
	})
}

// KeepOfItem is Keep for the task of an item. An item that does not exist is left to the call itself.
func (k *Kernel) KeepOfItem(ctx context.Context, op, itemID string, addresses [][]byte) error {
	return k.Keep(ctx, op, addresses, func(ctx context.Context, tx store.Tx) (string, error) {
		it, err := store.GetItem(ctx, tx, pawl.CallerOf(ctx).Namespace, itemID, 0)
		if pawl.CodeOf(err) == pawl.CodeNotFound {
			return "", nil
		}
		return it.TaskID, err
	})
}
