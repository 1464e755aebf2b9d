package relocate

import (
	"context"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/store"
)

const pagesAtOnce = 100

// adaptFeed lets readers of the feed go on in the target. Where numbers of events are their positions
// in one of the databases alone, a new epoch begins, which shares nothing with the one before, and
// relays get the position that theirs is. Where numbers and positions are the same, nothing changes.
func (m *mover) adaptFeed(ctx context.Context, tx store.Tx) error {
	if err := store.LeaveServer(ctx, tx); err != nil {
		return err
	}
	byNumber := m.from.db.Dialect().Commits == nil
	if byNumber == (m.to.db.Dialect().Commits == nil) {
		return nil
	}
	same, err := samePositions(ctx, tx)
	if err != nil || same {
		return err
	}
	var was int64
	err = m.from.db.View(ctx, func(ctx context.Context, tx store.Tx) (err error) {
		was, err = store.FeedEpoch(ctx, tx)
		return err
	})
	if err != nil {
		return err
	}
	epoch, err := store.FeedEpoch(ctx, tx)
	if err != nil || epoch != was { // it was begun before the fence fell
		return err
	}
	if epoch, err = store.RaiseEpoch(ctx, tx, 0); err != nil {
		return err
	}
	return m.Relays(ctx, tx, func(_ int64, r *pawl.Relay) (err error) {
		r.Epoch = epoch
		r.Position, err = translated(ctx, tx, r.Position, byNumber)
		return err
	})
}

// samePositions reports whether the number of each event is its position.
func samePositions(ctx context.Context, tx store.Tx) (bool, error) {
	s, err := store.ReadFeed(ctx, tx)
	if err != nil {
		return false, err
	}
	same := true
	err = eachPosition(ctx, tx, func(position, id int64) bool {
		same = position == id
		return same
	})
	return same && s.Top == s.Position, err
}

// translated returns the position before the first event that was not sent. byNumber says that the
// position is the number of an event; else that is asked for.
func translated(ctx context.Context, tx store.Tx, at int64, byNumber bool) (out int64, err error) {
	found := false
	err = eachPosition(ctx, tx, func(position, id int64) bool {
		switch {
		case id <= 0: // a record of removals
		case byNumber && id <= at:
			out = position
		case !byNumber && position > at && (!found || id <= out):
			found, out = true, id-1
		case !byNumber && !found:
			out = max(out, id)
		}
		return true
	})
	return out, err
}

// eachPosition calls fn with each position and the number of its event, in order, until fn returns false.
func eachPosition(ctx context.Context, tx store.Tx, fn func(position, id int64) bool) error {
	for at := int64(1); ; {
		pages, err := store.FeedPages(ctx, tx, at, 1<<20, pagesAtOnce)
		if err != nil || len(pages) == 0 {
			return err
		}
		for _, p := range pages {
			for i, id := range p.IDs {
				if !fn(p.First+int64(i), id) {
					return nil
				}
			}
			at = p.First + int64(len(p.IDs))
		}
	}
}
