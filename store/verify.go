package store

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"

	"golang.org/x/mod/sumdb/tlog"
)

// LogFault is one place where the database and its transparency log differ.
type LogFault struct {
	Kind     string `json:"kind"` // see the constants
	EventID  string `json:"event_id,omitempty"`
	Position int64  `json:"position,omitempty"` // in the log, from 1
	Found    string `json:"found"`
}

// The kinds of faults.
const (
	FaultChanged  = "changed"  // the row of an event is not what was logged
	FaultMissing  = "missing"  // the row of an event is gone, and no removal says so
	FaultInserted = "inserted" // the row of an event is in no page of the log that passed it
	FaultLeaf     = "leaf"     // a leaf of the log is not what was logged
	FaultPage     = "page"     // a page of positions is missing or cut off
	FaultTile     = "tile"     // hashes of the log are missing or cut off
	FaultRoot     = "root"     // the log is not the one that was signed
	FaultRemoval  = "removal"  // a record of removed events is gone or changed
)

// LogRoot is a size and the root that the log has to have there: that of a signed
// checkpoint. The zero value compares the log with itself alone.
type LogRoot struct {
	Size int64
	Root tlog.Hash
}

func eventID(id int64) string { return "evt_" + strconv.FormatInt(id, 10) }

// nameOf returns the id of the event with a number of a page; "" for a removal.
func nameOf(id int64) string {
	if id < 0 {
		return ""
	}
	return eventID(id)
}

// compared is what a leaf has to be: the hash of the row that is there now.
type compared struct {
	id   int64
	leaf tlog.Hash
}

// differ returns the leaves that are not the hashes of their rows.
func (t *Tree) differ(rows map[int64]compared) (map[int64]compared, error) {
	at := slices.Sorted(maps.Keys(rows))
	hashes, err := t.ReadHashes(storedLeaves(at))
	if err != nil {
		return nil, err
	}
	out := map[int64]compared{}
	for i, leaf := range at {
		if hashes[i] != rows[leaf].leaf {
			out[leaf] = rows[leaf]
		}
	}
	return out, nil
}

// patches returns the hashes of the rows.
func patches(rows map[int64]compared) map[int64]tlog.Hash {
	out := make(map[int64]tlog.Hash, len(rows))
	for leaf, r := range rows {
		out[leaf] = r.leaf
	}
	return out
}

// judge names what differs: rows, when the log agrees with the root; leaves of the log, when
// it does so with the hashes of the rows in their place.
func judge(root LogRoot, sound, patched bool, differ map[int64]compared) (out []LogFault) {
	kind, found := FaultChanged, "the row is not what was logged"
	switch {
	case sound:
	case patched && len(differ) > 0:
		kind, found = FaultLeaf, "the leaf of the log was changed; the row is what was logged"
	default:
		found = "the row and the leaf of the log differ"
		out = append(out, LogFault{Kind: FaultRoot, Position: root.Size,
			Found: "the hashes of the log do not add up to the root of the checkpoint"})
	}
	for _, leaf := range slices.Sorted(maps.Keys(differ)) {
		x := LogFault{Kind: kind, EventID: nameOf(differ[leaf].id), Position: leaf + 1, Found: found}
		if differ[leaf].id < 0 && kind == FaultChanged {
			x.Kind, x.Found = FaultRemoval, "the record of removed events is not what was logged"
		}
		out = append(out, x)
	}
	return out
}

// compare compares leaves of the log with the rows of their events, and with the root.
func (t *Tree) compare(root LogRoot, rows map[int64]compared) ([]LogFault, error) {
	differ, err := t.differ(rows)
	if err != nil {
		return cutOff(err)
	}
	at := slices.Sorted(maps.Keys(rows))
	sound, err := t.agrees(root, at)
	patched := false
	if err == nil && !sound {
		patched, err = t.with(patches(differ)).agrees(root, at)
	}
	if err != nil {
		return cutOff(err)
	}
	return judge(root, sound, patched, differ), nil
}

// cutOff returns the fault that an error stands for, or the error.
func cutOff(err error) ([]LogFault, error) {
	var cut *TileError
	if !errors.As(err, &cut) {
		return nil, err
	}
	return []LogFault{{Kind: FaultTile, Position: cut.Leaf + 1, Found: cut.Error()}}, nil
}

func storedLeaves(at []int64) []int64 {
	out := make([]int64, len(at))
	for i, leaf := range at {
		out[i] = tlog.StoredHashIndex(0, leaf)
	}
	return out
}

// agrees says whether the tiles of the leaves prove them to be under the root. Leaves after
// the root's size are not under it: they have to agree with the roots of their own tiles.
func (t *Tree) agrees(root LogRoot, at []int64) (bool, error) {
	n, _ := slices.BinarySearch(at, root.Size)
	if n > 0 {
		_, err := tlog.TileHashReader(tlog.Tree{N: root.Size, Hash: root.Root}, t).ReadHashes(storedLeaves(at[:n]))
		if err != nil {
			return false, t.failed
		}
	}
	last := int64(-1)
	for _, leaf := range at[n:] {
		tile := leaf / tileLeaves
		if tile == last || tile >= t.Size/tileLeaves {
			continue
		}
		last = tile
		data, err := t.tile(tlog.Tile{H: tileHeight, N: tile, W: tileLeaves})
		if err != nil {
			return false, err
		}
		stored, err := rootsAt(t.ctx, t.tx, 0, tile, 1)
		if err != nil {
			return false, err
		}
		if root := rootOf(unpack(data)); string(stored) != string(root[:]) {
			return false, nil
		}
	}
	return true, nil
}

// VerifyEvents compares the events of a task that have leaves with the log. signed is the
// number of events that are under the root, logged of those with a leaf.
func VerifyEvents(ctx context.Context, tx Tx, root LogRoot, taskID string) (v TaskLog, err error) {
	s, err := ReadFeed(ctx, tx)
	if err != nil {
		return v, err
	}
	ids, err := Ints(ctx, tx, treeSQL["numbers of task"], TaskID(taskID))
	if err != nil {
		return v, err
	}
	v.Events = len(ids)
	places, err := LeafIndexes(ctx, tx, ids)
	if err != nil {
		return v, err
	}
	leaves, err := Leaves(ctx, tx, ids)
	if err != nil {
		return v, err
	}
	rows := make(map[int64]compared, len(ids))
	for _, id := range ids {
		at, placed := places[id]
		switch {
		case placed:
			rows[at] = compared{id, leaves[id]}
			v.Logged++
			if at < root.Size {
				v.Signed++
			}
		case !s.expects(id):
			v.Faults = append(v.Faults, inserted(id))
		}
	}
	tree, err := ReadTree(ctx, tx)
	if err != nil {
		return v, err
	}
	faults, err := tree.compare(root, rows)
	v.Faults = append(faults, v.Faults...)
	return v, err
}

// TaskLog is what VerifyEvents found.
type TaskLog struct {
	Events, Logged, Signed int
	Faults                 []LogFault
}

func inserted(id int64) LogFault {
	return LogFault{Kind: FaultInserted, EventID: eventID(id), Found: "the log has passed it and has no leaf for it"}
}

// LogWalk compares all pages of the log with the rows, page by page.
type LogWalk struct {
	Root LogRoot
	// Pages and Events count what was compared.
	Pages, Events int
	next          int64 // the position at which the next page has to begin; 0 = any after from
	from          int64
	high          int64 // the highest number of an event on the pages so far
	removed       []Span
	differ        map[int64]compared // leaves that are not the hashes of their rows
	unsound       bool               // the log does not agree with the root
	again         bool               // the second pass, which a log that does not agree needs: with the rows' hashes
	cut           int64              // the position of the last fault of missing hashes
	unplaced      map[int64]bool     // events in the range of a page that were not on it
}

// walkPages bounds the pages that one step reads.
const walkPages = 64

// Begin reads which events were removed. The walk begins with the first page that begins at a
// position or after it; 1 is the first page.
func (w *LogWalk) Begin(ctx context.Context, tx Tx, position int64) error {
	w.from, w.unplaced, w.differ = position, map[int64]bool{}, map[int64]compared{}
	if position == 1 {
		w.next = 1
	}
	for after := int64(0); ; {
		some, err := removals(ctx, tx, "removals", after, removalsAtOnce)
		if err != nil || len(some) == 0 {
			return err
		}
		for _, r := range some {
			after = r.id
			w.removed = append(w.removed, runsOf(r.ids)...)
		}
		slices.SortFunc(w.removed, func(a, b Span) int { return cmp.Compare(a.Low, b.Low) })
		w.removed = merged(w.removed)
	}
}

// runsOf returns the runs of consecutive numbers.
func runsOf(ids []int64) []Span {
	var out []Span
	for _, id := range ids {
		out = append(out, Span{id, id})
	}
	return merged(out)
}

// merged joins sorted spans that touch each other.
func merged(spans []Span) []Span {
	out := spans[:0]
	for _, s := range spans {
		if n := len(out); n > 0 && s.Low <= out[n-1].High+1 {
			out[n-1].High = max(out[n-1].High, s.High)
		} else {
			out = append(out, s)
		}
	}
	return out
}

func (w *LogWalk) wasRemoved(id int64) bool {
	i, _ := slices.BinarySearchFunc(w.removed, id, func(s Span, id int64) int { return cmp.Compare(s.High, id) })
	return i < len(w.removed) && w.removed[i].Low <= id
}

// Step compares the next pages. done says that there are no more.
func (w *LogWalk) Step(ctx context.Context, tx Tx) (faults []LogFault, done bool, err error) {
	pages, err := pagesOf(ctx, tx, treeSQL["pages of log"], max(w.next, w.from)-1, walkPages)
	if err != nil {
		return nil, false, err
	}
	for _, p := range pages {
		more, err := w.page(ctx, tx, p)
		if err != nil {
			return faults, false, err
		}
		faults = append(faults, more...)
	}
	if len(pages) == walkPages {
		return faults, false, nil
	}
	if !w.again {
		more, err := w.end(ctx, tx)
		faults = append(faults, more...)
		if w.again = w.unsound; err != nil || w.again {
			w.next, w.unsound = min(w.from, 1), false
			return faults, false, err
		}
		return append(faults, judge(w.Root, true, false, w.differ)...), true, nil
	}
	return append(faults, judge(w.Root, false, !w.unsound, w.differ)...), true, nil
}

// agrees compares the leaves of a page with the root, in the second pass with the hashes of
// the rows in the place of those that differ.
func (w *LogWalk) agrees(tree *Tree, p FeedPage) ([]LogFault, error) {
	at := make([]int64, len(p.IDs))
	for i := range at {
		at[i] = p.First + int64(i) - 1
	}
	if w.again {
		tree = tree.with(patches(w.differ))
	}
	sound, err := tree.agrees(w.Root, at)
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

func (w *LogWalk) page(ctx context.Context, tx Tx, p FeedPage) (out []LogFault, err error) {
	if w.next > 0 && p.First != w.next && !w.again {
		out = append(out, noPage(w.next, p.First-1))
	}
	w.next = p.First + int64(len(p.IDs))
	tree, err := ReadTree(ctx, tx)
	if err != nil {
		return nil, err
	}
	cut, err := w.agrees(tree, p)
	if err != nil || w.again {
		return nil, err
	}
	w.Pages, w.Events = w.Pages+1, w.Events+len(p.IDs)
	leaves, err := leavesOf(ctx, tx, p.IDs)
	if err != nil {
		return nil, err
	}
	rows := make(map[int64]compared, len(p.IDs))
	gone := map[int64]int64{}
	for i, id := range p.IDs {
		delete(w.unplaced, id)
		at := p.First + int64(i) - 1
		if leaf, there := leaves[id]; there {
			rows[at] = compared{id, leaf}
		} else if !w.wasRemoved(id) {
			gone[at] = id
		}
	}
	out = append(append(out, cut...), w.missing(tree, gone)...)
	differ, err := tree.differ(rows)
	if err != nil {
		_, err = cutOff(err) // it is named already
	}
	if err == nil {
		maps.Copy(w.differ, differ)
		err = w.strange(ctx, tx, p)
	}
	return out, err
}

func noPage(from, to int64) LogFault {
	return LogFault{Kind: FaultPage, Position: from, Found: fmt.Sprintf("positions %d to %d are on no page", from, to)}
}

// missing returns the events of a page that have no row, and no removal that says so.
func (w *LogWalk) missing(tree *Tree, gone map[int64]int64) (out []LogFault) {
	for _, at := range slices.Sorted(maps.Keys(gone)) {
		id := gone[at]
		x := LogFault{Kind: FaultMissing, EventID: nameOf(id), Position: at + 1, Found: "it was logged, and its row is not there"}
		if id < 0 {
			x.Kind, x.Found = FaultRemoval, "the record of removed events is not there"
		} else if leaf, err := tree.ReadHashes(storedLeaves([]int64{at})); err == nil && leaf[0] == absentLeaf(id) {
			continue // the log says that it was gone already
		}
		out = append(out, x)
	}
	return out
}

// strange notes the events in the range of a page that are not on it. They may be on a later
// page.
func (w *LogWalk) strange(ctx context.Context, tx Tx, p FeedPage) error {
	_, high := bounds(p.IDs)
	if begins := w.high == 0 && p.First > 1; begins || high <= w.high { // before the first page that is read, nothing is known
		w.high = max(w.high, high)
		return nil
	}
	return w.upTo(ctx, tx, high, p.IDs)
}

// upTo notes the events above the highest number so far and up to another that are not on a
// page.
func (w *LogWalk) upTo(ctx context.Context, tx Tx, high int64, page []int64) error {
	on := map[int64]bool{}
	for _, id := range page {
		on[id] = true
	}
	there, err := Numbers(ctx, tx, w.high, high, int(high-w.high))
	for _, id := range there {
		if !on[id] {
			w.unplaced[id] = true
		}
	}
	w.high = high
	return err
}

// end returns what no page holds.
func (w *LogWalk) end(ctx context.Context, tx Tx) (out []LogFault, err error) {
	s, err := ReadFeed(ctx, tx)
	if err != nil {
		return nil, err
	}
	if w.next > 0 && w.next <= s.Position {
		out = append(out, noPage(w.next, s.Position))
	}
	if s.Top > w.high {
		if err := w.upTo(ctx, tx, s.Top, nil); err != nil {
			return out, err
		}
	}
	ids := slices.DeleteFunc(slices.Sorted(maps.Keys(w.unplaced)), s.expects)
	places, err := LeafIndexes(ctx, tx, ids) // on a page before the first one that was read
	for _, id := range ids {
		if _, placed := places[id]; !placed {
			out = append(out, inserted(id))
		}
	}
	return out, err
}

// EventProof is the proof that an event is under a root.
type EventProof struct {
	EventID string
	Leaf    int64
	Hash    tlog.Hash
	Proof   tlog.RecordProof
}

// ProveEvents returns the proof of each event of a task that is under the root, in order of
// the leaves. The hashes of the log are checked against the root.
func ProveEvents(ctx context.Context, tx Tx, root LogRoot, taskID string) ([]EventProof, error) {
	ids, err := Ints(ctx, tx, treeSQL["numbers of task"], TaskID(taskID))
	if err != nil {
		return nil, err
	}
	places, err := LeafIndexes(ctx, tx, ids)
	if err != nil {
		return nil, err
	}
	tree, err := ReadTree(ctx, tx)
	if err != nil {
		return nil, err
	}
	hashes := tlog.TileHashReader(tlog.Tree{N: root.Size, Hash: root.Root}, tree)
	var out []EventProof
	for _, id := range ids {
		at, placed := places[id]
		if !placed || at >= root.Size {
			continue
		}
		p := EventProof{EventID: eventID(id), Leaf: at}
		if p.Proof, err = tlog.ProveRecord(root.Size, at, hashes); err != nil {
			return nil, err
		}
		leaf, err := hashes.ReadHashes(storedLeaves([]int64{at}))
		if err != nil {
			return nil, err
		}
		p.Hash = leaf[0]
		out = append(out, p)
	}
	slices.SortFunc(out, func(a, b EventProof) int { return cmp.Compare(a.Leaf, b.Leaf) })
	return out, nil
}
