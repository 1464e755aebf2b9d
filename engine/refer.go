package engine

import (
	"bytes"
	"context"
	"slices"
	"strings"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/engine/internal/rules"
	"github.com/pawl-work/pawl/store"
)

// blobsIn returns the addresses of the blobs that a value refers to.
func blobsIn(value []byte) (out [][]byte) {
	for _, address := range pawl.BlobsIn(value) {
		sum, _ := pawl.ParseBlobAddress(address)
		out = append(out, sum)
	}
	return out
}

// blobsInText is blobsIn without a copy of a text that refers to none.
func blobsInText(value string) [][]byte {
	if !strings.Contains(value, pawl.BlobMember) {
		return nil
	}
	return blobsIn([]byte(value))
}

// referTask keeps the uploaded blobs that values refer to for as long as a task or its
// archive exists. It is called before the values are stored: if they are not, nothing keeps
// the blobs a day later. A blob that the namespace does not have is invalid.
func (e *Engine) referTask(ctx context.Context, op, taskID string, addresses [][]byte) error {
	return e.refer(ctx, op, addresses, func(context.Context, store.Tx) (string, error) { return taskID, nil })
}

// referItem is referTask for the task of an item. An item that does not exist is left to the
// call itself.
func (e *Engine) referItem(ctx context.Context, op, itemID string, addresses [][]byte) error {
	return e.refer(ctx, op, addresses, func(ctx context.Context, tx store.Tx) (string, error) {
		it, err := store.GetItem(ctx, tx, pawl.CallerOf(ctx).Namespace, itemID, 0)
		if pawl.CodeOf(err) == pawl.CodeNotFound {
			return "", nil
		}
		return it.TaskID, err
	})
}

// referMessage is referTask for the task of a message. A message that does not exist is left to the
// call itself.
func (e *Engine) referMessage(ctx context.Context, op, messageID string, addresses [][]byte) error {
	return e.refer(ctx, op, addresses, func(ctx context.Context, tx store.Tx) (string, error) {
		m, err := store.GetMessage(ctx, tx, pawl.CallerOf(ctx).Namespace, messageID)
		if pawl.CodeOf(err) == pawl.CodeNotFound {
			return "", nil
		}
		return m.TaskID, err
	})
}

func (e *Engine) refer(ctx context.Context, op string, addresses [][]byte, of func(context.Context, store.Tx) (string, error)) error {
	if len(addresses) == 0 {
		return nil
	}
	if err := e.useBefore(ctx, addresses); err != nil {
		return err
	}
	return e.db.Do(ctx, func(ctx context.Context, tx store.Tx) error {
		now, err := tx.Now(ctx)
		if err != nil {
			return err
		}
		taskID, err := of(ctx, tx)
		if err != nil || taskID == "" {
			return err
		}
		return referIn(ctx, tx, now, op, taskID, addresses)
	})
}

// useBefore marks blobs as used before a transaction of the caller's refers to them, where others write
// beside it: they would wait until it ends to do the same. If no connection is free, that transaction does it.
func (e *Engine) useBefore(ctx context.Context, addresses [][]byte) error {
	if len(addresses) == 0 {
		return nil
	}
	_, err := e.k.Beside(ctx, func(ctx context.Context) error {
		return e.root.db.Do(ctx, func(ctx context.Context, tx store.Tx) error {
			now, err := tx.Now(ctx)
			for i := 0; err == nil && i < len(addresses); i++ {
				_, err = store.UseUpload(ctx, tx, now, pawl.CallerOf(ctx).Namespace, addresses[i])
			}
			return err
		})
	})
	return err
}

// referIn is referTask in a transaction of the caller, which is to be rolled back if it
// returns an error: no reference of a call that is refused stays.
func referIn(ctx context.Context, tx store.Tx, now int64, op, taskID string, addresses [][]byte) error {
	return useEach(ctx, op, addresses, func(ns string, address []byte) (bool, error) {
		return referToUpload(ctx, tx, now, ns, address, taskID)
	})
}

// referNow is referIn for a text that a transaction has found out late.
func referNow(ctx context.Context, tx store.Tx, op, taskID string, addresses [][]byte) error {
	if len(addresses) == 0 {
		return nil
	}
	now, err := store.NowAgain(ctx, tx)
	if err == nil {
		err = referIn(ctx, tx, now, op, taskID, addresses)
	}
	return err
}

// useIn keeps the uploaded blobs that a text refers to which belongs to no task: a schedule or
// a signal. The text is stored in the same transaction.
func useIn(ctx context.Context, tx store.Tx, now int64, op string, addresses [][]byte) error {
	return useEach(ctx, op, addresses, func(ns string, address []byte) (bool, error) {
		return store.UseUpload(ctx, tx, now, ns, address)
	})
}

func useEach(ctx context.Context, op string, addresses [][]byte, use func(ns string, address []byte) (bool, error)) error {
	slices.SortFunc(addresses, bytes.Compare) // the order in which retention locks blobs too
	var f rules.Fields
	for _, address := range slices.CompactFunc(addresses, bytes.Equal) {
		there, err := use(pawl.CallerOf(ctx).Namespace, address)
		if err != nil {
			return err
		}
		if !there {
			f.Add("", "refers to %s, which was not uploaded to this namespace", pawl.BlobAddress(address))
		}
	}
	return f.Err(op)
}

// blobs returns the addresses of the blobs that a new task refers to.
func (d *draft) blobs() [][]byte {
	var out [][]byte
	if d.task.Payload != nil {
		out = blobsInText(*d.task.Payload)
	}
	for i := range d.items {
		out = append(out, blobsInText(d.items[i].Input)...)
	}
	for i := range d.messages {
		out = append(out, blobsInText(string(d.messages[i].Content))...)
	}
	if d.fork != nil {
		out = append(out, d.fork.Uploads...)
	}
	return out
}
