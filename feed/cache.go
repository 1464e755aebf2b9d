package feed

import (
	"context"
	"slices"
	"sort"
	"sync"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/store"
)

const (
	cacheEvents = 8192
	cacheBytes  = 16 << 20
	chunk       = 1000
)

// cache keeps the newest events while the feed is being read: all events with positions
// in (low, high].
type cache struct {
	mu        sync.Mutex
	epoch     int64
	low, high int64
	events    []pawl.Event
	bytes     int
}

func (c *cache) drop() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.low, c.high, c.events, c.bytes = 0, 0, nil, 0
}

// Page reads up to limit events after a position, up to the newest known position. It
// does not look for newer ones. Continue after through. A position of an older epoch
// than the feed's is a conflict with reason epoch.
func (f *Feed) Page(ctx context.Context, at pawl.FeedPosition, limit int) (events []pawl.Event, through pawl.FeedPosition, err error) {
	f.mu.Lock()
	head, read := f.head, f.isRead()
	if at.Position <= 0 { // position 0 is the same in every epoch
		at.Epoch = f.state.Epoch
	}
	err = f.checkEpoch(at)
	f.mu.Unlock()
	if err != nil || head <= at.Position {
		return nil, at, err
	}
	through = at
	if read && head-at.Position <= cacheEvents {
		var ok bool
		if events, through.Position, ok, err = f.cached(ctx, at, head, limit); err != nil || ok {
			return events, through, err
		}
	}
	select {
	case f.uncachedReads <- struct{}{}:
	case <-ctx.Done():
		return nil, at, ctx.Err()
	}
	defer func() { <-f.uncachedReads }()
	events, through.Position, err = f.fetch(ctx, at, head, limit)
	return events, through, err
}

// cached reads from the cache. The first reader that needs newer events loads them for
// all.
func (f *Feed) cached(
	ctx context.Context,
	at pawl.FeedPosition,
	head int64,
	limit int,
) (events []pawl.Event, through int64, ok bool, err error) {
	c, after := &f.cache, at.Position
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.high < head-cacheEvents || c.high == 0 || c.epoch != at.Epoch {
		c.epoch, c.low, c.high, c.events, c.bytes = at.Epoch, after, after, nil, 0
	}
	for c.high < head {
		more, to, err := f.fetch(ctx, pawl.FeedPosition{Epoch: c.epoch, Position: c.high}, head, chunk)
		if err != nil {
			return nil, after, false, err
		}
		if to == c.high { // the server that answered has no more
			break
		}
		c.high = to
		c.add(more)
	}
	if after < c.low {
		return nil, after, false, nil
	}
	if c.high <= after {
		return nil, after, true, nil
	}
	from := sort.Search(len(c.events), func(i int) bool { return c.events[i].Position > after })
	to := from
	for bytes := 0; to < min(from+limit, len(c.events)) && bytes < pawl.MaxPageBytes; to++ {
		bytes += size(c.events[to])
	}
	if through = c.high; to < len(c.events) {
		through = c.events[to-1].Position
	}
	return slices.Clip(c.events[from:to]), through, true, nil
}

// add appends events and removes the oldest. Slices that were handed out are never
// overwritten: append moves to a new array when the old one is full.
func (c *cache) add(events []pawl.Event) {
	c.events = append(c.events, events...)
	for _, e := range events {
		c.bytes += size(e)
	}
	out := 0
	for len(c.events)-out > cacheEvents || c.bytes > cacheBytes && out < len(c.events) {
		c.bytes -= size(c.events[out])
		c.low = c.events[out].Position
		out++
	}
	c.events = c.events[out:]
}

func size(e pawl.Event) int { return 300 + len(e.Data) + len(e.Diff) + len(e.Message) }

// batch collects events that are read. It is full with the event that brings it to the
// size of a page, so a reader always advances by at least one event.
type batch struct {
	events []pawl.Event
	limit  int // events still wanted
	bytes  int
}

// firstRows is the number of events that are read before their size is known.
const firstRows = 32

// next is the number of events to read next, estimated from the size of the earlier
// ones.
func (b *batch) next() int {
	if len(b.events) == 0 {
		return min(firstRows, b.limit)
	}
	return min(b.limit, max(1, (pawl.MaxPageBytes-b.bytes)/(1+b.bytes/len(b.events))))
}

// take adds events until the batch is full. It returns the position of the event that
// filled it; 0 = all were added and the batch is not full.
func (b *batch) take(events []pawl.Event) int64 {
	for _, e := range events {
		b.events = append(b.events, e)
		if b.bytes += size(e); b.bytes >= pawl.MaxPageBytes {
			return e.Position
		}
	}
	return 0
}

// fetch reads events from the database: up to limit events with positions in (at, head],
// fewer if they reach the size of a page. The feed's state is read in the same snapshot.
// Up to the state's position, a page that is not found has been deleted. Positions
// beyond it are not skipped, because the server that answers may be a lagging replica.
func (f *Feed) fetch(ctx context.Context, at pawl.FeedPosition, head int64, limit int) (events []pawl.Event, through int64, err error) {
	b := batch{}
	err = f.db.View(ctx, func(ctx context.Context, tx store.Tx) (err error) {
		b = batch{limit: limit}
		if f.commits == nil {
			through, err = b.after(ctx, tx, at.Position, head)
			f.mu.Lock()
			s := f.state
			f.mu.Unlock()
			for i := range b.events {
				b.events[i].Epoch = s.EpochAt(b.events[i].Position)
			}
			return err
		}
		s, err := store.ReadFeed(ctx, tx)
		if err != nil {
			return err
		}
		if s.Epoch > at.Epoch {
			return epochConflict(s, at)
		} else if s.Epoch < at.Epoch {
			return errOldServer
		}
		if through = min(head, s.Position); through <= at.Position {
			through = at.Position
			return nil
		}
		pages, err := store.FeedPages(ctx, tx, at.Position+1, limit, store.LoosePages)
		for _, p := range pages {
			if through, err = b.page(ctx, tx, p); err != nil || b.limit <= 0 {
				break
			}
		}
		for i := range b.events {
			b.events[i].Epoch = s.EpochAt(b.events[i].Position)
		}
		return err
	})
	return b.events, through, err
}

// after reads events where the event's number is its position.
func (b *batch) after(ctx context.Context, tx store.Tx, after, head int64) (through int64, err error) {
	for b.limit > 0 {
		n := b.next()
		events, err := store.EventsAfter(ctx, tx, after, n)
		if err != nil {
			return 0, err
		}
		if full := b.take(events); full > 0 {
			return full, nil
		}
		if len(events) > 0 {
			after = events[len(events)-1].Position
		}
		if b.limit -= n; len(events) < n {
			return max(head, after), nil
		}
	}
	return after, nil
}

// page reads the events of a page and returns the last position that it read.
func (b *batch) page(ctx context.Context, tx store.Tx, p store.FeedPage) (through int64, err error) {
	for len(p.IDs) > 0 && b.limit > 0 {
		n := min(b.next(), len(p.IDs))
		events, err := store.EventsAt(ctx, tx, store.FeedPage{First: p.First, IDs: p.IDs[:n]})
		if err != nil {
			return 0, err
		}
		if full := b.take(events); full > 0 {
			b.limit = 0
			return full, nil
		}
		b.limit -= n
		p.First, p.IDs = p.First+int64(n), p.IDs[n:]
	}
	return p.First - 1, nil
}
