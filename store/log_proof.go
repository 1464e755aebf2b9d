package store

import (
	"cmp"
	"context"
	"slices"

	"golang.org/x/mod/sumdb/tlog"
)

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
