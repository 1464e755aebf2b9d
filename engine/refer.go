package engine

import (
	"context"
	"slices"

	"github.com/pawl-work/pawl/engine/internal/rules"
	"github.com/pawl-work/pawl/store"
)

func blobsIn(value []byte) [][]byte { return rules.BlobsIn(value) }

func blobsInText(value string) [][]byte { return rules.BlobsInText(value) }

// referTask keeps the uploaded blobs that values refer to for as long as a task or its
// archive exists. It is called before the values are stored: if they are not, nothing keeps
// the blobs a day later. A blob that the namespace does not have is invalid.
func (e *Engine) referTask(ctx context.Context, op, taskID string, addresses [][]byte) error {
	return e.k.Keep(ctx, op, addresses, func(context.Context, store.Tx) (string, error) { return taskID, nil })
}

func (e *Engine) referItem(ctx context.Context, op, itemID string, addresses [][]byte) error {
	return e.k.KeepOfItem(ctx, op, itemID, addresses)
}

// referNow is kernel.Blobs.Refer for a text that a transaction has found out late.
func (e *Engine) referNow(ctx context.Context, tx store.Tx, op, taskID string, addresses [][]byte) error {
	if len(addresses) == 0 {
		return nil
	}
	now, err := store.NowAgain(ctx, tx)
	if err == nil {
		err = e.k.Blobs.Refer(ctx, tx, now, op, taskID, addresses)
	}
	return err
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

// UsedBlobStores returns the names of the object stores besides the database that have or had
// blobs of the database.
func (e *Engine) UsedBlobStores(ctx context.Context) ([]string, error) { return e.k.Blobs.Places(ctx) }

// UnknownBlobStores returns the UsedBlobStores that Options does not have.
func (e *Engine) UnknownBlobStores(ctx context.Context) ([]string, error) {
	places, err := e.UsedBlobStores(ctx)
	return slices.DeleteFunc(places, func(place string) bool {
		_, err := e.k.Blobs.Objects(place)
		return err == nil
	}), err
}

// UploadMemory returns about how many bytes of memory the upload of a large blob takes.
func (e *Engine) UploadMemory() int64 {
	to := e.opts.Blobs
	if to == nil {
		to, _ = e.k.Blobs.Objects("")
	}
	return to.WriteMemory()
}
