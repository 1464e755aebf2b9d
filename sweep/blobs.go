package sweep

import (
	"context"
	"fmt"
	"time"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/internal/clock"
	"github.com/pawl-work/pawl/store"
)

// blobsEvery is how often a process looks at all blobs. They are kept for a day after their
// last use, so more often is of no use.
const blobsEvery = time.Hour

// unusedBlobs are blobs of a kind that nothing refers to.
type unusedBlobs struct {
	list func(ctx context.Context, tx store.Tx, by int64, after store.BlobPlace, limit int) (idle []store.BlobPlace,
		next store.BlobPlace, err error)
	remove func(ctx context.Context, tx store.Tx, by int64, idle []store.BlobPlace) (removed int64, err error)
}

// blobs removes blobs that nothing refers to, a day after their last use: snapshots, and
// blobs that were uploaded. It looks at all of them, 1,000 in a transaction that reads, and
// again an hour later. Only what it finds is removed in a transaction that writes.
func (p *pass) blobs(ctx context.Context) error {
	var began int64
	err := p.DB.View(ctx, func(ctx context.Context, tx store.Tx) (err error) {
		began, err = tx.Now(ctx)
		return err
	})
	if err != nil || began < p.blobsAt+blobsEvery.Microseconds() && began >= p.blobsAt {
		return p.logError(ctx, "blobs", err)
	}
	by := began - pawl.DefaultRetainBlobs.Microseconds()
	var held textHolds
	uploaded := func(ctx context.Context, tx store.Tx, by int64, after store.BlobPlace, limit int) (
		idle []store.BlobPlace, next store.BlobPlace, err error,
	) {
		if idle, next, err = store.IdleUploadedBlobs(ctx, tx, by, after, limit); err == nil {
			idle, err = held.Others(ctx, tx, by, idle)
		}
		return idle, next, err
	}
	for _, kind := range []unusedBlobs{{store.IdleBlobs, store.RemoveBlobs}, {uploaded, store.RemoveUploadedBlobs}} {
		for place, first := (store.BlobPlace{}), true; first || place.Address != nil; first = false {
			var idle []store.BlobPlace
			err := p.DB.View(ctx, func(ctx context.Context, tx store.Tx) error {
				found, next, err := kind.list(ctx, tx, by, place, batch)
				if err == nil {
					idle, place = found, next
				}
				return err
			})
			if err == nil && len(idle) > 0 {
				err = halve(ctx, p, idle, func(ctx context.Context, idle []store.BlobPlace) error {
					return p.do(ctx, func(ctx context.Context, tx store.Tx, _ int64) error {
						_, err := kind.remove(ctx, tx, by, idle)
						return err
					})
				}, func(b store.BlobPlace, err error) {
					p.Log.ErrorContext(ctx, "a blob could not be removed and stays", "namespace", b.Namespace, "error", err)
				})
			}
			if err != nil {
				return p.logError(ctx, "blobs", err)
			}
		}
	}
	p.blobsAt = began
	return nil
}

// Bounds of the removals of one pass, so that a store that does not answer does not keep the
// pass from its other steps.
const (
	removalTime  = 30 * time.Second // of one removal
	removalsTime = time.Minute      // of all; the next pass goes on
	maxRefusals  = 3                // one after the other, of one store; the rest is tried an hour later
)

// uploads removes the bytes of uploads that were cut off, and of uploaded blobs that were
// removed. An hour has passed since: they are not written or read any more.
func (p *pass) uploads(ctx context.Context) error {
	began, refusals := clock.Now(), map[string]int{}
	for {
		var list []store.Upload
		var by int64
		err := p.do(ctx, func(ctx context.Context, tx store.Tx, now int64) (err error) {
			by = now - pawl.DefaultRetainUploads.Microseconds()
			list, err = uploadsToRemove(ctx, tx, by, batch)
			return err
		})
		for _, u := range list {
			if clock.Now().Sub(began) > removalsTime {
				return nil
			}
			if refusals[u.Place] < maxRefusals {
				failed := p.removeUpload(ctx, u, by)
				if err := p.logError(ctx, "uploads", failed); err != nil {
					return err
				}
				if failed == nil {
					refusals[u.Place] = 0
					continue
				}
				refusals[u.Place]++
			}
			err := p.do(ctx, func(ctx context.Context, tx store.Tx, now int64) error {
				return postponeUpload(ctx, tx, now, u.ID)
			})
			if err != nil {
				return p.logError(ctx, "uploads", err)
			}
		}
		if err != nil || len(list) < batch {
			return p.logError(ctx, "uploads", err)
		}
	}
}

// removeUpload removes the bytes of an upload and then its row: if it is interrupted, the
// next pass does it again.
func (p *pass) removeUpload(ctx context.Context, u store.Upload, by int64) error {
	given := false
	err := p.do(ctx, func(ctx context.Context, tx store.Tx, _ int64) (err error) {
		given, err = store.GiveUpUpload(ctx, tx, by, u.ID)
		return err
	})
	if err != nil || !given {
		return err
	}
	from, err := p.Objects(u.Place)
	if err == nil {
		within, cancel := context.WithTimeout(ctx, removalTime)
		err = from.Remove(within, u.ID)
		cancel()
	}
	if err != nil { // it says nothing about the database, whatever its code
		return fmt.Errorf("upload %s: %s", u.ID, err.Error())
	}
	return p.do(ctx, func(ctx context.Context, tx store.Tx, _ int64) error { return store.RemoveUpload(ctx, tx, u.ID) })
}

// postponeUpload has the removal of an upload tried again later.
func postponeUpload(ctx context.Context, tx store.Tx, now int64, id string) error {
	_, err := tx.Exec(ctx, uploadSQL["postpone"], id, now)
	return err
}

// textHolds are the blobs that texts without a task refer to. It reads those of a namespace once: a text that is stored
// later uses its blobs, so that RemoveUploadedBlobs leaves them.
type textHolds struct {
	namespace string
	names     map[string]bool
}

// Others returns those of the blobs, which are in order and were not used since a time, that no text refers to.
// UseUpload may not have written the use of a text that is half of pawl.DefaultRetainBlobs newer.
func (h *textHolds) Others(ctx context.Context, tx store.Tx, by int64, idle []store.BlobPlace) (others []store.BlobPlace, err error) {
	for _, b := range idle {
		if h.names == nil || h.namespace != b.Namespace {
			if err := h.read(ctx, tx, b.Namespace, by+pawl.DefaultRetainBlobs.Microseconds()/2); err != nil {
				return nil, err
			}
		}
		if !h.names[store.BlobName(b.Address)] {
			others = append(others, b)
		}
	}
	return others, nil
}

func (h *textHolds) read(ctx context.Context, tx store.Tx, namespace string, stored int64) error {
	now, err := tx.Now(ctx)
	if err != nil {
		return err
	}
	names := map[string]bool{}
	err = store.EachRow(ctx, tx, func(rows store.Rows) error {
		var text []byte
		err := rows.Scan(&text)
		for _, name := range pawl.BlobsIn(text) {
			names[name] = true
		}
		return err
	}, uploadSQL["texts that refer"], namespace, "%"+pawl.BlobMember+"%", stored, now)
	if err == nil {
		h.namespace, h.names = namespace, names
	}
	return err
}

// uploadsToRemove returns uploads that were cut off or dismissed and not used since.
func uploadsToRemove(ctx context.Context, tx store.Tx, by int64, limit int) (out []store.Upload, err error) {
	return store.All(ctx, tx, uploadSQL["to remove"], []any{by, limit}, func(rows store.Rows, u *store.Upload) error {
		return rows.Scan(&u.ID, &u.Place)
	})
}
