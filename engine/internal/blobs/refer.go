package blobs

import (
	"bytes"
	"context"
	"slices"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/engine/internal/kernel"
	"github.com/pawl-work/pawl/engine/internal/rules"
	"github.com/pawl-work/pawl/store"
)

// Before implements kernel.Blobs.
func (a asked) Before(ctx context.Context, k *kernel.Kernel, addresses [][]byte) error {
	if len(addresses) == 0 {
		return nil
	}
	_, err := k.Beside(ctx, func(ctx context.Context) error {
		return a.r.doAt(ctx, func(ctx context.Context, tx store.Tx, now int64) (err error) {
			for i := 0; err == nil && i < len(addresses); i++ {
				_, err = use(ctx, tx, now, pawl.CallerOf(ctx).Namespace, addresses[i])
			}
			return err
		})
	})
	return err
}

// Refer implements kernel.Blobs.
func (asked) Refer(ctx context.Context, tx store.Tx, now int64, op, taskID string, addresses [][]byte) error {
	return useEach(ctx, op, addresses, func(ns string, address []byte) (bool, error) {
		if there, err := use(ctx, tx, now, ns, address); err != nil || !there {
			return false, err
		}
		_, err := tx.Exec(ctx, texts["refer"], ns, address, store.TaskID(taskID), now)
		return true, err
	})
}

// Use implements kernel.Blobs.
func (asked) Use(ctx context.Context, tx store.Tx, now int64, op string, addresses [][]byte) error {
	return useEach(ctx, op, addresses, func(ns string, address []byte) (bool, error) { return use(ctx, tx, now, ns, address) })
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

// use marks a blob as used, as useBlob does: retention looks at blobs that were not used for
// pawl.DefaultRetainBlobs, so one that was used in the last half of that needs no write. It
// returns false if the namespace does not have the blob. After that time a stored text that belongs
// to no task keeps it too: a schedule, a signal, or the answer of a key.
func use(ctx context.Context, tx store.Tx, now int64, namespace string, address []byte) (there bool, err error) {
	var used int64
	if there, err = store.Row(ctx, tx, []any{&used}, texts["last use"], namespace, address); err != nil || !there {
		return false, err
	}
	if used > now-pawl.DefaultRetainBlobs.Microseconds()/2 {
		return true, nil
	}
	n, err := tx.Exec(ctx, texts["use"], namespace, address, now)
	return n == 1, err
}
