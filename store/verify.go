package store

import (
	"context"
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
	FaultRoot     = "root"     // the log is not the one that was signed
	FaultUnproved = "unproved" // an event in an archive that has no proof of it, or an input or result there that no event stands for
	FaultRow      = "row"      // a row that an archive cannot have, or the lack of one that it needs
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
	// Cosigned are those that witnesses have cosigned, the one with the most cosignatures first.
	Cosigned []SignedRoot
	// Open returns the root of another checkpoint; known is false if no known key has signed it,
	// or if it is of another history. nil = no key is known.
	Open func(note string) (root LogRoot, known bool)
}

// over returns the one for a proof of leaves: with as many cosignatures as can be.
func (s SignedRoot) over(leaves []int64) SignedRoot {
	for _, c := range s.Cosigned {
		if slices.Max(leaves) < c.Size {
			return c
		}
	}
	return s
}

func eventID(id int64) string { return "evt_" + strconv.FormatInt(id, 10) }

// Compared is what a leaf has to be: the hash of the row that is there now.
type Compared struct {
	ID   int64 // of the event; below zero, of a record of removed events
	Leaf tlog.Hash
}

// Differ returns the leaves that are not the hashes of their rows. unproved are the events
// whose leaves say nothing of their inputs and results: those whose value was gone when they
// were logged, and those whose value is gone now, with a task that is being deleted.
func (t *Tree) Differ(rows map[int64]Compared) (out map[int64]Compared, unproved []int64, err error) {
	at := slices.Sorted(maps.Keys(rows))
	hashes, err := t.ReadHashes(storedLeaves(at))
	if err != nil {
		return nil, nil, err
	}
	out = map[int64]Compared{}
	var events []int64
	for i, leaf := range at {
		if r := rows[leaf]; hashes[i] != r.Leaf {
			out[leaf] = r
			if r.ID > 0 {
				events = append(events, r.ID)
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
		if differs && slices.Contains(older[r.ID], hashes[i]) {
			delete(out, leaf)
			continue
		}
		if without, there := bare[r.ID]; !differs || !there || without != hashes[i] && (without != r.Leaf || !gone[r.ID]) {
			continue
		}
		unproved = append(unproved, r.ID)
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

func storedLeaves(at []int64) []int64 {
	out := make([]int64, len(at))
	for i, leaf := range at {
		out[i] = tlog.StoredHashIndex(0, leaf)
	}
	return out
}

// Agrees says whether the tiles of the leaves prove them to be under the root. Leaves after
// the root's size are not under it: they have to agree with the roots of their own tiles.
func (t *Tree) Agrees(root LogRoot, at []int64) (bool, error) {
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
