package store

import (
	"context"
	"encoding/binary"

	"golang.org/x/mod/sumdb/tlog"
)

// Numbers lists up to limit event numbers that are above one number and at most another,
// in order.
func Numbers(ctx context.Context, tx Tx, above, upTo int64, limit int) ([]int64, error) {
	return Ints(ctx, tx, feedSQL["numbers"], above, upTo, limit)
}

// NewestNumber returns the number of the newest event, or 0 when there is none.
func NewestNumber(ctx context.Context, tx Tx) (int64, error) {
	var id int64
	_, err := Row(ctx, tx, []any{&id}, feedSQL["newest number"])
	return id, err
}

// FeedPage has the numbers of the events from position First on.
type FeedPage struct {
	First int64
	IDs   []int64
}

// Small pages are packed into one when there are LoosePages of them or looseIDs events in
// them: the page of a single event is one row.
const (
	LoosePages = 64
	looseIDs   = 2048
)

// Position assigns positions after the newest one to events, in the given order, adds their
// leaves to the log and their counts to the counters of the queues, and writes the state. Events
// that do not exist any more get none. The feed is locked. Without events it only writes the
// state.
func Position(ctx context.Context, tx Tx, s *FeedState, ids []int64) (*Tally, error) {
	counted := newTally(s.Counting)
	if err := place(ctx, tx, s, ids, counted); err != nil {
		return nil, err
	}
	return counted, counted.add(ctx, tx)
}

// place is Position; without counted it counts nothing.
func place(ctx context.Context, tx Tx, s *FeedState, ids []int64, counted *Tally) error {
	now, err := tx.Now(ctx)
	if err != nil {
		return err
	}
	ids, leaves, err := hashed(ctx, tx, ids, counted)
	if err != nil {
		return err
	}
	if err := s.extend(ctx, tx, now, ids, leaves); err != nil {
		return err
	}
	return moveFeed(ctx, tx, now, *s)
}

// extend writes the page of events and their leaves.
func (s *FeedState) extend(ctx context.Context, tx Tx, now int64, ids []int64, leaves []tlog.Hash) (err error) {
	if len(ids) == 0 {
		return nil
	}
	first := s.Position + 1
	if s.Edge != nil {
		if err := s.Edge.become(ctx, tx, s); err != nil {
			return err
		}
	}
	if err := putPage(ctx, tx, now, FeedPage{First: first, IDs: ids}); err != nil {
		return err
	}
	if s.Runs, err = appendLeaves(ctx, tx, s.Position, s.Runs, leaves); err != nil {
		return err
	}
	if s.Loose == 0 {
		s.Loose = first
	}
	if s.Root = ""; s.Edge != nil {
		s.Root = s.Edge.with(leaves)
	}
	s.Position, s.Pages, s.IDs = s.Position+int64(len(ids)), s.Pages+1, s.IDs+len(ids)
	if s.Pages >= LoosePages || s.IDs >= looseIDs {
		if s.Pages > 1 {
			if err := packPages(ctx, tx, now, s.Loose, first); err != nil {
				return err
			}
		}
		s.Loose, s.Pages, s.IDs = 0, 0, 0
	}
	return nil
}

func putPage(ctx context.Context, tx Tx, now int64, p FeedPage) error {
	low, high := p.Bounds()
	_, err := tx.Exec(ctx, feedSQL["put page"], p.First, Pack(p.IDs), len(p.IDs), low, high, now)
	return err
}

// Bounds returns the lowest and the highest number of an event; 0 without any.
func (p FeedPage) Bounds() (low, high int64) {
	for _, id := range p.IDs {
		if id > 0 && (low == 0 || id < low) {
			low = id
		}
		high = max(high, id)
	}
	return low, high
}

// packPages merges the pages from first to last into one.
func packPages(ctx context.Context, tx Tx, now, first, last int64) error {
	pages, err := FeedPages(ctx, tx, first, int(last-first)+1, int(last-first)+1)
	if err != nil {
		return err
	}
	whole := FeedPage{First: first}
	for _, p := range pages {
		whole.IDs = append(whole.IDs, p.IDs...)
	}
	if _, err := tx.Exec(ctx, feedSQL["remove pages"], first, last); err != nil {
		return err
	}
	return putPage(ctx, tx, now, whole)
}

// FeedPages reads pages, starting with the page that contains position, or the next one if
// that page is gone. It reads as many pages as hold the given number of events, and at
// most most pages. Numbers before position are cut off.
func FeedPages(ctx context.Context, tx Tx, position int64, events, most int) ([]FeedPage, error) {
	rows, err := tx.Query(ctx, feedSQL["pages"], position, most)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var out []FeedPage
	for events > 0 && rows.Next() {
		p, err := scanPage(rows)
		if err != nil {
			return nil, err
		}
		if cut := position - p.First; cut >= int64(len(p.IDs)) {
			continue
		} else if cut > 0 {
			p.First, p.IDs = position, p.IDs[cut:]
		}
		events -= len(p.IDs)
		out = append(out, p)
	}
	return out, rows.Err()
}

func scanPage(rows Rows) (FeedPage, error) {
	var p FeedPage
	var packed []byte
	var count int
	err := rows.Scan(&p.First, &packed, &count)
	p.IDs = Unpack(packed)
	return p, err
}

// PruneFeed reads up to limit packed pages after page behind that were made before a time.
// When no event has a number between a page's lowest and highest, only the log keeps the
// page. last is the last page that was read; 0 means that there are no more.
func PruneFeed(ctx context.Context, tx Tx, behind, before int64, limit int) (last int64, err error) {
	s, err := LockFeed(ctx, tx)
	if err != nil {
		return behind, err
	}
	end := s.Loose
	if end == 0 {
		end = s.Position + 1
	}
	rows, err := tx.Query(ctx, feedSQL["old pages"], behind, end, before, limit)
	if err != nil {
		return behind, err
	}
	defer rows.Close()
	var pages []FeedPage
	for rows.Next() {
		p, err := scanPage(rows)
		if err != nil {
			return behind, err
		}
		pages = append(pages, p)
	}
	if err := rows.Err(); err != nil {
		return behind, err
	}
	rows.Close()
	for _, p := range pages {
		var one int
		low, high := p.Bounds()
		used, err := Row(ctx, tx, []any{&one}, feedSQL["any number"], low, high)
		if err != nil {
			return behind, err
		}
		if !used {
			if _, err := tx.Exec(ctx, treeSQL["keep page"], p.First); err != nil {
				return behind, err
			}
			if _, err := tx.Exec(ctx, feedSQL["remove pages"], p.First, p.First); err != nil {
				return behind, err
			}
		}
		last = p.First
	}
	if len(pages) < limit {
		return 0, nil
	}
	return last, nil
}

// leafIndexes returns the leaves of events, by number. Events that have no position yet are
// left out.
func leafIndexes(ctx context.Context, tx Tx, ids []int64) (map[int64]int64, error) {
	out := make(map[int64]int64, len(ids))
	wanted := make(map[int64]bool, len(ids))
	for _, id := range ids {
		wanted[id] = true
	}
	for _, id := range ids {
		for _, query := range []string{"page of event", "pages around event"} { // most numbers are in order
			if !wanted[id] {
				break
			}
			pages, err := pagesOf(ctx, tx, treeSQL[query], id)
			if err != nil {
				return nil, err
			}
			for _, p := range pages {
				for i, x := range p.IDs {
					if wanted[x] {
						out[x] = p.First + int64(i) - 1
						delete(wanted, x)
					}
				}
			}
		}
	}
	return out, nil
}

func pagesOf(ctx context.Context, tx Tx, query string, args ...any) ([]FeedPage, error) {
	var out []FeedPage
	err := EachRow(ctx, tx, func(rows Rows) error {
		p, err := scanPage(rows)
		if err != nil {
			return err
		}
		out = append(out, p)
		return nil
	}, query, args...)
	return out, err
}

// Pack encodes numbers as their differences. Numbers that are close to each other take one
// or two bytes each.
func Pack(ids []int64) []byte {
	out := make([]byte, 0, 2*len(ids))
	var last int64
	for _, id := range ids {
		out = binary.AppendVarint(out, id-last)
		last = id
	}
	return out
}

// Unpack decodes what Pack wrote.
func Unpack(packed []byte) []int64 {
	var out []int64
	var last int64
	for len(packed) > 0 {
		d, n := binary.Varint(packed)
		if n <= 0 {
			return out
		}
		last += d
		out = append(out, last)
		packed = packed[n:]
	}
	return out
}
