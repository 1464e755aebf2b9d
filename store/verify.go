package store

import (
	"context"
	"errors"
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
	FaultChanged  = "changed"  // the row of an event, its provenance, or its input or result is not what was logged
	FaultMissing  = "missing"  // the row of an event is gone, and no removal says so
	FaultInserted = "inserted" // the row of an event is in no page of the log that passed it
	FaultLeaf     = "leaf"     // a leaf of the log is not what was logged
	FaultPage     = "page"     // a page of positions is missing or cut off, or names what another page names
	FaultTile     = "tile"     // hashes of the log are missing or cut off
	FaultRoot     = "root"     // the log is not the one that was signed
	FaultUnproved = "unproved" // an event in an archive that has no proof of it, or an input or result there that no event stands for
	FaultRow      = "row"      // a row that an archive cannot have, or the lack of one that it needs
	FaultRemoval  = "removal"  // a record of removed events is gone or changed, or not in the log
)

// LogRoot is a size and the root that the log has to have there: that of a signed
// checkpoint. The zero value compares the log with itself alone.
type LogRoot struct {
	Size int64
	Root tlog.Hash
}

// SignedRoot is the root of a signed checkpoint, and the checkpoint as it was signed.
type SignedRoot struct {
	LogRoot
	Note string // "" = none
	// Open returns the root of another checkpoint; known is false if no known key has signed it,
	// or if it is of another history. nil = no key is known.
	Open func(note string) (root LogRoot, known bool)
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

// differ returns the leaves that are not the hashes of their rows. unproved are the events
// whose leaves say nothing of their inputs and results: those whose value was gone when they
// were logged, and those whose value is gone now, with a task that is being deleted.
func (t *Tree) differ(rows map[int64]compared) (out map[int64]compared, unproved []int64, err error) {
	at := slices.Sorted(maps.Keys(rows))
	hashes, err := t.ReadHashes(storedLeaves(at))
	if err != nil {
		return nil, nil, err
	}
	out = map[int64]compared{}
	var events []int64
	for i, leaf := range at {
		if r := rows[leaf]; hashes[i] != r.leaf {
			out[leaf] = r
			if r.id > 0 {
				events = append(events, r.id)
			}
		}
	}
	if len(events) == 0 {
		return out, nil, nil
	}
	bare, err := bareLeaves(t.ctx, t.tx, events)
	if err != nil {
		return nil, nil, err
	}
	gone, err := beingRemoved(t.ctx, t.tx, events)
	if err != nil {
		return nil, nil, err
	}
	older, err := olderLeaves(t.ctx, t.tx, events)
	if err != nil {
		return nil, nil, err
	}
	for i, leaf := range at {
		r, differs := out[leaf]
		if differs && slices.Contains(older[r.id], hashes[i]) {
			delete(out, leaf)
			continue
		}
		if without, there := bare[r.id]; !differs || !there || without != hashes[i] && (without != r.leaf || !gone[r.id]) {
			continue
		}
		unproved = append(unproved, r.id)
		delete(out, leaf)
	}
	return out, unproved, nil
}

// beingRemoved returns which of the events stand for an input or a result and are of a task
// whose deletion has begun.
func beingRemoved(ctx context.Context, tx Tx, ids []int64) (map[int64]bool, error) {
	out := map[int64]bool{}
	for _, s := range spansOf(ids) {
		some, err := Ints(ctx, tx, leafSQL["values being deleted"], s.Low, s.High)
		if err != nil {
			return nil, err
		}
		for _, id := range some {
			out[id] = true
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
	kind, found := FaultChanged, "the row, or the input or result that it stands for, is not what was logged"
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
func (t *Tree) compare(root LogRoot, rows map[int64]compared) (faults []LogFault, unproved []int64, err error) {
	differ, unproved, err := t.differ(rows)
	if err != nil {
		faults, err = cutOff(err)
		return faults, nil, err
	}
	at := slices.Sorted(maps.Keys(rows))
	sound, err := t.agrees(root, at)
	patched := false
	if err == nil && !sound {
		patched, err = t.with(patches(differ)).agrees(root, at)
	}
	if err != nil {
		faults, err = cutOff(err)
		return faults, unproved, err
	}
	return judge(root, sound, patched, differ), unproved, nil
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
	t.failed = nil
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
	faults, unproved, err := tree.compare(root, rows)
	v.Faults = append(faults, v.Faults...)
	for _, id := range unproved {
		v.Unproved = append(v.Unproved, eventID(id))
	}
	return v, err
}

// TaskLog is what VerifyEvents found.
type TaskLog struct {
	Events, Logged, Signed int
	Faults                 []LogFault
	Unproved               []string // events whose leaves say nothing of their inputs and results: see Tree.differ
}

func inserted(id int64) LogFault {
	return LogFault{Kind: FaultInserted, EventID: eventID(id), Found: "the log has passed it and has no leaf for it"}
}
