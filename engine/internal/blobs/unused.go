package blobs

import (
	"context"
	"fmt"
	"time"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/internal/clock"
	"github.com/pawl-work/pawl/store"
)

// textHolds are the blobs that texts without a task refer to. It reads those of a namespace once: a text that is stored
// later uses its blobs, so that remove leaves them.
type textHolds struct {
	namespace string
	names     map[string]bool
}

// others returns those of the blobs, which are in order and were not used since a time, that no text refers to.
// Of a text that is half of pawl.DefaultRetainBlobs newer, the use may not be written.
func (h *textHolds) others(ctx context.Context, tx store.Tx, by int64, idle []store.BlobPlace) (others []store.BlobPlace, err error) {
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
		var text store.Text
		err := rows.Scan(&text)
		for _, name := range pawl.BlobsIn([]byte(text)) {
			names[name] = true
		}
		return err
	}, texts["texts that refer"], namespace, "%"+pawl.BlobMember+"%", stored, now)
	if err == nil {
		h.namespace, h.names = namespace, names
	}
	return err
}

// idle lists blobs that were not used since a time and that neither a task nor a text refers to; see store.IdleBlobs. It also
// lists those with a reference of a task that is gone.
func (h *textHolds) idle(ctx context.Context, tx store.Tx, by int64, after store.BlobPlace, limit int) (idle []store.BlobPlace,
	next store.BlobPlace, err error) {
	if idle, next, err = after.Idle(ctx, tx, texts["page of unused"], limit, by); err == nil {
		idle, err = h.others(ctx, tx, by, idle)
	}
	return idle, next, err
}

// remove makes those of the given blobs unreadable that no task refers to and that were not used since a time.
// Their bytes are removed later, as those of uploads that were cut off.
func remove(ctx context.Context, tx store.Tx, by int64, idle []store.BlobPlace) (removed int64, err error) {
	now, err := tx.Now(ctx)
	if err != nil {
		return 0, err
	}
	for _, b := range idle {
		if _, err := tx.Exec(ctx, texts["forget references"], b.Namespace, b.Address, by); err != nil {
			return removed, err
		}
		var id string
		found, err := store.Row(ctx, tx, []any{&id}, texts["unpublish"], b.Namespace, b.Address, by)
		if err == nil && found {
			_, err = tx.Exec(ctx, texts["dismiss"], id, now)
			removed++
		}
		if err != nil {
			return removed, err
		}
	}
	return removed, nil
}

// Bounds of the removals of one pass, so that a store that does not answer does not keep the
// pass from its other steps.
const (
	removalTime  = 30 * time.Second // of one removal
	removalsTime = time.Minute      // of all; the next pass goes on
	maxRefusals  = 3                // one after the other, of one store; the rest is tried an hour later
)

// removeBytes removes the bytes of uploads that were cut off, and of uploaded blobs that were
// removed. An hour has passed since: they are not written or read any more.
func removeBytes(ctx context.Context, p store.Sweeping) error {
	began, refusals := clock.Now(), map[string]int{}
	for {
		var list []upload
		var by int64
		err := p.In(ctx, func(ctx context.Context, tx store.Tx, now int64) (err error) {
			by = now - pawl.DefaultRetainUploads.Microseconds()
			list, err = toRemove(ctx, tx, by, p.Limit)
			return err
		})
		for _, u := range list {
			if clock.Now().Sub(began) > removalsTime {
				return nil
			}
			if refusals[u.Place] < maxRefusals {
				failed := u.remove(ctx, p, by)
				if err := p.Failed(ctx, "uploads", failed); err != nil {
					return err
				}
				if failed == nil {
					refusals[u.Place] = 0
					continue
				}
				refusals[u.Place]++
			}
			err := p.In(ctx, func(ctx context.Context, tx store.Tx, now int64) error {
				_, err := tx.Exec(ctx, texts["postpone"], u.ID, now)
				return err
			})
			if err != nil {
				return err
			}
		}
		if err != nil || len(list) < p.Limit {
			return err
		}
	}
}

// remove removes the bytes of an upload and then its row: if it is interrupted, the
// next pass does it again.
func (u upload) remove(ctx context.Context, p store.Sweeping, by int64) error {
	given := false
	err := p.Do(ctx, func(ctx context.Context, tx store.Tx) (err error) {
		given, err = giveUp(ctx, tx, by, u.ID)
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
	return p.Do(ctx, func(ctx context.Context, tx store.Tx) error { return removeRow(ctx, tx, u.ID) })
}

// toRemove returns uploads that were cut off or dismissed and not used since.
func toRemove(ctx context.Context, tx store.Tx, by int64, limit int) (out []upload, err error) {
	return store.All(ctx, tx, texts["to remove"], []any{by, limit}, func(rows store.Rows, u *upload) error {
		return rows.Scan(&u.ID, &u.Place)
	})
}
