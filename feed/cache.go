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

// cache keeps the newest events while anybody follows them: all that there are
// with positions in (low, high].
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

// Page reads up to limit events after a position and up to the newest one known,
// without looking for newer ones. Go on after through. A position of an older
// epoch than the feed's is a conflict with reason epoch.
func (f *Feed) Page(ctx context.Context, at pawl.FeedPosition, limit int) (events []pawl.Event, through pawl.FeedPosition, err error) {
	f.mu.Lock()
	head, read := f.head, f.read()
	if at.Position <= 0 { // the beginning is the same in every epoch
		at.Epoch = f.state.Epoch
	}
	err = f.of(at)
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
	case f.slow <- struct{}{}:
	case <-ctx.Done():
		return nil, at, ctx.Err()
	}
	defer func() { <-f.slow }()
	events, through.Position, err = f.fetch(ctx, at, head, limit)
	return events, through, err
}

// cached reads from the cache, after it has taken in what is new; the first who
// wants that does it for all.
func (f *Feed) cached(ctx context.Context, at pawl.FeedPosition, head int64, limit int) (events []pawl.Event, through int64, ok bool, err error) {
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
		if to == c.high { // the database that answered has no more
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
	to := min(from+limit, len(c.events))
	if through = c.high; to < len(c.events) {
		through = c.events[to-1].Position
	}
	return slices.Clip(c.events[from:to]), through, true, nil
}

// add takes events in and the oldest out. What was handed out is never written
// to: a new array takes over when the old one is full.
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

// fetch reads events from the database: up to limit of those there are with
// positions in (at, head]. How far positions were given is read in the same
// snapshot: up to there a page that is not to be found is gone, and beyond it
// nothing is passed, for the connection may lead to a server that lags.
func (f *Feed) fetch(ctx context.Context, at pawl.FeedPosition, head int64, limit int) (events []pawl.Event, through int64, err error) {
	after := at.Position
	err = f.db.View(ctx, func(ctx context.Context, tx store.Tx) error {
		events, through = nil, head
		if f.commits == nil {
			if events, err = store.EventsAfter(ctx, tx, after, limit); err == nil && len(events) == limit {
				through = events[limit-1].Position
			}
			if n := len(events); n > 0 {
				through = max(through, events[n-1].Position)
			}
			return err
		}
		s, err := store.ReadFeed(ctx, tx)
		if err != nil {
			return err
		}
		if s.Epoch > at.Epoch {
			return stale(s, at)
		} else if s.Epoch < at.Epoch {
			return errOldServer
		}
		if through = min(head, s.Position); through <= after {
			through = after
			return nil
		}
		pages, err := store.FeedPages(ctx, tx, after+1, limit, loosePages)
		for _, p := range pages {
			p.IDs = p.IDs[:min(len(p.IDs), limit)]
			some, err := store.EventsAt(ctx, tx, p)
			if err != nil {
				return err
			}
			for i := range some {
				some[i].Epoch = s.EpochAt(some[i].Position)
			}
			events = append(events, some...)
			limit -= len(p.IDs)
			through = p.First + int64(len(p.IDs)) - 1
		}
		return err
	})
	return events, through, err
}
