package logs

import (
	"context"
	"fmt"
	"maps"
	"math"
	"slices"

	"golang.org/x/mod/sumdb/tlog"

	"github.com/pawl-work/pawl/store"
)

// walk compares all pages of the log with the rows, page by page, while others write.
// Each step has its own snapshot, so nothing that an earlier one has read is taken for the
// present: an event that has no row must be named by a removal that the walk meets later, or
// that waits for the log when the walk ends.
type walk struct {
	Root store.LogRoot
	// Pages and Events count what was compared.
	Pages, Events int

	unlogged numberSet                // events without a row whose removal is not in the log yet
	unproved numberSet                // events whose leaves say nothing of their inputs and results: see store.Tree.Differ
	from     int64                    // the position at which the walk begins
	next     int64                    // the position that the next page has to hold
	high     int64                    // the highest number of an event on the pages so far
	placed   numberSet                // the events on the pages so far
	records  numberSet                // the records of removals on the pages so far
	gone     numberSet                // events on pages so far that have no row, and no removal so far
	differ   map[int64]store.Compared // leaves that are not the hashes of their rows
	unsound  bool                     // the log does not agree with the root
	again    bool                     // the second pass, which a log that does not agree needs: with the rows' hashes
	cut      int64                    // the position of the last fault of missing hashes
	unplaced map[int64]bool           // events in the range of a page that were not on it
}

const (
	// walkPages bounds the pages that one step reads.
	walkPages = 64
	// numbersAtOnce bounds the numbers of events that one statement reads.
	numbersAtOnce = 10_000
	// faultsListed bounds the faults of one kind that the end of a walk lists.
	faultsListed = 1000
)

// Begin sets the position at which the walk begins; 1 is the first.
func (w *walk) Begin(position int64) {
	w.from, w.next, w.unplaced, w.differ = position, position, map[int64]bool{}, map[int64]store.Compared{}
}

// Step compares the next pages. done says that there are no more.
func (w *walk) Step(ctx context.Context, tx store.Tx) (faults []store.LogFault, done bool, err error) {
	tree, err := store.ReadTree(ctx, tx)
	if err != nil {
		return nil, false, err
	}
	pages, err := tree.Pages(w.next, walkPages)
	if err != nil {
		return nil, false, err
	}
	if w.again {
		tree = tree.With(w.differ)
	}
	for i, p := range pages {
		more, err := w.page(ctx, tx, tree, p, i == 0)
		if err != nil {
			return faults, false, err
		}
		faults = append(faults, more...)
	}
	if len(pages) == walkPages {
		return faults, false, nil
	}
	if w.again {
		return append(faults, judge(w.Root, false, !w.unsound, w.differ)...), true, nil
	}
	more, err := w.end(ctx, tx, tree)
	faults = append(faults, more...)
	if w.again = w.unsound; err != nil || w.again {
		w.next, w.unsound = w.from, false
		return faults, false, err
	}
	return append(faults, judge(w.Root, true, false, w.differ)...), true, nil
}

// page compares a page. The first page of a step may begin before the next position, because
// pages are packed into one; other pages may not.
func (w *walk) page(ctx context.Context, tx store.Tx, tree *store.Tree, p store.FeedPage, first bool) (out []store.LogFault, err error) {
	switch cut := w.next - p.First; {
	case cut < 0:
		out = append(out, badPage(w.next, p.First-1, "no page"))
	case cut > 0:
		if !first {
			out = append(out, badPage(p.First, min(w.next, p.First+int64(len(p.IDs)))-1, "two pages"))
		}
		if cut >= int64(len(p.IDs)) && w.again { // it is named already
			return nil, nil
		} else if cut >= int64(len(p.IDs)) {
			return out, nil
		}
		p.First, p.IDs = w.next, p.IDs[cut:]
	}
	w.next = p.First + int64(len(p.IDs))
	cut, err := w.agrees(tree, p)
	if err != nil || w.again {
		return nil, err
	}
	w.Pages, w.Events = w.Pages+1, w.Events+len(p.IDs)
	leaves, err := tree.Rows(p.IDs)
	if err != nil {
		return nil, err
	}
	rows := make(map[int64]store.Compared, len(p.IDs))
	for i, id := range p.IDs {
		at := p.First + int64(i) - 1
		out = append(out, w.place(id, at)...)
		leaf, there := leaves[id]
		switch {
		case there:
			rows[at] = store.Compared{ID: id, Leaf: leaf}
		case id > 0:
			w.gone.add(store.Span{Low: id, High: id})
		default:
			more, err := w.record(ctx, tx, tree, at, -id, rows)
			if err != nil {
				return nil, err
			}
			out = append(out, more...)
		}
	}
	out = append(out, cut...)
	differ, unproved, err := tree.Differ(rows)
	if err != nil {
		_, err = cutOff(err) // it is named already
	}
	if err == nil {
		for _, id := range unproved {
			w.unproved.add(store.Span{Low: id, High: id})
		}
		maps.Copy(w.differ, differ)
		err = w.strange(ctx, tx, p)
	}
	return out, err
}

func badPage(from, to int64, on string) store.LogFault {
	return store.LogFault{Kind: faultPage, Position: from, Found: fmt.Sprintf("positions %d to %d are on %s", from, to, on)}
}

// agrees compares the leaves of a page with the root, in the second pass with the hashes of
// the rows in the place of those that differ.
func (w *walk) agrees(tree *store.Tree, p store.FeedPage) ([]store.LogFault, error) {
	at := make([]int64, len(p.IDs))
	for i := range at {
		at[i] = p.First + int64(i) - 1
	}
	sound, err := tree.Agrees(w.Root, at)
	if err == nil {
		w.unsound = w.unsound || !sound
		return nil, nil
	}
	faults, err := cutOff(err)
	if err != nil || w.cut == faults[0].Position {
		return nil, err
	}
	w.cut = faults[0].Position
	return faults, nil
}

// place notes that a page names an event or a record, at a leaf.
func (w *walk) place(id, at int64) []store.LogFault {
	delete(w.unplaced, id)
	set, n, what := &w.placed, id, "the event"
	if id < 0 {
		set, n, what = &w.records, -id, "a record of removed events"
	}
	if set.has(n) {
		return []store.LogFault{{Kind: faultPage, EventID: nameOf(id), Position: at + 1, Found: what + " is in the log twice"}}
	}
	set.add(store.Span{Low: n, High: n})
	return nil
}

// record compares a record of removed events, or of restored ones, with its leaf. Only a
// record that is what the leaf says counts.
func (w *walk) record(ctx context.Context, tx store.Tx, tree *store.Tree, at, id int64,
	rows map[int64]store.Compared) ([]store.LogFault, error) {
	r, found, err := tree.Removal(id)
	if err != nil {
		return nil, err
	}
	if !found {
		return []store.LogFault{{Kind: faultRemoval, Position: at + 1, Found: "the record of removed events is not there"}}, nil
	}
	leaf := r.Hash()
	rows[at] = store.Compared{ID: -id, Leaf: leaf}
	if r.Leaf == nil || *r.Leaf != at {
		return []store.LogFault{{Kind: faultRemoval, Position: at + 1, Found: "the record of removed events has the number of another leaf"}}, nil
	}
	logged, err := tree.ReadHashes([]int64{tlog.StoredHashIndex(0, at)})
	if err != nil {
		_, err = cutOff(err) // it is named already
		return nil, err
	}
	if logged[0] == leaf {
		_, err = w.apply(ctx, tx, r)
	}
	return nil, err
}

// apply takes a record into account. A removal explains why its events have no rows; it
// returns those that this is true of. A restoration says that they have rows again, or are
// removed by a later record.
func (w *walk) apply(ctx context.Context, tx store.Tx, r store.Removal) (explained []store.Span, err error) {
	for _, s := range r.Runs() {
		if !r.Restored {
			explained = append(explained, w.gone.remove(s)...)
			continue
		}
		there, err := store.Numbers(ctx, tx, s.Low-1, s.High, int(s.High-s.Low)+1)
		if err != nil {
			return nil, err
		}
		missing := spans{s}
		for _, id := range there {
			missing.remove(store.Span{Low: id, High: id})
		}
		for _, m := range missing {
			w.gone.add(m)
		}
	}
	return explained, nil
}

// strange notes the events in the range of a page that are not on it. They may be on a later
// page.
func (w *walk) strange(ctx context.Context, tx store.Tx, p store.FeedPage) error {
	_, high := p.Bounds()
	if begins := w.high == 0 && p.First > 1; begins || high <= w.high { // before the first page that is read, nothing is known
		w.high = max(w.high, high)
		return nil
	}
	return w.upTo(ctx, tx, high)
}

// upTo notes the events above the highest number so far and up to another that are not on a
// page so far.
func (w *walk) upTo(ctx context.Context, tx store.Tx, high int64) error {
	for {
		there, err := store.Numbers(ctx, tx, w.high, high, numbersAtOnce)
		if err != nil {
			return err
		}
		for _, id := range there {
			w.high = id
			if !w.placed.has(id) {
				w.unplaced[id] = true
			}
		}
		if len(there) < numbersAtOnce {
			w.high = high
			return nil
		}
	}
}

// end returns what no page holds, and what no removal explains.
func (w *walk) end(ctx context.Context, tx store.Tx, tree *store.Tree) (out []store.LogFault, err error) {
	s, err := store.ReadFeed(ctx, tx)
	if err != nil {
		return nil, err
	}
	if w.next <= s.Position {
		out = append(out, badPage(w.next, s.Position, "no page"))
	}
	if w.high == 0 && w.from > 1 { // no page was read: nothing is known of the events before
		w.high = s.Top
	}
	if s.Top > w.high {
		if err := w.upTo(ctx, tx, s.Top); err != nil {
			return out, err
		}
	}
	more, err := w.waiting(ctx, tx, tree)
	if err != nil {
		return out, err
	}
	out = append(out, more...)
	below, err := store.Numbers(ctx, tx, math.MinInt64, 0, faultsListed) // numbers are drawn from 1 on
	if err != nil {
		return out, err
	}
	for _, id := range below {
		out = append(out, inserted(id))
	}
	if more, err = w.missing(tree); err != nil {
		return out, err
	}
	out = append(out, more...)
	more, err = w.inserted(ctx, tx, tree, s)
	return append(out, more...), err
}

// waiting reads the records that are on no page. Those that wait for the log explain what
// they name; others are faults.
func (w *walk) waiting(ctx context.Context, tx store.Tx, tree *store.Tree) (out []store.LogFault, err error) {
	err = tree.EachWaiting(func(r store.Removal) error {
		explained, err := w.apply(ctx, tx, r)
		for _, s := range explained {
			w.unlogged.add(s)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	for s := range w.gone.all() { // restored after a removal that waits too
		w.unlogged.remove(s)
	}
	for after := int64(0); ; {
		some, err := store.Ints(ctx, tx, texts["numbers of removals"], after, w.from-1, numbersAtOnce)
		if err != nil {
			return nil, err
		}
		for _, id := range some {
			if after = id; !w.records.has(id) && len(out) < faultsListed {
				out = append(out, store.LogFault{Kind: faultRemoval, Found: fmt.Sprintf("record %d of removed events is in no page of the log", id)})
			}
		}
		if len(some) < numbersAtOnce {
			return out, nil
		}
	}
}

// missing returns the events without a row that no removal explains.
func (w *walk) missing(tree *store.Tree) (out []store.LogFault, err error) {
	ids := w.gone.first(faultsListed)
	places, err := tree.Places(ids)
	for _, id := range ids {
		x := store.LogFault{Kind: store.FaultMissing, EventID: eventID(id), Found: "it was logged, and its row is not there"}
		if at, placed := places[id]; placed {
			x.Position = at + 1
		}
		out = append(out, x)
	}
	if more := w.gone.size() - int64(len(ids)); more > 0 {
		out = append(out, store.LogFault{Kind: store.FaultMissing, Found: fmt.Sprintf("the rows of %d more events are not there", more)})
	}
	return out, err
}

// inserted returns the events that are on no page, though the log has passed them.
func (w *walk) inserted(ctx context.Context, tx store.Tx, tree *store.Tree, s store.FeedState) (out []store.LogFault, err error) {
	ids := slices.DeleteFunc(slices.Sorted(maps.Keys(w.unplaced)), s.Expects)
	places, err := tree.Places(ids) // on a page before the first one that was read
	if err != nil {
		return nil, err
	}
	for _, id := range ids {
		if _, placed := places[id]; placed {
			continue
		}
		there, err := store.Numbers(ctx, tx, id-1, id, 1) // it may have been removed since
		if err != nil {
			return nil, err
		}
		if len(there) > 0 && len(out) < faultsListed {
			out = append(out, inserted(id))
		}
	}
	return out, nil
}
