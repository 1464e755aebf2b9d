package kernel

import (
	"context"

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
